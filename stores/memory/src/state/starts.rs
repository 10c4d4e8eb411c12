//! Where new instances begin, and the ids of recently accepted starts that no instance names any more.

use std::collections::{BTreeMap, BTreeSet};

use dauer_core::planted::{self, Bug};
use dauer_store::{ExecutionId, Floor, HubDump, Message, MessageId, Record, Timestamp};
use dauer_store_kit::judge::{begun_alike, is_recent, likeness, opens};

use super::State;
use super::instance::Instance;
use crate::defect::Defect;

/// Ids of accepted starts with the time they were accepted, bounded in number and age.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemovedStarts {
    times: BTreeMap<MessageId, Timestamp>,
    by_time: BTreeSet<(Timestamp, MessageId)>,
}

impl RemovedStarts {
    /// Remembers a start. Answers how many were forgotten before their time because there are more than `most`.
    pub(crate) fn insert(&mut self, id: MessageId, at: Timestamp, now: Timestamp, most: u64) -> u64 {
        if let Some(before) = self.times.insert(id, at) {
            self.by_time.remove(&(before, id));
        }
        self.by_time.insert((at, id));
        let mut forgotten = 0;
        while let Some(&(oldest, id)) = self.by_time.first() {
            let expired = !is_recent(oldest, now);
            if !expired && self.by_time.len() as u64 <= most {
                break;
            }
            forgotten += u64::from(!expired);
            self.by_time.remove(&(oldest, id));
            self.times.remove(&id);
        }
        forgotten
    }

    fn contains(&self, id: MessageId, now: Timestamp) -> bool {
        self.times.get(&id).is_some_and(|at| is_recent(*at, now))
    }

    fn has_alike(&self, id: MessageId, now: Timestamp) -> bool {
        self.times.range(likeness(id)).any(|(_, at)| is_recent(*at, now))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (MessageId, Timestamp)> {
        self.times.iter().map(|(id, at)| (*id, *at))
    }
}

impl State {
    /// An instance is removed: the floor rises above it, and its start is remembered.
    pub(super) fn removed(&mut self, instance: &Instance) {
        let floor = self.hub.floor.above(instance.epoch, instance.record.revision);
        if !self.broken(Defect::RemovalKeepsEpochFloor) {
            self.hub.floor.epoch = floor.epoch;
        }
        if !self.broken(Defect::RemovalKeepsRevisionFloor) {
            self.hub.floor.revision = floor.revision;
        }
        if !self.broken(Defect::RemovalForgetsStart) {
            self.start_is_gone(&instance.record);
        }
    }

    /// No instance names the start of that record any more: a retry of it must still be recognised.
    pub(super) fn start_is_gone(&mut self, record: &Record) {
        if is_recent(record.times.accepted, self.now()) {
            self.put_removed_start(record.start, record.times.accepted);
        }
    }

    /// An amendment has overtaken a start that waited: a retry of it must still be recognised when the instance is purged.
    pub(super) fn remember_start(&mut self, id: MessageId) {
        self.put_removed_start(id, self.now());
    }

    fn put_removed_start(&mut self, id: MessageId, at: Timestamp) {
        let (now, most) = (self.now(), self.limits.removed_starts);
        self.hub.forgotten_starts += self.removed_starts.insert(id, at, now, most);
    }

    /// Whether that start was accepted recently, and no instance names it any more.
    pub(super) fn is_removed_start(&self, id: MessageId) -> bool {
        self.removed_starts.contains(id, self.now())
    }

    /// The run of an equal start that was accepted recently; `Some(None)` when only its id is remembered.
    pub(super) fn alike(&self, message: &Message) -> Option<Option<ExecutionId>> {
        let (now, alike) = (self.now(), likeness(message.id));
        if let Some(instance) = self.instances.get(&message.to) {
            if let Some(run) = begun_alike(&instance.record, message.id, now) {
                return Some(Some(run));
            }
            let mut waiting = instance.prologue.iter().chain(instance.inbox.iter());
            let waits = waiting.find_map(|waiting| {
                let equal = alike.contains(&waiting.id) && is_recent(waiting.visible_at, now);
                opens(waiting).filter(|_| equal)
            });
            if let Some(start) = waits {
                return Some(Some(start.record.execution));
            }
        }
        self.removed_starts.has_alike(message.id, now).then_some(None)
    }

    /// Where a new instance begins.
    pub(super) fn floor(&self) -> Floor {
        if planted::is_on(Bug::PurgeResetsEpoch) { Floor::default() } else { self.hub.floor }
    }

    /// The hub's own values, for a dump.
    pub(super) fn hub_dump(&self) -> HubDump {
        if self.broken(Defect::DumpForgetsFloor) { HubDump::default() } else { self.hub }
    }
}
