//! How a client's call, or a worker's result, becomes a message.

use dauer_proto::{
    ExecutionStartedEvent, HistoryEvent, TaskFailureDetails, TraceContext, event, failure, time,
};

use crate::identity;
use crate::ids::{ExecutionId, InstanceId, InvalidName, MessageId, Revision, Timestamp, check_name};
use crate::limits;
use crate::model::{
    Class, Completion, Control, Encoded, Kind, Message, Opening, Origin, Over, QueueKey, Tags, Task,
    TaskFence,
};

/// A request that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// A name breaks a rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A payload is too large.
    #[error(
        "{field} has {bytes} bytes, at most {limit} are allowed; put large data elsewhere and send its address"
    )]
    Payload {
        /// Which payload.
        field: &'static str,
        /// How large it is.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A time too far ahead.
    #[error("{field} is more than 100 years ahead; choose an earlier time")]
    Time {
        /// Which time.
        field: &'static str,
    },
}

/// A start, as a client asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRequest {
    /// The instance to start.
    pub instance: InstanceId,
    /// The orchestration's name.
    pub name: String,
    /// The version of its code; without one it has none and is never upgraded silently.
    pub version: Option<String>,
    /// The input.
    pub input: Option<String>,
    /// Labels.
    pub tags: Tags,
    /// Not before this time. A time in the past is now (behaviour 36).
    pub scheduled: Option<Timestamp>,
    /// Passed through to the orchestration.
    pub trace: Option<TraceContext>,
}

impl StartRequest {
    /// A start with nothing but a name.
    #[must_use]
    pub fn new(instance: InstanceId, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { instance, name, version: None, input: None, tags: Tags::new(), scheduled: None, trace: None }
    }
}

/// Who asks, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// The request's id: chosen by the client, so that it can ask the same again, or else random.
    pub request: u128,
    /// Whether the client chose it.
    pub repeatable: bool,
    /// The client's time, for the event's timestamp. Nothing is decided by it.
    pub now: Timestamp,
}

impl Caller {
    fn origin(self) -> Origin {
        Origin::Client { request: self.repeatable.then_some(self.request) }
    }
}

fn check_payload(field: &'static str, payload: Option<&str>) -> Result<(), InvalidRequest> {
    let (bytes, limit) = (payload.map_or(0, str::len), limits::PAYLOAD_BYTES_MAX);
    if bytes > limit { Err(InvalidRequest::Payload { field, bytes, limit }) } else { Ok(()) }
}

/// The message that starts an instance. The same caller's request gives the same id. `execution` is the run that it begins;
/// a client draws it at random, so that no later run of the same id can be taken for this one.
///
/// # Errors
/// [`InvalidRequest`] when a name, payload or time passes a limit.
pub fn start(
    request: StartRequest,
    execution: ExecutionId,
    caller: Caller,
    over: Over,
) -> Result<Message, InvalidRequest> {
    let id = identity::requested(&request.instance, caller.request);
    start_as(id, request, (execution, over), (caller.origin(), caller.now))
}

/// As [`start`], for a client that names no request: the start is recognised by its `content`, and only where its transport
/// marks it as a retry.
///
/// # Errors
/// As [`start`].
pub fn start_alike(
    request: StartRequest,
    execution: ExecutionId,
    alike: Alike<'_>,
    over: Over,
) -> Result<Message, InvalidRequest> {
    let id = identity::alike(&request.instance, alike.content, alike.draw);
    start_as(id, request, (execution, over), (Origin::Client { request: None }, alike.now))
}

/// A start without a request id.
#[derive(Debug, Clone, Copy)]
pub struct Alike<'a> {
    /// The request as it came, or a digest of it: equal starts have equal contents.
    pub content: &'a [u8],
    /// Random: tells two equal starts apart.
    pub draw: u64,
    /// The client's time, for the event's timestamp. Nothing is decided by it.
    pub now: Timestamp,
}

fn start_as(
    id: MessageId,
    request: StartRequest,
    (execution, over): (ExecutionId, Over),
    (origin, now): (Origin, Timestamp),
) -> Result<Message, InvalidRequest> {
    request.instance.check_orchestration()?;
    check_name("orchestration name", &request.name)?;
    check_payload("input", request.input.as_deref())?;
    for (key, value) in &request.tags {
        check_name("tag key", key)?;
        check_payload("tag value", Some(value))?;
    }
    let scheduled = request.scheduled.filter(|at| *at > now);
    if scheduled.is_some_and(|at| at > now.after(limits::TIMER_MAX)) {
        return Err(InvalidRequest::Time { field: "scheduled start" });
    }
    // An empty version is none: SDKs send one for the other.
    let version = request.version.filter(|version| !version.is_empty());
    version.as_deref().map_or(Ok(()), |version| check_name("version", version))?;
    let queue = QueueKey::new(Kind::Orchestration, request.name.as_str(), version.as_deref());
    let tags = request.tags.clone();
    let opening = Opening { tags, scheduled, over, ..Opening::new(queue, execution) };
    let started = ExecutionStartedEvent {
        version,
        input: request.input,
        tags: request.tags.to_map(),
        scheduled_start_timestamp: scheduled.map(|at| time::from_millis(at.0)),
        parent_trace_context: request.trace.map(Box::new),
        ..event::start(request.name, request.instance.as_str(), execution.to_string())
    };
    Ok(Message {
        id,
        to: request.instance,
        execution: None,
        class: Class::Start(Box::new(opening)),
        origin,
        answers: None,
        // Also a time that only this client takes for past: the store's clock decides when it has come.
        visible_at: request.scheduled.unwrap_or_default(),
        event: Encoded::new(&event::execution_started(now.0, started)),
    })
}

/// The message that raises an event. Names keep their case; SDKs match them without regard to it (behaviour 33).
///
/// # Errors
/// [`InvalidRequest`] when the name or the data passes a limit.
pub fn raise(
    to: InstanceId,
    name: &str,
    data: Option<String>,
    caller: Caller,
) -> Result<Message, InvalidRequest> {
    check_name("event name", name)?;
    check_payload("event data", data.as_deref())?;
    let id = identity::requested(&to, caller.request);
    let event = Encoded::new(&distinct(event::event_raised(caller.now.0, name, data), id));
    Ok(from_client(to, Class::Ordinary, caller, event))
}

/// The message that suspends an instance.
///
/// # Errors
/// [`InvalidRequest`] when the reason passes the limit of a payload.
pub fn suspend(to: InstanceId, reason: Option<String>, caller: Caller) -> Result<Message, InvalidRequest> {
    check_payload("reason", reason.as_deref())?;
    let event = Encoded::new(&event::execution_suspended(caller.now.0, reason));
    Ok(from_client(to, Class::Control(Control::Suspend), caller, event))
}

/// The message that resumes an instance.
///
/// # Errors
/// [`InvalidRequest`] when the reason passes the limit of a payload.
pub fn resume(to: InstanceId, reason: Option<String>, caller: Caller) -> Result<Message, InvalidRequest> {
    check_payload("reason", reason.as_deref())?;
    let event = Encoded::new(&event::execution_resumed(caller.now.0, reason));
    Ok(from_client(to, Class::Control(Control::Resume), caller, event))
}

/// The message that terminates an instance, with its output; its children too when `recurse`.
///
/// # Errors
/// [`InvalidRequest`] when the output passes the limit of a payload.
pub fn terminate(
    to: InstanceId,
    output: Option<String>,
    recurse: bool,
    caller: Caller,
) -> Result<Message, InvalidRequest> {
    check_payload("output", output.as_deref())?;
    let event = Encoded::new(&event::execution_terminated(caller.now.0, output, recurse));
    Ok(from_client(to, Class::Control(Control::Terminate), caller, event))
}

/// The event with a time that equal ones of the same millisecond do not have: Java's worker carries over only one of those
/// that are equal in everything (behaviour 28). What is below a millisecond says nothing else.
pub(crate) fn distinct(mut event: HistoryEvent, id: MessageId) -> HistoryEvent {
    const NANOS_PER_MILLI: u64 = 1_000_000;
    let [.., a, b, c, d] = id.0;
    let below = u64::from(u32::from_be_bytes([a, b, c, d])) % NANOS_PER_MILLI;
    if let Some(at) = &mut event.timestamp {
        // Whole milliseconds come in, so that no second is ever passed.
        at.nanos += i32::try_from(below).unwrap_or_default();
    }
    event
}

fn from_client(to: InstanceId, class: Class, caller: Caller, event: Encoded) -> Message {
    Message {
        id: identity::requested(&to, caller.request),
        to,
        execution: None,
        class,
        origin: caller.origin(),
        answers: None,
        visible_at: Timestamp::default(),
        event,
    }
}

/// The result of a task, as a message to the instance that scheduled it. Running a task twice gives the same identity.
#[must_use]
pub fn task_answer(
    fence: TaskFence,
    task: &Task,
    outcome: Result<Option<String>, TaskFailureDetails>,
    now: Timestamp,
) -> Completion {
    let outcome = outcome.and_then(|result| match check_payload("result", result.as_deref()) {
        Ok(()) => Ok(result),
        // Running it again gives as much: the orchestration is told, instead of the task being tried for ever.
        Err(error) => Err(failure::failure("PayloadTooLarge", error.to_string()).non_retriable()),
    });
    let event = match outcome {
        Ok(result) => event::task_completed(now.0, task.event_id, result),
        Err(details) => event::task_failed(now.0, task.event_id, details),
    };
    let (instance, execution) = (task.instance.clone(), task.execution);
    let answer = Message {
        id: answer_id(task.id, execution),
        to: instance.clone(),
        execution: Some(execution),
        class: Class::Ordinary,
        origin: Origin::Turn { instance, execution, revision: Revision::default(), ordinal: None },
        answers: Some(task.id),
        // At once, whatever this host's clock says.
        visible_at: Timestamp::default(),
        event: Encoded::new(&event),
    };
    Completion { fence, answer }
}

fn answer_id(task: MessageId, execution: ExecutionId) -> MessageId {
    identity::answer(task, execution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviour_28_equal_events_of_one_millisecond_differ_below_it_and_nowhere_else() {
        let event = |last: u32| {
            let mut id = [7; 16];
            id[12..].copy_from_slice(&last.to_be_bytes());
            distinct(event::event_raised(1_999, "paid", None), MessageId(id))
        };
        let time = |last| event(last).timestamp.map(|at| (at.seconds, at.nanos));
        assert_eq!(time(0), Some((1, 999_000_000)));
        assert_eq!(time(41), Some((1, 999_000_041)));
        assert_eq!(time(999_999), Some((1, 999_999_999)));
        assert_eq!(time(1_000_000), Some((1, 999_000_000)), "never the next millisecond");
        assert_eq!(time(u32::MAX), Some((1, 999_967_295)));
        let timeless = |last| HistoryEvent { timestamp: None, ..event(last) };
        assert_eq!(timeless(41), timeless(0));
    }
}
