//! I17: messages of one sender to one target are consumed in the order they were sent.
//!
//! A dump shows the order of what is waiting. What was consumed is known by id only, so its order needs the journal
//! of commits, which says who sent what.

use std::collections::{BTreeMap, BTreeSet};

use dauer_core::model::{Class, Message, Origin};
use dauer_core::{InstanceId, MessageId, Revision};

use crate::report::{Finding, Place, Tally};
use crate::view::{View, Views};
use crate::{Commit, CommitJournal};

/// The place of a message among those of its sender.
type Rank = (Revision, u32);

pub(super) fn check(views: &Views<'_>, journal: Option<&CommitJournal>) -> Finding {
    let mut tally = Tally::default();
    for view in views.iter() {
        waiting(view, &mut tally);
    }
    if let Some(journal) = journal {
        consumed(views, journal, &mut tally);
    }
    tally.finding()
}

/// Answers of workers and own timers name their turn too, but are no messages between two instances.
fn rank(message: &Message) -> Option<(&InstanceId, Rank)> {
    match &message.origin {
        Origin::Turn { instance, revision, ordinal: Some(ordinal), .. }
            if message.class == Class::Ordinary
                && !(*instance == message.to && message.answers.is_some()) =>
        {
            Some((instance, (*revision, *ordinal)))
        }
        _ => None,
    }
}

fn waiting(view: &View<'_>, tally: &mut Tally) {
    let mut last: BTreeMap<&InstanceId, Rank> = BTreeMap::new();
    for waiting in &view.waiting {
        let Some((sender, rank)) = rank(waiting.message) else { continue };
        let before = last.insert(sender, rank);
        let place = || Place::at(view.id, format!("message {}", waiting.message.id));
        tally.check(before.is_none_or(|before| before < rank), place, || {
            format!("of {sender} {} waits behind {}", words(rank), before.map(words).unwrap_or_default())
        });
    }
}

fn words((revision, ordinal): Rank) -> String {
    format!("(revision {}, message {ordinal})", revision.0)
}

fn consumed(views: &Views<'_>, journal: &CommitJournal, tally: &mut Tally) {
    let mut sent: BTreeMap<(&InstanceId, MessageId), (&InstanceId, Rank)> = BTreeMap::new();
    for commit in &journal.commits {
        for message in &commit.sent {
            if let Some(ordinal) = message.ordinal {
                let rank = (commit.revision, ordinal);
                sent.insert((&message.to, message.id), (&commit.fence.instance, rank));
            }
        }
    }
    // A transport may deliver a message once more, long after its turn. That it has no effect is I5's concern.
    let mut seen = BTreeSet::new();
    // A run that continues as new hands messages on under their ids, so each run has an order of its own.
    let mut last: BTreeMap<(&InstanceId, &InstanceId), (u128, Rank)> = BTreeMap::new();
    for commit in in_order(journal) {
        let target = &commit.fence.instance;
        for id in &commit.consumed {
            let Some(&(sender, rank)) = sent.get(&(target, *id)) else { continue };
            let run = commit.fence.execution.0;
            if !seen.insert((target, *id, run)) {
                continue;
            }
            let before = last.insert((target, sender), (run, rank)).filter(|(of, _)| *of == run);
            let place = || Place::at(target, format!("revision {}", commit.revision.0));
            tally.check(before.is_none_or(|(_, before)| before < rank), place, || {
                let before = before.map(|(_, before)| words(before)).unwrap_or_default();
                format!("consumed message {id} of {sender} {} after {before}", words(rank))
            });
        }
    }
    overtaken(views, &last, tally);
}

/// What still waits was not passed by a later message of the same sender.
fn overtaken(
    views: &Views<'_>,
    last: &BTreeMap<(&InstanceId, &InstanceId), (u128, Rank)>,
    tally: &mut Tally,
) {
    for view in views.iter() {
        for waiting in &view.waiting {
            let Some((sender, rank)) = rank(waiting.message) else { continue };
            let Some((run, before)) = last.get(&(view.id, sender)) else { continue };
            if *run == view.dump.record.execution.0 {
                let place = || Place::at(view.id, format!("message {}", waiting.message.id));
                tally.check(*before < rank, place, || {
                    format!("of {sender} {} waits although {} was consumed", words(rank), words(*before))
                });
            }
        }
    }
}

fn in_order(journal: &CommitJournal) -> Vec<&Commit> {
    let mut commits: Vec<_> = journal.commits.iter().collect();
    commits.sort_by_key(|commit| (&commit.fence.instance, commit.revision));
    commits
}
