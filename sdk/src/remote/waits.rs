//! Waiting for instances: on connections of their own, because a wait holds a stream for as long as it takes, and a server
//! allows a connection only so many.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{Either, select};
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status as Refusal};

use dauer_core::InstanceId;
use dauer_core::model::{Record, Status};
use dauer_hub::ClientError;
use dauer_proto::wire::{GetInstanceRequest, GetInstanceResponse};
use dauer_store::Env;

use super::client::RemoteClient;
use super::failures::{is_late, is_lost};
use super::record;
use super::wire::{OUTPUTS, PAYLOADS_HEADER, Service, Wire};

/// Waits on one connection. Where a server's limit of streams is reached further calls would wait for the waits; dauer's
/// allows twenty times as many, and each connection has its own buffers.
const PER_CONNECTION: usize = 1_000;

/// The longest that one call waits. A server may have a limit of its own, and a wait that goes on after it costs nothing.
const SLICE: Duration = Duration::from_secs(3600);

/// How often a wait looks where nothing can wake it: after a server ended its call early, and for conditions that the
/// protocol has no call for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// After this time without an answer a wait asks once whether the instance exists. A server waits for absent instances, too
/// (behaviour 48). Most waits are answered earlier and cost no second call, also on a busy server.
pub(super) const EXISTS_AFTER: Duration = Duration::from_millis(500);

/// The same for a client that started the instance itself. Only a purge removes it, and most waits end earlier.
pub(super) const EXISTS_AFTER_START: Duration = Duration::from_secs(30);

/// How often a wait is begun again, without a word, while the server is away. Beyond it whoever waits is told.
const ATTEMPTS: u32 = 8;

/// The connections that waits are made on.
#[derive(Default)]
pub(super) struct Waits(Mutex<Vec<Line>>);

struct Line {
    service: Service,
    /// As many as hold it, besides this list.
    held: Arc<()>,
}

impl Waits {
    /// A connection that has room, and what keeps the room.
    fn take(&self, wire: &Wire) -> (Service, Arc<()>) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = |line: &Line| Arc::strong_count(&line.held) - 1;
        // The fullest that has room, so that those that a flood needed can go.
        let best = lines.iter().filter(|line| busy(line) < PER_CONNECTION).max_by_key(|line| busy(line));
        if let Some(line) = best {
            let taken = (line.service.clone(), Arc::clone(&line.held));
            lines.retain(|line| busy(line) > 0);
            return taken;
        }
        let line = Line { service: wire.connection(), held: Arc::new(()) };
        let taken = (line.service.clone(), Arc::clone(&line.held));
        lines.push(line);
        taken
    }
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    Started,
    Ended,
}

impl Until {
    fn is_met(self, record: &Record) -> bool {
        match self {
            Self::Started => record.status != Status::Pending,
            Self::Ended => record.status.is_ended(),
        }
    }
}

impl RemoteClient {
    /// Waits until the instance has begun, or has ended.
    pub(super) async fn wait_until(
        &self,
        instance: &InstanceId,
        timeout: Duration,
        until: Until,
    ) -> Result<Record, ClientError> {
        let env = self.wire.env();
        let deadline = env.steady().after(timeout);
        let mut attempts = 0;
        loop {
            let began = env.steady();
            let left = deadline.since(began);
            let waited = match self.present_wait(instance, left.min(SLICE), until).await {
                Some(answer) => answer,
                None => return Err(ClientError::Absent(instance.clone())),
            };
            let seen = match waited {
                Ok(answer) => {
                    attempts = 0;
                    let found = record::found(answer.exists, answer.orchestration_state);
                    found.map_err(|refusal| self.wire.error(&refusal))?.map(|(record, _)| record)
                }
                // The server has a limit of its own.
                Err(refusal) if is_late(&refusal) && env.steady() < deadline => {
                    if env.steady().since(began) < LOOK_EVERY {
                        self.wire.sleep(LOOK_EVERY).await;
                    }
                    continue;
                }
                // One last look, for what to say. A run that is suspended has not begun: the server would have answered.
                Err(refusal) if is_late(&refusal) => match self.get(instance).await? {
                    Some(record) if until == Until::Started && record.status == Status::Suspended => {
                        return Err(ClientError::TimedOut(instance.clone()));
                    }
                    seen => seen,
                },
                Err(refusal) if is_lost(&refusal) && attempts < ATTEMPTS && env.steady() < deadline => {
                    attempts += 1;
                    self.wire.pause(attempts).await;
                    continue;
                }
                Err(refusal) => return Err(self.wire.error(&refusal)),
            };
            match seen {
                Some(record) if until.is_met(&record) => return Ok(record),
                None => return Err(ClientError::Absent(instance.clone())),
                Some(_) if env.steady() >= deadline => return Err(ClientError::TimedOut(instance.clone())),
                // A server that closes ends the wait early.
                Some(_) => self.wire.sleep(LOOK_EVERY.min(deadline.since(env.steady()))).await,
            }
        }
    }

    /// One call that waits; `None` when the instance does not exist.
    async fn present_wait(
        &self,
        instance: &InstanceId,
        timeout: Duration,
        until: Until,
    ) -> Option<Result<GetInstanceResponse, Refusal>> {
        let look = async {
            self.wire.sleep(self.exists_after).await;
            self.get(instance).await
        };
        match select(pin!(self.wait_once(instance, timeout, until)), pin!(look)).await {
            Either::Left((answer, _)) => Some(answer),
            Either::Right((Ok(None), _)) => None,
            // A server that cannot be asked is the wait's own concern.
            Either::Right((Ok(Some(_)) | Err(_), wait)) => Some(wait.await),
        }
    }

    async fn wait_once(
        &self,
        instance: &InstanceId,
        timeout: Duration,
        until: Until,
    ) -> Result<GetInstanceResponse, Refusal> {
        let message = GetInstanceRequest { instance_id: instance.to_string(), get_inputs_and_outputs: true };
        let mut request: Request<_> = self.wire.request(message);
        request.set_timeout(timeout);
        request.metadata_mut().insert(PAYLOADS_HEADER, MetadataValue::from_static(OUTPUTS));
        let (mut service, _held) = self.wire.waits.take(&self.wire);
        let answer = match until {
            Until::Started => service.wait_for_instance_start(request).await,
            Until::Ended => service.wait_for_instance_completion(request).await,
        };
        answer.map(Response::into_inner)
    }

    /// Waits for a condition, by looking: the protocol has calls for two of them only.
    pub(crate) async fn wait(
        &self,
        instance: &InstanceId,
        timeout: Duration,
        condition: impl Fn(&Record) -> bool,
    ) -> Result<Record, ClientError> {
        let env = self.wire.env();
        let deadline = env.steady().after(timeout);
        loop {
            match self.get(instance).await? {
                Some(record) if condition(&record) => return Ok(record),
                None => return Err(ClientError::Absent(instance.clone())),
                Some(_) if env.steady() >= deadline => return Err(ClientError::TimedOut(instance.clone())),
                Some(_) => self.wire.sleep(LOOK_EVERY.min(deadline.since(env.steady()))).await,
            }
        }
    }
}
