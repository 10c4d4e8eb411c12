//! What changes instances: starts, messages, commits, answers and releases.

use dauer_store::{
    Checkpoint, Committed, Completion, Create, Created, Delivered, DropReason, InstanceId, Item, Message,
    Refused, Release, SessionId,
};

use super::{Partition, TaskKey};
use crate::instance::{
    Absent, Beginning, Birth, Changes, Committer, Completing, Context, Instance, REPEATED, Verdict,
    check_absent, check_absent_create, check_complete, check_start,
};
use crate::judge;

impl Partition {
    /// Changes an instance. The caller writes the changes.
    fn apply<T>(
        &mut self,
        id: &InstanceId,
        change: impl FnOnce(&mut Instance, u64, Context<'_>, &mut Changes) -> T,
    ) -> Option<T> {
        let sequence = self.next_sequence();
        let context = Context { now: self.beside.now, limits: &self.limits };
        let stored = self.instances.get_mut(id)?;
        Some(change(&mut stored.instance, sequence, context, &mut self.changes))
    }

    /// Starts an instance (rule 18).
    ///
    /// # Errors
    /// Those of [`dauer_store::Manage::create`].
    pub fn create(&mut self, create: Create) -> Result<Created, Refused> {
        let id = create.start.to.clone();
        let starting = check_start(create, self.context())?;
        self.pristine = false;
        let stored = self.instances.get(&id);
        let known = self.beside.known(&id, stored);
        let Some(stored) = stored else {
            let Ok(beginning) = check_absent_create(starting, self.context(), &known);
            return Ok(match beginning {
                Beginning::Born(birth) => Created::New(self.bear(birth)),
                Beginning::Repeat(known) => {
                    self.count_dropped(REPEATED, 1);
                    Created::Repeat(known)
                }
            });
        };
        let Ok(creating) = stored.instance.check_create(starting, self.context(), &known);
        let creating = creating?;
        let created = self.apply(&id, |instance, sequence, context, changes| {
            instance.create(creating, sequence, context, changes)
        });
        if let (Some(Created::New(_)), Some(stored)) = (created, self.instances.get_mut(&id)) {
            stored.history.clear();
        }
        self.write(&id);
        // The instance is there: its check said so.
        Ok(created.unwrap_or(Created::Repeat(None)))
    }

    /// Adds a new instance. Returns its run.
    fn bear(&mut self, birth: Box<Birth>) -> dauer_store::ExecutionId {
        let (floor, sequence) = (self.floor(), self.next_sequence());
        let context = Context { now: self.beside.now, limits: &self.limits };
        let instance = birth.apply(floor, sequence, context, &mut self.changes);
        let execution = instance.record.execution;
        self.insert(instance);
        execution
    }

    /// Sends a client's message.
    ///
    /// # Errors
    /// [`Refused::TooLarge`].
    pub fn send(&mut self, message: Message) -> Result<Delivered, Refused> {
        judge::check_message(&self.limits, self.beside.now, &message)?;
        self.pristine = false;
        Ok(self.deliver(message, None))
    }

    /// Puts a message into the inbox of its instance, or counts why not. `sender` is the instance whose commit sends it: what an
    /// instance sends to itself is in the answer to the commit.
    fn deliver(&mut self, message: Message, sender: Option<&InstanceId>) -> Delivered {
        let id = message.to.clone();
        let stored = self.instances.get(&id);
        let known = self.beside.known(&id, stored);
        let Some(stored) = stored else {
            let Ok(absent) = check_absent(message, self.floor(), self.context(), &known);
            return match absent {
                Absent::Born(birth) => {
                    self.bear(birth);
                    Delivered::Applied
                }
                Absent::Dropped(reason) => self.drop_answer(reason),
            };
        };
        let Ok(delivery) = stored.instance.check_delivery(message, self.context(), &known);
        let delivered = self.apply(&id, |instance, sequence, context, changes| {
            if sender == Some(&id) {
                instance.deliver_own(delivery, sequence, context, changes)
            } else {
                instance.deliver(delivery, sequence, context, changes)
            }
        });
        self.write(&id);
        // The instance is there: its check said so.
        delivered.unwrap_or(Delivered::Dropped(DropReason::Absent))
    }

    /// Commits the turn of a session.
    ///
    /// # Errors
    /// Those of [`dauer_store::Work::commit_turns`].
    pub fn commit(&mut self, session: SessionId, checkpoint: &Checkpoint) -> Result<Committed, Refused> {
        self.beside.sessions.acting(session)?;
        self.commit_by(Committer::Session(session), checkpoint)
    }

    /// Commits a change from outside, over the head of the holder.
    ///
    /// # Errors
    /// Those of [`dauer_store::Manage::amend`].
    pub fn amend(&mut self, checkpoint: &Checkpoint) -> Result<Committed, Refused> {
        self.commit_by(Committer::Amendment, checkpoint)
    }

    fn commit_by(&mut self, by: Committer, checkpoint: &Checkpoint) -> Result<Committed, Refused> {
        let id = &checkpoint.fence.instance;
        let stored = self.instances.get(id).ok_or(Refused::Fenced)?;
        self.pristine = false;
        let known = self.beside.known(id, Some(stored));
        let Ok(verdict) = stored.instance.check_commit(by, checkpoint, self.context(), &known);
        let commit = match verdict? {
            Verdict::Commit(commit) => commit,
            Verdict::Repeat => {
                let Ok(committed) = stored.instance.answer_again(by, self.context(), &known);
                return Ok(committed);
            }
        };
        #[cfg(feature = "planted")]
        self.keep_stale(id);
        let taken = self.apply(id, |instance, _, context, changes| instance.commit(commit, context, changes));
        let owner = match by {
            Committer::Session(session) => self.host_of(session),
            Committer::Amendment => None,
        };
        self.write_history(checkpoint, &owner.unwrap_or_else(judge::amender));
        self.write(id);
        let timers = checkpoint.timers.iter().take(if planted!(Defect::LoseTimers) { 2 } else { usize::MAX });
        let messages = checkpoint.messages.iter();
        let messages = messages.take(if planted!(Defect::LoseMessages) { 2 } else { usize::MAX });
        for message in timers.chain(messages) {
            self.deliver(message.clone(), Some(id));
        }
        let stored = self.instances.get(id).ok_or(Refused::Fenced)?;
        let known = self.beside.known(id, Some(stored));
        let Ok(committed) = stored.instance.answer(by, taken.unwrap_or_default(), self.context(), &known);
        Ok(committed)
    }

    #[cfg(feature = "planted")]
    fn keep_stale(&mut self, id: &InstanceId) {
        if let Some(stored) = self.instances.get_mut(id) {
            let record = stored.instance.record.clone();
            stored.stale = planted!(Defect::StaleGet).then(|| Box::new(record));
        }
    }

    /// Answers a task. An answer to a task that the session does not hold is dropped, which is no error.
    ///
    /// # Errors
    /// [`Refused::TooLarge`].
    pub fn complete(&mut self, session: SessionId, completion: Completion) -> Result<Delivered, Refused> {
        judge::check_message(&self.limits, self.beside.now, &completion.answer)?;
        let Completion { fence, answer } = completion;
        let exists = self.exists();
        self.pristine &= !exists;
        let key = (fence.instance.clone(), fence.task);
        let acting = self.beside.sessions.acting(session).is_ok().then_some(session);
        let task = self.beside.tasks.get(&key).map(|row| &row.held);
        let completing = check_complete(task, acting, &fence);
        let goes = completing == Completing::Withdrawn || !planted!(Defect::CompleteTwice);
        if !matches!(completing, Completing::Dropped(_)) && goes {
            self.remove_task(&key);
        }
        Ok(match completing {
            // An answer makes no hub: it may come late, after the hub was deleted.
            Completing::Dropped(reason) if !exists => Delivered::Dropped(reason),
            Completing::Dropped(reason) => self.drop_answer(reason),
            Completing::Withdrawn => self.drop_answer(DropReason::Withdrawn),
            Completing::Answers => self.deliver(answer, None),
        })
    }

    fn drop_answer(&mut self, reason: DropReason) -> Delivered {
        self.count_dropped(reason, 1);
        Delivered::Dropped(reason)
    }

    /// Gives one item back.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold it.
    pub fn release(&mut self, session: SessionId, release: &Release) -> Result<(), Refused> {
        self.beside.sessions.acting(session)?;
        match &release.item {
            Item::Turn(fence) => {
                let id = &fence.instance;
                let stored = self.instances.get(id).ok_or(Refused::Fenced)?;
                let releasing = stored.instance.check_release(session, fence, release)?;
                self.apply(id, |instance, _, context, changes| instance.release(releasing, context, changes));
                self.write(id);
            }
            Item::Task(fence) => {
                let key: TaskKey = (fence.instance.clone(), fence.task);
                let row = self.beside.tasks.get(&key).ok_or(Refused::Fenced)?;
                row.held.check_release(session, fence)?;
                let limits = self.limits.clone();
                let context = Context { now: self.beside.now, limits: &limits };
                self.change_task(&key, |row| row.held.release(release, context));
            }
        }
        Ok(())
    }

    /// Delivers what loaded instances still have in their outbox; a partition itself never has one.
    pub(super) fn relay(&mut self) {
        for id in std::mem::take(&mut self.to_relay) {
            let outbox = self.instances.get_mut(&id).map(|stored| std::mem::take(&mut stored.outbox));
            for message in outbox.unwrap_or_default() {
                self.deliver(message, None);
            }
        }
    }
}
