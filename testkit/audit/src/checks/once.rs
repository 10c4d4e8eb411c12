//! I5: at most one completion per schedule; each message applied at most once.

use std::collections::{BTreeMap, BTreeSet};

use dauer_core::model::Fate;

use crate::report::{Finding, Place, Tally};
use crate::view::{Relation, View, Views};

pub(super) fn check(views: &Views<'_>) -> Finding {
    let mut tally = Tally::default();
    for view in views.iter() {
        completions(view, &mut tally);
        consumed(view, &mut tally);
        waiting(view, &mut tally);
    }
    tally.finding()
}

fn completions(view: &View<'_>, tally: &mut Tally) {
    for answer in &view.answers {
        let place = || Place::at(view.id, format!("event {}", answer.index));
        tally.check(answer.relation != Relation::Again, place, || {
            format!("completes {} a second time", answer.key)
        });
    }
}

fn consumed(view: &View<'_>, tally: &mut Tally) {
    let mut applied = BTreeMap::new();
    let mut events = BTreeSet::new();
    for (batch, id, fate) in view.consumed() {
        let stored = &view.dump.history[batch];
        let place = || Place::at(view.id, format!("revision {}", stored.revision.0));
        // A repeat that was recognised and dropped is as it should be, any number of times.
        let Fate::Event(event) = fate else { continue };
        let before = applied.insert(id, stored.revision);
        tally.check(before.is_none(), place, || {
            format!("applies message {id}, which revision {} had applied", before.unwrap_or_default().0)
        });
        tally.check(event < stored.batch.count, place, || {
            format!("message {id} became event {event} of a batch of {}", stored.batch.count)
        });
        tally.check(events.insert((batch, event)), place, || {
            format!("message {id} became event {event} of the batch, and so did another")
        });
    }
}

fn waiting(view: &View<'_>, tally: &mut Tally) {
    let applied: BTreeSet<_> =
        view.consumed().filter(|(_, _, fate)| matches!(fate, Fate::Event(_))).map(|(_, id, _)| id).collect();
    let remembered: BTreeSet<_> = view.dump.memory.iter().map(|(id, _)| *id).collect();
    let carried = view.dump.prologue.len();
    let mut seen = BTreeSet::new();
    for (position, waiting) in view.waiting.iter().enumerate() {
        let id = waiting.message.id;
        let place = || Place::at(view.id, format!("message {id}"));
        tally.check(seen.insert(id), place, || "is waiting twice".into());
        tally
            .check(!applied.contains(&id), place, || "is waiting although the history has applied it".into());
        // What continue-as-new carries over keeps its id, which the run before may have left in the memory.
        if position >= carried {
            tally.check(!remembered.contains(&id), place, || {
                "is waiting although the instance remembers to have applied it".into()
            });
        }
    }
}
