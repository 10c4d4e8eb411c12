//! Timers and scheduled starts come in time, whatever else waits. Here no host ever polls: whoever misses a time never comes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dauer::{HostOptions, Hub, Orchestration, OrchestrationContext, Result, Timestamp};

use crate::support::{Folder, Running, SOON};

const SLEEP: Orchestration<u64, u64> = Orchestration::new("sleep");

/// Milliseconds, one after the other.
async fn sleep(ctx: OrchestrationContext, millis: u64) -> Result<u64> {
    ctx.sleep(Duration::from_millis(millis)).await;
    Ok(millis)
}

fn working(hub: &Hub) -> Running {
    let never = HostOptions { poll_max: Duration::from_secs(3_600), ..HostOptions::default() };
    Running::on(hub, |worker| worker.options(never).orchestration(SLEEP, sleep))
}

fn hubs(folder: &Folder) -> [Hub; 2] {
    [dauer::open("memory:").unwrap(), dauer::open(&folder.url()).unwrap()]
}

/// The host has asked when something is due, and heard of the long timer only.
#[tokio::test]
async fn a_short_timer_beside_a_long_one_is_not_late() {
    let folder = Folder::new("short-timer");
    for hub in hubs(&folder) {
        let running = working(&hub);
        let long = running.client.start(SLEEP, &600_000).await.unwrap();
        running.wait(long.id(), |record| record.history_len > 2).await;
        for _ in 0..5 {
            let short = running.client.start(SLEEP, &150).await.unwrap();
            assert_eq!(short.output_within(SOON).await.unwrap(), 150);
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn a_scheduled_start_beside_a_long_timer_is_not_late() {
    let folder = Folder::new("scheduled-start");
    for hub in hubs(&folder) {
        let running = working(&hub);
        let long = running.client.start(SLEEP, &600_000).await.unwrap();
        running.wait(long.id(), |record| record.history_len > 2).await;
        for ahead in [400, 200, 300] {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
            let at = Timestamp(i64::try_from(now).unwrap() + ahead);
            let later = running.client.start(SLEEP, &1).at(at).await.unwrap();
            assert_eq!(later.output_within(SOON).await.unwrap(), 1);
        }
        running.stop().await;
    }
}
