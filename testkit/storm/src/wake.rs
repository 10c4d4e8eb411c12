//! How long it takes from one process to another: a result written by one wakes the instance that another one holds,
//! and the end of an instance wakes a client in a third.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dauer::Hub;
use serde::Serialize;

use crate::error::Error;
use crate::process::Process;
use crate::programs::{CHAIN, Code, Job, chained};
use crate::voice::{Fact, Line, nanos};
use crate::worker::Worker;
use crate::{folder, say, tidy_up};

/// Calls in each chain: enough samples per start, few enough that histories stay short.
const CALLS: usize = 5;

/// Nothing in here takes so long; a run that does is stuck.
const END_MAX: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Wake {
    /// Processes on the file: one client, one with the orchestrations, one with the activities, the rest looks on.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(3..=64))]
    processes: u64,
    /// Results to be measured.
    #[arg(long, default_value_t = 500)]
    samples: usize,
    /// Half of the results must arrive within this time.
    #[arg(long, default_value_t = 20)]
    p50_ms_max: u64,
    /// Where to put the file; a new folder of the system's temporary one if not given.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// A distribution of times.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Times {
    samples: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl Times {
    fn of(mut nanos: Vec<u128>) -> Self {
        nanos.sort_unstable();
        let last = nanos.len().saturating_sub(1);
        let at = |part: usize| nanos.get(last * part / 100).copied().unwrap_or_default() as f64 / 1e6;
        Self { samples: nanos.len(), p50_ms: at(50), p99_ms: at(99), max_ms: at(100) }
    }
}

#[derive(Debug, Serialize)]
struct Figures {
    processes: u64,
    /// From the result in the process with the activities to the next turn in the one with the orchestrations.
    result_to_turn: Times,
    /// From a turn to the activity it scheduled, in the other process.
    turn_to_activity: Times,
    /// From the last turn to the client's answer, in the third.
    end_to_wait: Times,
    p50_ms_max: u64,
    verdict: String,
}

type Heard = Arc<Mutex<Vec<Line>>>;

impl Wake {
    /// Measures and prints; whether half of the results arrived in time.
    pub(crate) async fn run(self) -> Result<bool, Error> {
        let folder = folder(self.folder.clone(), "wake")?;
        let file = folder.join("wake.db");
        let hub = dauer::open(&format!("sqlite:{}", file.display()))?;
        let heard = Heard::default();
        let mut workers = Vec::new();
        for number in 1..self.processes {
            let code = match number {
                1 => Code::Orchestrations,
                2 => Code::Activities,
                _ => Code::Bystander,
            };
            let lease = dauer::HostOptions::default().lease;
            let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
            let worker =
                Worker { store: file.clone(), lease_ms, code, attempts_show: false, environment: Vec::new() };
            let heard = Arc::clone(&heard);
            let hear = move |line| heard.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            workers.push(Process::start(workers.len(), &worker, hear)?);
        }
        let waits = self.chains(&hub).await?;
        for worker in workers {
            worker.retire().await?;
        }
        let lines = std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner));
        let figures = self.figures(&lines, waits);
        let clean = figures.verdict == "in time";
        let text = if self.json { serde_json::to_string_pretty(&figures)? } else { table(&figures) };
        say(&text, &mut std::io::stdout());
        tidy_up(&folder, clean && self.folder.is_none());
        Ok(clean)
    }

    /// Runs chains one after the other; gives when each wait was answered, by instance.
    async fn chains(&self, hub: &Hub) -> Result<BTreeMap<String, u128>, Error> {
        let client = hub.client();
        let mut answered = BTreeMap::new();
        for number in 0..self.samples.div_ceil(CALLS) {
            let jobs: Vec<Job> = (0..CALLS).map(|_| Job { value: 1, millis: 1 }).collect();
            let handle = client.start(CHAIN, &jobs).id(format!("chain{number:05}")).await?;
            let output = handle.output_within(END_MAX).await?;
            answered.insert(handle.id().to_string(), nanos());
            if output != chained(&jobs) {
                return Err(Error::Usage("a chain gave the wrong output; run a storm to find out why"));
            }
        }
        Ok(answered)
    }

    fn figures(&self, lines: &[Line], waits: BTreeMap<String, u128>) -> Figures {
        let (mut results, mut activities, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (instance, answered) in waits {
            let mut story: Vec<(u128, &Fact)> = Vec::new();
            for line in lines {
                if let Fact::Passed(point) | Fact::Begun(point) | Fact::Finished(point) = &line.fact
                    && point.instance == instance
                {
                    story.push((line.nanos, &line.fact));
                }
            }
            story.sort_by_key(|(nanos, _)| *nanos);
            for pair in story.windows(2) {
                let took = pair[1].0 - pair[0].0;
                match (pair[0].1, pair[1].1) {
                    (Fact::Finished(_), Fact::Passed(_)) => results.push(took),
                    (Fact::Passed(_), Fact::Begun(_)) => activities.push(took),
                    _ => {}
                }
            }
            ends.extend(story.last().map(|(nanos, _)| answered.saturating_sub(*nanos)));
        }
        let result_to_turn = Times::of(results);
        let in_time = result_to_turn.samples > 0 && result_to_turn.p50_ms < self.p50_ms_max as f64;
        Figures {
            processes: self.processes,
            result_to_turn,
            turn_to_activity: Times::of(activities),
            end_to_wait: Times::of(ends),
            p50_ms_max: self.p50_ms_max,
            verdict: if in_time { "in time" } else { "RED: too late" }.to_owned(),
        }
    }
}

fn table(figures: &Figures) -> String {
    let row = |name: &str, times: &Times| {
        let Times { samples, p50_ms, p99_ms, max_ms } = times;
        format!(
            "{name:<36} {samples:>6} samples  p50 {p50_ms:.2} ms  p99 {p99_ms:.2} ms  max {max_ms:.2} ms\n"
        )
    };
    let mut text = row("result to next turn", &figures.result_to_turn);
    text += &row("turn to its activity", &figures.turn_to_activity);
    text += &row("last turn to the client's answer", &figures.end_to_wait);
    let Figures { processes, p50_ms_max, verdict, .. } = figures;
    text + &format!("wake: {verdict}, p50 allowed {p50_ms_max} ms, {processes} processes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_ranks_of_what_was_measured() {
        let times = Times::of((1..=101).rev().map(|millis| millis * 1_000_000).collect());
        assert_eq!(times, Times { samples: 101, p50_ms: 51.0, p99_ms: 100.0, max_ms: 101.0 });
        assert_eq!(Times::of(Vec::new()).samples, 0);
    }
}
