//! The thread that writes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use rusqlite::Connection;

use dauer_store::{Cause, Refused, StoreLimits};

use super::hints::Listeners;
use super::job::Job;
use super::transaction::Transaction;
use crate::fail::refusal;
use crate::gate::Gate;
use crate::open::connect;
use crate::options::Durability;
use crate::state::Group;
use dauer_store::Clock;

/// How many writes share a transaction at most: bounds how long other processes wait at the gate.
const GROUP_MAX: usize = 1_000;

/// How often an idle writer looks whether another process has written: at first, and after a while.
const LOOK_SOON: Duration = Duration::from_millis(1);
const LOOK_LATE: Duration = Duration::from_millis(16);

/// What a writer is told.
pub(crate) enum Order {
    /// To write. With a refusal: to answer with it instead, before anything has begun.
    Jobs(Vec<Box<dyn Job>>, Option<Refused>),
    /// That somebody listens now.
    Wake,
    /// To end when everything before is done.
    Close,
}

/// Why a transaction did not happen.
enum Trouble {
    /// Nothing happened.
    NotBegun(Refused),
    /// An operation broke, and all was rolled back.
    Broken(Refused),
    /// The commit failed: nobody knows.
    Unknown(Refused),
}

/// The writing half of one handle.
pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) db: Option<Connection>,
    pub(crate) gate: Gate,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: StoreLimits,
    pub(crate) group: Group,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) orders: Receiver<Order>,
}

impl Writer {
    /// Works until it is told to end, or nobody is left to tell it anything.
    pub(crate) fn run(mut self) {
        let mut look = LOOK_SOON;
        let mut version = self.version();
        while let Some(orders) = self.next(&mut look) {
            let mut closing = false;
            let mut jobs = Vec::new();
            for order in orders {
                match order {
                    Order::Jobs(batch, None) => jobs.extend(batch),
                    Order::Jobs(batch, Some(refused)) => fail_all(batch, &refused),
                    Order::Wake => look = LOOK_SOON,
                    Order::Close => closing = true,
                }
            }
            if !jobs.is_empty() {
                look = LOOK_SOON;
                self.serve(jobs);
            }
            let found = self.version();
            if found.is_some() && found != version {
                version = found;
                look = LOOK_SOON;
                self.listeners.send_to_all();
            }
            if closing {
                break;
            }
        }
        self.listeners.end();
    }

    /// Waits for orders and takes all that are there; an empty list when it is time to look at the file.
    fn next(&self, look: &mut Duration) -> Option<Vec<Order>> {
        let first = if self.listeners.any() {
            match self.orders.recv_timeout(*look) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) => {
                    *look = (*look * 2).min(LOOK_LATE);
                    return Some(Vec::new());
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        } else {
            self.orders.recv().ok()?
        };
        let mut orders = vec![first];
        let size = |orders: &[Order]| -> usize {
            orders.iter().map(|o| if let Order::Jobs(jobs, _) = o { jobs.len() } else { 0 }).sum()
        };
        let mut waiting = size(&orders);
        while waiting < GROUP_MAX {
            match self.orders.try_recv() {
                Ok(order) => {
                    waiting += size(std::slice::from_ref(&order));
                    orders.push(order);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        Some(orders)
    }

    /// Changes when another connection has written.
    fn version(&self) -> Option<i64> {
        let mut find = self.db.as_ref()?.prepare_cached("PRAGMA data_version").ok()?;
        find.query_row([], |row| row.get(0)).ok()
    }

    /// Carries out a group of jobs in one transaction; one by one when one of them breaks.
    pub(super) fn serve(&mut self, mut jobs: Vec<Box<dyn Job>>) {
        match self.transact(&mut jobs) {
            Err(Trouble::Broken(_)) if jobs.len() > 1 => {
                for job in jobs {
                    let mut alone = vec![job];
                    let outcome = self.transact(&mut alone);
                    self.answer(alone, outcome);
                }
            }
            outcome => self.answer(jobs, outcome),
        }
    }

    fn answer(&mut self, jobs: Vec<Box<dyn Job>>, outcome: Result<(), Trouble>) {
        match outcome {
            Ok(()) => {
                jobs.into_iter().for_each(Job::happened);
                for (hub, hint) in self.group.hints.drain(..) {
                    self.listeners.send(&hub, &hint);
                }
            }
            Err(Trouble::NotBegun(refused) | Trouble::Broken(refused)) => fail_all(jobs, &refused),
            Err(Trouble::Unknown(refused)) => {
                fail_all(jobs, &refused);
                // What the connection believes of the file may be wrong. When no new one can be had now, the next
                // transaction tries again.
                self.db = None;
                self.db = connect(&self.path, self.durability).ok();
                self.group.forget();
            }
        }
    }

    fn transact(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), Trouble> {
        let not_executed = |error: Box<dyn std::error::Error + Send + Sync>| {
            Trouble::NotBegun(Refused::NotExecuted(Cause::new(error)))
        };
        if self.db.as_ref().is_none_or(|db| !db.is_autocommit()) {
            self.group.forget();
            self.db = None;
            self.db = Some(connect(&self.path, self.durability).map_err(|e| not_executed(e.into()))?);
        }
        let Some(db) = &self.db else { return Err(not_executed("the file is not open".into())) };
        let _passage = self.gate.pass().map_err(|e| not_executed(e.into()))?;
        let begun = Transaction::begin(db, self.clock.as_ref(), (&self.limits, &mut self.group));
        let mut transaction = begun.map_err(Trouble::NotBegun)?;
        for job in jobs {
            if let Err(refused) = job.run(&mut transaction) {
                transaction.rollback();
                return Err(Trouble::Broken(refused));
            }
        }
        if let Err(error) = transaction.stamp() {
            transaction.rollback();
            return Err(Trouble::Broken(refusal(error)));
        }
        transaction.commit().map_err(|error| Trouble::Unknown(Refused::Unknown(Cause::new(error))))
    }
}

fn fail_all(jobs: Vec<Box<dyn Job>>, refused: &Refused) {
    for job in jobs {
        job.failed(refused.clone());
    }
}
