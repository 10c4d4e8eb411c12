//! Every limit that core enforces on a worker's answer, by its name; and that a run at its limit can still end.

use dauer_core::limits::{self, TurnLimits};
use dauer_core::model::{Status, TroubleKind};
use dauer_core::turn::Answer;
use dauer_proto::{
    ActionType, CompleteOrchestrationAction, CreateSubOrchestrationAction, EntityMessageType,
    EntityOperationCalledEvent, EntityOperationSignaledEvent, OrchestratorAction, ScheduleTaskAction,
    TerminateOrchestrationAction, action, event, failure,
};

use crate::support::Run;
use crate::support::make::*;

fn limited(limits: TurnLimits) -> Run {
    let mut run = Run::start("order", None);
    run.limits = limits;
    run
}

#[track_caller]
fn assert_too_large(run: &mut Run, actions: Vec<OrchestratorAction>, reason: &str) {
    let stalled = run.refused(actions);
    assert_eq!(stalled.kind, TroubleKind::TooLarge, "{stalled}");
    let expected = format!("{reason}; split the work, continue as new, or raise the limit");
    assert_eq!(stalled.reason, expected);
}

/// These figures are documented; a changed one refuses what was accepted yesterday.
#[test]
fn the_limits_are_those_that_are_documented() {
    assert_eq!(limits::PAYLOAD_BYTES_MAX, 16_777_216, "16 MiB");
    assert_eq!(limits::HISTORY_BYTES_MAX, 268_435_456, "256 MiB");
    assert_eq!(limits::TIMER_MAX.as_secs(), 3_162_240_000, "a hundred leap years");
    assert_eq!(limits::MEMORY_AGE_MAX.as_secs(), 86_400, "a day");
    assert_eq!((limits::ACTIONS_PER_TURN_MAX, limits::OPEN_TASKS_MAX), (100_000, 100_000));
    assert_eq!((limits::HISTORY_EVENTS_WARN, limits::HISTORY_EVENTS_MAX), (10_000, 250_000));
}

#[test]
fn actions_per_turn() {
    let mut run = limited(TurnLimits { actions_per_turn: 2, ..TurnLimits::default() });
    let reason = "actions of one turn: 3, at most 2 are allowed";
    assert_too_large(&mut run, vec![task(1, "a"), task(2, "b"), task(3, "c")], reason);
    run.turn([task(1, "a"), task(2, "b")]);
}

#[test]
fn open_tasks_timers_and_children() {
    let mut run = limited(TurnLimits { open_tasks: 2, ..TurnLimits::default() });
    let reason = "open tasks, timers and children: 3, at most 2 are allowed";
    assert_too_large(&mut run, vec![task(1, "a"), timer(2, 5_000), child(3, "c", "d")], reason);
    run.turn([task(1, "a"), timer(2, 5_000)]);
    // What is answered no longer counts, over the turns.
    run.raise("x", None);
    assert_too_large(&mut run, vec![task(3, "b")], reason);
    run.turn([]);
    run.complete(1, "ok").turn([task(3, "b")]);
}

#[test]
fn payloads() {
    let large = || Some("12345".to_owned());
    let entity = || Some("@counter@a".to_owned());
    let run = || limited(TurnLimits { payload_bytes: 4, ..TurnLimits::default() });
    let call = EntityOperationCalledEvent {
        request_id: "r".into(),
        operation: "add".into(),
        input: large(),
        target_instance_id: entity(),
        ..Default::default()
    };
    let signal = EntityOperationSignaledEvent {
        request_id: "r".into(),
        operation: "add".into(),
        input: large(),
        target_instance_id: entity(),
        ..Default::default()
    };
    let terminate =
        TerminateOrchestrationAction { instance_id: "other".into(), reason: large(), recurse: false };
    for (what, action) in [
        ("activity input", action::schedule_task(1, "pay", large())),
        ("child input", action::create_sub_orchestration(1, "c", "ship", large())),
        ("event data", action::send_event(1, "other", "go", large())),
        ("call input", action::send_entity_message(1, EntityMessageType::EntityOperationCalled(call))),
        ("signal input", action::send_entity_message(1, EntityMessageType::EntityOperationSignaled(signal))),
        ("terminate reason", action::new(1, ActionType::TerminateOrchestration(terminate))),
        ("result", completed(1, "12345")),
        ("result", continued(1, "12345", vec![])),
    ] {
        assert_too_large(&mut run(), vec![action], &format!("bytes of {what}: 5, at most 4 are allowed"));
    }
    run().turn([action::schedule_task(1, "pay", Some("1234".into())), completed(2, "1234")]);
    let says = |status: &str| Answer { custom_status: Some(status.into()), ..Answer::default() };
    let refused = run().take_turn(Vec::new(), says("12345")).err().unwrap();
    assert!(refused.reason.starts_with("bytes of custom status: 5, at most 4 are allowed"), "{refused}");
    run().answer(says("1234"));
}

#[test]
fn names_versions_and_tags() {
    let long = "x".repeat(256);
    let tagged = || [(long.clone(), "value".to_owned())].into();
    let task_of = |task: ScheduleTaskAction| task_with(1, task);
    let child_of = |child: CreateSubOrchestrationAction| {
        child_with(1, CreateSubOrchestrationAction { instance_id: "c".into(), ..child })
    };
    let named = "pay".to_owned();
    for (what, action) in [
        ("activity name", task(1, &long)),
        ("orchestration name", child(1, "c", &long)),
        ("event name", send_event(1, "other", &long)),
        (
            "version",
            task_of(ScheduleTaskAction {
                name: named.clone(),
                version: Some(long.clone()),
                ..Default::default()
            }),
        ),
        (
            "tag key",
            task_of(ScheduleTaskAction { name: named.clone(), tags: tagged(), ..Default::default() }),
        ),
        (
            "version",
            child_of(CreateSubOrchestrationAction {
                name: named.clone(),
                version: Some(long.clone()),
                ..Default::default()
            }),
        ),
        (
            "tag key",
            child_of(CreateSubOrchestrationAction { name: named, tags: tagged(), ..Default::default() }),
        ),
        (
            "version",
            continued_with(
                1,
                CompleteOrchestrationAction { new_version: Some(long.clone()), ..Default::default() },
            ),
        ),
        ("tag key", continued_with(1, CompleteOrchestrationAction { tags: tagged(), ..Default::default() })),
    ] {
        let stalled = Run::start("order", None).refused([action]);
        assert_eq!(stalled.reason, format!("{what} has 256 bytes; at most 255 are allowed"));
    }
    Run::start("order", None).turn([task(1, &"x".repeat(255))]);
}

#[test]
fn events_in_the_history() {
    let mut run = limited(TurnLimits { history_events: 4, ..TurnLimits::default() });
    let reason = "events in the history: 5, at most 4 are allowed";
    assert_too_large(&mut run, vec![task(1, "a"), task(2, "b"), task(3, "c")], reason);
    run.turn([task(1, "a"), task(2, "b")]);
    run.complete(1, "ok");
    assert_too_large(&mut run, vec![], "events in the history: 6, at most 4 are allowed");
    // The way out that the reason names: a new run.
    run.turn([continued(3, "", vec![])]);
    assert_eq!((run.record.history_len, run.record.history_bytes), (0, 0));
    run.turn([]);
}

#[test]
fn bytes_in_the_history() {
    let mut run = Run::start("order", None);
    run.turn([]);
    run.limits.history_bytes = run.record.history_bytes + 100;
    let before = run.record.history_bytes;
    run.raise("x", Some(&"y".repeat(200)));
    let stalled = run.refused([]);
    assert!(stalled.reason.starts_with("bytes in the history: "), "{stalled}");
    run.limits.history_bytes += 200;
    run.turn([]);
    assert!(run.record.history_bytes > before + 200);
    // A history of exactly as many bytes as are allowed is allowed.
    let full = run.record.history_bytes;
    let mut again = Run::start("order", None);
    again.turn([]);
    again.raise("x", Some(&"y".repeat(200)));
    again.limits.history_bytes = full - 1;
    assert_eq!(again.refused([]).kind, TroubleKind::TooLarge);
    again.limits.history_bytes = full;
    again.turn([]);
}

/// Otherwise it could neither go on nor be removed.
#[test]
fn a_run_at_the_limit_of_its_history_can_still_end() {
    let full = |run: &mut Run| {
        run.turn([task(1, "a")]);
        // As long as the largest history there may be by default.
        run.record.history_bytes = dauer_core::limits::HISTORY_BYTES_MAX;
    };
    let mut run = Run::start("order", None);
    full(&mut run);
    run.complete(1, "ok");
    assert_eq!(run.refused([]).kind, TroubleKind::TooLarge);
    let finished =
        dauer_core::turn::fail(run.plan(), run.ledger.clone(), failure::failure("TooLarge", "history"))
            .unwrap();
    assert_eq!(finished.checkpoint.record.status, Status::Failed);
    let message = run.termination(None, false);
    let (fence, now, start) = (run.fence(), dauer_core::Timestamp(run.now), run.inbox.first().cloned());
    let (record, ledger) = (run.record.clone(), run.ledger.clone());
    let forced = dauer_core::turn::amend(
        dauer_core::turn::Found { fence, record, ledger, start, overtaken: Vec::new(), now },
        &message,
    );
    assert_eq!(forced.unwrap().unwrap().checkpoint.record.status, Status::Terminated);
    // So does one with as many events as there may be.
    let mut run = Run::running([]);
    let filler = event::orchestrator_started(1_000);
    while run.ledger.events() < limits::HISTORY_EVENTS_MAX {
        run.ledger.record(&filler, None).unwrap();
    }
    run.raise("x", None);
    assert_eq!(run.refused([]).kind, TroubleKind::TooLarge);
    let failed =
        dauer_core::turn::fail(run.plan(), run.ledger.clone(), failure::failure("TooLarge", "history"));
    assert_eq!(failed.unwrap().checkpoint.record.status, Status::Failed);
    // And a message that comes to nothing is taken off, also above the default limit.
    let mut run = Run::start("order", None);
    full(&mut run);
    run.record.history_bytes += 1;
    let repeat = Run::start("order", None).inbox.remove(0);
    run.deliver(repeat);
    let settled = dauer_core::turn::settle(run.plan(), run.ledger.clone()).unwrap();
    assert_eq!(settled.checkpoint.consumed.len(), 1);
}
