//! I13: attempts, history, pending work, payloads and memory stay within the limits.

use dauer_core::model::Payload;
use dauer_proto::event::ScheduledKind;
use dauer_proto::time::to_millis_ceil;
use dauer_proto::{EventType, HistoryEvent};

use crate::Settings;
use crate::report::{Finding, Place, Tally};
use crate::view::{Key, View, Views};

pub(super) fn check(views: &Views<'_>, settings: &Settings) -> Finding {
    let mut tally = Tally::default();
    for view in views.iter() {
        sizes(view, settings, &mut tally);
        payloads(view, settings, &mut tally);
        timers(view, settings, &mut tally);
    }
    for dump in views.snapshot.tasks.values() {
        let Some(allowed) = settings.task_attempts else { continue };
        tally.check(
            dump.attempts <= allowed,
            || Place::at(&dump.task.instance, format!("task {}", dump.task.id)),
            || format!("has {} failed attempts, {allowed} are allowed", dump.attempts),
        );
    }
    tally.finding()
}

fn sizes(view: &View<'_>, settings: &Settings, tally: &mut Tally) {
    let record = &view.dump.record;
    let limits = &settings.limits;
    let open = view.open().filter(|open| matches!(open.key, Key::Action(..))).count();
    let mut bounds = vec![
        ("events of history", u64::from(record.history_len), u64::from(limits.history_events)),
        ("bytes of history", record.history_bytes, limits.history_bytes),
        ("remembered messages", view.dump.memory.len() as u64, settings.memory_ids as u64),
        ("open tasks, children and timers", open as u64, limits.open_tasks as u64),
    ];
    bounds.extend(
        settings.turn_attempts.map(|max| ("failed attempts", u64::from(record.attempts), u64::from(max))),
    );
    for (what, found, allowed) in bounds {
        tally.check(
            found <= allowed,
            || Place::of(view.id),
            || format!("has {found} {what}, {allowed} are allowed"),
        );
    }
    for stored in &view.dump.history {
        let produced = stored.batch.produced.len();
        tally.check(
            produced <= limits.actions_per_turn,
            || Place::at(view.id, format!("revision {}", stored.revision.0)),
            || {
                format!(
                    "produced {produced} tasks, timers and messages, {} are allowed",
                    limits.actions_per_turn
                )
            },
        );
    }
}

fn payloads(view: &View<'_>, settings: &Settings, tally: &mut Tally) {
    let allowed = settings.limits.payload_bytes;
    let mut bound = |length: usize, what: &dyn Fn() -> String| {
        tally.check(
            length <= allowed,
            || Place::at(view.id, what()),
            || format!("carries a payload of {length} bytes, {allowed} are allowed"),
        );
    };
    let record = &view.dump.record;
    let state = record.details.entity().and_then(|entity| entity.state.as_ref());
    let own = [
        ("custom status", record.details.custom_status()),
        ("output", record.details.output()),
        ("state", state),
    ];
    for (what, payload) in own {
        if let Some(payload) = payload.map(Payload::as_str) {
            bound(payload.len(), &|| what.into());
        }
    }
    for (index, entry) in view.events.iter().enumerate() {
        if let Some(payload) = payload(&entry.event) {
            bound(payload.len(), &|| format!("event {index}"));
        }
    }
    for waiting in &view.waiting {
        if let Some(payload) = waiting.event.as_ref().and_then(payload) {
            bound(payload.len(), &|| format!("message {}", waiting.message.id));
        }
    }
}

/// The user's data in an event.
fn payload(event: &HistoryEvent) -> Option<&str> {
    match event.event_type.as_ref()? {
        EventType::ExecutionStarted(e) => e.input.as_deref(),
        EventType::ExecutionCompleted(e) => e.result.as_deref(),
        EventType::ExecutionTerminated(e) => e.input.as_deref(),
        EventType::ExecutionSuspended(e) => e.input.as_deref(),
        EventType::ExecutionResumed(e) => e.input.as_deref(),
        EventType::TaskScheduled(e) => e.input.as_deref(),
        EventType::TaskCompleted(e) => e.result.as_deref(),
        EventType::SubOrchestrationInstanceCreated(e) => e.input.as_deref(),
        EventType::SubOrchestrationInstanceCompleted(e) => e.result.as_deref(),
        EventType::EventSent(e) => e.input.as_deref(),
        EventType::EventRaised(e) => e.input.as_deref(),
        EventType::EntityOperationSignaled(e) => e.input.as_deref(),
        EventType::EntityOperationCalled(e) => e.input.as_deref(),
        EventType::EntityOperationCompleted(e) => e.output.as_deref(),
        _ => None,
    }
}

/// No timer is set further ahead than allowed, seen from the commit that set it.
fn timers(view: &View<'_>, settings: &Settings, tally: &mut Tally) {
    let timers =
        view.schedules.iter().filter(|each| matches!(each.key, Key::Action(ScheduledKind::Timer, _)));
    for timer in timers.filter(|_| !view.rewound) {
        let Some(EventType::TimerCreated(created)) = view.event(timer.index) else { continue };
        let Some(Ok(due)) = created.fire_at.as_ref().map(to_millis_ceil) else { continue };
        let set = view.dump.history[view.events[timer.index].batch].at;
        let allowed = set.after(settings.limits.timer).0;
        tally.check(
            due <= allowed,
            || Place::at(view.id, format!("event {}", timer.index)),
            || format!("{} is set {} ms further ahead than allowed", timer.key, due - allowed),
        );
    }
}
