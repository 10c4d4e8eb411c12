//! One instance, with what a store holds of it.

use dauer_core::ledger::Ledger;
use dauer_core::model::{Class, Fence, History, Message, Record, Start, Status};
use dauer_core::turn::{Finished, Input};
use dauer_core::{Epoch, ExecutionId, InstanceId, Timestamp};
use dauer_proto::HistoryEvent;

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
    /// The instance that a start brings into being. The start itself is yet to be delivered.
    pub(crate) fn created(id: InstanceId, start: &Start, now: Timestamp) -> Self {
        let mut record = start.record.clone();
        record.times.created = now;
        let ledger = Ledger::new(id.clone(), record.execution);
        Self { id, record, ledger, history: Vec::new(), prologue: Vec::new(), inbox: Vec::new() }
    }

    /// Takes a message in, unless it has come too late.
    pub(crate) fn deliver(&mut self, message: Message) {
        if self.is_for(&message) {
            self.inbox.push(message);
        }
    }

    fn is_for(&self, message: &Message) -> bool {
        let current = message.execution.is_none_or(|execution| execution == self.record.execution);
        let ended = self.record.status.is_ended();
        current && (!ended || matches!(message.class, Class::Start(_) | Class::Rewind(_)))
    }

    /// The messages for a turn: the prologue, then the inbox, as far as they are admitted. A run that has not begun has
    /// its start, which comes first and lets the others in.
    fn claim(&self) -> Vec<Message> {
        let own = |message: &&Message| match &message.class {
            Class::Start(start) => start.record.execution == self.record.execution,
            _ => false,
        };
        let waiting = || self.prologue.iter().chain(&self.inbox);
        let first = waiting().find(own).filter(|_| self.record.status == Status::Pending);
        let admitted = |message: &&Message| first.is_some() || self.record.hold.admits(message);
        let rest =
            waiting().filter(|message| first.is_none_or(|first| first.id != message.id)).filter(admitted);
        first.into_iter().chain(rest).cloned().collect()
    }

    /// Whether there is something for a turn.
    pub(crate) fn is_ready(&self) -> bool {
        !self.claim().is_empty()
    }

    pub(crate) fn input(&self, now: Timestamp) -> Input {
        let (execution, revision) = (self.record.execution, self.record.revision);
        let fence = Fence { instance: self.id.clone(), execution, revision, epoch: EPOCH };
        let (record, messages) = (self.record.clone(), self.claim());
        Input { fence, record, messages, completions: Vec::new(), now }
    }

    /// Applies what a turn changed in this instance. Answers with the run that it ended, if it did.
    pub(crate) fn apply(&mut self, finished: Finished, now: Timestamp) -> Option<ExecutionId> {
        let Finished { checkpoint, ledger, events } = finished;
        let before = self.record.execution;
        let waits = |message: &Message| !checkpoint.consumed.contains(&message.id);
        self.prologue.retain(waits);
        self.inbox.retain(waits);
        self.record = checkpoint.record;
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
            self.prologue =
                std::mem::take(&mut self.prologue).into_iter().filter(|it| self.is_for(it)).collect();
            self.inbox = std::mem::take(&mut self.inbox).into_iter().filter(|it| self.is_for(it)).collect();
        }
        over.then_some(before)
    }
}
