//! What claims have won and nobody received: a dropped call, a lost answer. The session's next claim returns it.
//!
//! In memory only: it belongs to a session of this process, and dies with it, when the lease gives the items back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A turn or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Turn,
    Task,
}

/// The key of an item and the epoch it was won under: won by another meanwhile, it has a higher one.
pub(crate) type Parcel = (What, i64, u64);

/// By the key of the session.
#[derive(Debug, Default)]
pub(crate) struct Undelivered(Mutex<BTreeMap<i64, BTreeSet<Parcel>>>);

impl Undelivered {
    /// A panic while the lock was held leaves a set of keys, which every claim checks against the file.
    fn parcels(&self) -> MutexGuard<'_, BTreeMap<i64, BTreeSet<Parcel>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, session: i64, parcels: impl IntoIterator<Item = Parcel>) {
        let mut all = self.parcels();
        let of_session = all.entry(session).or_default();
        of_session.extend(parcels);
        if of_session.is_empty() {
            all.remove(&session);
        }
    }

    pub(crate) fn remove(&self, session: i64, parcels: impl IntoIterator<Item = Parcel>) {
        let mut all = self.parcels();
        if let Some(of_session) = all.get_mut(&session) {
            for parcel in parcels {
                of_session.remove(&parcel);
            }
            if of_session.is_empty() {
                all.remove(&session);
            }
        }
    }

    pub(crate) fn of(&self, session: i64, what: What) -> Vec<(i64, u64)> {
        let all = self.parcels();
        let parcels = all.get(&session).into_iter().flatten().filter(|parcel| parcel.0 == what);
        parcels.map(|(_, key, epoch)| (*key, *epoch)).collect()
    }

    pub(crate) fn contains(&self, session: i64, parcel: Parcel) -> bool {
        self.parcels().get(&session).is_some_and(|parcels| parcels.contains(&parcel))
    }
}
