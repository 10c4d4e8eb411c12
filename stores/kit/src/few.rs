//! An ordered map that is a sorted vector while it is small. Most instances have few messages, tasks and remembered ids, and
//! there are many instances: a tree has room for eleven entries from its first on, and each step in it is a jump in memory.
//!
//! A vector has [`FEW_MAX`] entries at most. A tree becomes a vector again when it is empty, so that a map whose size stays near
//! the limit is not moved again and again.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

/// What two or three cache lines of keys hold. Beyond it, moving entries takes longer than walking down a tree.
const FEW_MAX: usize = 16;

/// An ordered map, made for few entries and right for any number.
#[derive(Debug, Clone)]
pub(crate) struct Few<K, V>(Entries<K, V>);

#[derive(Debug, Clone)]
enum Entries<K, V> {
    /// In the order of the keys.
    Sorted(Vec<(K, V)>),
    Tree(BTreeMap<K, V>),
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self(Entries::Sorted(Vec::new()))
    }
}

impl<K: Ord, V> Few<K, V> {
    /// Adds an entry. Returns the value that the key had.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let entries = match &mut self.0 {
            Entries::Tree(tree) => return tree.insert(key, value),
            Entries::Sorted(entries) => entries,
        };
        // Most are added behind the last one.
        let behind = entries.last().is_none_or(|(last, _)| *last < key);
        let place = if behind { Err(entries.len()) } else { entries.binary_search_by(|(k, _)| k.cmp(&key)) };
        match place {
            Ok(at) => return entries.get_mut(at).map(|(_, old)| std::mem::replace(old, value)),
            Err(at) if entries.len() < FEW_MAX => entries.insert(at, (key, value)),
            Err(_) => {
                let mut tree: BTreeMap<K, V> = std::mem::take(entries).into_iter().collect();
                tree.insert(key, value);
                self.0 = Entries::Tree(tree);
            }
        }
        None
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        match &mut self.0 {
            Entries::Sorted(entries) => {
                let at = entries.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
                Some(entries.remove(at).1)
            }
            Entries::Tree(tree) => {
                let value = tree.remove(key);
                if tree.is_empty() {
                    *self = Self::default();
                }
                value
            }
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match &self.0 {
            Entries::Sorted(entries) => {
                let at = entries.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
                entries.get(at).map(|(_, value)| value)
            }
            Entries::Tree(tree) => tree.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.0 {
            Entries::Sorted(entries) => {
                let at = entries.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
                entries.get_mut(at).map(|(_, value)| value)
            }
            Entries::Tree(tree) => tree.get_mut(key),
        }
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Entries::Sorted(entries) => entries.len(),
            Entries::Tree(tree) => tree.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries in the order of their keys.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.range(..)
    }

    /// The values in the order of their keys.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        let (sorted, tree) = match &mut self.0 {
            Entries::Sorted(entries) => (entries.as_mut_slice(), None),
            Entries::Tree(tree) => (Default::default(), Some(tree.values_mut())),
        };
        sorted.iter_mut().map(|(_, value)| value).chain(tree.into_iter().flatten())
    }

    /// The first entry, copied.
    pub(crate) fn first(&self) -> Option<(K, V)>
    where
        K: Copy,
        V: Copy,
    {
        self.iter().next().map(|(key, value)| (*key, *value))
    }

    /// The entries of a range that does not end before it begins, in order.
    pub(crate) fn range(&self, keys: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let (sorted, tree) = match &self.0 {
            Entries::Sorted(entries) => (within(entries, &keys), None),
            Entries::Tree(tree) => (Default::default(), Some(tree.range(keys))),
        };
        sorted.iter().map(|(key, value)| (key, value)).chain(tree.into_iter().flatten())
    }

    /// Removes all entries. They come in order.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (K, V)> {
        let (sorted, tree) = match std::mem::take(self).0 {
            Entries::Sorted(entries) => (entries, BTreeMap::new()),
            Entries::Tree(tree) => (Vec::new(), tree),
        };
        sorted.into_iter().chain(tree)
    }
}

/// The part of a sorted vector that is in that range.
fn within<'e, K: Ord, V>(entries: &'e [(K, V)], keys: &impl RangeBounds<K>) -> &'e [(K, V)] {
    let begin = match keys.start_bound() {
        Bound::Unbounded => 0,
        Bound::Included(first) => entries.partition_point(|(key, _)| key < first),
        Bound::Excluded(before) => entries.partition_point(|(key, _)| key <= before),
    };
    let end = match keys.end_bound() {
        Bound::Unbounded => entries.len(),
        Bound::Included(last) => entries.partition_point(|(key, _)| key <= last),
        Bound::Excluded(after) => entries.partition_point(|(key, _)| key < after),
    };
    entries.get(begin..end).unwrap_or_default()
}

impl<K: Ord> FromIterator<K> for Few<K, ()> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut few = Self::default();
        keys.into_iter().for_each(|key| _ = few.insert(key, ()));
        few
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys<'k>(entries: impl Iterator<Item = (&'k u8, &'k u8)>) -> Vec<u8> {
        entries.map(|(key, _)| *key).collect()
    }

    /// Every kind of call answers as a tree does, while the map grows beyond the limit, shrinks and grows again.
    #[test]
    fn few_answers_as_a_tree_at_every_size() {
        let (mut few, mut tree) = (Few::default(), BTreeMap::new());
        let mut seen = (false, false);
        for step in 0..400_u32 {
            let key = u8::try_from(step * 37 % 41).unwrap();
            // It grows, shrinks to nothing, and grows.
            let grows = step % 100 < 60;
            if grows {
                assert_eq!(few.insert(key, key), tree.insert(key, key));
            } else {
                let first = tree.first_key_value().map_or(key, |(key, _)| *key);
                assert_eq!(few.remove(&first), tree.remove(&first));
            }
            assert_eq!(few.remove(&99), None);
            assert_eq!((few.len(), few.is_empty()), (tree.len(), tree.is_empty()));
            assert_eq!((few.get(&key), few.contains(&key)), (tree.get(&key), tree.contains_key(&key)));
            assert_eq!(few.get_mut(&key), tree.get_mut(&key));
            assert!(few.values_mut().eq(tree.values_mut()));
            assert_eq!(keys(few.iter()), keys(tree.iter()));
            assert_eq!(few.first(), tree.iter().next().map(|(key, value)| (*key, *value)));
            assert_eq!(keys(few.iter().rev()), keys(tree.iter().rev()));
            assert_eq!(keys(few.range(key..)), keys(tree.range(key..)));
            assert_eq!(keys(few.range(..key)), keys(tree.range(..key)));
            assert_eq!(keys(few.range(..=key)), keys(tree.range(..=key)));
            let behind = (Bound::Excluded(key), Bound::Unbounded);
            assert_eq!(keys(few.range(behind)), keys(tree.range(behind)));
            match few.0 {
                Entries::Sorted(_) => seen.0 = true,
                Entries::Tree(_) => seen.1 = true,
            }
        }
        assert_eq!(seen, (true, true), "both forms were there");
        assert!(few.take().eq(tree));
        assert!(few.is_empty());
    }
}
