//! The tasks of an instance: as rows, or in the row of the instance or the tail of its history.
//!
//! A commit may take the tasks it schedules. As long as the session that took them also holds their instance, no other
//! session can have them, and no look searches for them. They need no rows of their own, and come and go with what every turn
//! writes anyway. When the instance leaves the session, or the session expires, they become rows like all
//! others: [`Scope::put_out`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use dauer_store::{Epoch, MessageId, SessionId, Task, Timestamp};
use dauer_store_kit::instance::HeldTask;

use super::stored::{Loaded, Stored};
use super::tail::join_tail;
use super::task::TaskRow;
use super::{Scope, View};
use crate::fail::Outcome;
use crate::wire::{count_tail, count_taken, write_taken};

/// How many bytes of events may lie in the row of an instance, and how many tasks. Every turn writes all of them again, so
/// that a fan-out or a large input is cheaper as rows.
const BYTES_MAX: usize = 1_024;
const TASKS_MAX: usize = 8;

/// How many tasks of an instance are held in memory with it. Every turn goes through them; others are found in the file.
const KNOWN_MAX: usize = 64;

/// Where the tasks lie that a session has taken.
const TAKEN: &str =
    concat!("SELECT i.taken, h.tail FROM instances AS i ", join_tail!(), "WHERE i.holder = ?1");

/// The tasks of an instance, as far as they are in memory.
#[derive(Debug, Clone)]
pub(super) struct Tasks {
    /// Boxed: most instances have one, and the map makes room for eleven.
    known: BTreeMap<MessageId, Box<TaskRow>>,
    /// Whether there may be rows of other tasks than the known ones.
    others: bool,
    /// Those that lie in the row of the instance are others than in the file.
    in_row_changed: bool,
}

impl Tasks {
    /// Of an instance that is new.
    pub(super) fn none() -> Self {
        Self { known: BTreeMap::new(), others: false, in_row_changed: false }
    }

    /// Of an instance that is read: those that lie in its row, which its holder holds.
    pub(super) fn read(taken: Vec<(Task, Timestamp)>, holder: Option<SessionId>) -> Self {
        let held = |(task, ready_at): (Task, Timestamp)| {
            let held = HeldTask { epoch: Epoch::default().next(), holder, ..HeldTask::new(task, ready_at) };
            (held.id(), Box::new(TaskRow::in_instance(held)))
        };
        let known = if holder.is_some() { taken.into_iter().map(held).collect() } else { BTreeMap::new() };
        Self { known, others: true, in_row_changed: false }
    }

    pub(super) fn get(&self, id: MessageId) -> Option<&HeldTask> {
        self.known.get(&id).map(|row| &row.held)
    }

    /// A task that lies in the row of the instance.
    pub(super) fn in_row(&self, id: MessageId) -> Option<&HeldTask> {
        self.known.get(&id).filter(|row| row.is_in_instance()).map(|row| &row.held)
    }

    /// Knows a task, if it lies in the row of the instance or there is room.
    pub(super) fn put(&mut self, row: TaskRow) {
        self.others |= !row.is_in_instance();
        self.in_row_changed |= row.is_in_instance();
        if row.is_in_instance() || self.known.len() < KNOWN_MAX {
            self.known.insert(row.held.id(), Box::new(row));
        }
    }

    pub(super) fn remove(&mut self, id: MessageId) -> Option<TaskRow> {
        let row = *self.known.remove(&id)?;
        self.in_row_changed |= row.is_in_instance();
        Some(row)
    }

    /// Whether those that lie in the row of the instance are others than in the file.
    pub(super) fn in_row_changed(&self) -> bool {
        self.in_row_changed
    }

    /// The row of the instance was written, or a tail that is newer.
    pub(super) fn are_written(&mut self) {
        self.in_row_changed = false;
    }

    /// A row was added that is not among the known ones.
    pub(super) fn has_others(&mut self) {
        self.others = true;
    }

    pub(super) fn may_have_others(&self) -> bool {
        self.others
    }

    /// The tasks in the row of the instance.
    pub(super) fn taken(&self) -> impl Iterator<Item = &HeldTask> {
        self.known.values().filter(|row| row.is_in_instance()).map(|row| &row.held)
    }

    /// The same as they lie in the file.
    pub(super) fn write_taken(&self) -> Option<Vec<u8>> {
        write_taken(self.taken().map(|held| (&held.task, held.ready_at)))
    }

    /// Whether one more task may lie in the row.
    fn has_room(&self, task: &Task) -> bool {
        let (tasks, bytes) = self
            .taken()
            .fold((1, task.event.len()), |(tasks, bytes), held| (tasks + 1, bytes + held.task.event.len()));
        tasks <= TASKS_MAX && bytes <= BYTES_MAX
    }
}

impl View<'_> {
    /// A task of an instance, wherever it lies.
    pub(super) fn task_of<'s>(
        &self,
        stored: &'s Stored,
        id: MessageId,
    ) -> Outcome<Option<Cow<'s, HeldTask>>> {
        match stored.tasks.get(id) {
            Some(held) => Ok(Some(Cow::Borrowed(held))),
            None if stored.tasks.others => Ok(self.task(stored.key, id)?.map(|row| Cow::Owned(row.held))),
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

    /// Whether a new task may lie in the row of its instance: the session that has it keeps the instance too, and lives. When its
    /// time is over, others may take what it has.
    pub(super) fn may_lie_in_row(&self, loaded: &Loaded, held: &HeldTask) -> Outcome<bool> {
        match held.holder.filter(|_| held.holder == loaded.instance.holder) {
            Some(session) => Ok(loaded.stored.tasks.has_room(&held.task) && self.lives(session)?),
            None => Ok(false),
        }
    }

    /// Makes rows of the tasks that lie in the row of their instance, if it has left the session that took them.
    pub(super) fn put_out_of_others(&mut self, loaded: &mut Loaded) -> Outcome<()> {
        let holder = loaded.instance.holder;
        if loaded.stored.tasks.taken().all(|held| held.holder == holder) {
            return Ok(());
        }
        self.put_out(loaded)
    }

    /// Makes rows of the tasks that lie in the row of their instance. The caller writes the row of the instance.
    pub(super) fn put_out(&mut self, loaded: &mut Loaded) -> Outcome<()> {
        let taken: Vec<MessageId> = loaded.stored.tasks.taken().map(HeldTask::id).collect();
        for id in taken {
            if let Some(row) = loaded.stored.tasks.remove(id) {
                let row = self.add_task(loaded.stored.key, row.held)?;
                loaded.stored.tasks.put(row);
            }
        }
        Ok(())
    }
}
