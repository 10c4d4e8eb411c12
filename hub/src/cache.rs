//! What the hub remembers of instances between turns: a hit needs no read and no replay.
//!
//! An entry is taken out for the turn and put back only once that turn is committed, so that state which was never
//! committed cannot be used again.

use std::collections::BTreeMap;

use dauer_core::ledger::Ledger;
use dauer_core::model::Record;
use dauer_core::{ExecutionId, InstanceId, Revision};

use crate::executor::Past;

/// What is known of an instance after its last committed turn.
pub(crate) struct Entry {
    pub(crate) revision: Revision,
    pub(crate) ledger: Ledger,
    pub(crate) past: Past,
}

/// Entries by instance; the least recently used go first.
pub(crate) struct Cache {
    max: usize,
    clock: u64,
    entries: BTreeMap<InstanceId, (u64, Entry)>,
    ages: BTreeMap<u64, InstanceId>,
}

impl Cache {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, clock: 0, entries: BTreeMap::new(), ages: BTreeMap::new() }
    }

    /// Takes the entry out if it is exactly what the record's next turn continues.
    pub(crate) fn take(&mut self, instance: &InstanceId, record: &Record) -> Option<Entry> {
        let (age, entry) = self.entries.remove(instance)?;
        self.ages.remove(&age);
        let current = entry.revision == record.revision && is_of(&entry, record.execution);
        current.then_some(entry)
    }

    pub(crate) fn put(&mut self, instance: InstanceId, entry: Entry) {
        if self.max == 0 {
            return;
        }
        self.forget(&instance);
        if self.entries.len() >= self.max
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.clock += 1;
        self.ages.insert(self.clock, instance.clone());
        self.entries.insert(instance, (self.clock, entry));
    }

    pub(crate) fn forget(&mut self, instance: &InstanceId) {
        if let Some((age, _)) = self.entries.remove(instance) {
            self.ages.remove(&age);
        }
    }
}

fn is_of(entry: &Entry, execution: ExecutionId) -> bool {
    entry.ledger.execution() == execution
}
