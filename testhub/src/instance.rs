//! One instance, with what a store holds of it. Which messages it takes, and which of them a turn gets, is decided by the
//! stores' rule book, as in every store.

use std::convert::Infallible;

use dauer_core::ledger::Ledger;
use dauer_core::model::{Fence, History, Message, Record};
use dauer_core::turn::{Finished, Input};
use dauer_core::{Epoch, ExecutionId, InstanceId, Revision, Timestamp};
use dauer_proto::HistoryEvent;
use dauer_store_kit::inbox::{
    self, Admission, Candidate, OpenedRun, Room, TurnBatch, begins_alone, is_for_next_run, is_for_run, leads,
    next_turn, outlives_end,
};
use dauer_store_kit::judge::{Facts, follows_end, is_own_start, newborn, why_dropped};

/// The one host of a test never loses an instance to another.
const EPOCH: Epoch = Epoch(1);

pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    pub(crate) record: Record,
    pub(crate) ledger: Ledger,
    pub(crate) history: Vec<HistoryEvent>,
    prologue: Vec<Message>,
    inbox: Vec<Message>,
}

impl Instance {
    /// A new instance. Its start is delivered next.
    pub(crate) fn created(id: InstanceId, record: Record, now: Timestamp) -> Self {
        let record = newborn(record, Revision::default(), now);
        let ledger = Ledger::new(id.clone(), record.execution);
        Self { id, record, ledger, history: Vec::new(), prologue: Vec::new(), inbox: Vec::new() }
    }

    /// Takes a message in, unless the rules drop it.
    pub(crate) fn deliver(&mut self, mut message: Message, now: Timestamp) {
        let waits = self.waiting().any(|waiting| waiting.id == message.id);
        // The start that creates the instance is delivered once; a second one of the same id waits, or has begun the run.
        let begun = is_own_start(&self.record, &message) && !self.history.is_empty();
        let for_next_run =
            follows_end(&self.record, &message) && is_for_next_run(&self.openings(), message.execution);
        if why_dropped(&self.record, &message, Facts { repeats: waits || begun, for_next_run }).is_none() {
            inbox::arrive(&mut message, now);
            self.inbox.push(message);
        }
    }

    /// All that waits, in order.
    fn waiting(&self) -> impl Iterator<Item = &Message> {
        self.prologue.iter().chain(&self.inbox)
    }

    fn openings(&self) -> Vec<OpenedRun<usize>> {
        self.waiting().enumerate().filter_map(|(at, message)| OpenedRun::of(at, message)).collect()
    }

    /// The messages of the next turn, if there is one.
    fn batch<'a>(&'a self, now: Timestamp) -> Option<TurnBatch> {
        let record = &self.record;
        let candidate = |message: &'a Message| Candidate {
            key: message.id,
            bytes: message.event.len(),
            suspends: message.is_suspend(),
            message,
        };
        let own_start_waits = self.waiting().any(|message| is_own_start(record, message));
        let admission = Admission::of(record, own_start_waits);
        let start = self.waiting().find(|message| leads(record, message));
        let start = start.map(|start| (candidate(start), begins_alone(record, start.visible_at, now)));
        let visible = self.waiting().filter(|message| message.visible_at <= now && admission.admits(message));
        let read = |found: Candidate<_, &Message>| Ok::<_, Infallible>(found.message.clone());
        let room = Room { bytes: usize::MAX, whatever_size: true };
        next_turn(start, visible.map(candidate), room, read).unwrap_or_else(|never| match never {})
    }

    /// Whether there is something for a turn.
    pub(crate) fn is_ready(&self, now: Timestamp) -> bool {
        self.batch(now).is_some()
    }

    pub(crate) fn input(&self, now: Timestamp) -> Input {
        let (execution, revision) = (self.record.execution, self.record.revision);
        let fence = Fence { instance: self.id.clone(), execution, revision, epoch: EPOCH };
        let messages = self.batch(now).unwrap_or_default().messages;
        let record = self.record.clone();
        Input { fence, record, messages, completions: Vec::new(), now }
    }

    /// Applies what a turn changed in this instance. Answers with the run that it ended, if it did.
    pub(crate) fn apply(&mut self, finished: Finished, now: Timestamp) -> Option<ExecutionId> {
        let Finished { checkpoint, details, ledger, events } = finished;
        let before = self.record.execution;
        let waits = |message: &Message| !checkpoint.consumed.contains(&message.id);
        self.prologue.retain(waits);
        self.inbox.retain(waits);
        self.record = checkpoint.record.after(&details);
        self.record.revision = checkpoint.fence.revision.next();
        self.record.times.updated = now;
        self.ledger = ledger;
        match checkpoint.history {
            History::Append(_) => self.history.extend(events),
            History::Replace { prologue, .. } => {
                self.history = events;
                // What the old prologue still holds was not consumed: it stays, after the new one.
                self.prologue.splice(0..0, prologue);
            }
        }
        let over = self.record.status.is_ended() || self.record.execution != before;
        if over {
            self.drop_of_run();
        }
        over.then_some(before)
    }

    /// Drops what the run that is over leaves behind.
    fn drop_of_run(&mut self) {
        let execution = self.record.execution;
        self.inbox.retain(|message| is_for_run(message, execution) || OpenedRun::of((), message).is_some());
        if !self.record.status.is_ended() {
            return;
        }
        let openings = self.openings();
        let mut at = 0;
        let mut stays = |message: &Message| {
            at += 1;
            outlives_end(&openings, &(at - 1), message)
        };
        self.prologue.retain(&mut stays);
        self.inbox.retain(&mut stays);
    }
}
