//! Starts by clients (18).

use dauer_store::{
    Cause, Class, Create, Created, Delivered, DropReason, Message, Over, Record, Refused, Revision, Status,
    Times,
};

use super::State;
use super::inbox::{Instance, opens};
use crate::mistake::Mistake as M;

impl State {
    /// Starts an instance.
    pub(crate) fn create(&mut self, create: Create) -> Result<Created, Refused> {
        self.used = true;
        let Create { start: mut message, reuse, retry } = create;
        self.check_message(&message)?;
        let Class::Start(start) = &mut message.class else {
            return Err(Refused::NotExecuted(Cause::new("only a start creates an instance")));
        };
        let record = start.record(message.id);
        let execution = record.execution;
        if let Some(run) = self.repeated(&message, retry) {
            self.count(DropReason::Repeat, 1);
            let own = Some(execution).filter(|_| self.makes(M::RepeatNamesOwnExecution));
            return Ok(Created::Repeat(own.or(run)));
        }
        let Some(instance) = self.instances.get(&message.to) else {
            self.begin(message.to.clone(), record);
            self.put(message);
            return Ok(Created::New(execution));
        };
        let mut status = instance.record.status;
        // What was acknowledged first is carried out first.
        if status.is_ended() && instance.openings().next().is_some() && !self.makes(M::ReplaceKeepsInbox) {
            status = Status::Pending;
        }
        if !reuse.replaceable.contains(&status) && !self.makes(M::ExistsIgnored) {
            return Err(Refused::Exists(status));
        }
        if status.is_ended() {
            self.replace(record, message);
            return Ok(Created::New(execution));
        }
        if let Class::Start(start) = &mut message.class {
            start.over = Over::Terminate;
        }
        match self.deliver(message) {
            Delivered::Dropped(DropReason::Repeat) => Ok(Created::Repeat(None)),
            Delivered::Applied | Delivered::Dropped(_) => Ok(Created::Replacing(execution)),
        }
    }

    /// Puts a new instance in the place of an ended one. Revision and memory go on, and the epoch rises.
    fn replace(&mut self, record: Record, message: Message) {
        let id = message.to.clone();
        self.withdraw_all(&id);
        self.take_turn_from_holder(&id);
        let Some(old) = self.instances.remove(&id) else { return };
        let resets = self.makes(M::ReplaceResetsRevision);
        let revision = if resets { Revision::default() } else { old.record.revision.next() };
        let epoch = if self.makes(M::ReplaceKeepsEpoch) { old.epoch } else { old.epoch.next() };
        let mut new = Instance::new(self.newborn(record, revision), epoch);
        if !self.makes(M::MemoryClearedByReplace) {
            new.memory = old.memory.clone();
        }
        if !self.makes(M::ReplacedStartForgotten) {
            new.remember(old.record.start, self.now());
        }
        self.start_is_gone(&old.record);
        if self.makes(M::ReplaceKeepsInbox) {
            new.inbox = old.inbox;
        } else {
            self.count(DropReason::Running, old.waiting().filter(|m| opens(m).is_some()).count());
        }
        self.instances.insert(id, new);
        self.put(message);
    }

    /// The record of a new instance: nothing has happened to it (5).
    pub(super) fn newborn(&self, record: Record, revision: Revision) -> Record {
        let now = self.now();
        let scheduled = record.times.scheduled;
        let times = Times { created: now, accepted: now, updated: now, scheduled, completed: None };
        Record { revision, times, history_len: 0, history_bytes: 0, attempts: 0, trouble: None, ..record }
    }
}
