//! Starting instances.

use dauer_store::{Create, Created, Delivered, DropReason, ExecutionId, Message, Record};
use dauer_store_kit::judge::{self, Creation};

use super::Scope;
use super::instance::Instance;
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Starts an instance, in one write.
    pub(crate) fn create(&mut self, create: &Create) -> Outcome<Created> {
        let Create { start: message, reuse, retry } = create;
        self.check_message(message)?;
        let start = judge::start_of(create)?;
        let execution = start.record.execution;
        let instance = self.fetch(&message.to)?;
        if let Some(known) = self.repeated(instance.as_deref(), message, *retry)? {
            if let Some(instance) = instance {
                self.put_back(instance);
            }
            self.count_dropped(DropReason::Repeat, 1)?;
            return Ok(Created::Repeat(known));
        }
        let Some(instance) = instance else {
            self.touch()?;
            self.found(start.record.clone(), message.clone())?;
            return Ok(Created::New(execution));
        };
        let status = instance.record.status;
        let opening = status.is_ended() && self.start_waits(&instance)?;
        let creation = judge::creation(status, opening, reuse)?;
        self.touch()?;
        if creation == Creation::Replace {
            let record = start.record.clone();
            self.replace(instance, record, message.clone())?;
            return Ok(Created::New(execution));
        }
        match self.deliver(judge::terminating(message.clone()))? {
            Delivered::Dropped(DropReason::Repeat) => Ok(Created::Repeat(None)),
            Delivered::Applied | Delivered::Dropped(_) => Ok(Created::Replacing(execution)),
        }
    }

    /// The run of the same start, if that was accepted before; `Some(None)` when only its id is remembered.
    fn repeated(
        &mut self,
        instance: Option<&Instance>,
        message: &Message,
        retry: bool,
    ) -> Outcome<Option<Option<ExecutionId>>> {
        if let Some(instance) = instance {
            let record = &instance.record;
            if record.start == message.id {
                return Ok(Some(Some(record.execution)));
            }
            if self.waits(instance, message.id)? {
                let waiting = self.start_that_waits(instance, message.id)?;
                return Ok(Some(waiting.map(|start| start.record.execution)));
            }
            // Another start has replaced its run.
            if instance.remembered > 0 && self.is_applied(instance.key, message.id)? {
                return Ok(Some(None));
            }
        }
        if self.repeats_removed_start(message)? {
            return Ok(Some(None));
        }
        if retry { self.alike(instance, message) } else { Ok(None) }
    }

    /// Puts a new instance in the place of an ended one: record, inbox, history, tasks and timers. The epoch rises, so that
    /// nobody's fence on the old one passes; the revision goes on, and so does the memory of what was applied.
    fn replace(&mut self, mut old: Box<Instance>, record: Record, message: Message) -> Outcome<()> {
        self.discard_tasks_of(&mut old)?;
        let record = judge::newborn(record, old.record.revision.next(), self.now);
        let (id, epoch) = (old.id.clone(), old.epoch.next());
        // Only starts and rewinds wait for an ended instance; another start has run before them now.
        let superseded = self.count_starts(&old)?;
        self.count_dropped(DropReason::Running, superseded)?;
        let (replaced, memory) = (old.record.start, self.applied(old.key)?);
        self.start_is_gone(&old.record)?;
        self.store_hub()?;
        self.remove_instance(old)?;
        let queue = self.queue_key(&record.queue)?;
        let mut new = self.inserted(Instance::new(id, record, (queue, epoch)), message)?;
        for (id, at) in memory.into_iter().chain([(replaced, self.now)]) {
            self.remember(&mut new, id, at)?;
        }
        self.store_all(&mut new)?;
        self.put_back(new);
        Ok(())
    }
}
