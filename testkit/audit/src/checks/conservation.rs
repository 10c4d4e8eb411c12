//! I19: messages sent = waiting + consumed + dropped with a counted reason.
//!
//! The store counts what it drops but does not name it, so what is neither waiting nor consumed must be covered by
//! the counters. Messages that end with their target are left out: those for a run that is over (its timers are
//! deleted with it), and those for an instance that was purged or replaced.

use std::collections::{BTreeMap, BTreeSet};

use dauer_core::{InstanceId, MessageId};

use crate::report::{Finding, Place, Tally};
use crate::view::{View, Views};
use crate::{CommitJournal, Sent};

pub(super) fn check(views: &Views<'_>, journal: &CommitJournal) -> Finding {
    let mut tally = Tally::default();
    let mut consumed: BTreeMap<&InstanceId, BTreeSet<MessageId>> = BTreeMap::new();
    for commit in &journal.commits {
        consumed.entry(&commit.fence.instance).or_default().extend(&commit.consumed);
    }
    let mut seen = BTreeSet::new();
    let mut gone = Vec::new();
    for sent in journal.commits.iter().flat_map(|commit| &commit.sent) {
        // The same message sent again is still one message.
        if !seen.insert((&sent.to, sent.id)) {
            continue;
        }
        let there = views.waits(&sent.to, sent.id)
            || consumed.get(&sent.to).is_some_and(|consumed| consumed.contains(&sent.id));
        let began = |view: &View<'_>| view.dump.record.start == sent.id;
        if there || views.by_id.get(&sent.to).is_some_and(began) || ends_with_target(views, sent) {
            tally.check(true, Place::hub, String::new);
        } else {
            gone.push(sent);
        }
    }
    let dropped: u64 = views.snapshot.dropped.values().fold(0, |sum, count| sum.saturating_add(*count));
    let covered = usize::try_from(dropped).unwrap_or(usize::MAX);
    for (number, sent) in gone.into_iter().enumerate() {
        tally.check(number < covered, || Place::at(&sent.to, format!("message {}", sent.id)), || {
            format!("was sent, is neither waiting nor consumed, and the {dropped} counted drops do not cover it")
        });
    }
    tally.finding()
}

fn ends_with_target(views: &Views<'_>, sent: &Sent) -> bool {
    let Some(view) = views.by_id.get(&sent.to) else { return true };
    let over = |execution| !view.is_live() || execution != view.dump.record.execution;
    sent.execution.is_some_and(over)
}
