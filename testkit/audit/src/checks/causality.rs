//! I6: every completion follows its matching schedule in the same execution.

use crate::report::{Finding, Place, Tally};
use crate::view::{Key, Relation, View, Views};

pub(super) fn check(views: &Views<'_>) -> Finding {
    let mut tally = Tally::default();
    for view in views.iter() {
        for answer in &view.answers {
            let place = || Place::at(view.id, format!("event {}", answer.index));
            tally.check(answer.relation != Relation::Nothing, place, || {
                unmatched(view, answer.index, &answer.key)
            });
            let Relation::Answers(schedule) = answer.relation else { continue };
            let schedule = view.schedules[schedule].index;
            let batch = |index: usize| view.events[index].batch;
            // Nothing is executed before its schedule is durable. A rewind writes old events as one batch.
            let later = view.rewound || batch(answer.index) > batch(schedule);
            tally.check(later, place, || {
                format!("completes {} in the very commit that scheduled it", answer.key)
            });
        }
    }
    tally.finding()
}

/// Says what is wrong as near as can be: another kind under the same id is the likelier mistake.
fn unmatched(view: &View<'_>, index: usize, key: &Key) -> String {
    let Key::Action(_, id) = key else { return format!("completes {key}, which was never asked for") };
    let same_id = |other: &Key| matches!(other, Key::Action(_, other) if other == id);
    let before = view.schedules.iter().rfind(|schedule| schedule.index < index && same_id(&schedule.key));
    match before {
        Some(other) => format!("completes {key}, but event {} scheduled {}", other.index, other.key),
        None => format!("completes {key}, which was not scheduled before"),
    }
}
