//! The contract in SQL, one file per operation. Everything here runs inside one transaction of the caller.
//!
//! [`View`] reads one hub, [`Scope`] also writes. An operation checks everything before its first write, so that what
//! is refused leaves no trace although its transaction goes on with the operations of others.

mod applied;
mod claim;
mod commit;
mod create;
mod delete;
mod deliver;
mod dump;
mod facts;
mod gather;
mod held;
mod history;
mod hot;
mod inbox;
mod inspect;
mod lanes;
mod load;
mod look;
mod mail;
mod purge;
mod put;
mod query;
mod recall;
mod release;
mod retry;
mod row;
mod scale;
mod sessions;
mod spend;
mod starts;
mod statements;
mod stored;
mod tags;
mod tail;
mod taken;
mod task;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Params, params};

use dauer_store::{
    Deaths, DropReason, Effort, Fence, Hint, HostId, HubName, InstanceId, Kind, Message, QueueKey, Record,
    Refused, SessionId, StoreLimits, Timestamp,
};
use dauer_store_kit::calls::Desks;
use dauer_store_kit::codec::{hub_name, kind_code, kind_of, reason_code};
use dauer_store_kit::instance::Changes;
use dauer_store_kit::judge;

use crate::fail::Outcome;
use crate::life::Lives;
use crate::options::Memory;

pub(crate) use hot::Hot;
pub(crate) use look::Found;
pub(crate) use spend::{Bid, Bids};
pub(crate) use statements::Statements;
pub(crate) use tags::catch_up as catch_up_tags;

/// The key of a hub that is not in the file: nothing has it, so that the hub is empty.
pub(crate) const ABSENT: i64 = 0;

/// One hub in a transaction that only reads.
#[derive(Clone, Copy)]
pub(crate) struct View<'c> {
    pub(crate) db: &'c Connection,
    pub(crate) hub: i64,
    pub(crate) now: Timestamp,
}

/// What a writer knows of the file beyond one transaction. Forgotten after every rollback.
#[derive(Default)]
pub(crate) struct Known {
    hubs: BTreeMap<HubName, i64>,
    /// Hubs in use: no dump may be loaded into them.
    used: BTreeSet<i64>,
    queues: BTreeMap<(i64, QueueKey), i64>,
    /// The values of hubs.
    values: BTreeMap<i64, starts::HubValues>,
    hosts: BTreeMap<HostId, i64>,
    /// The keys of sessions, by hub.
    session_keys: BTreeMap<(i64, SessionId), i64>,
    /// The largest key of a row in an inbox.
    inbox_key: Option<i64>,
    /// Up to which key the index of tags goes, once it was read.
    tagged: Option<i64>,
    /// The largest key of an instance that was added.
    newest: i64,
}

/// What the operations of one transaction share.
pub(crate) struct Group {
    pub(crate) known: Known,
    /// How many instances the index of tags may be behind.
    tags_behind: i64,
    /// Rows as the last transaction left them.
    pub(crate) hot: Hot,
    /// Lists of changes that are not in use.
    changes: Vec<Changes>,
    pub(crate) hints: BTreeMap<HubName, Vec<Hint>>,
    /// Which kinds of work have become ready.
    pub(crate) ready: BTreeSet<(HubName, Kind)>,
    /// Held instances for which messages have become visible, with their holders.
    pub(crate) mail: BTreeSet<(HubName, SessionId, InstanceId)>,
    /// When the first item that this transaction has put to sleep is ready.
    pub(crate) due: BTreeMap<HubName, Timestamp>,
    /// The credit of sessions in this transaction, and their wins.
    pub(crate) bids: Bids,
    desks: Arc<Desks>,
    /// The cost of this transaction.
    pub(crate) effort: Effort,
    /// The hubs that it has written to.
    pub(crate) touched: BTreeSet<i64>,
    /// A time beyond the clock's that this transaction has learnt of.
    pub(crate) raised: Timestamp,
    pub(crate) lives: Arc<Lives>,
    /// Sessions that this transaction has ended because their hosts are dead.
    buried: Vec<SessionId>,
    /// The queue that was served last, by hub: the next look begins behind it. In memory only: it is about fairness.
    served_turns: BTreeMap<i64, QueueKey>,
    served_tasks: BTreeMap<i64, QueueKey>,
}

impl Group {
    pub(crate) fn new(desks: Arc<Desks>, lives: Arc<Lives>, (memory, tags_behind): (Memory, usize)) -> Self {
        Self {
            known: Known::default(),
            tags_behind: signed(tags_behind as u64),
            hot: Hot::new(memory),
            changes: Vec::new(),
            hints: BTreeMap::new(),
            ready: BTreeSet::new(),
            mail: BTreeSet::new(),
            due: BTreeMap::new(),
            bids: Bids::default(),
            desks,
            effort: Effort::default(),
            touched: BTreeSet::new(),
            raised: Timestamp::default(),
            lives,
            buried: Vec::new(),
            served_turns: BTreeMap::new(),
            served_tasks: BTreeMap::new(),
        }
    }

    /// Before every transaction.
    pub(crate) fn begin(&mut self) {
        self.hints.values_mut().for_each(Vec::clear);
        self.ready.clear();
        self.mail.clear();
        self.due.clear();
        self.bids.clear();
        self.effort = Effort::default();
        self.touched.clear();
        self.raised = Timestamp::default();
        self.buried.clear();
    }

    /// After a transaction that happened.
    pub(crate) fn settle(&mut self) {
        for session in self.buried.drain(..) {
            self.lives.bury(session);
        }
    }

    /// Hubs and queues have gone.
    fn unlearn(&mut self) {
        let (tagged, newest) = (self.known.tagged, self.known.newest);
        self.known = Known { tagged, newest, ..Known::default() };
    }

    /// Clears the cache after a rollback, or a write of another connection.
    pub(crate) fn forget(&mut self) {
        self.begin();
        self.known = Known::default();
        self.hot.clear();
    }
}

/// One hub in a transaction that writes.
pub(crate) struct Scope<'g, 'c> {
    view: View<'c>,
    statements: &'g mut Statements<'c>,
    name: &'g HubName,
    limits: &'g StoreLimits,
    group: &'g mut Group,
}

impl<'c> Deref for Scope<'_, 'c> {
    type Target = View<'c>;

    fn deref(&self) -> &View<'c> {
        &self.view
    }
}

impl<'c> View<'c> {
    /// Opens a hub, as far as it is there.
    pub(crate) fn of(db: &'c Connection, name: &HubName, now: Timestamp) -> Outcome<Self> {
        let mut find = db.prepare_cached("SELECT key FROM hubs WHERE name = ?1")?;
        let hub = find.query_row([name.as_str()], |row| row.get(0)).optional()?;
        Ok(Self { db, hub: hub.unwrap_or(ABSENT), now })
    }

    /// The record of an instance, with the fence that a commit would have to carry.
    pub(crate) fn get(&self, id: &InstanceId) -> Outcome<Option<(Fence, Record)>> {
        Ok(self.image(id)?.map(|image| (image.fence(), image.record)))
    }

    /// The names of all hubs of the file, in their order.
    pub(crate) fn hub_names(&self) -> Outcome<Vec<HubName>> {
        let mut all = self.db.prepare_cached("SELECT name FROM hubs ORDER BY name")?;
        let names =
            all.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(names.into_iter().map(hub_name).collect::<Result<_, _>>()?)
    }

    /// The queues of a hub, by kind, name and version.
    fn queues(&self) -> Outcome<Vec<(i64, QueueKey)>> {
        let mut all = self.db.prepare_cached(
            "SELECT key, kind, name, version FROM queues WHERE hub = ?1 ORDER BY kind, name, version",
        )?;
        let mut rows = all.query([self.hub])?;
        let mut queues = Vec::new();
        while let Some(row) = rows.next()? {
            let (name, version): (String, String) = (row.get(2)?, row.get(3)?);
            let kind = kind_of(row.get(1)?)?;
            let version = version.strip_prefix('=').map(Arc::from);
            queues.push((row.get(0)?, QueueKey { kind, name: name.into(), version }));
        }
        Ok(queues)
    }
}

impl<'g, 'c> Scope<'g, 'c> {
    /// Opens a hub, as far as it is there. [`Scope::touch`] makes it.
    pub(crate) fn of(
        (db, statements): (&'c Connection, &'g mut Statements<'c>),
        name: &'g HubName,
        now: Timestamp,
        (limits, group): (&'g StoreLimits, &'g mut Group),
    ) -> Outcome<Self> {
        let hub = match group.known.hubs.get(name) {
            Some(hub) => *hub,
            None => {
                let hub = View::of(db, name, now)?.hub;
                if hub != ABSENT {
                    group.known.hubs.insert(name.clone(), hub);
                }
                hub
            }
        };
        Ok(Self { view: View { db, hub, now }, statements, name, limits, group })
    }

    /// Makes the hub if it is absent. Only a start, a message, a session or a load does. Reads and removals find an absent hub
    /// empty.
    fn make(&mut self) -> Outcome<()> {
        if self.view.hub == ABSENT {
            let name = self.name;
            self.run("INSERT INTO hubs (name, pristine) VALUES (?1, 1)", [name.as_str()])?;
            self.view.hub = self.view.db.last_insert_rowid();
            self.group.known.hubs.insert(name.clone(), self.view.hub);
        }
        Ok(())
    }

    /// Notes that the hub is in use, and makes it if it is absent. From now on no dump may be loaded into it.
    fn touch(&mut self) -> Outcome<()> {
        self.make()?;
        if self.group.known.used.insert(self.hub) {
            self.db
                .prepare_cached("UPDATE hubs SET pristine = 0 WHERE key = ?1 AND pristine = 1")?
                .execute([self.hub])?;
        }
        Ok(())
    }

    /// A statement that writes; answers how many rows it changed.
    fn run(&mut self, sql: &'static str, values: impl Params) -> Outcome<usize> {
        let rows = self.statements.get(self.view.db, sql)?.execute(values)?;
        self.count_run(rows);
        Ok(rows)
    }

    /// Counts a statement and the rows that it changed.
    fn count_run(&mut self, rows: usize) {
        self.group.effort.statements += 1;
        self.group.effort.rows += rows as u64;
        if self.view.hub != ABSENT {
            self.group.touched.insert(self.view.hub);
        }
    }

    /// Work of that kind is ready at that time.
    fn ready_at(&mut self, kind: Kind, at: Timestamp) {
        if at > self.now {
            self.due_at(at);
        } else if !self.group.ready.iter().any(|(hub, ready)| hub == self.name && *ready == kind) {
            self.group.ready.insert((self.name.clone(), kind));
        }
    }

    /// Something becomes ready by time alone.
    fn due_at(&mut self, at: Timestamp) {
        match self.group.due.get_mut(self.name) {
            Some(earliest) => *earliest = at.min(*earliest),
            None => _ = self.group.due.insert(self.name.clone(), at),
        }
    }

    /// A message for an instance that a session holds is visible at that time.
    fn mail_at(&mut self, instance: &InstanceId, holder: SessionId, at: Timestamp) {
        if at > self.now {
            self.due_at(at);
        } else {
            self.group.mail.insert((self.name.clone(), holder, instance.clone()));
        }
    }

    fn check_message(&self, message: &Message) -> Outcome<()> {
        Ok(judge::check_message(self.limits, self.now, message)?)
    }

    fn hint(&mut self, hint: Hint) {
        match self.group.hints.get_mut(self.name) {
            Some(hints) => hints.push(hint),
            None => _ = self.group.hints.insert(self.name.clone(), vec![hint]),
        }
    }

    fn count_dropped(&mut self, reason: DropReason, count: u64) -> Outcome<()> {
        if count > 0 {
            let hub = self.view.hub;
            self.run(
                "INSERT INTO dropped VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET count = count + ?3",
                params![hub, reason_code(reason), signed(count)],
            )?;
        }
        Ok(())
    }

    /// The key of a host, which is made when it is new.
    fn host_key(&mut self, host: &HostId) -> Outcome<i64> {
        if let Some(key) = self.group.known.hosts.get(host) {
            return Ok(*key);
        }
        self.run("INSERT OR IGNORE INTO hosts (name) VALUES (?1)", [host.as_str()])?;
        let mut find = self.view.db.prepare_cached("SELECT key FROM hosts WHERE name = ?1")?;
        let key = find.query_row([host.as_str()], |row| row.get(0))?;
        self.group.known.hosts.insert(host.clone(), key);
        Ok(key)
    }

    /// The key of a queue, which is made when it is new.
    fn queue_key(&mut self, queue: &QueueKey) -> Outcome<i64> {
        let known = (self.hub, queue.clone());
        if let Some(key) = self.group.known.queues.get(&known) {
            return Ok(*key);
        }
        let version = queue.version.as_deref().map_or_else(String::new, |version| format!("={version}"));
        let kind = kind_code(queue.kind);
        let hub = self.view.hub;
        self.run(
            "INSERT OR IGNORE INTO queues (hub, kind, name, version) VALUES (?1, ?2, ?3, ?4)",
            params![hub, kind, &*queue.name, version],
        )?;
        let mut find = self.view.db.prepare_cached(
            "SELECT key FROM queues WHERE hub = ?1 AND kind = ?2 AND name = ?3 AND version = ?4",
        )?;
        let key = find.query_row(params![self.hub, kind, &*queue.name, version], |row| row.get(0))?;
        self.group.known.queues.insert(known, key);
        Ok(key)
    }
}

/// A number of the contract in a column of SQLite, which has signed ones. None of them gets so large in practice; if one
/// did, the comparison with it would fail, and with it the operation.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The deaths during trials and whether a trial is open, as one column.
fn trials_column(deaths: Deaths, open: bool) -> i64 {
    i64::from(deaths.trials) << 1 | i64::from(open)
}

/// Reads the columns of deaths and trials.
fn deaths_of(deaths: i64, trials: i64) -> (Deaths, bool) {
    let count = u32::try_from(trials >> 1).unwrap_or(u32::MAX);
    (Deaths::from_bits(unsigned(deaths), count), trials & 1 == 1)
}

/// The refusal of a session that does not hold the item.
fn fenced<T>() -> Outcome<T> {
    Err(Refused::Fenced.into())
}
