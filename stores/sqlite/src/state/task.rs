//! Activity tasks as rows.

use rusqlite::{OptionalExtension, Row, params};

use dauer_store::{Completion, Delivered, Epoch, ExecutionId, MessageId, QueueKey, SessionId, Timestamp};
use dauer_store_kit::codec::{execution, instance_id, kind_of, read_task_body, write_task_body};
use dauer_store_kit::instance::{Completing, Dirty, HeldTask, WITHDRAWN, check_complete};

use super::sessions::{gone, session_of};
use super::stored::{Loaded, Stored};
use super::{ABSENT, Scope, View, deaths_of, signed, trials_column, unsigned};
use crate::fail::{Fail, Outcome};

/// The key of a task that lies in the row of its instance.
const NO_ROW: i64 = 0;

/// A task, and how it lies in the file.
#[derive(Debug, Clone)]
pub(super) struct TaskRow {
    pub(super) key: i64,
    pub(super) held: HeldTask,
    /// From when a session may win it.
    place: Option<Timestamp>,
}

/// A query for tasks. The order of the columns is that of [`TaskRow::read`]. A task without its instance must never be there;
/// it is not hidden, so that an audit finds it.
macro_rules! select_tasks {
    ($tail:literal) => {
        concat!(
            "SELECT t.key, t.epoch, t.holder, t.attempts, t.ready_at, t.not_before, t.withdrawn, t.place, t.body,
                t.task, t.execution, coalesce(i.id, '(instance ' || t.instance || ' is gone)'), q.kind, q.name,
                q.version, s.id, t.deaths, t.mark, t.trials
             FROM tasks AS t LEFT JOIN instances AS i ON i.key = t.instance JOIN queues AS q ON q.key = t.queue
             LEFT JOIN sessions AS s ON s.key = t.holder ",
            $tail
        )
    };
}

const BY_ID: &str = select_tasks!("WHERE t.instance = ?1 AND t.task = ?2");
const BY_KEY: &str = select_tasks!("WHERE t.key = ?1");
const OF_INSTANCE: &str = select_tasks!("WHERE t.instance = ?1 ORDER BY t.task");

impl TaskRow {
    pub(super) fn in_instance(held: HeldTask) -> Self {
        Self { key: NO_ROW, held, place: None }
    }

    pub(super) fn is_in_instance(&self) -> bool {
        self.key == NO_ROW
    }

    fn read(row: &Row<'_>) -> Outcome<Self> {
        let version = row.get_ref(14)?.as_str().unwrap_or_default();
        let name = row.get_ref(13)?.as_str().unwrap_or_default();
        let queue = QueueKey::new(kind_of(row.get(12)?)?, name, version.strip_prefix('='));
        let run = execution(row.get_ref(10)?.as_blob().unwrap_or_default())?;
        let instance = instance_id(row.get_ref(11)?.as_str().unwrap_or_default())?;
        let body = row.get_ref(8)?.as_blob().unwrap_or_default();
        let holder = row.get_ref(15)?.as_blob_or_null().unwrap_or_default().map(session_of).transpose()?;
        let holder = row.get::<_, Option<i64>>(2)?.map(|key| holder.unwrap_or(gone(key)));
        let (deaths, trial) = deaths_of(row.get(16)?, row.get(18)?);
        let held = HeldTask {
            task: read_task_body(body, (MessageId(row.get(9)?), instance), (run, queue))?,
            epoch: Epoch(unsigned(row.get(1)?)),
            holder,
            attempts: row.get(3)?,
            deaths,
            mark: row.get::<_, Option<i64>>(17)?.map(Timestamp),
            trial,
            ready_at: Timestamp(row.get(4)?),
            not_before: Timestamp(row.get(5)?),
            withdrawn: row.get(6)?,
        };
        Ok(Self { key: row.get(0)?, held, place: row.get::<_, Option<i64>>(7)?.map(Timestamp) })
    }
}

impl View<'_> {
    pub(super) fn task(&self, instance: i64, id: MessageId) -> Outcome<Option<TaskRow>> {
        let mut find = self.db.prepare_cached(BY_ID)?;
        let found = find.query_row(params![instance, id.0], |row| Ok(TaskRow::read(row)));
        found.optional()?.transpose()
    }

    pub(super) fn task_at(&self, key: i64) -> Outcome<Option<TaskRow>> {
        let mut find = self.db.prepare_cached(BY_KEY)?;
        find.query_row([key], |row| Ok(TaskRow::read(row))).optional()?.transpose()
    }

    /// All tasks of an instance, or those of one run, by id.
    pub(super) fn tasks_of(&self, stored: &Stored, run: Option<ExecutionId>) -> Outcome<Vec<HeldTask>> {
        let mut tasks: Vec<HeldTask> = stored.tasks.taken().cloned().collect();
        if stored.tasks.may_have_others() {
            let mut find = self.db.prepare_cached(OF_INSTANCE)?;
            let mut rows = find.query([stored.key])?;
            while let Some(row) = rows.next()? {
                tasks.push(TaskRow::read(row)?.held);
            }
        }
        tasks.retain(|held| run.is_none_or(|run| held.task.execution == run));
        tasks.sort_by_key(HeldTask::id);
        Ok(tasks)
    }
}

impl Scope<'_, '_> {
    /// Writes a new task, or one that has changed.
    pub(super) fn put_task(&mut self, loaded: &mut Loaded, mut held: HeldTask) -> Outcome<()> {
        if let Some(row) = loaded.stored.tasks.remove(held.id())
            && !row.is_in_instance()
        {
            return self.store_task(TaskRow { held, ..row });
        }
        // Only a withdrawn task has changed that is not known here: others are new.
        if held.withdrawn
            && let Some(row) = self.task(loaded.stored.key, held.id())?
        {
            return self.store_task(TaskRow { held, ..row });
        }
        if self.may_lie_in_row(loaded, &held)? {
            loaded.stored.tasks.put(TaskRow::in_instance(held));
            return Ok(());
        }
        let promised = self.promise_task(&mut held)?;
        // A session that holds its instance too is likely to answer with its next commit.
        let known = held.holder.is_some() && promised.is_none();
        let row = self.add_task(loaded.stored.key, held)?;
        loaded.stored.tasks.has_others();
        if let Some((bid, lease)) = promised {
            self.hand_over_task(bid, &row.held, lease);
        }
        if known {
            loaded.stored.tasks.put(row);
        }
        Ok(())
    }

    /// Adds the row of a task that has none.
    pub(super) fn add_task(&mut self, instance: i64, held: HeldTask) -> Outcome<TaskRow> {
        let queue = self.queue_key(&held.task.queue)?;
        let mut row = TaskRow { key: NO_ROW, held, place: None };
        self.settle_task(&mut row)?;
        let (hub, holder, held) = (self.view.hub, self.holder_key(row.held.holder)?, &row.held);
        self.run(
            "INSERT INTO tasks (hub, instance, task, execution, queue, epoch, holder, attempts, ready_at,
                not_before, withdrawn, place, body, deaths, mark, trials)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            params![
                hub,
                instance,
                held.id().0,
                held.task.execution.0.to_be_bytes(),
                queue,
                signed(held.epoch.0),
                holder,
                held.attempts,
                held.ready_at.0,
                held.not_before.0,
                held.withdrawn,
                row.place.map(|time| time.0),
                write_task_body(&held.task),
                signed(held.deaths.to_bits()),
                held.mark.map(|time| time.0),
                trials_column(held.deaths, held.trial),
            ],
        )?;
        row.key = self.db.last_insert_rowid();
        Ok(row)
    }

    /// Writes what may change of a task that is a row.
    pub(super) fn store_task(&mut self, mut row: TaskRow) -> Outcome<()> {
        self.settle_task(&mut row)?;
        let (holder, held) = (self.holder_key(row.held.holder)?, &row.held);
        self.group.hot.forget_task(self.view.hub, &held.task.instance, held.id());
        self.run(
            "UPDATE tasks SET epoch = ?2, holder = ?3, attempts = ?4, not_before = ?5, withdrawn = ?6, place = ?7,
                deaths = ?8, mark = ?9, trials = ?10
             WHERE key = ?1",
            params![
                row.key,
                signed(held.epoch.0),
                holder,
                held.attempts,
                held.not_before.0,
                held.withdrawn,
                row.place.map(|time| time.0),
                signed(held.deaths.to_bits()),
                held.mark.map(|time| time.0),
                trials_column(held.deaths, held.trial),
            ],
        )?;
        Ok(())
    }

    /// Finds from when a session may win a task.
    fn settle_task(&mut self, row: &mut TaskRow) -> Outcome<()> {
        let place = row.held.free_at(&self.facts(None))?;
        if place != row.place
            && let Some(place) = place
        {
            self.ready_at(row.held.task.queue.kind, place);
        }
        row.place = place;
        Ok(())
    }

    /// Writes a task that its holder let go. One that does not stay is removed and counted.
    pub(super) fn let_task_go(&mut self, row: TaskRow, stays: bool) -> Outcome<()> {
        if stays {
            return self.store_task(row);
        }
        let held = &row.held;
        self.group.hot.forget_task(self.view.hub, &held.task.instance, held.id());
        self.run("DELETE FROM tasks WHERE key = ?1", [row.key])?;
        self.count_dropped(WITHDRAWN, 1)
    }

    /// Answers a task. An answer to a task that the session does not hold is dropped, which is no error.
    pub(crate) fn complete(&mut self, session: SessionId, completion: &Completion) -> Outcome<Delivered> {
        self.check_message(&completion.answer)?;
        let Completion { fence, answer } = completion;
        if self.hub == ABSENT {
            // An answer makes no hub: it may come late, after the hub was deleted.
            return Ok(check_complete(None, None, fence)
                .dropped()
                .map_or(Delivered::Applied, Delivered::Dropped));
        }
        self.touch()?;
        let actor = match self.actor(session) {
            Ok(_) => Some(session),
            Err(Fail::Refused(_)) => None,
            Err(broken) => return Err(broken),
        };
        let Some(mut loaded) = self.fetch(&fence.instance)? else {
            return self.drop_answer(check_complete(None, actor, fence));
        };
        let task = self.task_of(&loaded.stored, fence.task)?;
        let completing = check_complete(task.as_deref(), actor, fence);
        if let Completing::Dropped(_) = completing {
            self.put_back(loaded);
            return self.drop_answer(completing);
        }
        self.remove_task_of(&mut loaded, fence.task)?;
        if completing == Completing::Answers && answer.to == *loaded.instance.id() {
            return self.deliver_to(loaded, answer.clone());
        }
        self.write_row(&mut loaded, Dirty::default())?;
        self.put_back(loaded);
        match completing {
            Completing::Answers => self.deliver(answer.clone()),
            Completing::Withdrawn | Completing::Dropped(_) => self.drop_answer(completing),
        }
    }

    fn drop_answer(&mut self, completing: Completing) -> Outcome<Delivered> {
        let Some(reason) = completing.dropped() else { return Ok(Delivered::Applied) };
        self.drop_message(reason)
    }

    /// Removes a task of an instance, wherever it lies. The caller writes the row of the instance.
    pub(super) fn remove_task_of(&mut self, loaded: &mut Loaded, id: MessageId) -> Outcome<()> {
        match loaded.stored.tasks.remove(id) {
            Some(row) if row.is_in_instance() => Ok(()),
            Some(row) => self.run("DELETE FROM tasks WHERE key = ?1", [row.key]).map(|_| ()),
            None => self.remove_unknown_task(loaded.stored.key, id),
        }
    }

    /// The same for one that may be in the file alone. A dead session that held nothing else is forgotten.
    fn remove_unknown_task(&mut self, instance: i64, id: MessageId) -> Outcome<()> {
        let sql = "DELETE FROM tasks WHERE instance = ?1 AND task = ?2 RETURNING holder";
        let remove = self.statements.get(self.view.db, sql)?;
        let holder: Option<Option<i64>> =
            remove.query_row(params![instance, id.0], |row| row.get(0)).optional()?;
        self.count_run(usize::from(holder.is_some()));
        match holder.flatten() {
            Some(holder) if !self.group.hot.knows_session(holder) => self.forget_if_gone(holder),
            _ => Ok(()),
        }
    }
}
