//! Retention: ended instances are removed once they have been ended for long enough. Off unless someone runs it.
//!
//! Nothing is remembered between sweeps, and every step is a purge of its own, so that a host that dies in the middle
//! loses nothing and any number of hosts may sweep the same hub. Children are instances like any other: their parents
//! have the answer in their inbox or history already.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, select};

use dauer_core::{InstanceId, Timestamp};
use dauer_store::{Env, List, Manage, Purge, Refused};

use crate::backoff;

/// Instances of one step: a purge is one write, and the turns of others wait behind it.
const STEP_INSTANCES: usize = 100;

/// The pause between two steps, which lets the writes that have gathered meanwhile go first. A backlog is worked off at
/// up to 10,000 instances a second all the same.
const STEP_PAUSE: Duration = Duration::from_millis(10);

/// The longest time between two sweeps: nobody who keeps instances for hours misses a minute.
const SWEEP_EVERY_MAX: Duration = Duration::from_secs(60);

/// The shortest, however short a time is kept: each sweep is a read of the store.
const SWEEP_EVERY_MIN: Duration = Duration::from_secs(1);

/// Removes instances that ended longer than `keep` ago, in bounded steps, every so often, until `stop`.
///
/// The time of their end is the store's, and is compared with `env.now()`. An instance that cannot be removed yet, because
/// a start or rewind waits for it, is left for a later sweep; so is everything when the store is away.
pub async fn run(
    hub: Arc<dyn Manage>,
    env: Arc<dyn Env>,
    keep: Duration,
    stop: impl Future<Output = ()> + Send,
) {
    let mut stop = std::pin::pin!(stop.fuse());
    // Half of what is kept: an instance is gone at the latest after one and a half times as long as asked for.
    let every = (keep / 2).clamp(SWEEP_EVERY_MIN, SWEEP_EVERY_MAX);
    loop {
        // Between half and the whole of it, so that hosts that were started together do not sweep together.
        let pause = sleep(&*env, backoff::delay(every, every, 1, env.random()));
        if let Either::Right(_) = select(pause, &mut stop).await {
            return;
        }
        let sweep = std::pin::pin!(sweep(&*hub, &*env, keep));
        // A step that is under way when told to stop may happen or not: both are right.
        match select(sweep, &mut stop).await {
            Either::Right(_) => return,
            Either::Left((Ok(0), _)) => {}
            Either::Left((Ok(count), _)) => {
                tracing::info!(count, "ended instances were removed by retention")
            }
            Either::Left((Err(refused), _)) => {
                tracing::warn!(error = %refused, "retention could not go on; it is tried again later");
            }
        }
    }
}

fn sleep(env: &dyn Env, duration: Duration) -> BoxFuture<'static, ()> {
    env.sleep(duration)
}

/// One pass over everything that has been ended for long enough; how many were removed.
async fn sweep(hub: &dyn Manage, env: &dyn Env, keep: Duration) -> Result<usize, Refused> {
    let Some(before) = earlier(env.now(), keep) else { return Ok(0) };
    let mut count = 0;
    // What cannot be removed yet is passed by, so that it does not hold up what comes after it.
    let mut after = None;
    loop {
        let list = List { completed_to: Some(before), page: STEP_INSTANCES, after, ..List::default() };
        let page = hub.list(list).await?;
        let ids = still_ended(hub, page.ids, before).await?;
        if !ids.is_empty() {
            count += hub.purge(Purge::Ids(ids)).await?.count;
        }
        match page.next {
            None => return Ok(count),
            next => after = next,
        }
        sleep(env, STEP_PAUSE).await;
    }
}

/// The time that lies so long before `now`; `None` when that is before all time.
fn earlier(now: Timestamp, keep: Duration) -> Option<Timestamp> {
    let keep = i64::try_from(keep.as_millis()).ok()?;
    now.0.checked_sub(keep).map(Timestamp)
}

/// Those that ended before that time according to their records. A list may lag: one that was started again since must
/// not go with its old self.
async fn still_ended(
    hub: &dyn Manage,
    ids: Vec<InstanceId>,
    before: Timestamp,
) -> Result<Vec<InstanceId>, Refused> {
    if ids.is_empty() {
        return Ok(ids);
    }
    let found = hub.get(ids.clone()).await?;
    let old = |found: &Option<_>| match found {
        Some((_, record)) => {
            let record: &dauer_core::model::Record = record;
            record.status.is_ended() && record.times.completed.is_some_and(|at| at < before)
        }
        None => false,
    };
    Ok(ids.into_iter().zip(found).filter(|(_, found)| old(found)).map(|(id, _)| id).collect())
}
