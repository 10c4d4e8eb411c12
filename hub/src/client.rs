//! The raw client: payloads are text. The Rust SDK puts types around it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};

use dauer_core::identity::{execution_of, requested};
use dauer_core::ledger::LedgerError;
use dauer_core::model::{Over, Record, Status};
use dauer_core::planted::{self, Bug};
use dauer_core::send::{self, Alike, Caller, InvalidRequest, StartRequest};
use dauer_core::turn::Stalled;
use dauer_core::{ExecutionId, InstanceId, Revision};
use dauer_store::{Create, Created, Delivered, Env, Manage, Message, Refused, Reuse};

use crate::operate::carried;
use crate::options::{CALL_ATTEMPTS, CALL_RETRY_DELAY, WAIT_ALONE, WAIT_POLL};
use crate::remote::RemoteError;
use crate::watch::{Matters, News, Watch};

/// A client's call that did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The request breaks a rule; nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The store refused.
    #[error("the store refused")]
    Refused(#[from] Refused),
    /// There is no such instance.
    #[error("there is no instance '{0}'; check the id and the task hub")]
    Absent(InstanceId),
    /// The wait took longer than allowed. The instance goes on.
    #[error("the instance '{0}' has not come so far yet; wait longer, or look at its status")]
    TimedOut(InstanceId),
    /// Only a failed run can be rewound.
    #[error(
        "the instance '{instance}' is {status:?}, which does not allow a rewind; only a failed one can be rewound"
    )]
    NotFailed {
        /// Which.
        instance: InstanceId,
        /// Where it stands.
        status: Status,
    },
    /// Only an ended instance can be restarted or removed.
    #[error(
        "the instance '{instance}' is {status:?}, it has not ended; nothing was changed, wait for its end or terminate it"
    )]
    NotEnded {
        /// Which.
        instance: InstanceId,
        /// Where it stands.
        status: Status,
    },
    /// Only a stalled instance can be retried.
    #[error("the instance '{instance}' is {status:?} and not stalled; nothing was changed")]
    NotStalled {
        /// The instance.
        instance: InstanceId,
        /// The status of the instance.
        status: Status,
    },
    /// What has ended cannot be ended again.
    #[error("the instance '{instance}' has ended already, it is {status:?}; nothing was changed")]
    Ended {
        /// Which.
        instance: InstanceId,
        /// How.
        status: Status,
    },
    /// It has ended, but not all that it has to do with others is done.
    #[error(
        "the instance '{0}' has ended, but a start or rewind waits for it, or it has messages to send; try again later"
    )]
    Engaged(InstanceId),
    /// The run whose history was being read is no longer the current one, and its history is gone.
    #[error("the instance '{0}' has begun another run meanwhile; read its history from the beginning")]
    MovedOn(InstanceId),
    /// The stored history does not fit together.
    #[error("the history of '{instance}' cannot be used; audit the store")]
    History {
        /// Whose.
        instance: InstanceId,
        /// What is wrong with it.
        #[source]
        source: Unusable,
    },
    /// The hub is behind a server, which is the trouble.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

/// What is wrong with a history.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// It cannot be followed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// No turn can be made of it.
    #[error(transparent)]
    Stalled(#[from] Stalled),
    /// It has no start, so that nobody knows what ran.
    #[error("there is no start in it")]
    NoStart,
}

/// A client of one hub.
#[derive(Clone)]
pub struct Client {
    hub: Arc<dyn Manage>,
    env: Arc<dyn Env>,
    watch: Arc<Watch>,
    request: Option<u128>,
    /// Whether a wait goes on for an instance that does not exist.
    awaits_absent: bool,
}

impl Client {
    /// A client of that hub.
    pub fn new(hub: Arc<dyn Manage>, env: Arc<dyn Env>) -> Self {
        Self { hub, env, watch: Arc::default(), request: None, awaits_absent: true }
    }

    /// The same client, whose waits fail at once with [`ClientError::Absent`] when the instance does not exist. Without it they
    /// go on until the timeout: callers of a server wait for ids that are about to be started.
    #[must_use]
    pub fn refusing_absent(self) -> Self {
        Self { awaits_absent: false, ..self }
    }

    /// The hub, for what this client does not wrap.
    #[must_use]
    pub fn hub(&self) -> &Arc<dyn Manage> {
        &self.hub
    }

    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// How many waits are open on this client and its clones.
    #[must_use]
    pub fn waits(&self) -> usize {
        self.watch.count()
    }

    /// The same client for one request of that id: an event raised, or anything else sent, for the same instance with the
    /// same id again, from whatever process, is the same message and does nothing.
    #[must_use]
    pub fn for_request(&self, id: u128) -> Self {
        Self { request: Some(id), ..self.clone() }
    }

    pub(crate) fn caller(&self) -> Caller {
        let request = self.request.unwrap_or_else(|| self.random_key());
        Caller { request, repeatable: true, now: self.env.now() }
    }

    /// A request's id that nobody else has.
    #[must_use]
    pub fn random_key(&self) -> u128 {
        u128::from(self.env.random()) << 64 | u128::from(self.env.random())
    }

    /// Starts an instance. Once it returns, the instance runs even if everyone dies now.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with [`Refused::Exists`] when the id is taken and `reuse` keeps it.
    pub async fn start(&self, request: StartRequest, reuse: Reuse) -> Result<Created, ClientError> {
        self.start_requested(request, reuse, self.random_key()).await
    }

    /// As [`Client::start`], with the request's own id: the same id for the same instance again, from whatever process,
    /// is the same start and does nothing. What else the second one says is not looked at.
    ///
    /// # Errors
    /// As [`Client::start`].
    pub async fn start_requested(
        &self,
        request: StartRequest,
        reuse: Reuse,
        key: u128,
    ) -> Result<Created, ClientError> {
        let caller = Caller { request: key, repeatable: true, now: self.env.now() };
        let execution = self.draw_execution(&request.instance, key);
        let start = send::start(request, execution, caller, over(&reuse))?;
        self.started_by(Create::new(start, reuse), execution).await
    }

    /// As [`Client::start`], for a request without an id of its own, which is recognised by its content. When `retry` says
    /// that the transport sends it again, and an equal start was accepted within [`START_RETRY_MAX`], it does nothing.
    ///
    /// [`START_RETRY_MAX`]: dauer_core::limits::START_RETRY_MAX
    ///
    /// # Errors
    /// As [`Client::start`].
    pub async fn start_alike(
        &self,
        request: StartRequest,
        reuse: Reuse,
        content: &[u8],
        retry: bool,
    ) -> Result<Created, ClientError> {
        let alike = Alike { content, draw: self.env.random(), now: self.env.now() };
        let execution = ExecutionId(self.random_key());
        let start = send::start_alike(request, execution, alike, over(&reuse))?;
        self.started_by(Create { start, reuse, retry }, execution).await
    }

    /// The run that a start begins. Random: a later start of the same id and key must not give the same run.
    fn draw_execution(&self, instance: &InstanceId, key: u128) -> ExecutionId {
        if planted::is_on(Bug::ExecutionFromKey) {
            return execution_of(requested(instance, key));
        }
        ExecutionId(self.random_key())
    }

    async fn started_by(&self, create: Create, execution: ExecutionId) -> Result<Created, ClientError> {
        // Before the run begins: the end of a short run may be hinted before anyone waits for it.
        let following = self.watch.follow(&create.start.to, execution);
        let created = self.place(&create).await?;
        if let Created::New(_) = created {
            following.keep();
        }
        Ok(created)
    }

    pub(crate) async fn create(&self, create: &Create) -> Result<Created, ClientError> {
        let mut attempts = 0;
        loop {
            let result = self.hub.create(vec![create.clone()]).await.into_iter().next();
            match result.unwrap_or(Err(Refused::Fenced)) {
                Ok(created) => return Ok(created),
                Err(Refused::Unknown(_)) if planted::is_on(Bug::AckBeforeCommit) => {
                    return Ok(Created::New(
                        carried(&create.start.class).map_or(ExecutionId(0), |r| r.execution),
                    ));
                }
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }

    /// Raises an event. An instance that is absent or has ended never sees it.
    ///
    /// # Errors
    /// [`ClientError`] when the request breaks a rule, the instance is absent or the store refuses.
    pub async fn raise(&self, to: &InstanceId, name: &str, data: Option<String>) -> Result<(), ClientError> {
        self.send(send::raise(to.clone(), name, data, self.caller())?).await
    }

    async fn send(&self, message: Message) -> Result<(), ClientError> {
        match self.deliver(&message).await? {
            Delivered::Dropped(dauer_store::DropReason::Absent) => Err(ClientError::Absent(message.to)),
            // A message to an ended instance has no effect, which is no error (behaviour 31). A repeat waits already.
            _ => Ok(()),
        }
    }

    /// Sends a message; what the store did with it.
    pub(crate) async fn deliver(&self, message: &Message) -> Result<Delivered, ClientError> {
        let mut attempts = 0;
        loop {
            let result = self.hub.send(vec![message.clone()]).await.into_iter().next();
            match result.unwrap_or(Err(Refused::Fenced)) {
                Ok(delivered) => return Ok(delivered),
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }

    /// Waits before the same request is sent again, which is safe because it has an identity.
    pub(crate) async fn again(&self, refused: Refused, attempts: &mut u32) -> Result<(), ClientError> {
        let transient = matches!(refused, Refused::Unknown(_) | Refused::NotExecuted(_));
        if !transient || *attempts >= CALL_ATTEMPTS {
            return Err(refused.into());
        }
        *attempts += 1;
        let delay = crate::backoff::delay(CALL_RETRY_DELAY, WAIT_POLL, *attempts, self.env.random());
        self.env.sleep(delay).await;
        Ok(())
    }

    /// The record of an instance.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the store cannot tell.
    pub async fn get(&self, instance: &InstanceId) -> Result<Option<Record>, ClientError> {
        let mut attempts = 0;
        loop {
            match self.hub.get(vec![instance.clone()]).await {
                Ok(found) => return Ok(found.into_iter().next().flatten().map(|(_, record)| record)),
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }

    /// Waits until the instance has begun to run.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] after `timeout`; [`ClientError::Absent`] when there is no such instance by then, or at once
    /// with [`Client::refusing_absent`].
    pub async fn wait_started(
        &self,
        instance: &InstanceId,
        timeout: Duration,
    ) -> Result<Record, ClientError> {
        let begun = |record: &Record| !record.is_unborn();
        self.wait_for(instance, timeout, (Matters::Begun, begun)).await
    }

    /// Waits until the instance has ended.
    ///
    /// # Errors
    /// As [`Client::wait_started`].
    pub async fn wait_ended(&self, instance: &InstanceId, timeout: Duration) -> Result<Record, ClientError> {
        self.wait_for(instance, timeout, (Matters::Ended, |record: &Record| record.status.is_ended())).await
    }

    /// Waits for a condition: a hint, then a look, with a slow poll behind.
    ///
    /// # Errors
    /// As [`Client::wait_started`].
    pub async fn wait(
        &self,
        instance: &InstanceId,
        timeout: Duration,
        condition: impl Fn(&Record) -> bool,
    ) -> Result<Record, ClientError> {
        self.wait_for(instance, timeout, (Matters::Anything, condition)).await
    }

    async fn wait_for(
        &self,
        instance: &InstanceId,
        timeout: Duration,
        (matters, condition): (Matters, impl Fn(&Record) -> bool),
    ) -> Result<Record, ClientError> {
        let deadline = self.env.steady().after(timeout);
        // Before the look: a change in between is not missed.
        let wait = self.watch.wait(instance, matters, &self.hub, &self.env);
        let judge = |found: Option<Record>| match found {
            Some(record) if condition(&record) => Ok(record),
            // Not the whole record: ten thousand may wait.
            other => Err(other.map(|record| (record.execution, record.revision))),
        };
        // Of a run that was followed from its start on it is known where it stood then. No time to wait is a look.
        let followed = wait.followed().filter(|_| !timeout.is_zero());
        let mut seen = match followed {
            Some(execution) => Some((execution, Revision::default())),
            None => match judge(self.get(instance).await?) {
                Ok(record) => return Ok(record),
                Err(seen) => seen,
            },
        };
        while self.env.steady() < deadline && (seen.is_some() || self.awaits_absent) {
            let alone = self.env.sleep_until(deadline.min(self.env.steady().after(WAIT_ALONE)));
            let found = match select(pin!(wait.news()), alone).await {
                Either::Left((News::Found(found), _)) if follows(&found, seen) => {
                    Some(Arc::unwrap_or_clone(found))
                }
                Either::Left(_) | Either::Right(_) => self.get(instance).await?,
            };
            seen = match judge(found) {
                Ok(record) => return Ok(record),
                Err(seen) => seen,
            };
        }
        let id = instance.clone();
        Err(if seen.is_none() { ClientError::Absent(id) } else { ClientError::TimedOut(id) })
    }
}

/// What a start does to a living run that its policy lets it replace.
fn over(reuse: &Reuse) -> Over {
    let living = reuse.replaceable.iter().any(|status| !status.is_ended());
    if living { Over::Terminate } else { Over::Refuse }
}

/// Whether a record is a later one of the run that was seen. News may be older than the wait: of a run before, for which the
/// same id stood, or from before a rewind.
fn follows(found: &Record, seen: Option<(ExecutionId, Revision)>) -> bool {
    seen.is_some_and(|(execution, revision)| found.execution == execution && found.revision > revision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::MessageId;
    use dauer_core::model::{Kind, QueueKey};

    fn record(execution: u128, revision: u64) -> Record {
        let queue = QueueKey::new(Kind::Orchestration, "code", None);
        let record = Record::pending(queue, ExecutionId(execution), MessageId([0; 16]));
        Record { revision: Revision(revision), ..record }
    }

    #[test]
    fn news_of_another_run_or_from_before_are_no_answer() {
        let seen = Some((ExecutionId(2), Revision(5)));
        assert!(follows(&record(2, 6), seen));
        assert!(!follows(&record(1, 9), seen), "of the run before, which had the same id");
        assert!(!follows(&record(2, 5), seen), "no later than what was seen");
        assert!(!follows(&record(2, 4), seen), "from before a rewind");
        assert!(!follows(&record(2, 6), None), "nothing was there when the wait began");
    }
}
