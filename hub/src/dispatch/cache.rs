//! What the hub remembers of instances between turns: a hit needs no read and no replay.
//!
//! An entry is taken out for the turn and put back only once that turn is committed, so that state which was never
//! committed cannot be used again.

use std::collections::BTreeMap;

use dauer_core::ledger::Ledger;
use dauer_core::model::Record;
use dauer_core::planted::{self, Bug};
use dauer_core::{InstanceId, Revision};
use dauer_store::ById;

use crate::executor::Past;

/// What is known of an instance after its last committed turn.
pub(super) struct Entry {
    pub(super) revision: Revision,
    pub(super) ledger: Ledger,
    pub(super) past: Past,
}

/// Entries by instance; the least recently used go first.
pub(super) struct Cache {
    max: usize,
    clock: u64,
    entries: ById<(u64, Box<Entry>)>,
    ages: BTreeMap<u64, InstanceId>,
}

impl Cache {
    pub(super) fn new(max: usize) -> Self {
        Self { max, clock: 0, entries: ById::default(), ages: BTreeMap::new() }
    }

    /// Whether anything is to be remembered at all.
    pub(super) fn is_on(&self) -> bool {
        self.max > 0
    }

    /// Takes the entry out if the record's next turn can continue from it: it is of the same execution, and either
    /// as the last commit left it, or a history that lacks only what was appended since. A live future cannot catch
    /// up: it has to have made the decisions that others committed.
    pub(super) fn take(&mut self, instance: &InstanceId, record: &Record) -> Option<Box<Entry>> {
        let (age, entry) = self.entries.remove(instance)?;
        self.ages.remove(&age);
        let behind = entry.revision < record.revision && matches!(entry.past, Past::History(_));
        let kept = planted::is_on(Bug::CacheAfterFailure);
        let usable = entry.revision == record.revision || behind || kept;
        (usable && entry.ledger.execution() == record.execution).then_some(entry)
    }

    pub(super) fn put(&mut self, instance: InstanceId, entry: Box<Entry>) {
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

    pub(super) fn forget(&mut self, instance: &InstanceId) {
        if let Some((age, _)) = self.entries.remove(instance) {
            self.ages.remove(&age);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::ExecutionId;
    use dauer_core::MessageId;
    use dauer_core::model::{Kind, QueueKey};

    fn id(name: &str) -> InstanceId {
        InstanceId::new(name).unwrap()
    }

    fn record(execution: u128, revision: u64) -> Record {
        let queue = QueueKey::new(Kind::Orchestration, "code", None);
        let record = Record::pending(queue, ExecutionId(execution), MessageId([0; 16]));
        Record { revision: Revision(revision), ..record }
    }

    fn entry(execution: u128, revision: u64, past: Past) -> Box<Entry> {
        let ledger = Ledger::new(id("i"), ExecutionId(execution));
        Box::new(Entry { revision: Revision(revision), ledger, past })
    }

    fn history() -> Past {
        Past::History(Vec::new())
    }

    fn live() -> Past {
        Past::Live(Box::new(()))
    }

    #[test]
    fn only_what_the_next_turn_continues_is_a_hit() {
        let cases = [
            ("as committed, live", entry(1, 5, live()), record(1, 5), true),
            ("as committed, history", entry(1, 5, history()), record(1, 5), true),
            ("behind, live", entry(1, 4, live()), record(1, 5), false),
            ("behind, history", entry(1, 4, history()), record(1, 5), true),
            ("ahead, history", entry(1, 6, history()), record(1, 5), false),
            ("another execution", entry(2, 5, history()), record(1, 5), false),
        ];
        for (case, entry, record, hit) in cases {
            let mut cache = Cache::new(2);
            cache.put(id("i"), entry);
            assert_eq!(cache.take(&id("i"), &record).is_some(), hit, "{case}");
            assert!(cache.take(&id("i"), &record).is_none(), "{case}: an entry is taken once");
        }
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = Cache::new(2);
        for name in ["a", "b"] {
            cache.put(id(name), entry(1, 1, history()));
        }
        let again = cache.take(&id("a"), &record(1, 1)).unwrap();
        cache.put(id("a"), again);
        cache.put(id("c"), entry(1, 1, history()));
        let has = |cache: &mut Cache, name| cache.take(&id(name), &record(1, 1)).is_some();
        assert!(!has(&mut cache, "b"), "b was used longest ago");
        assert!(has(&mut cache, "a") && has(&mut cache, "c"));
        assert!(cache.entries.is_empty() && cache.ages.is_empty());
    }
}
