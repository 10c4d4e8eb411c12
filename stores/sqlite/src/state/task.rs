//! Activity tasks: rows that are claimed like turns and answered by a message to the instance.

use rusqlite::{OptionalExtension, Row, params};

use dauer_store::{
    Completion, Delivered, DropReason, Epoch, Item, MessageId, QueueKey, SessionId, Task, TaskFence,
    TaskLease, Timestamp,
};
use dauer_store_kit::codec::{execution, instance_id, kind_of, read_task_body, write_item, write_task_body};

use super::instance::Instance;
use super::{Scope, View, signed, unsigned};
use crate::fail::{Fail, Outcome};

/// A task as it lies in the store.
#[derive(Debug, Clone)]
pub(super) struct HeldTask {
    pub(super) key: i64,
    pub(super) task: Task,
    pub(super) epoch: Epoch,
    pub(super) holder: Option<i64>,
    pub(super) attempts: u32,
    /// Since when it waits.
    pub(super) ready_at: Timestamp,
    pub(super) not_before: Timestamp,
    /// It only waits for its holder to answer or die.
    pub(super) withdrawn: bool,
    pub(super) place: Option<Timestamp>,
}

/// A query for tasks. The order of the columns is that of [`HeldTask::read`]. A task whose instance is gone, which must
/// never be, is not hidden: an audit shall see it.
macro_rules! select_tasks {
    ($tail:literal) => {
        concat!(
            "SELECT t.key, t.epoch, t.holder, t.attempts, t.ready_at, t.not_before, t.withdrawn, t.place, t.body,
                t.task, t.execution, coalesce(i.id, '(instance ' || t.instance || ' is gone)'), q.kind, q.name,
                q.version
             FROM tasks AS t LEFT JOIN instances AS i ON i.key = t.instance JOIN queues AS q ON q.key = t.queue ",
            $tail
        )
    };
}

const BY_ID: &str = select_tasks!("WHERE t.instance = ?1 AND t.task = ?2");
const BY_KEY: &str = select_tasks!("WHERE t.key = ?1");

impl HeldTask {
    pub(super) fn new(task: Task, ready_at: Timestamp) -> Self {
        Self {
            key: 0,
            task,
            epoch: Epoch::default(),
            holder: None,
            attempts: 0,
            ready_at,
            not_before: Timestamp::default(),
            withdrawn: false,
            place: None,
        }
    }

    fn read(row: &Row<'_>) -> Outcome<Self> {
        let version = row.get_ref(14)?.as_str().unwrap_or_default();
        let name = row.get_ref(13)?.as_str().unwrap_or_default();
        let queue = QueueKey::new(kind_of(row.get(12)?)?, name, version.strip_prefix('='));
        let run = execution(row.get_ref(10)?.as_blob().unwrap_or_default())?;
        let instance = instance_id(row.get_ref(11)?.as_str().unwrap_or_default())?;
        let body = row.get_ref(8)?.as_blob().unwrap_or_default();
        Ok(Self {
            key: row.get(0)?,
            epoch: Epoch(unsigned(row.get(1)?)),
            holder: row.get(2)?,
            attempts: row.get(3)?,
            ready_at: Timestamp(row.get(4)?),
            not_before: Timestamp(row.get(5)?),
            withdrawn: row.get(6)?,
            place: row.get::<_, Option<i64>>(7)?.map(Timestamp),
            task: read_task_body(body, (MessageId(row.get(9)?), instance), (run, queue))?,
        })
    }

    pub(super) fn fence(&self) -> TaskFence {
        TaskFence { task: self.task.id, instance: self.task.instance.clone(), epoch: self.epoch }
    }

    pub(super) fn lease(&self, now: Timestamp) -> TaskLease {
        TaskLease { fence: self.fence(), task: self.task.clone(), attempts: self.attempts, now }
    }

    pub(super) fn is_held_by(&self, session: i64, epoch: Epoch) -> bool {
        self.epoch == epoch && self.holder == Some(session)
    }
}

impl View<'_> {
    pub(super) fn task(&self, instance: i64, id: MessageId) -> Outcome<Option<HeldTask>> {
        let mut find = self.db.prepare_cached(BY_ID)?;
        let found = find.query_row(params![instance, id.0], |row| Ok(HeldTask::read(row)));
        found.optional()?.transpose()
    }

    pub(super) fn task_at(&self, key: i64) -> Outcome<Option<HeldTask>> {
        let mut find = self.db.prepare_cached(BY_KEY)?;
        find.query_row([key], |row| Ok(HeldTask::read(row))).optional()?.transpose()
    }

    pub(super) fn tasks_of(&self, instance: i64) -> Outcome<Vec<HeldTask>> {
        let mut find = self.db.prepare_cached("SELECT key FROM tasks WHERE instance = ?1 ORDER BY task")?;
        let keys = find.query_map([instance], |row| row.get(0))?;
        let mut tasks = Vec::new();
        for key in keys {
            tasks.extend(self.task_at(key?)?);
        }
        Ok(tasks)
    }
}

impl Scope<'_, '_> {
    /// Adds a task as a row, perhaps leased to a session; `None` when it is there already.
    pub(super) fn insert_task(
        &mut self,
        instance: &mut Instance,
        task: Task,
        taker: Option<i64>,
    ) -> Outcome<Option<Box<HeldTask>>> {
        let mut held = Box::new(HeldTask::new(task, self.now));
        if let Some(session) = taker {
            held.epoch = held.epoch.next();
            held.holder = Some(session);
        }
        Ok(self.add_task(instance, &mut held)?.then_some(held))
    }

    /// Adds a row; whether it was not there.
    pub(super) fn add_task(&mut self, instance: &mut Instance, held: &mut HeldTask) -> Outcome<bool> {
        let queue = self.queue_key(&held.task.queue)?;
        self.settle_task(held)?;
        let hub = self.view.hub;
        let added = self.run(
            "INSERT INTO tasks (hub, instance, task, execution, queue, epoch, holder, attempts, ready_at,
                not_before, withdrawn, place, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT DO NOTHING",
            params![
                hub,
                instance.key,
                held.task.id.0,
                held.task.execution.0.to_be_bytes(),
                queue,
                signed(held.epoch.0),
                held.holder,
                held.attempts,
                held.ready_at.0,
                held.not_before.0,
                held.withdrawn,
                held.place.map(|time| time.0),
                write_task_body(&held.task),
            ],
        )?;
        held.key = self.db.last_insert_rowid();
        instance.has_task_rows = true;
        Ok(added > 0)
    }

    /// Writes what may change of a task.
    pub(super) fn store_task(&mut self, held: &mut HeldTask) -> Outcome<()> {
        self.settle_task(held)?;
        self.group.hot.forget_task(self.view.hub, &held.task.instance, held.task.id);
        self.run(
            "UPDATE tasks SET epoch = ?2, holder = ?3, attempts = ?4, not_before = ?5, withdrawn = ?6, place = ?7
             WHERE key = ?1",
            params![
                held.key,
                signed(held.epoch.0),
                held.holder,
                held.attempts,
                held.not_before.0,
                held.withdrawn,
                held.place.map(|time| time.0),
            ],
        )?;
        Ok(())
    }

    fn settle_task(&mut self, held: &mut HeldTask) -> Outcome<()> {
        let free = match held.holder {
            None => true,
            Some(session) => !self.lives(session)?,
        };
        let place = (free && !held.withdrawn).then(|| held.ready_at.max(held.not_before));
        if place != held.place
            && let Some(place) = place
        {
            self.hint_of(held.task.queue.kind, place);
        }
        held.place = place;
        Ok(())
    }

    /// Takes a task from whoever holds it; a host that had received it is told at its next renewal. The caller stores
    /// or removes the task.
    pub(super) fn take_task_from_holder(&mut self, held: &mut HeldTask) -> Outcome<()> {
        let Some(session) = held.holder.take() else { return Ok(()) };
        self.tell_lost(session, &write_item(&Item::Task(held.fence())))?;
        self.group.hot.forget_task(self.view.hub, &held.task.instance, held.task.id);
        self.run("UPDATE tasks SET holder = NULL WHERE key = ?1", [held.key])?;
        self.forget_if_gone(session)
    }

    /// Answers a task. What is no longer held is dropped, which is no error.
    pub(crate) fn complete(&mut self, session: SessionId, completion: &Completion) -> Outcome<Delivered> {
        self.check_message(&completion.answer)?;
        self.touch()?;
        let Completion { fence, answer } = completion;
        let actor = match self.actor(session) {
            Ok((key, _)) => Some(key),
            Err(Fail::Refused(_)) => None,
            Err(broken) => return Err(broken),
        };
        let Some(mut instance) = self.fetch(&fence.instance)? else {
            return self.drop_message(DropReason::NotHeld);
        };
        let held = self.task_of(&instance, fence.task)?;
        let held = held.filter(|task| actor.is_some_and(|session| task.is_held_by(session, fence.epoch)));
        let Some(held) = held else { return self.drop_message(DropReason::NotHeld) };
        self.remove_task_of(&mut instance, fence.task)?;
        if held.is_in_instance() {
            self.store_taken(&mut instance)?;
        }
        if held.withdrawn {
            return self.drop_message(DropReason::Withdrawn);
        }
        if answer.to == instance.id {
            return self.deliver_and_store(instance, answer.clone());
        }
        self.deliver(answer.clone())
    }

    /// Removes a task of an instance at hand. When it lies in the row of the instance, the caller stores that.
    pub(super) fn remove_task_of(&mut self, instance: &mut Instance, id: MessageId) -> Outcome<()> {
        match instance.tasks.remove(&id) {
            Some(task) if task.is_in_instance() => 0,
            Some(task) => self.run("DELETE FROM tasks WHERE key = ?1", [task.key])?,
            None => {
                self.run("DELETE FROM tasks WHERE instance = ?1 AND task = ?2", params![instance.key, id.0])?
            }
        };
        Ok(())
    }

    fn remove_task(&mut self, held: &HeldTask) -> Outcome<()> {
        self.group.hot.forget_task(self.view.hub, &held.task.instance, held.task.id);
        self.run("DELETE FROM tasks WHERE key = ?1", [held.key])?;
        Ok(())
    }

    /// Removes a task that nobody will answer any more.
    pub(super) fn discard_task(&mut self, held: &HeldTask) -> Outcome<()> {
        self.remove_task(held)?;
        self.count_dropped(DropReason::Withdrawn, 1)?;
        match held.holder {
            Some(session) => self.forget_if_gone(session),
            None => Ok(()),
        }
    }

    /// Removes all tasks of an instance that goes; their holders are told.
    pub(super) fn discard_tasks_of(&mut self, instance: &mut Instance) -> Outcome<()> {
        self.put_out(instance)?;
        for mut task in self.tasks_of(instance.key)? {
            self.take_task_from_holder(&mut task)?;
            self.discard_task(&task)?;
        }
        Ok(())
    }
}
