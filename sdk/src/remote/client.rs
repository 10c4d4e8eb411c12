//! What a client does, by the calls of the protocol.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use tonic::{Code, Status as Refusal};

use dauer_core::model::{Over, Record, Status};
use dauer_core::send::{self, Caller, StartRequest};
use dauer_core::{ExecutionId, InstanceId};
use dauer_hub::ClientError;
use dauer_proto::wire::{
    GetInstanceRequest, OrchestrationIdReusePolicy, RaiseEventRequest, RestartInstanceRequest, ResumeRequest,
    RewindInstanceRequest, StreamInstanceHistoryRequest, SuspendRequest, TerminateRequest,
};
use dauer_proto::{CreateInstanceRequest, HistoryEvent, OrchestrationStatus, time};
use dauer_store::{Env, Refused, Reuse};

use super::record;
use super::waits::{EXISTS_AFTER, EXISTS_AFTER_START, Until};
use super::wire::{Headers, Repeat, Wire, outputs, request_id, rpc};

/// A client of a hub that is behind a server.
#[derive(Clone)]
pub(crate) struct RemoteClient {
    pub(super) wire: Arc<Wire>,
    /// After this time without an answer a wait asks once whether its instance exists.
    pub(super) exists_after: Duration,
}

/// Something that an instance is told.
enum Told {
    Raise(RaiseEventRequest),
    Suspend(SuspendRequest),
    Resume(ResumeRequest),
    Terminate(TerminateRequest),
}

impl RemoteClient {
    pub(crate) fn new(wire: Arc<Wire>) -> Self {
        Self { wire, exists_after: EXISTS_AFTER }
    }

    /// The same client for waits for an instance that it has started: that one exists, unless it was purged since.
    pub(crate) fn having_started(self) -> Self {
        Self { exists_after: EXISTS_AFTER_START, ..self }
    }

    pub(crate) fn random_key(&self) -> u128 {
        let env = self.wire.env();
        u128::from(env.random()) << 64 | u128::from(env.random())
    }

    fn caller(&self, request: u128) -> Caller {
        Caller { request, repeatable: true, now: self.wire.env().now() }
    }

    /// Starts an instance. The same rules as for a store are looked after here, so that the same errors come of them.
    pub(crate) async fn start_requested(
        &self,
        request: StartRequest,
        reuse: Reuse,
        key: u128,
    ) -> Result<(), ClientError> {
        // The server draws the execution.
        send::start(request.clone(), ExecutionId(0), self.caller(key), Over::Refuse)?;
        let id = request.instance.clone();
        let policy = (reuse != Reuse::default()).then(|| OrchestrationIdReusePolicy {
            replaceable_status: reuse
                .replaceable
                .iter()
                .map(|status| OrchestrationStatus::from(*status).into())
                .collect(),
            ..OrchestrationIdReusePolicy::default()
        });
        let message = CreateInstanceRequest {
            instance_id: id.to_string(),
            name: request.name,
            version: request.version.filter(|version| !version.is_empty()),
            input: request.input,
            scheduled_start_timestamp: request.scheduled.map(|at| time::from_millis(at.0)),
            orchestration_id_reuse_policy: policy,
            tags: request.tags.to_map(),
            parent_trace_context: request.trace,
            request_time: Some(time::from_millis(self.wire.env().now().0)),
            ..CreateInstanceRequest::default()
        };
        let (answer, _) =
            self.wire.call((message, request_id(key)), Repeat::Always, rpc!(start_instance)).await;
        match answer {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.code() == Code::AlreadyExists => {
                // Which one is in the way, only a look tells; gone meanwhile, it still was.
                let status = self.get(&id).await?.map_or(Status::Running, |record| record.status);
                Err(Refused::Exists(status).into())
            }
            Err(refusal) => Err(self.wire.error(&refusal)),
        }
    }

    pub(crate) async fn raise(
        &self,
        to: &InstanceId,
        name: &str,
        data: Option<String>,
    ) -> Result<(), ClientError> {
        send::raise(to.clone(), name, data.clone(), self.caller(0))?;
        let message = RaiseEventRequest { instance_id: to.to_string(), name: name.to_owned(), input: data };
        self.tell(to, Told::Raise(message)).await
    }

    pub(crate) async fn suspend(&self, to: &InstanceId, reason: Option<String>) -> Result<(), ClientError> {
        send::suspend(to.clone(), reason.clone(), self.caller(0))?;
        self.tell(to, Told::Suspend(SuspendRequest { instance_id: to.to_string(), reason })).await
    }

    pub(crate) async fn resume(&self, to: &InstanceId, reason: Option<String>) -> Result<(), ClientError> {
        send::resume(to.clone(), reason.clone(), self.caller(0))?;
        self.tell(to, Told::Resume(ResumeRequest { instance_id: to.to_string(), reason })).await
    }

    pub(crate) async fn terminate(
        &self,
        to: &InstanceId,
        output: Option<String>,
        recurse: bool,
    ) -> Result<(), ClientError> {
        send::terminate(to.clone(), output.clone(), recurse, self.caller(0))?;
        // Servers take no notice of one that is not there (behaviour 49).
        if self.get(to).await?.is_none() {
            return Err(ClientError::Absent(to.clone()));
        }
        let message = TerminateRequest { instance_id: to.to_string(), output, recursive: recurse };
        self.tell(to, Told::Terminate(message)).await
    }

    /// Tells an instance something. Every request has an id, by which dauer's server knows it again; an event could arrive
    /// twice at a server that does not, so that it is only sent again when it cannot have arrived.
    async fn tell(&self, to: &InstanceId, told: Told) -> Result<(), ClientError> {
        let id = request_id(self.random_key());
        let answer = match told {
            Told::Raise(message) => {
                self.wire.call((message, id), Repeat::Unsent, rpc!(raise_event)).await.0.map(drop)
            }
            Told::Suspend(message) => {
                self.wire.call((message, id), Repeat::Always, rpc!(suspend_instance)).await.0.map(drop)
            }
            Told::Resume(message) => {
                self.wire.call((message, id), Repeat::Always, rpc!(resume_instance)).await.0.map(drop)
            }
            Told::Terminate(message) => {
                self.wire.call((message, id), Repeat::Always, rpc!(terminate_instance)).await.0.map(drop)
            }
        };
        match answer {
            Err(refusal) if refusal.code() == Code::NotFound => Err(self.absent_or(to, &refusal)),
            answer => answer.map_err(|refusal| self.wire.error(&refusal)),
        }
    }

    /// That an instance is absent; or, where the server wants hubs to be there first, that the hub is.
    fn absent_or(&self, instance: &InstanceId, refusal: &Refusal) -> ClientError {
        match refusal.message().starts_with("there is no task hub") {
            true => self.wire.error(refusal),
            false => ClientError::Absent(instance.clone()),
        }
    }

    pub(crate) async fn get(&self, instance: &InstanceId) -> Result<Option<Record>, ClientError> {
        Ok(self.look(instance, outputs()).await?.map(|(record, _)| record))
    }

    /// The record of an instance, and its input unless the headers say that it is not wanted.
    async fn look(
        &self,
        instance: &InstanceId,
        headers: Headers,
    ) -> Result<Option<(Record, Option<String>)>, ClientError> {
        let message = GetInstanceRequest { instance_id: instance.to_string(), get_inputs_and_outputs: true };
        let (answer, _) = self.wire.call((message, headers), Repeat::Always, rpc!(get_instance)).await;
        let answer = answer.map_err(|refusal| self.wire.error(&refusal))?.into_inner();
        let found = record::found(answer.exists, answer.orchestration_state);
        found.map_err(|refusal| self.wire.error(&refusal))
    }

    pub(crate) async fn input(
        &self,
        instance: &InstanceId,
        record: &Record,
    ) -> Result<Option<String>, ClientError> {
        let found = self.look(instance, Headers::new()).await?;
        let (found, input) = found.ok_or_else(|| ClientError::Absent(instance.clone()))?;
        let is_its_own = found.execution == record.execution;
        if is_its_own { Ok(input) } else { Err(ClientError::MovedOn(instance.clone())) }
    }

    pub(crate) async fn wait_started(
        &self,
        id: &InstanceId,
        timeout: Duration,
    ) -> Result<Record, ClientError> {
        self.wait_until(id, timeout, Until::Started).await
    }

    pub(crate) async fn wait_ended(&self, id: &InstanceId, timeout: Duration) -> Result<Record, ClientError> {
        self.wait_until(id, timeout, Until::Ended).await
    }

    pub(crate) async fn rewind(
        &self,
        instance: &InstanceId,
        reason: Option<String>,
    ) -> Result<(), ClientError> {
        let message = RewindInstanceRequest { instance_id: instance.to_string(), reason };
        let send = rpc!(rewind_instance);
        let call = (message, request_id(self.random_key()));
        let (answer, in_doubt) = self.wire.call(call, Repeat::Always, send).await;
        match answer {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.code() == Code::NotFound => Err(self.absent_or(instance, &refusal)),
            // It was this very call, the first answer to which was lost.
            Err(refusal) if refusal.code() == Code::FailedPrecondition && in_doubt => Ok(()),
            Err(refusal) if refusal.code() == Code::FailedPrecondition => match self.get(instance).await? {
                None => Err(ClientError::Absent(instance.clone())),
                Some(Record { status: Status::Failed, .. }) => Err(self.wire.error(&refusal)),
                Some(Record { status, .. }) => {
                    Err(ClientError::NotFailed { instance: instance.clone(), status })
                }
            },
            Err(refusal) => Err(self.wire.error(&refusal)),
        }
    }

    /// Starts an instance again: in its own place by the protocol's own call, under another id as a start of the same.
    pub(crate) async fn restart(
        &self,
        instance: &InstanceId,
        to: Option<InstanceId>,
        key: u128,
    ) -> Result<(), ClientError> {
        let Some(to) = to.filter(|to| to != instance) else {
            return self.restart_in_place(instance, key).await;
        };
        let found = self.look(instance, Headers::new()).await?;
        let (record, input) = found.ok_or_else(|| ClientError::Absent(instance.clone()))?;
        let request = StartRequest {
            version: record.queue.version.as_deref().map(str::to_owned),
            input,
            tags: record.tags,
            ..StartRequest::new(to, &*record.queue.name)
        };
        // What has the other id is none of this call's business.
        self.start_requested(request, Reuse { replaceable: Vec::new() }, key).await
    }

    async fn restart_in_place(&self, instance: &InstanceId, key: u128) -> Result<(), ClientError> {
        let message =
            RestartInstanceRequest { instance_id: instance.to_string(), restart_with_new_instance_id: false };
        let send = rpc!(restart_instance);
        let (answer, in_doubt) = self.wire.call((message, request_id(key)), Repeat::Always, send).await;
        match answer {
            Ok(_) => Ok(()),
            Err(refusal) if refusal.code() == Code::NotFound => Err(self.absent_or(instance, &refusal)),
            Err(refusal) if refusal.code() == Code::FailedPrecondition && in_doubt => Ok(()),
            Err(refusal) if refusal.code() == Code::FailedPrecondition => match self.get(instance).await? {
                None => Err(ClientError::Absent(instance.clone())),
                Some(Record { status, .. }) if status.is_ended() => Err(self.wire.error(&refusal)),
                Some(Record { status, .. }) => {
                    Err(ClientError::NotEnded { instance: instance.clone(), status })
                }
            },
            Err(refusal) => Err(self.wire.error(&refusal)),
        }
    }

    /// The history of the run that the record is of, event by event.
    pub(crate) fn history_of(
        &self,
        instance: &InstanceId,
        record: &Record,
    ) -> BoxStream<'static, Result<HistoryEvent, ClientError>> {
        let (client, instance, execution) = (self.clone(), instance.clone(), record.execution);
        // A server compares an execution that it is asked for. Without one, an empty history of a run that has begun is that of
        // a run that is gone.
        let unchecked = record.status != Status::Pending && execution == ExecutionId(0);
        let read = async move {
            let message = StreamInstanceHistoryRequest {
                instance_id: instance.to_string(),
                // One that the server did not tell is not asked for.
                execution_id: (execution != ExecutionId(0)).then(|| execution.to_string()),
                for_work_item_processing: false,
            };
            let send = rpc!(stream_instance_history);
            let (chunks, _) = client.wire.call((message, Headers::new()), Repeat::Always, send).await;
            let chunks = match chunks {
                Ok(chunks) => chunks.into_inner(),
                // The instance is gone, or in another run.
                Err(refusal) if refusal.code() == Code::NotFound => {
                    let there = client.get(&instance).await?.is_some();
                    return Err(if there {
                        ClientError::MovedOn(instance)
                    } else {
                        ClientError::Absent(instance)
                    });
                }
                Err(refusal) => return Err(client.wire.error(&refusal)),
            };
            let failing = client.clone();
            let chunks = chunks.map_err(move |refusal| failing.wire.error(&refusal));
            let mut events = chunks
                .map_ok(|chunk| stream::iter(chunk.events.into_iter().map(Ok)))
                .try_flatten()
                .peekable();
            if unchecked && std::pin::Pin::new(&mut events).peek().await.is_none() {
                return Err(ClientError::MovedOn(instance));
            }
            // The server has compared the execution. The history itself cannot tell: a rewound run keeps the
            // `ExecutionStarted` of its first execution.
            Ok(events)
        };
        stream::once(read).try_flatten().boxed()
    }
}
