//! Everything a hub holds, in order, put together from the parts of a dump.

use std::collections::BTreeMap;

use dauer_core::{InstanceId, MessageId, SessionId, Timestamp};
use dauer_store::{
    Cause, DropReason, DumpItem, HubDump, InstanceDump, Manage, Refused, SessionDump, TaskDump,
};

/// A thing that a dump holds more than once, although its id says that there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeated {
    /// An instance.
    Instance(InstanceId),
    /// A task.
    Task(MessageId),
    /// A session.
    Session(SessionId),
}

/// What a hub held when it was dumped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The store's time when the dump began.
    pub now: Timestamp,
    /// The instances.
    pub instances: BTreeMap<InstanceId, InstanceDump>,
    /// The tasks that wait or are held.
    pub tasks: BTreeMap<MessageId, TaskDump>,
    /// The sessions.
    pub sessions: BTreeMap<SessionId, SessionDump>,
    /// Instances that cannot be read, or something that belongs to them, and why.
    pub damaged: Vec<(InstanceId, String)>,
    /// The hub's own values.
    pub hub: HubDump,
    /// Ids of starts that no instance names any more, with the time each was accepted.
    pub removed_starts: BTreeMap<MessageId, Timestamp>,
    /// How many messages were dropped, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// What the dump held more than once; only the first of each is in the maps.
    pub repeated: Vec<Repeated>,
}

impl Snapshot {
    /// Puts the items of a dump in order. Nothing is refused: what makes no sense is for the checks to say.
    #[must_use]
    pub fn from_items(items: impl IntoIterator<Item = DumpItem>) -> Self {
        let (mut snapshot, mut now) = (Self::default(), None);
        for item in items {
            snapshot.insert(item, &mut now);
        }
        snapshot
    }

    /// The first time that a dump names is the one at which it began.
    fn insert(&mut self, item: DumpItem, began: &mut Option<Timestamp>) {
        use std::collections::btree_map::Entry::{Occupied, Vacant};
        match item {
            DumpItem::Instance(dump) => match self.instances.entry(dump.id.clone()) {
                Vacant(place) => _ = place.insert(*dump),
                Occupied(_) => self.repeated.push(Repeated::Instance(dump.id)),
            },
            DumpItem::Task(dump) => match self.tasks.entry(dump.task.id) {
                Vacant(place) => _ = place.insert(*dump),
                Occupied(_) => self.repeated.push(Repeated::Task(dump.task.id)),
            },
            DumpItem::Session(dump) => match self.sessions.entry(dump.id) {
                Vacant(place) => _ = place.insert(dump),
                Occupied(_) => self.repeated.push(Repeated::Session(dump.id)),
            },
            DumpItem::Damaged(instance, why) => self.damaged.push((instance, why)),
            DumpItem::Dropped(reason, count) => {
                let sum = self.dropped.entry(reason).or_default();
                *sum = sum.saturating_add(count);
            }
            DumpItem::Hub(hub) => self.hub = hub,
            DumpItem::RemovedStart(id, at) => _ = self.removed_starts.insert(id, at),
            DumpItem::Now(at) => self.now = *began.get_or_insert(at),
        }
    }
}

/// Reads a whole dump.
///
/// # Errors
/// Whatever the store refuses a part with; [`Refused::Corrupt`] when its cursor does not move on.
pub async fn collect(hub: &dyn Manage) -> Result<Snapshot, Refused> {
    let (mut snapshot, mut began) = (Snapshot::default(), None);
    let mut after = None;
    loop {
        let part = hub.dump(after.clone()).await?;
        for item in part.items {
            snapshot.insert(item, &mut began);
        }
        match part.next {
            None => return Ok(snapshot),
            // A cursor that stands still would be read for ever.
            next if next == after => {
                return Err(Refused::Corrupt(Cause::new("the dump's cursor does not move on")));
            }
            next => after = next,
        }
    }
}
