//! The thread that writes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use rusqlite::Connection;

use dauer_store::{Cause, HubName, Refused, SessionId, StoreLimits};
use dauer_store_kit::calls::Desks;

use super::effort::Tally;
use super::hints::Listeners;
use super::job::Job;
use super::reader::{Read, in_snapshot, not_opened};
use super::time::FileTime;
use super::told::Told;
use super::transaction::{CommitFailed, Seen, Transaction, data_version};
use super::watch::Watch;
use crate::fail::refusal;
use crate::gate::Gate;
use crate::open::connect;
use crate::options::Durability;
use crate::state::Group;
use crate::touched::{Changed, Follower};

/// From how many writes on no more are joined into a transaction: bounds how long other processes wait at the gate, and keeps
/// a host from handing over everything it has at once: then host and writer would wait for each other in turn. A batch that
/// comes in one call is never split, however large it is.
const GROUP_MAX: usize = 256;

/// How often an idle writer looks whether another process has written: at first, and after a while. Looking costs a few
/// microseconds and a wake-up, so that an idle hub stays below half a percent of a core, and a result of another process
/// is noticed within a few milliseconds while there is something going on.
const LOOK_SOON: Duration = Duration::from_millis(1);
const LOOK_LATE: Duration = Duration::from_millis(32);

/// How often it looks while the watch is armed: in case the event was lost, or came long before its write could be seen.
pub(crate) const LOOK_WATCHED: Duration = Duration::from_secs(1);

/// An order to a writer.
pub(crate) enum Order {
    /// To write.
    Job(Box<dyn Job>),
    /// To read, behind all writes that were ordered before.
    Read(Read),
    /// That a listener or a session is there now.
    Wake,
    /// Another process may have written: sent by the watch.
    Written,
    /// To end when everything before is done.
    Close,
}

/// Why a transaction did not happen.
enum Trouble {
    /// Nothing happened.
    NotBegun(Refused),
    /// An operation broke, and all was rolled back.
    Broken(Refused),
    /// The commit failed: the outcome is unknown.
    Unknown(Refused),
}

/// The part of a job.
type Part = (usize, usize);

/// The writing half of one handle.
pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) db: Option<Connection>,
    pub(crate) seen: Option<Seen>,
    /// The version of the file that listeners were last told of.
    pub(crate) told: Option<i64>,
    /// Which hubs others have written.
    pub(crate) follower: Follower,
    pub(crate) gate: Gate,
    pub(crate) time: Arc<FileTime>,
    pub(crate) limits: StoreLimits,
    pub(crate) group: Group,
    pub(crate) tally: Arc<Tally>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) desks: Arc<Desks>,
    pub(crate) orders: Receiver<Order>,
    pub(crate) watch: Watch,
    /// [`LOOK_WATCHED`], but in tests.
    pub(crate) look_watched: Duration,
    /// Others have sessions on this file, which may die without a write.
    pub(crate) has_company: bool,
}

impl Writer {
    /// Works until the order to end, or until all senders are gone.
    pub(crate) fn run(mut self) {
        let mut look = LOOK_SOON;
        while let Some(orders) = self.next(&mut look) {
            let mut closing = false;
            let mut jobs = Vec::new();
            for order in orders {
                match order {
                    Order::Job(job) => jobs.push(job),
                    Order::Read(read) => {
                        self.serve(std::mem::take(&mut jobs));
                        self.read(read);
                    }
                    Order::Wake => look = LOOK_SOON,
                    Order::Written => {
                        look = LOOK_SOON;
                        self.watch.has_told();
                    }
                    Order::Close => closing = true,
                }
            }
            if !jobs.is_empty() {
                look = LOOK_SOON;
                self.serve(jobs);
            }
            if let Some(changed) = self.changed_elsewhere() {
                look = LOOK_SOON;
                self.desks.unseen_all(changed.as_deref());
                self.listeners.send_elsewhere(changed.as_deref());
            }
            if closing {
                break;
            }
        }
        self.listeners.end();
        // Waits look again, and are refused.
        self.desks.unseen_all(None);
        // The last connection that closes empties the log into the file.
        self.db = None;
    }

    /// Whether a session or a listener waits for what others do to the file.
    fn is_followed(&self) -> bool {
        self.listeners.any() || self.desks.any()
    }

    /// The hubs that listeners are to be told of, because another connection has written or a host has died: `Some(None)` is
    /// all of them.
    fn changed_elsewhere(&mut self) -> Option<Option<Vec<HubName>>> {
        let written = self.written_elsewhere();
        if self.host_died() { Some(None) } else { written }
    }

    /// The hubs that another connection has written since the last call. The next transaction clears the cache: it compares the
    /// version itself.
    fn written_elsewhere(&mut self) -> Option<Option<Vec<HubName>>> {
        let db = self.db.as_ref()?;
        let found = data_version(db).ok()?;
        if self.told.replace(found) == Some(found) {
            return None;
        }
        Some(match self.follower.look(self.gate.file()) {
            Changed::All => None,
            // A hub that is gone has no name.
            Changed::Hubs(keys) => keys.into_iter().map(|key| hub_of(db, key)).collect(),
        })
    }

    /// Whether a host on this file has died since it was last looked at: what it held can be taken over.
    fn host_died(&mut self) -> bool {
        let Some(db) = &self.db else { return false };
        if !self.is_followed() || !self.group.lives.is_time_for_writer(self.time.of_handle()) {
            return false;
        }
        // When the sessions cannot be read, the next claim says why.
        let ids = living_sessions(db).unwrap_or_default();
        self.has_company = ids.iter().any(|id| !self.group.lives.is_own(*id));
        let died = ids.into_iter().any(|id| self.group.lives.is_dead(id));
        if died {
            self.group.lives.look_at_claim();
        }
        died
    }

    /// Waits for orders and takes all that are there; an empty list when it is time to look at the file.
    pub(super) fn next(&mut self, look: &mut Duration) -> Option<Vec<Order>> {
        let first = match self.orders.try_recv() {
            Ok(order) => order,
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if self.is_followed() => match self.orders.recv_timeout(*look) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) => {
                    *look = self.look_after(*look);
                    return Some(Vec::new());
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            },
            Err(TryRecvError::Empty) => self.orders.recv().ok()?,
        };
        let size = |order: &Order| if let Order::Job(job) = order { job.parts() } else { 0 };
        let mut waiting = size(&first);
        let mut orders = vec![first];
        while waiting < GROUP_MAX
            && let Ok(order) = self.orders.try_recv()
        {
            waiting += size(&order);
            orders.push(order);
        }
        Some(orders)
    }

    /// When to look after a look that found nothing: ever later. Before it looks seldom, the watch is there, and what it was
    /// too late for is found by the look that follows now.
    pub(super) fn look_after(&mut self, last: Duration) -> Duration {
        let next = last * 2;
        if next <= LOOK_LATE || !self.watch.arm() {
            return next.min(LOOK_LATE);
        }
        next.min(if self.has_company { crate::life::LOOK_EVERY } else { self.look_watched })
    }

    /// Carries out a group of jobs in one transaction; part by part when one of them breaks. Looks that win nothing need none.
    pub(super) fn serve(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        if jobs.iter().all(|job| job.is_look()) {
            jobs = self.peek(jobs);
        }
        if jobs.is_empty() {
            return;
        }
        let parts: Vec<Part> =
            (0..jobs.len()).flat_map(|job| (0..jobs[job].parts()).map(move |part| (job, part))).collect();
        let mut told = Vec::new();
        match self.transact(&mut jobs, &parts, true) {
            Err(Trouble::Broken(_)) => {
                for part in parts {
                    let outcome = self.transact(&mut jobs, &[part], false);
                    told.push(self.settle(&mut jobs, &[part], outcome));
                }
            }
            outcome => told.push(self.settle(&mut jobs, &parts, outcome)),
        }
        // A host has the answer to its commit before it hears of what became ready by it.
        let (looks, writes): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.is_look());
        writes.into_iter().for_each(Job::answer);
        told.into_iter().for_each(|told| told.tell(&self.desks, &self.time));
        looks.into_iter().for_each(Job::answer);
    }

    /// Answers the looks that win nothing, and returns the others.
    fn peek(&self, looks: Vec<Box<dyn Job>>) -> Vec<Box<dyn Job>> {
        let Some(db) = self.db.as_ref().filter(|db| db.is_autocommit()) else { return looks };
        let mut others = Vec::new();
        in_snapshot(db, &self.time, |file| {
            for mut look in looks {
                let answered = file.as_ref().is_ok_and(|(db, now)| look.peek((db, *now, &self.group.lives)));
                if answered {
                    look.answer();
                } else {
                    others.push(look);
                }
            }
        });
        others
    }

    /// Reads what earlier orders have written.
    fn read(&self, read: Read) {
        match self.db.as_ref().filter(|db| db.is_autocommit()) {
            // A connection that cannot be used again is found out by the next transaction.
            Some(db) => _ = in_snapshot(db, &self.time, read),
            None => read(Err(not_opened())),
        }
    }

    /// After a transaction: sends its hints if it happened, else answers its parts with the refusal. Returns the report for the
    /// desks.
    fn settle(&mut self, jobs: &mut [Box<dyn Job>], parts: &[Part], outcome: Result<(), Trouble>) -> Told {
        let mut fail = |refused: &Refused| {
            for (job, part) in parts {
                jobs[*job].fail(*part, refused.clone());
            }
        };
        match outcome {
            Ok(()) => {
                self.tally.add(&self.group.effort);
                self.listeners.send(&mut self.group);
                Told::happened(&mut self.group)
            }
            Err(Trouble::NotBegun(refused) | Trouble::Broken(refused)) => {
                fail(&refused);
                Told::default()
            }
            Err(Trouble::Unknown(refused)) => {
                fail(&refused);
                let told = Told::unknown(&mut self.group, refused);
                // What the connection believes of the file may be wrong. When no new one can be had now, the next
                // transaction tries again.
                self.reopen();
                told
            }
        }
    }

    fn reopen(&mut self) {
        self.group.forget();
        // A new connection counts its own versions; the time goes on.
        self.seen = self.seen.map(Seen::of_another_connection);
        self.db = None;
        self.db = connect(&self.path, self.durability).ok();
    }

    /// One transaction of these parts, in which credit is spent if `spends`. It is not after an attempt that broke, perhaps by
    /// what a session won: then the sessions look.
    fn transact(&mut self, jobs: &mut [Box<dyn Job>], parts: &[Part], spends: bool) -> Result<(), Trouble> {
        let not_executed = |error: Box<dyn std::error::Error + Send + Sync>| {
            Trouble::NotBegun(Refused::NotExecuted(Cause::new(error)))
        };
        self.group.bids.spends = spends;
        if self.db.as_ref().is_none_or(|db| !db.is_autocommit()) {
            self.reopen();
        }
        let Some(db) = &self.db else {
            return Err(Trouble::NotBegun(not_opened()));
        };
        let _passage = self.gate.pass().map_err(|e| not_executed(e.into()))?;
        let known = (&mut self.group, &mut self.seen);
        let begun = Transaction::begin(db, &self.time, &self.limits, known);
        let mut transaction = begun.map_err(Trouble::NotBegun)?;
        let mut run = || {
            parts.iter().try_for_each(|(job, part)| jobs[*job].run(*part, &mut transaction))?;
            transaction.serve()
        };
        if let Err(refused) = run() {
            transaction.rollback();
            return Err(Trouble::Broken(refused));
        }
        if let Some(touched) = transaction.touched() {
            self.follower.announce(self.gate.file(), touched);
        }
        match transaction.commit() {
            Ok(()) => Ok(()),
            Err(CommitFailed::Before(error)) => Err(Trouble::Broken(refusal(error))),
            Err(CommitFailed::During(error)) => Err(Trouble::Unknown(Refused::Unknown(Cause::new(error)))),
        }
    }
}

/// The name of a hub, if it is there.
fn hub_of(db: &Connection, key: i64) -> Option<HubName> {
    let mut find = db.prepare_cached("SELECT name FROM hubs WHERE key = ?1").ok()?;
    find.query_row([key], |row| row.get::<_, String>(0)).ok().and_then(|name| HubName::new(name).ok())
}

fn living_sessions(db: &Connection) -> rusqlite::Result<Vec<SessionId>> {
    let mut find = db.prepare_cached("SELECT id FROM sessions WHERE ended = 0")?;
    let ids = find.query_map([], |row| row.get::<_, [u8; 16]>(0))?;
    ids.map(|id| id.map(|id| SessionId(u128::from_be_bytes(id)))).collect()
}
