//! A hash map by instance id.

use std::collections::HashMap;

use dauer_core::InstanceId;
use foldhash::fast::RandomState;

/// A hash map by instance id. A host looks up each instance about twelve times a turn, and each step through an ordered map
/// reads another id from cold memory.
///
/// Iteration is sorted or over values only: the order of the hashes differs between runs. The hash function is fast and has a
/// secret seed per process. Ids come from clients that the hub trusts; a client that guessed the seed could make the map slow,
/// not wrong.
#[derive(Debug, Clone)]
pub struct ById<T>(HashMap<InstanceId, T, RandomState>);

impl<T> Default for ById<T> {
    fn default() -> Self {
        Self(Default::default())
    }
}

impl<T> ById<T> {
    /// Returns the value of an instance.
    #[must_use]
    pub fn get(&self, instance: &InstanceId) -> Option<&T> {
        self.0.get(instance)
    }

    /// Returns the value of an instance, to change it.
    pub fn get_mut(&mut self, instance: &InstanceId) -> Option<&mut T> {
        self.0.get_mut(instance)
    }

    /// Sets the value of an instance. Returns the previous value.
    pub fn insert(&mut self, instance: InstanceId, value: T) -> Option<T> {
        self.0.insert(instance, value)
    }

    /// Removes and returns the value of an instance.
    pub fn remove(&mut self, instance: &InstanceId) -> Option<T> {
        self.0.remove(instance)
    }

    /// The number of instances.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values, in no order: for sums and counts.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The instances, sorted.
    #[must_use]
    pub fn instances(&self) -> Vec<InstanceId> {
        let mut all: Vec<InstanceId> = self.0.keys().cloned().collect();
        all.sort_unstable();
        all
    }

    /// At most `most` instances: those after `last` in order, then those from the first on. Sorts only these.
    #[must_use]
    pub fn instances_after(&self, last: Option<&InstanceId>, most: usize) -> Vec<InstanceId> {
        let mut all: Vec<(bool, &InstanceId)> =
            self.0.keys().map(|id| (last.is_some_and(|last| id <= last), id)).collect();
        if most < all.len() {
            all.select_nth_unstable(most);
            all.truncate(most);
        }
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id.clone()).collect()
    }
}

impl<T: Default> ById<T> {
    /// Returns the value of an instance, inserting the default if absent.
    pub fn or_default(&mut self, instance: &InstanceId) -> &mut T {
        self.0.entry(instance.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_returned_sorted() {
        let mut map = ById::<u32>::default();
        let id = |number: u32| InstanceId::new(format!("i{number:03}")).unwrap();
        for number in [7, 3, 200, 41, 12] {
            *map.or_default(&id(number)) += number;
        }
        assert_eq!(map.instances(), [3, 7, 12, 41, 200].map(id));
        assert_eq!((map.remove(&id(7)), map.get(&id(7)), map.len()), (Some(7), None, 4));
    }

    #[test]
    fn a_few_at_a_time_go_through_all_and_begin_again() {
        let mut map = ById::<u32>::default();
        let id = |number: u32| InstanceId::new(format!("i{number:03}")).unwrap();
        for number in (0..10).rev() {
            map.insert(id(number), number);
        }
        let after = |last: Option<u32>, most| map.instances_after(last.map(id).as_ref(), most);
        assert_eq!(after(None, 4), [0, 1, 2, 3].map(id));
        assert_eq!(after(Some(3), 4), [4, 5, 6, 7].map(id));
        assert_eq!(after(Some(7), 4), [8, 9, 0, 1].map(id));
        assert_eq!(after(Some(9), 4), [0, 1, 2, 3].map(id), "the last of all is followed by the first");
        assert_eq!(after(Some(400), 2), [0, 1].map(id), "one that is gone has its place, too");
        assert_eq!(after(Some(4), 10), [5, 6, 7, 8, 9, 0, 1, 2, 3, 4].map(id));
        assert_eq!(after(None, 11).len(), 10);
        assert!(after(None, 0).is_empty());
    }
}
