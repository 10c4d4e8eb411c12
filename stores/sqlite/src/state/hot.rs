//! What the writer holds in memory of the file, so that one process writes and hardly reads.
//!
//! All of it is as the last transaction of this writer left it. It is forgotten when another connection has written
//! (`PRAGMA data_version`, looked at inside every transaction), and when a transaction did not happen: so whatever is
//! here is in the file, under the same epoch and revision. An instance is taken out for an operation and put back only
//! when that has written it, so that an operation that stops half-way leaves nothing wrong behind.

use std::collections::{BTreeMap, VecDeque};

use dauer_store::{ById, InstanceId, MessageId, SessionId, Timestamp};
use dauer_store_kit::session::Fate;

use super::sessions::Session;
use super::stored::Loaded;
use crate::options::Memory;

/// Stale ages are removed when there are this many times more ages than instances: seldom, and in bounded memory.
const AGES_PER_INSTANCE: usize = 4;

/// The rows of the last transaction.
#[derive(Default)]
pub(crate) struct Hot {
    memory: Memory,
    clock: u64,
    /// By hub.
    instances: BTreeMap<i64, ById<(u64, Box<Loaded>)>>,
    count: usize,
    /// In the order in which they were put here. Those that were taken out or put again since have another age.
    ages: VecDeque<(u64, (i64, InstanceId))>,
    /// With their hubs.
    sessions: Vec<(i64, Session)>,
}

impl Hot {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { memory, ..Self::default() }
    }

    /// How many messages of an instance are held with it.
    pub(super) fn messages_max(&self) -> usize {
        self.memory.messages
    }

    /// Takes an instance out.
    pub(super) fn take(&mut self, hub: i64, id: &InstanceId) -> Option<Box<Loaded>> {
        let (_, instance) = self.instances.get_mut(&hub)?.remove(id)?;
        self.count -= 1;
        Some(instance)
    }

    /// Holds an instance that is as in the file.
    pub(super) fn put(&mut self, hub: i64, loaded: Box<Loaded>) {
        if self.memory.instances == 0 {
            return;
        }
        while self.count >= self.memory.instances
            && let Some((age, (hub, oldest))) = self.ages.pop_front()
        {
            if self.age(hub, &oldest) == Some(age) {
                self.take(hub, &oldest);
            }
        }
        self.clock += 1;
        let id = loaded.instance.id().clone();
        self.ages.push_back((self.clock, (hub, id.clone())));
        let before = self.instances.entry(hub).or_default().insert(id, (self.clock, loaded));
        self.count += usize::from(before.is_none());
        if self.ages.len() > AGES_PER_INSTANCE * self.memory.instances {
            let mut ages = std::mem::take(&mut self.ages);
            ages.retain(|(age, (hub, id))| self.age(*hub, id) == Some(*age));
            self.ages = ages;
        }
    }

    fn age(&self, hub: i64, id: &InstanceId) -> Option<u64> {
        self.instances.get(&hub)?.get(id).map(|(age, _)| *age)
    }

    /// A task has changed other than by a commit of its instance.
    pub(super) fn forget_task(&mut self, hub: i64, instance: &InstanceId, task: MessageId) {
        if let Some((_, loaded)) = self.instances.get_mut(&hub).and_then(|all| all.get_mut(instance)) {
            loaded.stored.tasks.remove(task);
        }
    }

    pub(super) fn session(&self, hub: i64, id: SessionId) -> Option<&Session> {
        self.sessions.iter().find(|(of, session)| *of == hub && session.id == id).map(|(_, session)| session)
    }

    /// Whether a session lives or how it ended, if it is known here.
    pub(super) fn fate(&self, hub: i64, id: SessionId, now: Timestamp) -> Option<Fate> {
        self.session(hub, id).map(|session| session.life.fate(now))
    }

    /// Whether a session of that key may act, and is known here.
    pub(super) fn knows_session(&self, key: i64) -> bool {
        self.sessions.iter().any(|(_, session)| session.key == key)
    }

    pub(super) fn put_session(&mut self, hub: i64, session: Session) {
        self.sessions.push((hub, session));
    }

    /// A session has changed.
    pub(super) fn forget_sessions(&mut self) {
        self.sessions.clear();
    }

    /// The file may be other than this.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.memory);
    }
}
