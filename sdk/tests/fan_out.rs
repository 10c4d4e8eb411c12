//! A large fan-out on several threads: no live state is dropped on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, HostOptions, Orchestration, OrchestrationContext, Result, WorkerBuilder,
};
use futures::future::try_join_all;

use crate::support::{Folder, Running};

const COUNT: u64 = 10_000;

/// Longer than a slow machine takes for all of them.
const LONG: Duration = Duration::from_secs(300);

const FAN_OUT: Orchestration<u64, u64> = Orchestration::new("fan_out");
const SAME: Activity<u64, u64> = Activity::new("same");

async fn same(_: ActivityContext, number: u64) -> Result<u64> {
    Ok(number)
}

/// Runs the fan-out; gives how often its code began. A second beginning is a replay, after the state of the first was dropped.
async fn beginnings(name: &str, options: &[HostOptions]) -> usize {
    let folder = Folder::new(name);
    let hub = dauer::open(&folder.url()).unwrap();
    let begun = Arc::<AtomicUsize>::default();
    let work = |options: &HostOptions| {
        let count = Arc::clone(&begun);
        let fan_out = move |ctx: OrchestrationContext, activities: u64| {
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                let all = try_join_all((0..activities).map(|number| ctx.call(SAME, &number))).await?;
                Result::Ok(all.into_iter().sum::<u64>())
            }
        };
        let code = |worker: WorkerBuilder| {
            worker.options(options.clone()).orchestration(FAN_OUT, fan_out).activity(SAME, same)
        };
        Running::on(&hub, code)
    };
    let running: Vec<_> = options.iter().map(work).collect();
    let handle = running[0].client.start(FAN_OUT, &COUNT).await.unwrap();
    assert_eq!(handle.output_within(LONG).await.unwrap(), COUNT * (COUNT - 1) / 2);
    for running in running {
        running.stop().await;
    }
    begun.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fan_out_of_ten_thousand_begins_its_code_once() {
    assert_eq!(beginnings("fan-out", &[HostOptions::default()]).await, 1);
}

/// Every commit releases the instance, which the session wins again at once: often before it has the answer to the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fan_out_on_another_host_begins_its_code_once() {
    let turns = HostOptions { activities_max: 0, ..HostOptions::default() };
    let tasks = HostOptions { turns_max: 0, ..HostOptions::default() };
    assert_eq!(beginnings("fan-out-apart", &[turns, tasks]).await, 1);
}
