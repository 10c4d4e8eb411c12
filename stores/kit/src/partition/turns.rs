//! What changes instances: starts, messages, commits, answers and releases.

use dauer_store::{
    Checkpoint, Committed, Completion, Create, Created, Delivered, DropReason, InstanceId, Item, Message,
    Refused, Release, SessionId,
};

use super::{Partition, TaskKey};
use crate::instance::{
    Absent, Beginning, Birth, Committer, Completing, Context, REPEATED, Verdict, check_absent,
    check_absent_create, check_complete, check_start,
};
use crate::judge;

impl Partition {
    /// Starts an instance (rule 18).
    ///
    /// # Errors
    /// Those of [`dauer_store::Manage::create`].
    pub fn create(&mut self, create: Create) -> Result<Created, Refused> {
        let id = create.start.to.clone();
        let starting = check_start(create, self.lists.context())?;
        self.pristine = false;
        let lists = &mut self.lists;
        let Some(stored) = self.instances.get_mut(&id) else {
            let known = lists.beside.known_absent(self.orphans.get(&id));
            let Ok(beginning) = check_absent_create(starting, lists.context(), &known);
            return Ok(match beginning {
                Beginning::Born(birth) => Created::New(self.bear(birth)),
                Beginning::Repeat(known) => {
                    lists.count_dropped(REPEATED, 1);
                    Created::Repeat(known)
                }
            });
        };
        let known = lists.beside.known(stored);
        let Ok(creating) = stored.instance.check_create(starting, lists.context(), &known);
        let creating = creating?;
        let created = lists.apply(&mut stored.instance, |instance, sequence, context, changes| {
            instance.create(creating, sequence, context, changes)
        });
        if let Created::New(_) = created {
            stored.history.clear();
        }
        lists.write(&id, stored);
        Ok(created)
    }

    /// Adds a new instance. Returns its run.
    fn bear(&mut self, birth: Box<Birth>) -> dauer_store::ExecutionId {
        let (floor, sequence) = (self.lists.floor(), self.lists.next_sequence());
        let context = Context { now: self.lists.beside.now, limits: &self.lists.limits };
        let instance = birth.apply(floor, sequence, context, &mut self.lists.changes);
        let execution = instance.record.execution;
        let tasks = self.orphans.remove(instance.id()).unwrap_or_default();
        self.insert(instance, tasks);
        execution
    }

    /// Sends a client's message.
    ///
    /// # Errors
    /// [`Refused::TooLarge`].
    pub fn send(&mut self, message: Message) -> Result<Delivered, Refused> {
        judge::check_message(&self.lists.limits, self.lists.beside.now, &message)?;
        self.pristine = false;
        Ok(self.deliver(message, None))
    }

    /// Puts a message into the inbox of its instance, or counts why not. `sender` is the instance whose commit sends it: what an
    /// instance sends to itself is in the answer to the commit.
    fn deliver(&mut self, message: Message, sender: Option<&InstanceId>) -> Delivered {
        let id = message.to.clone();
        let lists = &mut self.lists;
        let Some(stored) = self.instances.get_mut(&id) else {
            let known = lists.beside.known_absent(self.orphans.get(&id));
            let Ok(absent) = check_absent(message, lists.floor(), lists.context(), &known);
            return match absent {
                Absent::Born(birth) => {
                    self.bear(birth);
                    Delivered::Applied
                }
                Absent::Dropped(reason) => self.drop_answer(reason),
            };
        };
        let known = lists.beside.known(stored);
        let Ok(delivery) = stored.instance.check_delivery(message, lists.context(), &known);
        let delivered = lists.apply(&mut stored.instance, |instance, sequence, context, changes| {
            if sender == Some(&id) {
                instance.deliver_own(delivery, sequence, context, changes)
            } else {
                instance.deliver(delivery, sequence, context, changes)
            }
        });
        lists.write(&id, stored);
        delivered
    }

    /// Commits the turn of a session.
    ///
    /// # Errors
    /// Those of [`dauer_store::Work::commit_turns`].
    pub fn commit(&mut self, session: SessionId, checkpoint: &Checkpoint) -> Result<Committed, Refused> {
        self.lists.beside.sessions.acting(session)?;
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
        let (stored, lists) = (self.instances.get_mut(id).ok_or(Refused::Fenced)?, &mut self.lists);
        self.pristine = false;
        let known = lists.beside.known(stored);
        let Ok(verdict) = stored.instance.check_commit(by, checkpoint, lists.context(), &known);
        let commit = match verdict? {
            Verdict::Commit(commit) => commit,
            Verdict::Repeat => {
                let Ok(committed) = stored.instance.answer_again(by, lists.context(), &known);
                return Ok(committed);
            }
        };
        #[cfg(feature = "planted")]
        stored.keep_stale();
        let taken = lists.apply(&mut stored.instance, |instance, _, context, changes| {
            instance.commit(commit, context, changes)
        });
        let owner = match by {
            Committer::Session(session) => lists.host_of(session),
            Committer::Amendment => None,
        };
        lists.write_history(stored, checkpoint, &owner.unwrap_or_else(judge::amender));
        lists.write(id, stored);
        let stored = if checkpoint.timers.is_empty() && checkpoint.messages.is_empty() {
            &*stored
        } else {
            self.deliver_sent(checkpoint);
            self.instances.get(id).ok_or(Refused::Fenced)?
        };
        let (context, known) = (self.lists.context(), self.lists.beside.known(stored));
        let Ok(committed) = stored.instance.answer(by, taken, context, &known);
        Ok(committed)
    }

    /// Delivers what a commit sends.
    fn deliver_sent(&mut self, checkpoint: &Checkpoint) {
        let timers = checkpoint.timers.iter().take(if planted!(Defect::LoseTimers) { 2 } else { usize::MAX });
        let messages = checkpoint.messages.iter();
        let messages = messages.take(if planted!(Defect::LoseMessages) { 2 } else { usize::MAX });
        for message in timers.chain(messages) {
            self.deliver(message.clone(), Some(&checkpoint.fence.instance));
        }
    }

    /// Answers a task. An answer to a task that the session does not hold is dropped, which is no error.
    ///
    /// # Errors
    /// [`Refused::TooLarge`].
    pub fn complete(&mut self, session: SessionId, completion: Completion) -> Result<Delivered, Refused> {
        judge::check_message(&self.lists.limits, self.lists.beside.now, &completion.answer)?;
        let Completion { fence, answer } = completion;
        let exists = self.exists();
        self.pristine &= !exists;
        let key = (fence.instance.clone(), fence.task);
        let acting = self.lists.beside.sessions.acting(session).is_ok().then_some(session);
        let task = self.task(&key).map(|row| &row.held);
        let completing = check_complete(task, acting, &fence);
        let goes = completing == Completing::Withdrawn || !planted!(Defect::CompleteTwice);
        if !matches!(completing, Completing::Dropped(_)) && goes {
            self.change_tasks(&key.0, |lists, tasks| lists.remove_task(tasks, key.1));
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
        self.lists.count_dropped(reason, 1);
        Delivered::Dropped(reason)
    }

    /// Gives one item back.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold it.
    pub fn release(&mut self, session: SessionId, release: &Release) -> Result<(), Refused> {
        self.lists.beside.sessions.acting(session)?;
        match &release.item {
            Item::Turn(fence) => {
                let id = &fence.instance;
                let stored = self.instances.get_mut(id).ok_or(Refused::Fenced)?;
                let lists = &mut self.lists;
                let asked = (lists.context(), &lists.beside.known(stored));
                let Ok(releasing) = stored.instance.check_release(session, fence, release, asked);
                let releasing = releasing?;
                lists.apply(&mut stored.instance, |instance, _, _, changes| {
                    instance.release(releasing, changes)
                });
                lists.write(id, stored);
            }
            Item::Task(fence) => {
                let key: TaskKey = (fence.instance.clone(), fence.task);
                let row = self.task(&key).ok_or(Refused::Fenced)?;
                row.held.check_release(session, fence)?;
                let limits = self.lists.limits.clone();
                let context = Context { now: self.lists.beside.now, limits: &limits };
                self.change_task(&key, |row| row.held.release(release, context));
            }
        }
        Ok(())
    }

    /// Delivers what loaded instances still have in their outbox; a partition itself never has one.
    pub(super) fn relay(&mut self) {
        for id in std::mem::take(&mut self.lists.to_relay) {
            let outbox = self.instances.get_mut(&id).map(|stored| std::mem::take(&mut stored.outbox));
            for message in outbox.unwrap_or_default() {
                self.deliver(message, None);
            }
        }
    }
}

#[cfg(feature = "planted")]
impl super::Stored {
    fn keep_stale(&mut self) {
        let record = self.instance.record.clone();
        self.stale = planted!(Defect::StaleGet).then(|| Box::new(record));
    }
}
