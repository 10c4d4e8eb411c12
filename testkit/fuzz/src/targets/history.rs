//! Stored batches and messages: decoded, absorbed, and a whole turn taken from them.

use bytes::Bytes;
use dauer_core::ledger::{Ledger, LedgerError};
use dauer_core::limits::TurnLimits;
use dauer_core::model::{
    Batch, BlobError, Class, Encoded, FORMAT, Fate, Message, Origin, Over, Parent, Record, Status,
    TroubleKind,
};
use dauer_core::send::{self, Caller, StartRequest};
use dauer_core::turn::{self, Answer, Finished, Found, Input, Plan, Stalled};
use dauer_core::workitem::{Assembled, Assembly};
use dauer_core::{ExecutionId, InstanceId, MessageId, Timestamp};
use dauer_proto::{HistoryEvent, OrchestratorResponse, failure, time};
use prost::Message as _;

use super::{check, event};
use crate::Verdict;

/// The instance that all targets are about.
pub(crate) const INSTANCE: &str = "order-7";

/// One stored batch, as an input of a target holds it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StoredBatch {
    /// How many events the store says there are.
    #[prost(uint32, tag = "1")]
    pub count: u32,
    /// Which of the events came from messages.
    #[prost(uint32, repeated, tag = "2")]
    pub fates: Vec<u32>,
    /// The blob.
    #[prost(bytes = "vec", tag = "3")]
    pub blob: Vec<u8>,
}

/// What a store gives a host when it claims an instance, and what the worker then answers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Stored {
    /// The history.
    #[prost(message, repeated, tag = "1")]
    pub batches: Vec<StoredBatch>,
    /// The encoded events of the messages that wait.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub messages: Vec<Vec<u8>>,
    /// The store's time.
    #[prost(int64, tag = "3")]
    pub now: i64,
    /// An encoded [`OrchestratorResponse`].
    #[prost(bytes = "vec", tag = "4")]
    pub answer: Vec<u8>,
}

/// What the batches come to.
pub(crate) struct Past {
    pub(crate) ledger: Ledger,
    pub(crate) events: Vec<HistoryEvent>,
    pub(crate) bytes: u64,
}

/// Never a panic: a typed refusal, or a checkpoint that keeps core's own invariants.
pub(crate) fn run(bytes: &[u8]) -> Verdict {
    let Ok(input) = Stored::decode(bytes) else { return Verdict::refused("container") };
    let past = match absorb(&input) {
        Ok(past) => past,
        Err(refused) => return refused,
    };
    let claimed = claim(&input, &past);
    let ledger = &past.ledger;
    force(&claimed, ledger);
    let plan = match turn::begin(claimed.clone(), ledger) {
        Ok(plan) => plan,
        Err(stalled) => {
            check::refusal(&stalled);
            return Verdict::refused("begin");
        }
    };
    assert!(plan.now() >= ledger.now(), "time goes backwards");
    if plan.is_run() {
        give_up(&claimed, ledger, &plan);
        let answer = answer(&input);
        taken(&claimed, ledger, |ledger| {
            turn::finish(plan.clone(), ledger, answer.clone(), &TurnLimits::default())
        })
        .map_or(Verdict::refused("finish"), |_| Verdict::accepted("turn"))
    } else {
        assert!(plan.new_events().is_empty());
        taken(&claimed, ledger, |ledger| turn::settle(plan.clone(), ledger))
            .map_or(Verdict::refused("settle"), |_| Verdict::accepted("settled"))
    }
}

/// Takes the same turn twice: the same comes of it, and it keeps the invariants.
pub(crate) fn taken(
    input: &Input,
    ledger: &Ledger,
    take: impl Fn(Ledger) -> Result<Finished, Stalled>,
) -> Result<Finished, Stalled> {
    match (take(ledger.clone()), take(ledger.clone())) {
        (Ok(finished), Ok(again)) => {
            assert!(finished.checkpoint == again.checkpoint, "the same turn gives another checkpoint");
            assert!(finished.ledger == again.ledger, "the same turn gives another ledger");
            check::finished(input, ledger, &finished, &TurnLimits::default());
            Ok(finished)
        }
        (Err(stalled), Err(again)) => {
            assert_eq!(stalled, again, "the same turn is refused for another reason");
            check::refusal(&stalled);
            Err(stalled)
        }
        _ => panic!("the same turn is taken once and refused once"),
    }
}

/// A run can always be ended from outside, whatever its history holds.
fn force(input: &Input, ledger: &Ledger) {
    if !input.record.status.is_ended() {
        let caller = Caller { request: 2, repeatable: true, now: input.now };
        let terminate = send::terminate(instance(), Some("enough".into()), true, caller)
            .unwrap_or_else(|error| panic!("{error}"));
        let start = own_start().0;
        let start = Some(start).filter(|_| ledger.started().is_none());
        let forced = Input { messages: start.iter().chain([&terminate]).cloned().collect(), ..input.clone() };
        let ended = taken(&forced, ledger, |ledger| {
            let (fence, record, start) = (input.fence.clone(), input.record.clone(), start.clone());
            let found = Found { fence, record, ledger, start, overtaken: Vec::new(), now: input.now };
            turn::amend(found, &terminate)?
                .ok_or_else(|| Stalled::new(TroubleKind::InvalidAnswer, "nothing has changed"))
        });
        assert!(ended.is_ok(), "a run that cannot be terminated: {:?}", ended.err());
    }
}

fn give_up(input: &Input, ledger: &Ledger, plan: &Plan) {
    // It may be refused: the events that wait may not fit the history. What counts are the claims inside.
    let _ = taken(input, ledger, |ledger| {
        turn::fail(plan.clone(), ledger, failure::failure("Boom", "the code does not fit"))
    });
}

/// Reads the batches one by one, as a host does that has never seen the instance.
pub(crate) fn absorb(input: &Stored) -> Result<Past, Verdict> {
    let (instance, execution) = (instance(), own_start().1.execution);
    let mut past = Past { ledger: Ledger::new(instance, execution), events: Vec::new(), bytes: 0 };
    for (number, batch) in (0_u128..).zip(&input.batches) {
        let events = content(Encoded::from_stored(Bytes::copy_from_slice(&batch.blob)));
        let source = |index: u32| MessageId((number << 64 | u128::from(index)).to_be_bytes());
        let consumed = batch.fates.iter().map(|index| (source(*index), Fate::Event(*index))).collect();
        past.bytes += batch.blob.len() as u64;
        let batch = Batch { count: batch.count, events, consumed, produced: Vec::new() };
        let before = past.ledger.clone();
        match past.ledger.absorb(&check::stored(batch.clone())) {
            Ok(events) => {
                rewritten(before, &batch, &events, &past.ledger);
                past.events.extend(events);
            }
            Err(LedgerError::Blob(error)) => {
                assert_eq!(batch.decode().err(), Some(error), "the ledger has another reason than the batch");
                return Err(Verdict::refused("blob"));
            }
            Err(LedgerError::StillOpen(_)) => return Err(Verdict::refused("still open")),
            Err(LedgerError::Target { .. }) => return Err(Verdict::refused("target")),
            Err(other) => panic!("an error that this target does not know: {other}"),
        }
    }
    Ok(past)
}

/// The format byte decides, and nothing else.
fn content(encoded: Encoded) -> Encoded {
    let expected = match encoded.stored().split_first() {
        None => Err(BlobError::Empty),
        Some((&FORMAT, rest)) => Ok(rest),
        Some((&other, _)) => Err(BlobError::Format(other)),
    };
    assert_eq!(encoded.content(), expected);
    if let Ok(event) = encoded.event() {
        event::round_trip(&event);
        let again = Encoded::new(&event).event();
        assert_eq!(again.as_ref().map(Encoded::new), Ok(Encoded::new(&event)));
    }
    encoded
}

/// Events that were read are written again as a batch that reads the same, and comes to the same ledger.
fn rewritten(mut before: Ledger, batch: &Batch, events: &[HistoryEvent], after: &Ledger) {
    assert_eq!(events.len(), batch.count as usize);
    assert_eq!(before.events() + batch.count, after.events());
    assert!(after.open_count() <= after.events() as usize);
    events.iter().for_each(event::round_trip);
    let encoded: Vec<_> = events.iter().map(Encoded::new).collect();
    match Batch::join(&encoded, batch.consumed.clone(), Vec::new()) {
        Ok(joined) => {
            let again = before.absorb(&check::stored(joined));
            let again = again.unwrap_or_else(|error| panic!("a rewritten batch cannot be read: {error}"));
            assert!(again.iter().map(Encoded::new).eq(encoded), "a batch changes when it is rewritten");
            assert!(before == *after, "a rewritten batch comes to another ledger");
        }
        Err(error) => panic!("events just encoded cannot be joined: {error}"),
    }
}

pub(crate) fn instance() -> InstanceId {
    InstanceId::new(INSTANCE).unwrap_or_else(|error| panic!("{error}"))
}

/// The start of the instance, and the record it makes.
pub(crate) fn own_start() -> (Message, Record) {
    let caller = Caller { request: 1, repeatable: true, now: Timestamp(1_000) };
    let request = StartRequest { input: Some("3".into()), ..StartRequest::new(instance(), "order") };
    let start =
        send::start(request, ExecutionId(1), caller, Over::Refuse).unwrap_or_else(|error| panic!("{error}"));
    let Class::Start(begun) = &start.class else { panic!("a start that is none") };
    let record = begun.record(start.id);
    (start, record)
}

/// What the store hands out with that history and those messages.
pub(crate) fn claim(input: &Stored, past: &Past) -> Input {
    let (start, mut record) = own_start();
    (record.history_len, record.history_bytes) = (past.ledger.events(), past.bytes);
    record.status = match () {
        () if past.ledger.is_ended() => Status::Completed,
        () if past.ledger.is_suspended() => Status::Suspended,
        () if past.ledger.started().is_some() => Status::Running,
        () => Status::Pending,
    };
    // Someone waits for the end, so that every end has to be told.
    let Ok(parent) = InstanceId::new("parent") else { panic!("a plain id is refused") };
    record.parent = Some(Box::new(Parent { instance: parent, execution: ExecutionId(9), event_id: 3 }));
    let mut messages = if past.ledger.started().is_none() { vec![start] } else { Vec::new() };
    messages.extend((0_u128..).zip(&input.messages).map(|(number, event)| Message {
        id: MessageId((u128::MAX - number).to_be_bytes()),
        to: instance(),
        execution: None,
        class: Class::Ordinary,
        origin: Origin::Client { request: None },
        answers: None,
        visible_at: Timestamp(0),
        event: content(Encoded::from_stored(Bytes::copy_from_slice(event))),
    }));
    // A store's clock is a clock: within the years that can be written.
    let now = Timestamp(input.now.clamp(0, time::MILLIS_MAX));
    Input { fence: check::fence(&instance(), &record), record, messages, completions: Vec::new(), now }
}

/// The answer, or none when it is not one.
fn answer(input: &Stored) -> Answer {
    let Ok(response) = OrchestratorResponse::decode(input.answer.as_slice()) else {
        return Answer::default();
    };
    match Assembly::default().add(response, &TurnLimits::default()) {
        Ok(Assembled::Whole(answer)) => answer,
        _ => Answer::default(),
    }
}
