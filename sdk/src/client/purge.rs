//! Removing ended instances by query: in bounded steps, so that others get their turn between two of them.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use dauer_store::{Query, Reuse};

use super::query::QueryCall;
use super::{Client, Error};

/// Instances that one write removes: the turns of others wait behind it.
const STEP_INSTANCES: usize = 100;

/// A purge that happens when it is awaited: every ended instance that matches is removed for good, with its history. It can
/// be dropped, stopped and begun again at any time: each step stands for itself, and the same purge again goes on with
/// what is left.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::{Status, Timestamp};
///
/// let client = dauer::open("memory:")?.client();
/// let old = client.query().status(Status::Completed).created_to(Timestamp(1_700_000_000_000));
/// let purged = old.purge().at_most(1_000).await?;
/// println!("{} removed{}", purged.count, if purged.more { ", and there are more" } else { "" });
/// # Ok(())
/// # }
/// ```
#[must_use = "a purge does nothing until it is awaited"]
pub struct PurgeCall {
    client: Client,
    query: Query,
    at_most: usize,
}

/// What a purge did.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = dauer::open("memory:")?.client();
/// let purged = client.query().purge().await?;
/// assert_eq!((purged.count, purged.more), (0, false));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// Instances removed. What was removed by a step whose answer was lost is not among them.
    pub count: usize,
    /// Whether more of them match: the same purge again goes on. Only a purge with a bound leaves any.
    pub more: bool,
}

impl PurgeCall {
    pub(super) fn new(call: QueryCall) -> Self {
        let QueryCall { client, query, .. } = call;
        Self { client, query, at_most: usize::MAX }
    }

    /// So many instances at most; [`Purged::more`] says whether others match.
    pub fn at_most(self, at_most: usize) -> Self {
        Self { at_most, ..self }
    }

    async fn run(self) -> Result<Purged, Error> {
        let mut query = Query { after: None, ..self.query };
        if let Some(&status) = query.statuses.iter().find(|status| !status.is_ended()) {
            return Err(Error::Living { status });
        }
        if query.statuses.is_empty() {
            // Named, so that the store passes over the living by their status alone.
            query.statuses = Reuse::default().replaceable;
        }
        let mut purged = Purged { count: 0, more: true };
        loop {
            let step = (self.at_most - purged.count).min(STEP_INSTANCES);
            let done =
                self.client.raw.purge_matching(&query, step).await.map_err(|source| match purged.count {
                    0 => Error::Client(source),
                    count => Error::PurgeStopped { count, source },
                })?;
            purged = Purged { count: purged.count + done.count, more: done.more };
            // A step that removes nothing would be taken for ever.
            if !purged.more || purged.count >= self.at_most || done.count == 0 {
                return Ok(purged);
            }
        }
    }
}

impl IntoFuture for PurgeCall {
    type Output = Result<Purged, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use dauer_core::model::{Kind, QueueKey, Record, Status, Times};
    use dauer_core::{Epoch, ExecutionId, HubName, InstanceId, MessageId, Timestamp};
    use dauer_faults::{Act, Call, Fate, Faulty, Op, Plan, wrap_hub};
    use dauer_memory::{MemoryStore, SystemClock};
    use dauer_store::{DumpItem, InstanceDump};

    use super::*;
    use crate::runtime::TokioEnv;

    /// How many purges are carried out before one is refused.
    struct DoneBefore(AtomicUsize);

    impl Plan for DoneBefore {
        fn fate(&self, call: &Call) -> Fate {
            let left = |left: usize| left.checked_sub(1);
            match call.op() {
                Op::Purge if self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err() => {
                    Fate::of(Act::Refuse)
                }
                _ => Fate::PASS,
            }
        }
    }

    fn ended(number: u16) -> DumpItem {
        let id = InstanceId::new(format!("order-{number:03}")).unwrap();
        let (queue, at) = (QueueKey::new(Kind::Orchestration, "order", None), Timestamp(i64::from(number)));
        let record = Record {
            status: Status::Completed,
            times: Times { created: at, updated: at, completed: Some(at), ..Times::default() },
            ..Record::pending(queue, ExecutionId(1), MessageId([0; 16]))
        };
        DumpItem::Instance(Box::new(InstanceDump {
            id,
            record,
            epoch: Epoch::default(),
            holder: None,
            trial: false,
            ready_at: None,
            not_before: Timestamp::default(),
            history: Vec::new(),
            prologue: Vec::new(),
            inbox: Vec::new(),
            outbox: Vec::new(),
            memory: Vec::new(),
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_purge_that_is_stopped_tells_how_far_it_came() {
        let purges = Arc::new(DoneBefore(AtomicUsize::new(2)));
        let hub = MemoryStore::new(Arc::new(SystemClock::new())).hub(HubName::default());
        let hub = wrap_hub(hub, Arc::new(Faulty::new(purges.clone())));
        hub.load((0..250).map(ended).collect()).await.unwrap();
        let env = Arc::new(TokioEnv::new(tokio::runtime::Handle::current()));
        let raw = crate::client::RawClient::local(dauer_hub::Client::new(hub, env));
        let client = Client { payloads: Default::default(), raw };
        let stopped = client.query().purge().await.unwrap_err();
        assert!(matches!(stopped, Error::PurgeStopped { count: 200, .. }), "{stopped}");
        let before_the_first = client.query().purge().await.unwrap_err();
        assert!(matches!(before_the_first, Error::Client(_)), "{before_the_first}");
        purges.0.store(usize::MAX, Ordering::SeqCst);
        let rest = client.query().purge().await.unwrap();
        assert_eq!(rest, Purged { count: 50, more: false });
    }
}
