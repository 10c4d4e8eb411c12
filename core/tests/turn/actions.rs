//! Behaviours 22 to 26: what becomes of a worker's actions.

use dauer_core::model::Status;
use dauer_core::turn::Answer;
use dauer_proto::{
    ActionType, CreateSubOrchestrationAction, OrchestrationStatus, ScheduleTaskAction,
    TerminateOrchestrationAction, action, failure,
};

use crate::support::make::*;
use crate::support::{Run, assert_text};

#[test]
fn behaviour_22_each_action_becomes_an_event_under_its_id() {
    let mut run = Run::start("order", None);
    run.turn([
        task(1, "pay"),
        timer(2, 5_000),
        child(3, "c", "ship"),
        send_event(4, "other", "go"),
        call(5, "@counter@a", "add", "r-5"),
        signal(6, "@counter@a", "reset", None),
        lock(7, "s", &["@counter@a", "@counter@b"]),
        unlock(8, "s", "@counter@b"),
    ])
    .is("OrchestratorStarted @1000
         ExecutionStarted#0 order
         TaskScheduled#1 pay
         TimerCreated#2 @5000
         SubOrchestrationInstanceCreated#3 c ship
         EventSent#4 other go
         EntityOperationCalled#5 @counter@a add r-5 by i
         EntityOperationSignaled#6 @counter@a reset
         EntityLockRequested#7 s 0 of @counter@a @counter@b by i
         EntityUnlockSent#8 s @counter@b by i
         task pay #1
         timer @5000 TimerFired 2 @5000
         → c start ExecutionStarted#0 ship parent=i#3
         → other EventRaised go
         → @counter@a EntityOperationCalled @counter@a add r-5 by i
         → @counter@a EntityOperationSignaled @counter@a reset
         → @counter@a EntityLockRequested s 0 of @counter@a @counter@b by i
         → @counter@b EntityUnlockSent s @counter@b by i
         = Running");
}

#[test]
fn behaviour_22_answers_name_their_schedule() {
    let mut run = Run::start("order", None);
    let step = run.turn([task(1, "pay"), task(2, "pay"), timer(3, 1_500), child(4, "c", "ship")]);
    let mut child = Run::created(step.sent().remove(0), 1_000);
    let answer = child.turn([completed(0, "shipped")]).sent().remove(0);
    run.complete(1, "ok").fail_task(2, failure::failure("Boom", "bad")).deliver(answer).at(1_500);
    run.turn([]).is("OrchestratorStarted @1500
         TaskCompleted 1(ok)
         TaskFailed 2 !Boom: bad
         SubOrchestrationInstanceCompleted 4(shipped)
         TimerFired 3 @1500
         = Running");
    assert_eq!(run.ledger.open_count(), 0);
}

/// Java, .NET and Go count from 0.
#[test]
fn behaviour_23_an_action_id_of_zero_is_an_id() {
    let mut run = Run::running([task(0, "pay")]);
    run.complete(0, "ok").turn([completed(1, "done")]).is("OrchestratorStarted @1000
         TaskCompleted 0(ok)
         ExecutionCompleted#1 Completed(done)
         = Completed");
}

/// Go hands its actions over in the order of a map.
#[test]
fn behaviour_23_actions_are_carried_out_in_the_order_of_their_ids() {
    let sorted =
        [task(0, "a"), timer(1, 5_000), child(2, "c", "b"), send_event(3, "other", "go"), completed(4, "x")];
    let expected = Run::start("order", None).turn(sorted.clone()).checkpoint;
    for order in [[4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [1, 4, 0, 3, 2]] {
        let shuffled = order.map(|index: usize| sorted[index].clone());
        assert_eq!(Run::start("order", None).turn(shuffled).checkpoint, expected, "{order:?}");
    }
}

#[test]
fn behaviour_23_the_first_of_two_completions_by_id_wins() {
    let mut run = Run::start("order", None);
    run.turn([terminated(3, "late"), completed(2, "first")]).is("OrchestratorStarted @1000
         ExecutionStarted#0 order
         ExecutionCompleted#2 Completed(first)
         = Completed");
}

/// .NET gives its implicit unlocks the id of the completion.
#[test]
fn behaviour_23_actions_may_share_the_id_of_the_completion() {
    let mut run = Run::running([lock(1, "s", &["@a@1", "@b@1"])]);
    let step = run.raise("x", None).turn([completed(2, ""), unlock(2, "s", "@a@1"), unlock(2, "s", "@b@1")]);
    step.is(r#"OrchestratorStarted @1000
         EventRaised x
         EntityUnlockSent#2 s @a@1 by i
         EntityUnlockSent#2 s @b@1 by i
         ExecutionCompleted#2 Completed("")
         → @a@1 EntityUnlockSent s @a@1 by i
         → @b@1 EntityUnlockSent s @b@1 by i
         = Completed"#);
    assert_ne!(step.sent()[0].id, step.sent()[1].id);
}

#[test]
fn behaviour_23_a_failure_path_completes_under_minus_one() {
    let mut run = Run::start("order", None);
    run.turn([failed(-1, failure::failure("Crash", "oh"))]).is("OrchestratorStarted @1000
         ExecutionStarted#0 order
         ExecutionCompleted Failed !Crash: oh
         = Failed");
}

/// Python schedules a retry under the id of the first attempt.
#[test]
fn behaviour_24_a_retried_call_may_reuse_its_action_id() {
    let boom = failure::failure("Boom", "bad");
    let mut run = Run::running([task(1, "pay")]);
    let first = run.tasks[&1].clone();
    let late = run.completion(1, Ok("late")).answer;
    run.fail_task(1, boom).turn([timer(2, 2_000)]);
    run.at(2_000).turn([task(1, "pay")]);
    assert_ne!(run.tasks[&1].id, first.id, "each attempt has an identity of its own");

    // An answer to the first attempt that comes late answers nothing, though the event id is open again.
    run.deliver(late).turn([]).is("dropped NotOpen\n= Running");
    run.complete(1, "paid").turn([completed(3, "done")]);
    assert_text(
        &run.text(),
        "OrchestratorStarted @1000
         ExecutionStarted#0 order
         TaskScheduled#1 pay
         OrchestratorStarted @1000
         TaskFailed 1 !Boom: bad
         TimerCreated#2 @2000
         OrchestratorStarted @2000
         TimerFired 2 @2000
         TaskScheduled#1 pay
         OrchestratorStarted @2000
         TaskCompleted 1(paid)
         ExecutionCompleted#3 Completed(done)",
    );
}

/// Two open schedules under one id could not be told apart by the answers' events.
#[test]
fn behaviour_24_an_action_id_cannot_be_reused_while_it_is_open() {
    let mut run = Run::running([task(1, "pay")]);
    let stalled = run.raise("x", None).refused([task(1, "pay")]);
    assert_eq!(
        stalled.reason,
        "Task(1) is scheduled again while it is still open; a retry must wait for the answer"
    );
}

#[test]
fn behaviour_25_everything_beside_a_completion_is_carried_out() {
    for (status, line) in [
        (OrchestrationStatus::Completed, "ExecutionCompleted#6 Completed\n"),
        (OrchestrationStatus::Failed, "ExecutionCompleted#6 Failed\n"),
        (OrchestrationStatus::ContinuedAsNew, ""),
    ] {
        let mut run = Run::running([lock(1, "s", &["@counter@a"])]);
        let step = run.raise("x", None).turn([
            task(2, "log"),
            send_event(3, "other", "go"),
            signal(4, "@counter@a", "add", None),
            unlock(5, "s", "@counter@a"),
            action::complete(6, status, None, None),
        ]);
        assert_eq!(step.checkpoint.tasks.len(), 1, "{status:?}");
        let sent: Vec<_> = step.sent().iter().map(crate::support::message_line).collect();
        assert_text(
            &sent.join("\n"),
            "→ other EventRaised go
             → @counter@a EntityOperationSignaled @counter@a add
             → @counter@a EntityUnlockSent s @counter@a by i",
        );
        assert!(line.is_empty() || crate::support::event_line(step.events.last().unwrap()) == line.trim());
    }
}

#[test]
fn behaviour_25_a_worker_may_terminate_another_instance() {
    let kind = ActionType::TerminateOrchestration(TerminateOrchestrationAction {
        instance_id: "other".into(),
        reason: Some("enough".into()),
        recurse: true,
    });
    let mut run = Run::start("order", None);
    let step = run.turn([action::new(1, kind)]);
    step.is("OrchestratorStarted @1000
         ExecutionStarted#0 order
         → other ExecutionTerminated (enough) recurse
         = Running");
}

#[test]
fn behaviour_26_custom_status_is_overwritten_by_every_answer() {
    let says = |text: Option<&str>| Answer { custom_status: text.map(Into::into), ..Answer::default() };
    let mut run = Run::start("order", None);
    run.answer(says(Some("a"))).is("OrchestratorStarted @1000\nExecutionStarted#0 order\n= Running [a]");
    run.raise("x", None)
        .answer(says(Some("b")))
        .is("OrchestratorStarted @1000\nEventRaised x\n= Running [b]");
    run.raise("x", None).answer(says(Some(""))).is("OrchestratorStarted @1000\nEventRaised x\n= Running");
    run.raise("x", None).answer(says(Some("c")));
    run.raise("x", None).answer(says(None)).is("OrchestratorStarted @1000\nEventRaised x\n= Running");
    // A turn without a worker has nothing to say and leaves it.
    run.raise("x", None).answer(says(Some("d")));
    let own = Run::start("order", None).inbox.remove(0);
    run.deliver(own).turn([]).is("dropped Repeat\n= Running [d]");
}

#[test]
fn behaviour_26_output_and_failure_are_stored_as_they_came() {
    let mut run = Run::start("order", Some(""));
    run.turn([completed(1, "")]);
    assert_eq!(run.record.details.output().map(|output| output.as_str()), Some(""), "empty is not absent");
    let mut run = Run::start("order", None);
    run.turn([action::complete(1, OrchestrationStatus::Completed, None, None)]);
    assert_eq!(run.record.details.output(), None);

    let details = failure::failure("Outer", "o")
        .with_stack("at main")
        .with_inner(failure::failure("Inner", "i").with_property("code", 7.0))
        .with_property("retry", "no")
        .non_retriable();
    let mut run = Run::start("order", None);
    run.turn([failed(1, details.clone())]);
    assert_eq!(run.record.status, Status::Failed);
    assert_eq!(run.record.details.failure().unwrap().decode(), Ok(details));
}

#[test]
fn an_answer_that_makes_no_sense_stalls_and_changes_nothing() {
    let mut run = Run::start("order", None);
    for (actions, reason) in [
        (vec![task(-1, "pay")], "actions[0].id"),
        (vec![task(1, "")], "actions[0].scheduleTask.name"),
        (vec![action::complete(1, OrchestrationStatus::Running, None, None)], "orchestrationStatus"),
        (vec![call(1, "counter", "add", "r")], "entity id: \"counter\" has not the form @name@key"),
        (vec![lock(1, "s", &["@a@1", "b"])], "entity id: \"b\" has not the form @name@key"),
        (vec![child(1, &"x".repeat(101), "ship")], "child instance id: instance id has 101 characters"),
        (vec![child(1, "@counter@a", "ship")], "ids of the form @name@key belong to entities"),
        (vec![send_event(1, "a\u{7}", "go")], "event target: instance id contains"),
    ] {
        let stalled = run.refused(actions);
        assert_eq!(stalled.kind, dauer_core::model::TroubleKind::InvalidAnswer);
        assert!(stalled.reason.contains(reason), "{stalled} should contain {reason}");
    }
    run.turn([completed(1, "fine")]);
}

/// Trace context differs between two attempts at the same turn; the identity of what they schedule does not.
#[test]
fn trace_context_is_no_part_of_an_identity() {
    let produced = |parent: &str| {
        let parent_trace_context = Some(trace(parent));
        let pay = ScheduleTaskAction { name: "pay".into(), parent_trace_context, ..Default::default() };
        let parent_trace_context = Some(trace(parent));
        let ship = CreateSubOrchestrationAction {
            instance_id: "c".into(),
            name: "ship".into(),
            parent_trace_context,
            ..Default::default()
        };
        let step = Run::start("order", None).turn([task_with(1, pay), child_with(2, ship)]);
        (step.checkpoint.tasks[0].id, step.sent()[0].id)
    };
    assert_eq!(produced("00-first"), produced("00-second"));
}
