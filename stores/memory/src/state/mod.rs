//! The state of one hub: plain, ordered data and one file per operation. No clock, no lock, no waiting.

mod applied;
mod claim;
mod commit;
mod create;
mod deliver;
mod dump;
mod gather;
mod history;
mod inbox;
mod index;
mod inspect;
mod instance;
mod load;
mod mail;
mod purge;
mod query;
mod release;
mod scale;
mod sessions;
mod starts;
mod task;

use std::collections::{BTreeMap, BTreeSet};

use dauer_store::{
    DropReason, Fence, Hint, HubDump, InstanceId, Message, MessageId, Record, Refused, SessionId,
    StoreLimits, Timestamp,
};
use dauer_store_kit::judge;

use crate::defect::{Defect, Defects};
use index::{Index, Place};
use instance::{Held, Instance};
use sessions::Session;
use starts::RemovedStarts;
use task::{HeldTask, TaskKey};

/// When an operation runs, and with which defect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    /// The first time the store ever had; only a defect answers with it.
    pub(crate) first: Timestamp,
    pub(crate) defects: Defects,
}

/// Everything one hub holds.
pub(crate) struct State {
    moment: Moment,
    pub(crate) limits: StoreLimits,
    /// Hints caused by the current operation; the shell takes and sends them.
    pub(crate) hints: Vec<Hint>,
    /// Grows with everything that has a place in an order.
    sequence: u64,
    /// Whether commits are torn in the middle; only a defect does that.
    pub(crate) torn: bool,
    /// Whether nothing but loads has happened, so that another part may be loaded.
    pristine: bool,
    hub: HubDump,
    removed_starts: RemovedStarts,
    instances: BTreeMap<InstanceId, Instance>,
    tasks: BTreeMap<TaskKey, HeldTask>,
    sessions: BTreeMap<SessionId, Session>,
    dropped: BTreeMap<DropReason, u64>,
    ready_turns: Index<InstanceId>,
    ready_tasks: Index<TaskKey>,
    by_created: BTreeSet<(Timestamp, InstanceId)>,
    by_completed: BTreeSet<(Timestamp, InstanceId)>,
    /// Loaded instances with messages in their outbox, which this store delivers before the next claim.
    to_relay: BTreeSet<InstanceId>,
}

/// What a host is told of a place where claims find something now, or later.
fn ready_hint(place: &Place, now: Timestamp) -> Hint {
    let kind = place.queue.kind;
    if place.time <= now { Hint::Ready(kind) } else { Hint::Due(kind, place.time.since(now)) }
}

impl State {
    pub(crate) fn new(limits: StoreLimits) -> Self {
        let zero = Timestamp::default();
        Self {
            moment: Moment { now: zero, first: zero, defects: Defects::default() },
            limits,
            hints: Vec::new(),
            sequence: 0,
            torn: false,
            pristine: true,
            hub: HubDump::default(),
            removed_starts: RemovedStarts::default(),
            instances: BTreeMap::new(),
            tasks: BTreeMap::new(),
            sessions: BTreeMap::new(),
            dropped: BTreeMap::new(),
            ready_turns: Index::default(),
            ready_tasks: Index::default(),
            by_created: BTreeSet::new(),
            by_completed: BTreeSet::new(),
            to_relay: BTreeSet::new(),
        }
    }

    /// Begins an operation. A hub loaded from a store whose clock was ahead waits for this one to catch up.
    pub(crate) fn enter(&mut self, moment: Moment) {
        self.moment = Moment { now: self.moment.now.max(moment.now), ..moment };
    }

    /// Whether anything was ever put into the hub. Reads and purges put nothing into it.
    pub(crate) fn exists(&self) -> bool {
        let empty = self.instances.is_empty() && self.sessions.is_empty() && self.dropped.is_empty();
        !self.pristine || !empty
    }

    fn now(&self) -> Timestamp {
        self.moment.now
    }

    /// The time that answers carry.
    fn shown_now(&self) -> Timestamp {
        if self.broken(Defect::NowStandsStill) { self.moment.first } else { self.moment.now }
    }

    fn check_message(&self, message: &Message) -> Result<(), Refused> {
        let checked = judge::check_message(&self.limits, self.now(), message);
        if self.broken(Defect::LimitIgnored) { Ok(()) } else { checked }
    }

    fn broken(&self, defect: Defect) -> bool {
        self.moment.defects.broken(defect)
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn count_dropped(&mut self, reason: DropReason, count: u64) {
        if count > 0 && !(reason == DropReason::Absent && self.broken(Defect::AbsentNotCounted)) {
            *self.dropped.entry(reason).or_default() += count;
        }
    }

    /// The record of an instance, with the fence that a commit would have to carry.
    pub(crate) fn get(&self, id: &InstanceId) -> Option<(Fence, Record)> {
        let instance = self.instances.get(id)?;
        let stale = instance.last.as_ref().and_then(|last| last.stale.as_deref());
        let record = stale.unwrap_or(&instance.record).clone();
        Some((instance.fence(id), record))
    }

    /// Whether a session is there, unexpired and not ended: nobody may take what it holds.
    fn is_live(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|s| s.life.lives(self.now()))
    }

    /// Whether others than the holder may take a turn.
    fn may_be_taken(&self, instance: &Instance) -> bool {
        let Some(held) = &instance.holder else { return true };
        let renewed = self.sessions.get(&held.session).is_some_and(|session| session.renewed);
        let snatched = !instance.has_committed() && !renewed && self.broken(Defect::ClaimHeld);
        !self.is_live(held.session) || snatched
    }

    /// A session that may still act. Expiry alone takes nothing from it.
    fn acting(&self, session: SessionId) -> Result<&Session, Refused> {
        let session = self.sessions.get(&session).ok_or(Refused::Fenced)?;
        session.life.may_act().map(|()| session)
    }

    /// A session that may claim.
    fn claiming(&self, session: SessionId) -> Result<(), Refused> {
        let session = self.acting(session)?;
        if self.broken(Defect::ExpiredClaims) { Ok(()) } else { session.life.may_claim(self.now()) }
    }

    /// Puts an instance into the place where claims find it, or takes it out. Called after every change of what
    /// waits, of the holder, or of the holder's life.
    fn reindex_turn(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get(id) else { return };
        let offered = instance.has_committed() && self.broken(Defect::ClaimTakesKept);
        let free = offered || self.may_be_taken(instance);
        let wanted = instance
            .ready_at
            .filter(|_| free)
            .map(|ready_at| (instance.offered_queue(self.moment).clone(), ready_at.max(instance.not_before)));
        let sequence = instance.place.as_ref().map_or(self.sequence + 1, |place| place.sequence);
        let place = wanted.map(|(queue, time)| Place { queue, time, sequence });
        if instance.place == place {
            return;
        }
        self.sequence = self.sequence.max(sequence);
        let now = self.now();
        let Some(instance) = self.instances.get_mut(id) else { return };
        if let Some(old) = &instance.place {
            self.ready_turns.remove(old);
        }
        if let Some(new) = &place {
            self.ready_turns.insert(new, id.clone());
            self.hints.push(ready_hint(new, now));
        }
        instance.place = place;
    }

    /// The same for a task.
    fn reindex_task(&mut self, key: &TaskKey) {
        let Some(task) = self.tasks.get(key) else { return };
        let free = task.holder.as_ref().is_none_or(|held| !self.is_live(held.session));
        let sequence = task.place.as_ref().map_or(self.sequence + 1, |place| place.sequence);
        let place = (free && !task.withdrawn).then(|| Place {
            queue: task.task.queue.clone(),
            time: task.ready_at.max(task.not_before),
            sequence,
        });
        if task.place == place {
            return;
        }
        self.sequence = self.sequence.max(sequence);
        let now = self.now();
        let Some(task) = self.tasks.get_mut(key) else { return };
        if let Some(old) = &task.place {
            self.ready_tasks.remove(old);
        }
        if let Some(new) = &place {
            self.ready_tasks.insert(new, key.clone());
            self.hints.push(ready_hint(new, now));
        }
        task.place = place;
    }

    /// Adds an instance that is not there.
    fn insert_instance(&mut self, id: InstanceId, instance: Instance) {
        self.by_created.insert((instance.record.times.created, id.clone()));
        if let Some(completed) = instance.record.times.completed {
            self.by_completed.insert((completed, id.clone()));
        }
        self.hints.push(Hint::Status(id.clone(), instance.record.status));
        self.instances.insert(id.clone(), instance);
        self.reindex_turn(&id);
    }

    /// Removes an instance from everywhere but the tasks; whoever holds it has lost it.
    fn remove_instance(&mut self, id: &InstanceId) -> Option<Instance> {
        self.take_from_holder(id);
        let instance = self.instances.remove(id)?;
        if let Some(place) = &instance.place {
            self.ready_turns.remove(place);
        }
        self.by_created.remove(&(instance.record.times.created, id.clone()));
        if let Some(completed) = instance.record.times.completed {
            self.by_completed.remove(&(completed, id.clone()));
        }
        self.to_relay.remove(id);
        Some(instance)
    }

    /// Stores a record over the old one, and what is derived from it.
    fn put_record(&mut self, id: &InstanceId, record: Record) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        let old = std::mem::replace(&mut instance.record, record);
        let new = &instance.record.times;
        self.by_created.remove(&(old.times.created, id.clone()));
        self.by_created.insert((new.created, id.clone()));
        if let Some(completed) = old.times.completed {
            self.by_completed.remove(&(completed, id.clone()));
        }
        if let Some(completed) = new.completed {
            self.by_completed.insert((completed, id.clone()));
        }
        if judge::is_shown(&old, &instance.record) {
            self.hints.push(Hint::changed(id, &instance.record));
        }
    }

    /// Removes a task from everywhere; whoever holds it is not told.
    fn remove_task(&mut self, key: &TaskKey) -> Option<HeldTask> {
        let task = self.tasks.remove(key)?;
        if let Some(place) = &task.place {
            self.ready_tasks.remove(place);
        }
        if let Some(session) = task.holder.as_ref().and_then(|held| self.sessions.get_mut(&held.session)) {
            session.tasks.remove(key);
        }
        Some(task)
    }

    /// The keys of an instance's tasks.
    fn tasks_of(&self, id: &InstanceId) -> Vec<TaskKey> {
        let first = (id.clone(), MessageId([0; 16]));
        self.tasks.range(first..).map(|(key, _)| key).take_while(|key| key.0 == *id).cloned().collect()
    }
}
