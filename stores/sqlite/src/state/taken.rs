//! Tasks that lie in the row of their instance, or in the tail of its history.
//!
//! A commit may take the tasks it schedules. As long as the session that took them also holds their instance, nobody
//! else can have them, and no claim looks for them: they need no rows of their own, and come and go with what
//! every turn writes anyway. Whenever the instance leaves those hands (it is given back, taken over, changed from
//! outside, or its session's time is over), they become rows like all others: [`Scope::put_out`].

use dauer_store::{Epoch, MessageId, Task, Timestamp};
use dauer_store_kit::codec::Read;

use super::instance::Instance;
use super::tail::join_tail;
use super::task::HeldTask;
use super::{Scope, View};
use crate::fail::Outcome;
use crate::wire::{count_tail, count_taken, read_taken, write_taken};

/// How many bytes of events may lie in the row of an instance, and how many tasks: every turn writes all of them anew, so
/// that a fan-out or a large input is cheaper as rows.
const BYTES_MAX: usize = 1_024;
const TASKS_MAX: usize = 8;

/// Where the tasks lie that a session has taken.
const TAKEN: &str =
    concat!("SELECT i.taken, h.tail FROM instances AS i ", join_tail!(), "WHERE i.holder = ?1");

/// The key of a task that is no row.
const NO_ROW: i64 = 0;

impl HeldTask {
    /// A task that a session has just taken.
    fn taken(task: Task, session: i64, ready_at: Timestamp) -> Box<Self> {
        let mut held = Box::new(Self::new(task, ready_at));
        held.key = NO_ROW;
        held.epoch = Epoch::default().next();
        held.holder = Some(session);
        held
    }

    /// Whether it lies in the row of its instance.
    pub(super) fn is_in_instance(&self) -> bool {
        self.key == NO_ROW
    }
}

impl Instance {
    /// The tasks in its row.
    pub(super) fn taken(&self) -> impl Iterator<Item = &HeldTask> {
        self.tasks.values().map(|task| &**task).filter(|task| task.is_in_instance())
    }

    /// The same as they lie in the file.
    pub(super) fn write_taken(&self) -> Option<Vec<u8>> {
        write_taken(self.taken().map(|held| (&held.task, held.ready_at)))
    }

    /// Reads them. Whoever holds the instance holds them.
    pub(super) fn read_taken(&mut self, bytes: Option<&[u8]>) -> Read<()> {
        let Some(bytes) = bytes else { return Ok(()) };
        for (task, ready_at) in read_taken(bytes, &self.id)? {
            self.hold_taken(task, ready_at);
        }
        Ok(())
    }

    /// A task that lies in its row, or in the tail of its history.
    pub(super) fn hold_taken(&mut self, task: Task, ready_at: Timestamp) {
        if let Some(session) = self.holder {
            self.tasks.insert(task.id, HeldTask::taken(task, session, ready_at));
        }
    }

    /// Whether one more task may lie in its row.
    fn has_room(&self, task: &Task) -> bool {
        let (tasks, bytes) = self
            .taken()
            .fold((1, task.event.len()), |(tasks, bytes), held| (tasks + 1, bytes + held.task.event.len()));
        tasks <= TASKS_MAX && bytes <= BYTES_MAX
    }
}

impl View<'_> {
    /// A task of an instance, wherever it lies.
    pub(super) fn task_of(&self, instance: &Instance, id: MessageId) -> Outcome<Option<HeldTask>> {
        match instance.tasks.get(&id) {
            Some(task) => Ok(Some(HeldTask::clone(task))),
            None if instance.has_task_rows => self.task(instance.key, id),
            None => Ok(None),
        }
    }
}

impl Scope<'_, '_> {
    /// How many tasks lie in the rows of the instances that a session holds, or in the tails of their histories.
    pub(super) fn count_taken(&self, session: i64) -> Outcome<i64> {
        let mut find = self.db.prepare_cached(TAKEN)?;
        let mut rows = find.query([session])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let blob = |column| row.get_ref(column).map(|blob| blob.as_blob_or_null().unwrap_or_default());
            let tasks = match (blob(0)?, blob(1)?) {
                (_, Some(tail)) => count_tail(tail)?,
                (Some(taken), None) => count_taken(taken)?,
                (None, None) => 0,
            };
            count += super::signed(tasks as u64);
        }
        Ok(count)
    }

    /// A new task, leased to the session that keeps its instance; the caller puts it there and stores the instance.
    /// `None` when there is no room, when it is a row already, or when the session's time is over: others may take then
    /// what it has.
    pub(super) fn take_in_instance(
        &mut self,
        keeper: Option<i64>,
        instance: &Instance,
        task: &Task,
    ) -> Outcome<Option<Box<HeldTask>>> {
        let Some(session) = keeper else { return Ok(None) };
        let there = instance.has_task_rows && self.task(instance.key, task.id)?.is_some();
        if there || !instance.has_room(task) || !self.lives(session)? {
            return Ok(None);
        }
        Ok(Some(HeldTask::taken(task.clone(), session, self.now)))
    }

    /// Makes rows of the tasks that lie in the row of their instance: before it leaves the hands that took them.
    pub(super) fn put_out(&mut self, instance: &mut Instance) -> Outcome<()> {
        let taken: Vec<MessageId> = instance.taken().map(|held| held.task.id).collect();
        if taken.is_empty() {
            return Ok(());
        }
        for id in taken {
            if let Some(mut held) = instance.tasks.remove(&id) {
                self.add_task(instance, &mut held)?;
                instance.tasks.insert(id, held);
            }
        }
        self.store_taken(instance)
    }
}
