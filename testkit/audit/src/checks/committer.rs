//! I2: one successful commit per instance and revision; epochs never decrease.

use std::collections::BTreeMap;

use dauer_core::{Epoch, InstanceId, Revision};
use dauer_store::StoredBatch;

use crate::report::{Finding, Place, Tally};
use crate::view::{View, Views};
use crate::{Commit, CommitJournal};

pub(super) fn check(views: &Views<'_>, journal: Option<&CommitJournal>) -> Finding {
    let mut tally = Tally::default();
    for view in views.iter() {
        batches(view, &mut tally);
    }
    if let Some(journal) = journal {
        commits(views, journal, &mut tally);
    }
    tally.finding()
}

fn batches(view: &View<'_>, tally: &mut Tally) {
    let mut before: Option<&StoredBatch> = None;
    for (number, stored) in view.dump.history.iter().enumerate() {
        let place = || Place::at(view.id, format!("batch {number}"));
        let (revision, epoch) = (stored.revision, stored.epoch);
        if let Some(before) = before {
            let later = revision > before.revision || same_replacement(view, number, before, stored);
            tally.check(later, place, || {
                format!(
                    "revision {} follows revision {}: two commits took one place",
                    revision.0, before.revision.0
                )
            });
            tally.check(epoch >= before.epoch, place, || {
                format!("epoch {} follows epoch {}: a superseded owner committed", epoch.0, before.epoch.0)
            });
        }
        before = Some(stored);
    }
    let Some(last) = before else { return };
    let (revision, epoch) = (view.dump.record.revision, view.dump.epoch);
    tally.check(
        last.revision <= revision,
        || Place::of(view.id),
        || format!("the history is at revision {}, the record only at {}", last.revision.0, revision.0),
    );
    tally.check(
        last.epoch <= epoch,
        || Place::of(view.id),
        || {
            format!(
                "the history was committed under epoch {}, the instance is only at {}",
                last.epoch.0, epoch.0
            )
        },
    );
}

/// One commit may write several batches when it puts a new run in place of another, as a rewind does. They come
/// first in that run and share all that the store adds.
fn same_replacement(view: &View<'_>, number: usize, before: &StoredBatch, stored: &StoredBatch) -> bool {
    let commit = |batch: &StoredBatch| (batch.revision, batch.epoch, batch.owner.clone(), batch.at);
    let leading = view.dump.history[..number].iter().all(|each| each.revision == stored.revision);
    view.dump.record.generation > 0 && leading && commit(before) == commit(stored)
}

/// With the journal of a simulator: also what a later run has replaced, and that the store holds what it confirmed.
fn commits(views: &Views<'_>, journal: &CommitJournal, tally: &mut Tally) {
    let mut known: BTreeMap<(&InstanceId, Revision), &Commit> = BTreeMap::new();
    let mut epochs: BTreeMap<&InstanceId, (Revision, Epoch)> = BTreeMap::new();
    for commit in &journal.commits {
        let instance = &commit.fence.instance;
        let place = || Place::at(instance, format!("commit of revision {}", commit.revision.0));
        let twin = known.insert((instance, commit.revision), commit);
        tally.check(twin.is_none(), place, || "was confirmed to two committers".into());
        let follows = commit.revision == commit.fence.revision.next();
        tally.check(follows, place, || format!("was made from revision {}", commit.fence.revision.0));
        let (revision, epoch) = epochs.get(instance).copied().unwrap_or_default();
        let ordered = commit.revision < revision || commit.fence.epoch >= epoch;
        tally.check(ordered, place, || {
            format!("epoch {} was confirmed after epoch {}", commit.fence.epoch.0, epoch.0)
        });
        epochs.insert(instance, (revision.max(commit.revision), epoch.max(commit.fence.epoch)));
    }
    for view in views.iter() {
        for stored in &view.dump.history {
            let commit = known.get(&(view.id, stored.revision));
            let same = commit.is_some_and(|commit| commit.execution == view.dump.record.execution);
            tally.check(
                same,
                || Place::at(view.id, format!("revision {}", stored.revision.0)),
                || "is in the history, but no commit of this run was confirmed for it".into(),
            );
        }
    }
}
