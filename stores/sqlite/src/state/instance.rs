//! One instance: its row as a value, with what is known of its messages and tasks.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, params};

use dauer_store::{
    Checkpoint, Epoch, ExecutionId, Fence, Hold, InstanceId, MessageId, QueueKey, Record, Revision, Status,
    Times, Timestamp,
};
use dauer_store_kit::codec::{
    LastCommit, digest, execution, hold_code, instance_id, kind_of, read_base, read_details, status_of,
};

use super::gather::Due;
use super::inbox::Waiting;
use super::task::HeldTask;
use super::{Scope, View, unsigned};
use crate::fail::{Fail, Outcome};

/// The columns of which only what differs from the file is written. Most of them are in indexes, and SQLite maintains the
/// index of every column that a statement names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placement {
    /// The key of the session that holds it.
    pub(super) holder: Option<i64>,
    pub(super) ready_at: Option<Timestamp>,
    pub(super) place: Option<Timestamp>,
    pub(super) offered: i64,
    pub(super) queue: i64,
    pub(super) created: Timestamp,
    pub(super) completed: Option<Timestamp>,
    pub(super) standing: Standing,
}

/// The columns that most turns leave as they are: not bound then, which costs more than writing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) epoch: Epoch,
    pub(super) not_before: Timestamp,
    pub(super) execution: ExecutionId,
    pub(super) generation: u32,
    pub(super) status: Status,
    pub(super) hold: u32,
    pub(super) stalled: bool,
    pub(super) attempts: u32,
    pub(super) remembered: i64,
    pub(super) start_in_row: bool,
}

impl Standing {
    fn of(
        record: &Record,
        (epoch, not_before, remembered): (Epoch, Timestamp, i64),
        start_in_row: bool,
    ) -> Self {
        Self {
            epoch,
            not_before,
            execution: record.execution,
            generation: record.generation,
            status: record.status,
            hold: hold_code(&record.hold),
            stalled: record.trouble.is_some(),
            attempts: record.attempts,
            remembered,
            start_in_row,
        }
    }
}

/// An instance without its history.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    pub(super) key: i64,
    pub(super) id: InstanceId,
    pub(super) record: Record,
    pub(super) epoch: Epoch,
    /// The key of the session that holds it.
    pub(super) holder: Option<i64>,
    /// The earliest time of a waiting, admitted message.
    pub(super) ready_at: Option<Timestamp>,
    pub(super) not_before: Timestamp,
    /// How many ids of applied messages are stored.
    pub(super) remembered: i64,
    pub(super) last: Option<LastCommit>,
    /// From when a claim may take it, and under which queue.
    pub(super) place: Option<Timestamp>,
    pub(super) offered: i64,
    /// The key of the record's queue.
    pub(super) queue: i64,
    /// As it lies in the file.
    pub(super) stored: Placement,
    /// Whether the tail of its history says that it has begun, and its row does not: whoever writes that writes all of it.
    pub(super) row_is_behind: bool,
    /// Whether what stays for a run, or what people see, is other than in the file.
    pub(super) base_changed: bool,
    pub(super) details_changed: bool,
    /// All that waits, in order, if it is known.
    pub(super) inbox: Option<Vec<Waiting>>,
    /// Whether the message that it was made by lies in its row. It is in the inbox, as far as that is known.
    pub(super) start_in_row: bool,
    /// That message as it lies there, until the inbox is known.
    pub(super) start: Option<Box<[u8]>>,
    /// Tasks that sessions hold, as far as they are known. Boxed: most instances have one, and the map makes room for eleven.
    pub(super) tasks: BTreeMap<MessageId, Box<HeldTask>>,
    /// Whether there may be rows of tasks: unknown ones, or others than those that sessions hold.
    pub(super) has_task_rows: bool,
}

/// A query for instances, each with the last row of its history where that says how the instance stands. The order of the
/// columns is that of [`Instance::read`].
macro_rules! select_instances {
    ($tail:expr) => {
        select_instances!(from "", $tail)
    };
    // Behind another table, which leads the way.
    (from $table:literal, $tail:expr) => {
        concat!(
            "SELECT i.key, i.id, i.epoch, i.holder, i.ready_at, i.not_before, i.remembered, i.last, i.place,
                i.offered, i.queue, i.execution, i.generation, i.revision, i.status, i.hold, i.attempts, i.created,
                i.updated, i.completed, i.history_len, i.history_bytes, i.base, q.kind, q.name, q.version, d.body,
                i.taken, h.revision, h.epoch, h.at, h.first + h.count, h.tail, h.events, i.start
             FROM ",
            $table,
            " instances AS i JOIN queues AS q ON q.key = i.queue LEFT JOIN details AS d ON d.instance = i.key ",
            $crate::state::tail::join_tail!(),
            $tail
        )
    };
}
pub(super) use select_instances;

const BY_ID: &str = select_instances!("WHERE i.hub = ?1 AND i.id = ?2");

impl Instance {
    pub(super) fn read(row: &Row<'_>) -> Outcome<Self> {
        let named =
            |fail: Fail| fail.in_instance(row.get_ref(1).ok().and_then(|id| id.as_str().ok()).unwrap_or("?"));
        Self::read_row(row).map_err(named)
    }

    fn read_row(row: &Row<'_>) -> Outcome<Self> {
        let record = read_record(row)?;
        let last = row.get_ref(7)?.as_blob_or_null().unwrap_or_default();
        let start = row.get_ref(34)?.as_blob_or_null().unwrap_or_default().map(Box::from);
        let (epoch, not_before, remembered) =
            (Epoch(unsigned(row.get(2)?)), Timestamp(row.get(5)?), row.get(6)?);
        let stored = Placement {
            holder: row.get(3)?,
            ready_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
            place: row.get::<_, Option<i64>>(8)?.map(Timestamp),
            offered: row.get(9)?,
            queue: row.get(10)?,
            created: record.times.created,
            completed: record.times.completed,
            standing: Standing::of(&record, (epoch, not_before, remembered), start.is_some()),
        };
        let mut instance = Self {
            key: row.get(0)?,
            id: instance_id(row.get_ref(1)?.as_str().unwrap_or_default())?,
            epoch,
            holder: stored.holder,
            ready_at: stored.ready_at,
            not_before,
            remembered,
            last: last.map(|last| LastCommit::read(last, record.execution, record.revision)).transpose()?,
            place: stored.place,
            offered: stored.offered,
            queue: stored.queue,
            record,
            stored,
            row_is_behind: false,
            base_changed: false,
            details_changed: false,
            inbox: None,
            start_in_row: start.is_some(),
            start,
            tasks: BTreeMap::new(),
            has_task_rows: true,
        };
        match row.get_ref(32)?.as_blob_or_null().unwrap_or_default() {
            Some(tail) => instance.read_tail(row, tail)?,
            None => instance.read_taken(row.get_ref(27)?.as_blob_or_null().unwrap_or_default())?,
        }
        Ok(instance)
    }

    /// An instance that is not in the file yet: nobody has it, and nothing waits for it.
    pub(super) fn new(id: InstanceId, record: Record, (queue, epoch): (i64, Epoch)) -> Box<Self> {
        let stored = Placement {
            holder: None,
            ready_at: None,
            place: None,
            offered: queue,
            queue,
            created: record.times.created,
            completed: record.times.completed,
            standing: Standing::of(&record, (epoch, Timestamp::default(), 0), false),
        };
        Box::new(Self {
            key: 0,
            id,
            epoch,
            holder: None,
            ready_at: None,
            not_before: Timestamp::default(),
            remembered: 0,
            last: None,
            place: None,
            offered: queue,
            queue,
            record,
            stored,
            row_is_behind: false,
            base_changed: false,
            details_changed: false,
            inbox: Some(Vec::new()),
            start_in_row: false,
            start: None,
            tasks: BTreeMap::new(),
            has_task_rows: false,
        })
    }

    pub(super) fn placement(&self) -> Placement {
        Placement {
            holder: self.holder,
            ready_at: self.ready_at,
            place: self.place,
            offered: self.offered,
            queue: self.queue,
            created: self.record.times.created,
            completed: self.record.times.completed,
            standing: Standing::of(
                &self.record,
                (self.epoch, self.not_before, self.remembered),
                self.start_in_row,
            ),
        }
    }

    pub(super) fn fence(&self) -> Fence {
        Fence {
            instance: self.id.clone(),
            execution: self.record.execution,
            revision: self.record.revision,
            epoch: self.epoch,
        }
    }

    pub(super) fn is_held_by(&self, session: i64) -> bool {
        self.holder == Some(session)
    }

    /// Whether the session that holds it has committed under its epoch.
    pub(super) fn has_committed(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.by.is_some() && last.epoch == self.epoch)
    }

    pub(super) fn is_over(&self) -> bool {
        self.record.hold == Hold::Ended
    }

    /// Whether that commit did happen as the last one.
    pub(super) fn repeats(&self, checkpoint: &Checkpoint, by: Option<i64>) -> bool {
        let Some(last) = &self.last else { return false };
        let fence = &checkpoint.fence;
        self.record.revision == Revision(fence.revision.0.saturating_add(1))
            && last.revision == fence.revision
            && last.execution == fence.execution
            && last.epoch == fence.epoch
            && last.by == by
            && last.amendment.is_none_or(|amendment| amendment == digest(checkpoint))
    }
}

fn read_record(row: &Row<'_>) -> Outcome<Record> {
    let (kind, version) = (kind_of(row.get(23)?)?, row.get_ref(25)?.as_str().unwrap_or_default());
    let name = row.get_ref(24)?.as_str().unwrap_or_default();
    let queue = QueueKey::new(kind, name, version.strip_prefix('='));
    let run: ExecutionId = execution(row.get_ref(11)?.as_blob().unwrap_or_default())?;
    let mut record = Record::pending(queue, run, MessageId([0; 16]));
    record.generation = row.get(12)?;
    record.revision = Revision(unsigned(row.get(13)?));
    record.status = status_of(row.get(14)?)?;
    record.attempts = row.get(16)?;
    record.times = Times {
        created: Timestamp(row.get(17)?),
        accepted: Timestamp::default(),
        updated: Timestamp(row.get(18)?),
        scheduled: None,
        completed: row.get::<_, Option<i64>>(19)?.map(Timestamp),
    };
    record.history_len = row.get(20)?;
    record.history_bytes = unsigned(row.get(21)?);
    read_base(row.get_ref(22)?.as_blob().unwrap_or_default(), &mut record)?;
    let details = row.get_ref(26)?.as_blob_or_null().unwrap_or_default();
    read_details(details, row.get(15)?, &mut record)?;
    Ok(record)
}

impl View<'_> {
    /// An instance by its id, as it lies in the file.
    pub(super) fn instance(&self, id: &InstanceId) -> Outcome<Option<Box<Instance>>> {
        let mut find = self.db.prepare_cached(BY_ID)?;
        let found =
            find.query_row(params![self.hub, id.as_str()], |row| Ok(Instance::read(row).map(Box::new)));
        found.optional()?.transpose()
    }
}

impl Scope<'_, '_> {
    /// An instance by its id, out of what is held in memory or the file. It is no longer in memory then: whoever has
    /// changed it and wants it to be found there again puts it back, with [`Scope::put_back`], after it was written.
    pub(super) fn fetch(&mut self, id: &InstanceId) -> Outcome<Option<Box<Instance>>> {
        if let Some(instance) = self.group.hot.take(self.view.hub, id) {
            return Ok(Some(instance));
        }
        // Most that are not in memory are not there at all: a start looks for what it must not find. An index tells that
        // at a fifth of the cost.
        let there =
            self.statements.get(self.view.db, "SELECT 1 FROM instances WHERE hub = ?1 AND id = ?2")?;
        if !there.exists(params![self.view.hub, id.as_str()])? {
            return Ok(None);
        }
        let mut instance = self.view.instance(id)?;
        if let Some(instance) = instance.as_mut().filter(|instance| instance.start_in_row) {
            self.know_inbox(instance)?;
        }
        Ok(instance)
    }

    /// The instance of a turn that is due.
    pub(super) fn fetch_due(&mut self, due: &Due) -> Outcome<Option<Box<Instance>>> {
        match &due.turn_of {
            Some(id) => self.fetch(&instance_id(id.as_str())?),
            None => self.fetch_at(due.key),
        }
    }

    /// The same by its key.
    pub(super) fn fetch_at(&mut self, key: i64) -> Outcome<Option<Box<Instance>>> {
        let mut find = self.view.db.prepare_cached("SELECT id FROM instances WHERE key = ?1")?;
        let id: Option<String> = find.query_row([key], |row| row.get(0)).optional()?;
        match id {
            Some(id) => self.fetch(&instance_id(id)?),
            None => Ok(None),
        }
    }

    /// Holds an instance that is as in the file in memory, for the next operation.
    pub(super) fn put_back(&mut self, instance: Box<Instance>) {
        debug_assert!(
            instance.row_is_behind || instance.placement() == instance.stored,
            "an instance that was not written"
        );
        self.group.hot.put(self.view.hub, instance);
    }
}
