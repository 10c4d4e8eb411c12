//! The orchestrations that are measured, the worker that runs them, and a client with many of them outstanding.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dauer::{
    Activity, ActivityContext, Hub, Orchestration, OrchestrationContext, Result as Outcome, WorkerBuilder,
};
use futures::channel::oneshot;
use futures::future::{BoxFuture, try_join_all};
use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, JoinSet};

use super::Error;

/// What goes through an orchestration: a number that every activity changes, and bytes that all of them carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Value {
    pub(super) number: u64,
    /// Absent when it is empty: the smallest payload is `{"number":7}`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) padding: String,
}

impl Value {
    /// A value with so many bytes of padding.
    pub(super) fn new(number: u64, padding: usize) -> Self {
        Self { number, padding: "x".repeat(padding) }
    }
}

/// The input of a sequence.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sequence {
    pub(super) activities: u32,
    pub(super) value: Value,
}

/// Activities one after the other, each with the result of the one before.
pub(super) const SEQUENCE: Orchestration<Sequence, Value> = Orchestration::new("bench-sequence");
/// Activities all at once; the output is the sum of their results.
pub(super) const FANOUT: Orchestration<u32, u64> = Orchestration::new("bench-fanout");
/// A sleep of so many seconds; the output is that number.
pub(super) const NAP: Orchestration<u64, u64> = Orchestration::new("bench-nap");
/// Adds one.
pub(super) const STEP: Activity<Value, Value> = Activity::new("bench-step");
/// Doubles.
const DOUBLE: Activity<u64, u64> = Activity::new("bench-double");

async fn sequence(ctx: OrchestrationContext, input: Sequence) -> Outcome<Value> {
    let mut value = input.value;
    for _ in 0..input.activities {
        value = ctx.call(STEP, &value).await?;
    }
    Ok(value)
}

async fn fanout(ctx: OrchestrationContext, activities: u32) -> Outcome<u64> {
    let numbers: Vec<u64> = (0..u64::from(activities)).collect();
    let doubled = try_join_all(numbers.iter().map(|number| ctx.call(DOUBLE, number))).await?;
    Ok(doubled.iter().sum())
}

async fn nap(ctx: OrchestrationContext, seconds: u64) -> Outcome<u64> {
    ctx.sleep(Duration::from_secs(seconds)).await;
    Ok(seconds)
}

/// What a sequence must put out.
pub(super) fn sequence_output(input: &Sequence) -> Value {
    Value { number: input.value.number + u64::from(input.activities), padding: input.value.padding.clone() }
}

/// What a fan-out must put out.
pub(super) fn fanout_output(activities: u32) -> u64 {
    (0..u64::from(activities)).map(|number| number * 2).sum()
}

/// Every output is compared; the first wrong one ends the benchmark.
pub(super) fn check<T: PartialEq + std::fmt::Debug>(id: &str, output: &T, expected: &T) -> Result<(), Error> {
    if output == expected {
        return Ok(());
    }
    let (found, expected) = (format!("{output:?}"), format!("{expected:?}"));
    Err(Error::WrongOutput { id: id.to_owned(), found, expected })
}

/// All orchestrations and activities of the benchmarks.
pub(super) fn register(worker: WorkerBuilder) -> WorkerBuilder {
    orchestrations(worker)
        .activity(STEP, |_: ActivityContext, value: Value| async move {
            Ok(Value { number: value.number + 1, ..value })
        })
        .activity(DOUBLE, |_: ActivityContext, number: u64| async move { Ok(number * 2) })
}

/// The orchestrations alone: their activities wait for another worker.
pub(super) fn orchestrations(worker: WorkerBuilder) -> WorkerBuilder {
    worker.orchestration(SEQUENCE, sequence).orchestration(FANOUT, fanout).orchestration(NAP, nap)
}

/// A worker at work in this process.
pub(super) struct Running {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), dauer::Refused>>,
}

impl Running {
    /// Puts a worker to work.
    pub(super) fn start(worker: WorkerBuilder) -> Result<Self, Error> {
        let worker = worker.build()?;
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(worker.run(async {
            let _ = stopped.await;
        }));
        Ok(Self { stop, running })
    }

    /// Lets it finish what it has and go.
    pub(super) async fn stop(self) -> Result<(), Error> {
        drop(self.stop);
        Ok(self.running.await.map_err(|_| Error::WorkerGone)??)
    }
}

/// Does something for each of `total` numbers, with at most `window` of them under way at once; gives the milliseconds
/// that each took. The first error ends all.
pub(super) async fn closed_loop<W>(hub: &Hub, total: u64, window: usize, work: W) -> Result<Vec<f64>, Error>
where
    W: Fn(dauer::Client, u64) -> BoxFuture<'static, Result<(), Error>> + Send + Sync + 'static,
{
    let (next, work) = (Arc::new(AtomicU64::new(0)), Arc::new(work));
    // One client for all, as in a program that has one.
    let client = hub.client();
    let mut lanes = JoinSet::new();
    for _ in 0..window.min(usize::try_from(total).unwrap_or(usize::MAX)) {
        let (client, next, work) = (client.clone(), Arc::clone(&next), Arc::clone(&work));
        lanes.spawn(async move {
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    return Ok::<_, Error>(times);
                }
                let began = Instant::now();
                work(client.clone(), number).await?;
                times.push(began.elapsed().as_secs_f64() * 1000.0);
            }
        });
    }
    let mut times = Vec::with_capacity(usize::try_from(total).unwrap_or_default());
    while let Some(lane) = lanes.join_next().await {
        times.extend(lane.map_err(|_| Error::ClientGone)??);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_output_is_told_with_both_values() {
        let input = Sequence { activities: 5, value: Value::new(10, 3) };
        let right = sequence_output(&input);
        assert_eq!(right, Value { number: 15, padding: "xxx".into() });
        check("a", &right, &right).unwrap();
        for wrong in [Value::new(14, 3), Value::new(15, 2)] {
            let error = check("seven", &wrong, &right).unwrap_err().to_string();
            assert!(error.contains("seven") && error.contains(&wrong.number.to_string()), "{error}");
            assert!(error.contains("15"), "{error}");
        }
    }

    #[test]
    fn a_fan_out_doubles_and_sums() {
        assert_eq!(fanout_output(0), 0);
        assert_eq!(fanout_output(4), 12);
    }

    #[tokio::test]
    async fn the_loop_does_each_once_and_keeps_within_its_window() {
        let hub = dauer::open("memory:").unwrap();
        let (now, most, sum) =
            (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let seen = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&sum));
        let work = move |_, number| -> BoxFuture<'static, Result<(), Error>> {
            let (now, most, sum) = (Arc::clone(&seen.0), Arc::clone(&seen.1), Arc::clone(&seen.2));
            Box::pin(async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                sum.fetch_add(number, Ordering::Relaxed);
                now.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            })
        };
        let times = closed_loop(&hub, 100, 7, work).await.unwrap();
        assert_eq!((times.len(), sum.load(Ordering::Relaxed)), (100, 4950));
        assert_eq!(most.load(Ordering::Relaxed), 7);
        let failing = |_, number| -> BoxFuture<'static, Result<(), Error>> {
            Box::pin(async move { check("x", &number, &u64::MAX) })
        };
        assert!(closed_loop(&hub, 100, 7, failing).await.is_err());
    }
}
