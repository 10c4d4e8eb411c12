//! Retention over a server: ended instances are removed once they have been ended for long enough.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, FutureExt, select};

use dauer_core::{InstanceId, Timestamp};
use dauer_hub::ClientError;
use dauer_proto::time;
use dauer_proto::wire::ListInstanceIdsRequest;
use dauer_store::Env;

use super::client::RemoteClient;
use super::wire::{Wire, rpc};

/// Instances of one step: a purge is one write, and the turns of others wait behind it.
const STEP_INSTANCES: i32 = 100;

/// The longest time between two sweeps: nobody who keeps instances for hours misses a minute.
const SWEEP_EVERY_MAX: Duration = Duration::from_secs(60);

/// The shortest, however short a time is kept: each sweep is a read of the store.
const SWEEP_EVERY_MIN: Duration = Duration::from_secs(1);

/// Removes instances that ended longer than `keep` ago, in bounded steps, every so often, until `stop`.
pub(super) async fn run(wire: Arc<Wire>, keep: Duration, stop: impl Future<Output = ()> + Send) {
    let mut stop = std::pin::pin!(stop.fuse());
    let client = RemoteClient::new(wire);
    let every = (keep / 2).clamp(SWEEP_EVERY_MIN, SWEEP_EVERY_MAX);
    loop {
        let env = client.wire.env();
        // Between half and the whole of it, so that workers that were started together do not sweep together.
        let pause = super::wire::delay(every, every, 1, env.random());
        let pause = env.sleep(pause);
        if let Either::Right(_) = select(pause, &mut stop).await {
            return;
        }
        let sweep = std::pin::pin!(sweep(&client, keep));
        match select(sweep, &mut stop).await {
            Either::Right(_) => return,
            Either::Left((Ok(0), _)) => {}
            Either::Left((Ok(count), _)) => {
                tracing::info!(count, "ended instances were removed by retention")
            }
            Either::Left((Err(error), _)) => {
                tracing::warn!(%error, "retention could not go on; it is tried again later");
            }
        }
    }
}

/// One pass over everything that has been ended for long enough; how many were removed.
async fn sweep(client: &RemoteClient, keep: Duration) -> Result<usize, ClientError> {
    let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
    let before = Timestamp(client.wire.env().now().0.saturating_sub(keep));
    let (mut count, mut after) = (0, None);
    loop {
        let message = ListInstanceIdsRequest {
            completed_time_to: Some(time::from_millis(before.0)),
            page_size: STEP_INSTANCES,
            last_instance_key: after,
            ..ListInstanceIdsRequest::default()
        };
        let page = client.wire.ask(message, rpc!(list_instance_ids)).await?;
        let mut ids = Vec::with_capacity(page.instance_ids.len());
        for id in page.instance_ids {
            let id = InstanceId::new(id).map_err(|error| client.wire.nonsense(error))?;
            // A list may lag: one that was started again since must not go with its old self.
            let old = client.get(&id).await?.and_then(|record| record.times.completed);
            ids.extend(old.filter(|at| *at < before).map(|_| id));
        }
        if !ids.is_empty() {
            count += client.purge_ids(&ids).await?;
        }
        match page.last_instance_key.filter(|key| !key.is_empty()) {
            None => return Ok(count),
            next => after = next,
        }
    }
}
