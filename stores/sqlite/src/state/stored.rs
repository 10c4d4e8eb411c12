//! An instance, and how it lies in the file. The formats of its rows are known here and in `row`, `tail`, `taken` and `put`
//! alone:
//!
//! - the row of the instance, of which most turns change a few columns or none;
//! - the tail of the last row of the history, which is newer than the row of the instance;
//! - tasks that its holder has taken, in either of the two;
//! - the message that it was made by, in the row of the instance.

use rusqlite::{OptionalExtension, Row, params};

use dauer_store::{
    Deaths, Epoch, ExecutionId, Fence, InstanceId, MessageId, QueueKey, Record, Revision, SessionId, Status,
    Tags, Task, Times, Timestamp,
};
use dauer_store_kit::codec::{
    LastCommit, execution, hold_code, instance_id, kind_of, read_base, read_details, read_message, status_of,
};
use dauer_store_kit::instance::{Head, Inbox, Instance};

use super::gather::Due;
use super::inbox::Owner;
use super::put::in_row;
use super::sessions::{gone, session_of};
use super::taken::Tasks;
use super::{Scope, View, deaths_of, unsigned};
use crate::fail::{Fail, Outcome};
use crate::wire::read_taken;

/// The columns of which only what differs from the file is written. Most of them are in indexes, and SQLite maintains the
/// index of every column that a statement names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    /// The key of the session that holds it.
    pub(super) holder: Option<i64>,
    pub(super) ready_at: Option<Timestamp>,
    /// From when a session may win it.
    pub(super) place: Option<Timestamp>,
    /// The key of the queue under which it is offered.
    pub(super) offered: i64,
    /// The key of the record's queue.
    pub(super) queue: i64,
    pub(super) created: Timestamp,
    pub(super) completed: Option<Timestamp>,
    pub(super) standing: Standing,
}

/// The columns that most turns leave as they are. Not binding them costs less than writing them.
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
    pub(super) deaths: Deaths,
    /// A trial is open.
    pub(super) trial: bool,
    pub(super) remembered: i64,
    pub(super) start_in_row: bool,
}

impl Standing {
    pub(super) fn of(
        record: &Record,
        (epoch, not_before, trial): (Epoch, Timestamp, bool),
        (remembered, start_in_row): (i64, bool),
    ) -> Self {
        Self {
            epoch,
            not_before,
            execution: record.execution,
            generation: record.generation,
            status: record.status,
            hold: hold_code(record.hold()),
            stalled: record.trouble.is_some(),
            attempts: record.attempts,
            deaths: record.deaths,
            trial,
            remembered,
            start_in_row,
        }
    }
}

/// How an instance lies in the file now.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) key: i64,
    /// The columns of its row.
    pub(super) row: Columns,
    /// The queue of the record, and the key of that queue.
    pub(super) queue: (QueueKey, i64),
    /// The tags of its row.
    pub(super) tags: Tags,
    /// How many ids of applied messages are stored.
    pub(super) remembered: i64,
    /// The message in its row. It is in the inbox too.
    pub(super) start: Option<MessageId>,
    pub(super) tasks: Tasks,
}

impl Stored {
    /// Of an instance that is not in the file yet.
    pub(super) fn new(instance: &Instance, queue: i64, start: Option<MessageId>) -> Self {
        let record = &instance.record;
        let row = Columns {
            holder: None,
            ready_at: None,
            place: None,
            offered: queue,
            queue,
            created: record.times.created,
            completed: record.times.completed,
            standing: Standing::of(
                record,
                (instance.epoch, instance.not_before, instance.trial),
                (0, start.is_some()),
            ),
        };
        let (tags, tasks) = (record.tags.clone(), Tasks::none());
        Self { key: 0, row, queue: (record.queue.clone(), queue), tags, remembered: 0, start, tasks }
    }

    pub(super) fn owner(&self) -> Owner {
        Owner { key: self.key, kind: self.queue.0.kind }
    }
}

/// An instance, and how it lies in the file.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) instance: Instance,
    pub(super) stored: Stored,
}

/// What the row of an instance and the tail of its history say. Sessions are keys in it.
pub(super) struct Image {
    pub(super) id: InstanceId,
    pub(super) record: Record,
    pub(super) key: i64,
    row: Columns,
    /// The holder; none where no row of a session has its key.
    holder: Option<SessionId>,
    last: Option<LastCommit<i64>>,
    /// The message that the instance was made by.
    start: Option<Box<[u8]>>,
    /// Tasks that the holder has taken, with the time since when each waits.
    taken: Vec<(Task, Timestamp)>,
}

/// A query for instances, each with the last row of its history where that says how the instance stands. The order of the
/// columns is that of [`Image::read`].
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
                i.taken, h.revision, h.epoch, h.at, h.first + h.count, h.tail, h.events, i.start, s.id,
                i.deaths, i.trials
             FROM ",
            $table,
            " instances AS i JOIN queues AS q ON q.key = i.queue LEFT JOIN details AS d ON d.instance = i.key
             LEFT JOIN sessions AS s ON s.key = i.holder ",
            $crate::state::tail::join_tail!(),
            $tail
        )
    };
}
pub(super) use select_instances;

const BY_ID: &str = select_instances!("WHERE i.hub = ?1 AND i.id = ?2");

impl Image {
    pub(super) fn read(row: &Row<'_>) -> Outcome<Self> {
        let named =
            |fail: Fail| fail.in_instance(row.get_ref(1).ok().and_then(|id| id.as_str().ok()).unwrap_or("?"));
        Self::read_row(row).map_err(named)
    }

    fn read_row(row: &Row<'_>) -> Outcome<Self> {
        let mut record = read_record(row)?;
        let trial;
        (record.deaths, trial) = deaths_of(row.get(36)?, row.get(37)?);
        let start = row.get_ref(34)?.as_blob_or_null().unwrap_or_default().map(Box::from);
        let hold = (Epoch(unsigned(row.get(2)?)), Timestamp(row.get(5)?), trial);
        let columns = Columns {
            holder: row.get(3)?,
            ready_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
            place: row.get::<_, Option<i64>>(8)?.map(Timestamp),
            offered: row.get(9)?,
            queue: row.get(10)?,
            created: record.times.created,
            completed: record.times.completed,
            standing: Standing::of(&record, hold, (row.get(6)?, start.is_some())),
        };
        let last = row.get_ref(7)?.as_blob_or_null().unwrap_or_default();
        let last = last.map(|last| LastCommit::read(last, record.execution, record.revision)).transpose()?;
        let id = instance_id(row.get_ref(1)?.as_str().unwrap_or_default())?;
        let holder = row.get_ref(35)?.as_blob_or_null().unwrap_or_default().map(session_of).transpose()?;
        let mut image =
            Self { id, record, key: row.get(0)?, row: columns, holder, last, start, taken: Vec::new() };
        match row.get_ref(32)?.as_blob_or_null().unwrap_or_default() {
            Some(tail) => image.read_tail(row, tail)?,
            None => {
                let taken = row.get_ref(27)?.as_blob_or_null().unwrap_or_default();
                image.taken =
                    taken.map(|taken| read_taken(taken, &image.id)).transpose()?.unwrap_or_default();
            }
        }
        Ok(image)
    }

    /// Takes over the state in the tail of its history.
    fn read_tail(&mut self, row: &Row<'_>, tail: &[u8]) -> Outcome<()> {
        let execution = self.record.execution;
        let events = row.get_ref(33)?.as_blob().unwrap_or_default();
        let tail = crate::wire::read_tail(tail, (&self.id, execution), events)?;
        if tail.begun {
            super::tail::begin(&mut self.record);
            self.start = None;
        }
        let (revision, at) = (Revision(unsigned(row.get(28)?)), Timestamp(row.get(30)?));
        self.last = Some(LastCommit {
            execution,
            revision: Revision(revision.0.saturating_sub(1)),
            epoch: Epoch(unsigned(row.get(29)?)),
            by: Some(tail.by),
            amendment: None,
            taken: tail.taken.iter().map(|task| task.id).collect(),
        });
        self.record.revision = revision;
        self.record.times.updated = at;
        (self.record.history_len, self.record.history_bytes) = (row.get(31)?, tail.history_bytes);
        self.taken = tail.taken.into_iter().map(|task| (task, at)).collect();
        Ok(())
    }

    pub(super) fn fence(&self) -> Fence {
        Fence {
            instance: self.id.clone(),
            execution: self.record.execution,
            revision: self.record.revision,
            epoch: self.row.standing.epoch,
        }
    }

    fn holder(&self) -> Option<SessionId> {
        self.row.holder.map(|key| self.holder.unwrap_or(gone(key)))
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
    pub(super) fn image(&self, id: &InstanceId) -> Outcome<Option<Image>> {
        let mut find = self.db.prepare_cached(BY_ID)?;
        let found = find.query_row(params![self.hub, id.as_str()], |row| Ok(Image::read(row)));
        found.optional()?.transpose()
    }

    /// An instance by its id. Its inbox is read where a part of it lies in the row of the instance; else it is read as far as a
    /// decision asks for it.
    pub(super) fn instance(&self, id: &InstanceId) -> Outcome<Option<Loaded>> {
        self.image(id)?.map(|image| self.loaded(image)).transpose()
    }

    /// The same from what its row says.
    pub(super) fn loaded(&self, image: Image) -> Outcome<Loaded> {
        let inbox = match image.start {
            Some(_) => Some(self.whole_inbox(image.key)?),
            None => None,
        };
        self.load_with(image, inbox)
    }

    /// The same with the messages that wait, if they are known. That in the row of the instance is added.
    fn load_with(&self, image: Image, mut inbox: Option<Inbox>) -> Outcome<Loaded> {
        let holder = image.holder();
        let Image { id, record, key, row, last, start, taken, .. } = image;
        let start = start.as_deref().map(read_message).transpose()?;
        let start_id = start.as_ref().map(|start| start.id);
        if let (Some(start), Some(inbox)) = (start, &mut inbox) {
            inbox.insert(in_row(start));
        }
        let by = |by: i64| match holder {
            Some(holder) if row.holder == Some(by) => Ok(holder),
            _ => Ok::<_, Fail>(self.session_id(by)?.unwrap_or(gone(by))),
        };
        let last = match last {
            None => None,
            Some(last) => {
                let by = last.by.map(by).transpose()?;
                Some(last.named(by))
            }
        };
        let Standing { epoch, not_before, trial, remembered, .. } = row.standing;
        let stored = Stored {
            key,
            queue: (record.queue.clone(), row.queue),
            tags: record.tags.clone(),
            remembered,
            start: start_id,
            tasks: Tasks::read(taken, holder),
            row,
        };
        let head = Head { record, epoch, holder, trial, not_before, last, remembers: remembered > 0 };
        let ready_at = row.ready_at.filter(|_| start_id.is_some() == row.standing.start_in_row);
        Ok(Loaded { instance: Instance::stored(id, head, ready_at, inbox), stored })
    }
}

impl Scope<'_, '_> {
    /// An instance by its id, from the cache or the file. It is taken out of the cache. An operation that succeeds puts it back
    /// with [`Scope::put_back`], as it is in the file.
    pub(super) fn fetch(&mut self, id: &InstanceId) -> Outcome<Option<Box<Loaded>>> {
        if let Some(mut loaded) = self.group.hot.take(self.view.hub, id) {
            self.know_inbox(&mut loaded)?;
            return Ok(Some(loaded));
        }
        // Most that are not in memory are not there at all: a start looks for what it must not find. An index tells that
        // at a fifth of the cost.
        let there =
            self.statements.get(self.view.db, "SELECT 1 FROM instances WHERE hub = ?1 AND id = ?2")?;
        if !there.exists(params![self.view.hub, id.as_str()])? {
            return Ok(None);
        }
        let Some(mut image) = self.view.image(id)? else { return Ok(None) };
        let most = self.group.hot.messages_max();
        let mut inbox = self.view.short_inbox(image.key, most)?;
        let has_room = inbox.as_ref().is_some_and(|inbox| inbox.len() < most);
        if let Some(start) = image.start.take_if(|_| !has_room) {
            let owner = Owner { key: image.key, kind: image.record.queue.kind };
            self.spill(owner, &mut image.row, &read_message(&start)?)?;
            inbox = None;
        }
        Ok(Some(Box::new(self.view.load_with(image, inbox)?)))
    }

    /// Reads the inbox of an instance again that had a long one, if it may be short now.
    fn know_inbox(&mut self, loaded: &mut Loaded) -> Outcome<()> {
        let Loaded { instance, stored } = loaded;
        if instance.may_have_short_inbox() {
            let inbox = self.short_inbox(stored.key, self.group.hot.messages_max())?;
            inbox.into_iter().for_each(|inbox| instance.know_inbox(inbox));
        }
        Ok(())
    }

    /// The instance of a turn that is due.
    pub(super) fn fetch_due(&mut self, due: &Due) -> Outcome<Option<Box<Loaded>>> {
        match &due.turn_of {
            Some(id) => self.fetch(&instance_id(id.as_str())?),
            None => self.fetch_at(due.key),
        }
    }

    /// The same by its key.
    pub(super) fn fetch_at(&mut self, key: i64) -> Outcome<Option<Box<Loaded>>> {
        let mut find = self.view.db.prepare_cached("SELECT id FROM instances WHERE key = ?1")?;
        let id: Option<String> = find.query_row([key], |row| row.get(0)).optional()?;
        match id {
            Some(id) => self.fetch(&instance_id(id)?),
            None => Ok(None),
        }
    }

    /// Holds an instance that is as in the file in memory, for the next operation.
    pub(super) fn put_back(&mut self, loaded: Box<Loaded>) {
        self.group.hot.put(self.view.hub, loaded);
    }
}
