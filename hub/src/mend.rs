//! Retrying what another build has stalled: a new deployment mends it at once, without anyone's help.

use std::time::Duration;

use dauer_core::model::{Queues, Record, TroubleKind};
use dauer_store::{Env, InstanceId, Manage, Query, Refused};

use crate::backoff;

/// Instances that one read looks at, and one write retries. The turns of others wait behind the write.
const PAGE: usize = 100;

/// The pause between two pages, so that a host that starts is not flooded.
const PAGE_PAUSE: Duration = Duration::from_millis(100);

/// The pauses before each time. While a deployment is rolled out, the hosts of the old build go on taking instances, and
/// stall what the first time has retried.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(60), Duration::from_secs(300)];

/// Calls in a row that may fail before the rest is left to the delays of the instances.
const ATTEMPTS_MAX: u32 = 10;

/// The first delay before a call is made again.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);

/// The longest delay before a call is made again.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(10);

/// Retries the stalled instances of a hub that a worker of that build may run, and that had their trouble with another build:
/// now, after a minute, and after another five. Instances that were stalled because processes died with their turn keep
/// their delay.
pub async fn mend(hub: &dyn Manage, env: &dyn Env, worker: (&str, &Queues)) {
    for pause in PAUSES {
        if !pause.is_zero() {
            env.sleep(pause).await;
        }
        match mend_once(hub, env, worker).await {
            Ok(0) => {}
            Ok(count) => {
                let build = worker.0;
                tracing::info!(count, build, "instances that another build had stalled are retried");
            }
            Err(error) => {
                tracing::warn!(%error, "what another build had stalled is not retried before its delay is over");
                return;
            }
        }
    }
}

async fn mend_once(hub: &dyn Manage, env: &dyn Env, worker: (&str, &Queues)) -> Result<usize, Refused> {
    let (mut count, mut attempts) = (0, 0);
    let mut query = Query { stalled: true, page: PAGE, ..Query::default() };
    loop {
        match mend_page(hub, &query, worker).await {
            Ok((retried, next)) => {
                (count, attempts) = (count + retried, 0);
                if next.is_none() {
                    return Ok(count);
                }
                query.after = next;
                if retried > 0 {
                    env.sleep(PAGE_PAUSE).await;
                }
            }
            Err(refused @ (Refused::NotExecuted(_) | Refused::Unknown(_))) => {
                attempts += 1;
                if attempts >= ATTEMPTS_MAX {
                    return Err(refused);
                }
                let delay = backoff::delay(RETRY_DELAY_MIN, RETRY_DELAY_MAX, attempts, env.random());
                env.sleep(delay).await;
            }
            Err(refused) => return Err(refused),
        }
    }
}

/// Retries what a page has. Returns the number of retried instances, and the cursor of the next page.
async fn mend_page(
    hub: &dyn Manage,
    query: &Query,
    worker: (&str, &Queues),
) -> Result<(usize, Option<String>), Refused> {
    let page = hub.query(query.clone()).await?;
    let ids: Vec<InstanceId> =
        page.records.into_iter().filter(|(_, record)| may_mend(record, worker)).map(|(id, _)| id).collect();
    let retried = if ids.is_empty() { 0 } else { hub.retry(ids).await? };
    Ok((retried, page.next))
}

/// Whether a worker may mend the trouble of an instance.
fn may_mend(record: &Record, (build, queues): (&str, &Queues)) -> bool {
    let Some(trouble) = record.trouble.as_deref() else { return false };
    trouble.kind != TroubleKind::HostDied
        && trouble.build.as_deref() != Some(build)
        && queues.admits(&record.queue)
}

#[cfg(test)]
mod tests {
    use dauer_core::model::{Filter, Kind, QueueKey, Trouble};
    use dauer_core::{ExecutionId, MessageId, Timestamp};

    use super::*;

    fn stalled(kind: TroubleKind, build: Option<&str>) -> Record {
        let queue = QueueKey::new(Kind::Orchestration, "order", None);
        let trouble = Trouble::new(kind, "why", Timestamp(1)).of_build(build.map(Into::into));
        let pending = Record::pending(queue, ExecutionId(1), MessageId([2; 16]));
        Record { trouble: Some(Box::new(trouble)), ..pending }
    }

    #[test]
    fn only_trouble_of_another_build_may_be_mended() {
        let all = Queues::default();
        let may = |kind, build| may_mend(&stalled(kind, build), ("new", &all));
        assert!(may(TroubleKind::Panic, Some("old")));
        assert!(may(TroubleKind::UnknownName, None), "an unknown build");
        assert!(!may(TroubleKind::Panic, Some("new")));
        assert!(!may(TroubleKind::HostDied, Some("old")), "poison rests");
        let sound = Record { trouble: None, ..stalled(TroubleKind::Panic, None) };
        assert!(!may_mend(&sound, ("new", &all)));
        let none = Queues { orchestrations: Filter::none(), ..Queues::default() };
        assert!(!may_mend(&stalled(TroubleKind::Panic, Some("old")), ("new", &none)), "it has no such code");
    }
}
