//! Starting instances.

use dauer_store::{
    Create, Created, Delivered, DropReason, ExecutionId, Message, MessageId, Record, Refused, Reuse,
    Revision, Status,
};
use dauer_store_kit::judge::{self, Creation, opens};

use super::State;
use super::instance::Instance;
use crate::defect::Defect;

impl State {
    /// Starts an instance, in one write.
    pub(crate) fn create(&mut self, create: Create) -> Result<Created, Refused> {
        self.pristine = false;
        self.check_message(&create.start)?;
        let record = judge::start_of(&create)?.record.clone();
        let Create { start: message, reuse, retry } = create;
        let execution = record.execution;
        if let Some(known) = self.repeated(&message, retry) {
            self.count_dropped(DropReason::Repeat, 1);
            let own = self.broken(Defect::RepeatNamesOwnExecution).then_some(execution);
            return Ok(Created::Repeat(own.or(known)));
        }
        let Some(instance) = self.instances.get(&message.to) else {
            self.found(message.to.clone(), record);
            self.put(message);
            return Ok(Created::New(execution));
        };
        let opening = instance.start_waits() && !self.broken(Defect::ReplaceKeepsInbox);
        let reuse = if self.broken(Defect::ExistsIgnored) { any_status() } else { reuse };
        if judge::creation(instance.record.status, opening, &reuse)? == Creation::Replace {
            self.replace(record, message);
            return Ok(Created::New(execution));
        }
        match self.deliver(judge::terminating(message)) {
            Delivered::Dropped(DropReason::Repeat) => Ok(Created::Repeat(None)),
            Delivered::Applied | Delivered::Dropped(_) => Ok(Created::Replacing(execution)),
        }
    }

    /// The run of the same start, if that was accepted before; `Some(None)` when only its id is remembered.
    fn repeated(&self, message: &Message, retry: bool) -> Option<Option<ExecutionId>> {
        let of_instance = self.instances.get(&message.to).and_then(|i| self.repeated_in(i, message.id));
        let removed = || self.is_removed_start(message.id).then_some(None);
        let retry = match retry {
            true => !self.broken(Defect::RetryIgnored),
            false => self.broken(Defect::EqualIsRepeat),
        };
        let equal = || retry.then(|| self.alike(message)).flatten();
        of_instance.or_else(removed).or_else(equal)
    }

    /// The same for a start that its instance knows: also one that another has replaced since.
    fn repeated_in(&self, instance: &Instance, id: MessageId) -> Option<Option<ExecutionId>> {
        let record = &instance.record;
        if record.start == id && !self.broken(Defect::RepeatedStartCreatesAgain) {
            return Some(Some(record.execution));
        }
        if let Some(waiting) = instance.waiting(id).filter(|_| record.start != id) {
            return Some(opens(waiting).map(|start| start.record.execution));
        }
        let gave_way = instance.applied.contains(id, self.now());
        (gave_way && !self.broken(Defect::RepeatAfterReplacement)).then_some(None)
    }

    /// Puts a new instance in the place of an ended one: record, inbox, history, tasks and timers. The epoch rises, so that
    /// nobody's fence on the old one passes; the revision goes on, and so does the memory of what was applied.
    fn replace(&mut self, record: Record, message: Message) {
        let id = message.to.clone();
        for key in self.tasks_of(&id) {
            self.take_task_from_holder(&key);
            self.discard_task(&key);
        }
        let Some(old) = self.remove_instance(&id) else { return };
        let resets = self.broken(Defect::ReplaceResetsRevision);
        let revision = if resets { Revision::default() } else { old.record.revision.next() };
        let epoch = if self.broken(Defect::ReplaceKeepsEpoch) { old.epoch } else { old.epoch.next() };
        let mut new = Instance::new(judge::newborn(record, revision, self.now()), epoch);
        if !self.broken(Defect::MemoryClearedByReplace) {
            new.applied = old.applied;
        }
        if !self.broken(Defect::ReplacedStartForgotten) {
            new.applied.insert(old.record.start, self.now());
        }
        self.start_is_gone(&old.record);
        if self.broken(Defect::ReplaceKeepsInbox) {
            new.inbox = old.inbox;
        } else {
            // Only starts and rewinds wait for an ended instance; another start has run before them now.
            let waiting = old.prologue.iter().chain(old.inbox.iter()).filter(|m| opens(m).is_some()).count();
            self.count_dropped(DropReason::Running, waiting as u64);
        }
        self.insert_instance(id, new);
        self.put(message);
    }
}

/// The policy that replaces every instance.
fn any_status() -> Reuse {
    let living = [Status::Pending, Status::Running, Status::Suspended];
    Reuse { replaceable: Reuse::default().replaceable.into_iter().chain(living).collect() }
}
