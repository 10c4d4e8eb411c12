//! I8: timers are never early, and none is lost.

use std::collections::BTreeMap;

use dauer_core::Timestamp;
use dauer_proto::event::ScheduledKind;
use dauer_proto::time::to_millis_ceil;
use dauer_proto::{EventType, HistoryEvent};

use crate::report::{Finding, Place, Tally};
use crate::view::{Key, Relation, Schedule, View, Views};

pub(super) fn check(views: &Views<'_>) -> Finding {
    let mut tally = Tally::default();
    for view in views.orchestrations() {
        now(view, &mut tally);
        fired(view, &mut tally);
        if view.is_live() {
            let timers = view.open().filter(|open| matches!(open.key, Key::Action(ScheduledKind::Timer, _)));
            timers.for_each(|open| waits(view, open, &mut tally));
        }
    }
    tally.finding()
}

fn millis(timestamp: Option<&dauer_proto::Timestamp>) -> Option<Timestamp> {
    timestamp.and_then(|timestamp| to_millis_ceil(timestamp).ok()).map(Timestamp)
}

fn turn_time(event: &HistoryEvent) -> Option<Timestamp> {
    let begins = matches!(event.event_type, Some(EventType::OrchestratorStarted(_)));
    if begins { millis(event.timestamp.as_ref()) } else { None }
}

/// The time that the code sees never goes back.
fn now(view: &View<'_>, tally: &mut Tally) {
    let mut before = None;
    for (index, entry) in view.events.iter().enumerate() {
        let Some(time) = turn_time(&entry.event) else { continue };
        if let Some(Timestamp(last)) = before {
            tally.check(
                time.0 >= last,
                || Place::at(view.id, format!("event {index}")),
                || format!("the turn begins at {} ms, {} ms before the one before it", time.0, last - time.0),
            );
        }
        before = Some(time);
    }
}

fn fired(view: &View<'_>, tally: &mut Tally) {
    let times = view.events.iter().filter_map(|entry| Some((entry.batch, turn_time(&entry.event)?)));
    let turns: BTreeMap<_, _> = times.collect();
    for answer in &view.answers {
        let Relation::Answers(schedule) = answer.relation else { continue };
        let created = view.event(view.schedules[schedule].index);
        let (Some(EventType::TimerCreated(created)), Some(EventType::TimerFired(fired))) =
            (created, view.event(answer.index))
        else {
            continue;
        };
        let place = || Place::at(view.id, format!("event {}", answer.index));
        tally.check(created.fire_at == fired.fire_at, place, || {
            format!("{} fired with another time than it was set to", answer.key)
        });
        let Some(due) = millis(created.fire_at.as_ref()) else { continue };
        let batch = view.events[answer.index].batch;
        let committed = view.dump.history[batch].at;
        tally.check(committed >= due, place, || {
            format!("{} fired in a commit {} ms before its time", answer.key, due.0 - committed.0)
        });
        let Some(turn) = turns.get(&batch).filter(|_| !view.rewound) else { continue };
        tally.check(*turn >= due, place, || {
            format!("{} fired in a turn that began {} ms before its time", answer.key, due.0 - turn.0)
        });
    }
}

/// An open timer of a live instance is a message that becomes visible at its time, or at once if that had passed.
fn waits(view: &View<'_>, timer: &Schedule, tally: &mut Tally) {
    let Some(EventType::TimerCreated(created)) = view.event(timer.index) else { return };
    let Some(due) = millis(created.fire_at.as_ref()) else { return };
    let place = || Place::at(view.id, format!("event {}", timer.index));
    let waiting = view.waiting_answer(timer);
    tally.check(waiting.is_some(), place, || format!("{} is open, but nothing waits to fire it", timer.key));
    let Some(waiting) = waiting else { return };
    let visible = waiting.visible_at;
    tally.check(visible >= due, place, || {
        format!("{} would fire {} ms before its time", timer.key, due.0 - visible.0)
    });
    let latest = due.max(view.dump.history[view.events[timer.index].batch].at);
    tally.check(visible <= latest, place, || {
        format!("{} would fire {} ms after its time", timer.key, visible.0 - latest.0)
    });
}
