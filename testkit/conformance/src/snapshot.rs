//! A whole dump of a hub, to look at what is stored and to see that nothing changed.

use dauer_store::{DropReason, DumpItem, HubDump, InstanceDump, MessageId, TaskDump};

/// Everything a hub holds, but for the time of day and the sessions' expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    items: Vec<DumpItem>,
}

/// What an item is about.
fn key(item: &DumpItem) -> (u8, String, Option<MessageId>) {
    match item {
        DumpItem::Instance(instance) => (0, instance.id.to_string(), None),
        DumpItem::Task(task) => (1, task.task.instance.to_string(), Some(task.task.id)),
        DumpItem::Dropped(reason, _) => (2, format!("{reason:?}"), None),
        DumpItem::Session(session) => (3, session.host.to_string(), None),
        DumpItem::Now(_) => (4, String::new(), None),
        DumpItem::Damaged(instance, _) => (5, instance.to_string(), None),
        DumpItem::Hub(_) => (6, String::new(), None),
        DumpItem::RemovedStart(id, _) => (7, String::new(), Some(*id)),
    }
}

impl Snapshot {
    pub(crate) fn of(items: Vec<DumpItem>) -> Self {
        let lasting = |item: &DumpItem| !matches!(item, DumpItem::Now(_) | DumpItem::Session(_));
        let mut items: Vec<DumpItem> = items.into_iter().filter(lasting).collect();
        // The order of a dump is the store's own.
        items.sort_by_key(key);
        Self { items }
    }

    /// The instances.
    pub fn instances(&self) -> impl Iterator<Item = &InstanceDump> {
        self.items.iter().filter_map(|item| match item {
            DumpItem::Instance(instance) => Some(&**instance),
            _ => None,
        })
    }

    /// One instance.
    #[must_use]
    pub fn instance(&self, id: &str) -> Option<&InstanceDump> {
        self.instances().find(|instance| instance.id.as_str() == id)
    }

    /// The ids of the messages waiting for an instance, those before the inbox included.
    #[must_use]
    pub fn waiting(&self, id: &str) -> Vec<MessageId> {
        let messages = self.instance(id).into_iter().flat_map(|i| i.prologue.iter().chain(&i.inbox));
        messages.map(|message| message.id).collect()
    }

    /// The tasks.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskDump> {
        self.items.iter().filter_map(|item| match item {
            DumpItem::Task(task) => Some(&**task),
            _ => None,
        })
    }

    /// The hub's own values.
    #[must_use]
    pub fn hub(&self) -> HubDump {
        let values = self.items.iter().find_map(|item| match item {
            DumpItem::Hub(hub) => Some(*hub),
            _ => None,
        });
        values.unwrap_or_default()
    }

    /// How many ids of removed starts are remembered.
    #[must_use]
    pub fn removed_starts(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, DumpItem::RemovedStart(..))).count()
    }

    /// How many messages were dropped for that reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        let counts = self.items.iter().filter_map(|item| match item {
            DumpItem::Dropped(counted, count) if *counted == reason => Some(*count),
            _ => None,
        });
        counts.sum()
    }
}
