//! Everything one hub holds, and the rules about it. A number in a comment is that of a rule.

mod claim;
mod commit;
mod create;
mod deliver;
mod dump;
mod held;
mod inbox;
mod limit;
mod read;
mod release;
mod retry;
mod sessions;
mod starts;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};

use dauer_store::{
    DropReason, Epoch, Fence, HubDump, InstanceId, MessageId, QueueKey, Record, Refused, Revision, SessionId,
    StoreLimits, Timestamp,
};

use crate::mistake::{Mistake as M, Wrong};
pub(crate) use claim::Found;
use inbox::Instance;
use sessions::Session;
use tasks::OpenTask;

/// When an operation runs, and with which mistake.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    /// The first time that the store had.
    pub(crate) first: Timestamp,
    pub(crate) wrong: Wrong,
    pub(crate) torn: bool,
}

impl Moment {
    pub(crate) fn makes(self, mistake: M) -> bool {
        self.wrong.makes(mistake)
    }
}

/// A task is found by its instance and its id.
type TaskKey = (InstanceId, MessageId);

/// One hub.
#[derive(Clone)]
pub(crate) struct State {
    moment: Moment,
    limits: StoreLimits,
    instances: BTreeMap<InstanceId, Instance>,
    tasks: BTreeMap<TaskKey, OpenTask>,
    sessions: BTreeMap<SessionId, Session>,
    dropped: BTreeMap<DropReason, u64>,
    hub: HubDump,
    /// Starts that no instance names any more, with the time they were accepted (10, 21).
    removed: BTreeMap<MessageId, Timestamp>,
    /// The queue that was served last: of turns, and of tasks.
    served: [Option<QueueKey>; 2],
    /// Whether anything but a load was done.
    used: bool,
}

impl State {
    pub(crate) fn new(limits: StoreLimits) -> Self {
        Self {
            moment: Moment::default(),
            limits,
            instances: BTreeMap::new(),
            tasks: BTreeMap::new(),
            sessions: BTreeMap::new(),
            dropped: BTreeMap::new(),
            hub: HubDump::default(),
            removed: BTreeMap::new(),
            served: [None, None],
            used: false,
        }
    }

    /// Begins an operation. Time never goes backwards (15).
    pub(crate) fn enter(&mut self, moment: Moment) {
        self.moment = Moment { now: self.moment.now.max(moment.now), ..moment };
    }

    pub(crate) fn makes(&self, mistake: M) -> bool {
        self.moment.makes(mistake)
    }

    pub(crate) fn wrong(&self) -> Wrong {
        self.moment.wrong
    }

    /// Whether the hub exists (17).
    pub(crate) fn exists(&self) -> bool {
        let empty = self.instances.is_empty() && self.sessions.is_empty() && self.dropped.is_empty();
        self.used || !empty
    }

    fn now(&self) -> Timestamp {
        self.moment.now
    }

    /// The time that answers carry.
    fn shown(&self) -> Timestamp {
        if self.makes(M::NowStandsStill) { self.moment.first } else { self.now() }
    }

    fn count(&mut self, reason: DropReason, count: usize) {
        if count > 0 && !(reason == DropReason::Absent && self.makes(M::AbsentNotCounted)) {
            *self.dropped.entry(reason).or_default() += count as u64;
        }
    }

    /// The record of an instance, with its fence.
    pub(crate) fn get(&self, id: &InstanceId) -> Option<(Fence, Record)> {
        let instance = self.instances.get(id)?;
        let stale = instance.last.as_ref().map(|last| &last.before).filter(|_| self.makes(M::StaleGet));
        Some((instance.fence(id), stale.unwrap_or(&instance.record).clone()))
    }

    /// The instance that a fence names, if the session holds it under that epoch.
    fn held(&self, session: SessionId, id: &InstanceId, epoch: Epoch) -> Result<&Instance, Refused> {
        self.may_act(session)?;
        let instance = self.instances.get(id).ok_or(Refused::Fenced)?;
        let held = instance.holder == Some(session) && instance.epoch == epoch;
        if held { Ok(instance) } else { Err(Refused::Fenced) }
    }

    /// Takes an instance from its holder, which a renewal tells.
    fn take_turn_from_holder(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        let Some(holder) = instance.holder.take() else { return };
        let fence = instance.fence(id);
        if let Some(session) = self.sessions.get_mut(&holder) {
            session.lost.push(dauer_store::Item::Turn(fence));
        }
        self.forget_ended();
    }

    /// The ids of an instance's tasks.
    fn tasks_of(&self, id: &InstanceId) -> Vec<TaskKey> {
        self.tasks.keys().filter(|key| key.0 == *id).cloned().collect()
    }

    /// Removes an instance with its tasks, and raises the floor above it (21).
    fn erase(&mut self, id: &InstanceId) {
        self.withdraw_all(id);
        self.take_turn_from_holder(id);
        let Some(instance) = self.instances.remove(id) else { return };
        let floor = self.hub.floor.above(instance.epoch, instance.record.revision);
        if !self.makes(M::RemovalKeepsEpochFloor) {
            self.hub.floor.epoch = floor.epoch;
        }
        if !self.makes(M::RemovalKeepsRevisionFloor) {
            self.hub.floor.revision = floor.revision;
        }
        if !self.makes(M::RemovalForgetsStart) {
            self.start_is_gone(&instance.record);
        }
    }

    /// The ended instances of these that no start or rewind waits for.
    fn may_purge(&self, instance: &Instance) -> bool {
        let ended = instance.record.status.is_ended();
        let waited_for = instance.openings().next().is_some() && !self.makes(M::PurgeTakesWaitingStart);
        instance.outbox.is_empty() && (ended && !waited_for || !ended && self.makes(M::PurgeLiving))
    }

    /// Removes ended instances (21).
    pub(crate) fn purge(&mut self, purge: &dauer_store::Purge) -> dauer_store::Purged {
        use dauer_store::{Purge, Purged};
        self.used |= self.exists();
        let (ids, more) = match purge {
            Purge::Ids(ids) => (ids.clone(), false),
            Purge::Matching { query, budget } => {
                let found = self.found(query).into_iter().map(|(_, id)| id);
                let mut ids: Vec<InstanceId> =
                    found.filter(|id| self.instances.get(id).is_some_and(|i| self.may_purge(i))).collect();
                let more = ids.len() > *budget;
                ids.truncate(if self.makes(M::BudgetIgnored) { usize::MAX } else { *budget });
                (ids, more)
            }
        };
        // The same id may be named twice.
        let ids: BTreeSet<InstanceId> =
            ids.into_iter().filter(|id| self.instances.get(id).is_some_and(|i| self.may_purge(i))).collect();
        ids.iter().for_each(|id| self.erase(id));
        Purged { count: ids.len(), more }
    }

    /// Where a new instance begins.
    fn floor_revision(&self) -> Revision {
        self.hub.floor.revision
    }
}
