//! Behaviours 24 and 27, and the semantics of children: how they are started, and how they answer.

use dauer_core::ExecutionId;
use dauer_core::model::{Class, DropReason, Fate, Hold, Over, QueueKey, Status};
use dauer_core::send::StartRequest;
use dauer_proto::{
    CreateSubOrchestrationAction, EventType, OrchestrationStatus, TaskFailureDetails, action, failure,
};

use crate::support::make::*;
use crate::support::{Run, id, start_of};

/// A parent with one child, and the child with its start in the inbox.
fn family() -> (Run, Run) {
    let mut parent = Run::start("order", None);
    let step = parent.turn([child(1, "c", "ship")]);
    let child = Run::created(step.sent().remove(0), 1_000);
    (parent, child)
}

#[test]
fn a_child_is_started_by_a_message_and_answers_its_start() {
    let (mut parent, mut child) = family();
    let start = child.record.start;
    let step = child.turn([completed(1, "shipped")]);
    step.is("OrchestratorStarted @1000
         ExecutionStarted#0 ship parent=i#1
         ExecutionCompleted#1 Completed(shipped)
         → i SubOrchestrationInstanceCompleted 1(shipped)
         = Completed");
    let answer = step.sent().remove(0);
    assert_eq!((answer.answers, answer.execution), (Some(start), Some(parent.record.execution)));
    parent.deliver(answer).turn([completed(2, "done")]).is("OrchestratorStarted @1000
         SubOrchestrationInstanceCompleted 1(shipped)
         ExecutionCompleted#2 Completed(done)
         = Completed");
}

/// An empty input is an input (behaviour 26).
#[test]
fn a_child_is_given_its_input() {
    for (input, shown) in [(Some("7"), "(7)"), (Some(""), "(\"\")"), (None, "")] {
        let action = action::create_sub_orchestration(1, "c", "ship", input.map(Into::into));
        let sent = Run::start("order", None).turn([action]).sent();
        let expected = format!("→ c start ExecutionStarted#0 ship{shown} parent=i#1");
        assert_eq!(crate::support::message_line(&sent[0]), expected);
    }
}

#[test]
fn a_child_that_continues_as_new_still_answers_its_start() {
    let (mut parent, mut child) = family();
    let start = child.record.start;
    child.turn([continued(1, "again", vec![])]);
    child.turn([continued(1, "again", vec![])]);
    let answer = child.turn([completed(1, "at last")]).sent().remove(0);
    assert_eq!(answer.answers, Some(start));
    let step = parent.deliver(answer).turn([]);
    step.is("OrchestratorStarted @1000\nSubOrchestrationInstanceCompleted 1(at last)\n= Running");
}

#[test]
fn a_child_without_an_id_is_named_after_the_run() {
    let mut run = Run::start("order", None);
    let sent = run.turn([child(26, "", "ship")]).sent();
    assert_eq!(sent[0].to.as_str(), format!("{}:001a", run.record.execution));
}

#[test]
fn a_child_inherits_the_version_unless_it_is_given() {
    let request = StartRequest { version: Some("1.5".into()), ..StartRequest::new(id("i"), "order") };
    let asked = |version: Option<&str>| {
        let ship = CreateSubOrchestrationAction {
            instance_id: "c".into(),
            name: "ship".into(),
            version: version.map(Into::into),
            ..CreateSubOrchestrationAction::default()
        };
        let message = Run::requested(request.clone()).turn([child_with(1, ship)]).sent().remove(0);
        let Some(EventType::ExecutionStarted(started)) = message.event.event().unwrap().event_type else {
            panic!()
        };
        let queue = start_of(&message).queue.clone();
        assert_eq!(queue.version.as_deref(), started.version.as_deref(), "record and event agree");
        queue.version
    };
    assert_eq!(asked(None).as_deref(), Some("1.5"));
    assert_eq!(asked(Some("")), None, "none is asked for, which is not the same as nothing");
    assert_eq!(asked(Some("2")).as_deref(), Some("2"));
    // A parent without a version has children without one.
    let sent = Run::start("order", None).turn([child(1, "c", "ship")]).sent();
    assert_eq!(start_of(&sent[0]).queue, QueueKey::new(dauer_core::model::Kind::Orchestration, "ship", None));
}

#[test]
fn a_child_has_its_own_tags() {
    let tags = [("team".to_owned(), "blue".to_owned())];
    let ship = CreateSubOrchestrationAction {
        instance_id: "c".into(),
        name: "ship".into(),
        tags: tags.clone().into(),
        ..CreateSubOrchestrationAction::default()
    };
    let step = Run::start("order", None).turn([child_with(1, ship)]);
    step.is("OrchestratorStarted @1000
         ExecutionStarted#0 order
         SubOrchestrationInstanceCreated#1 c ship team=blue
         → c start ExecutionStarted#0 ship team=blue parent=i#1
         = Running");
    assert_eq!(start_of(&step.sent()[0]).tags, tags.into());
}

/// JavaScript, Python and others start every attempt of a child under the same instance id.
#[test]
fn behaviour_24_a_retry_replaces_the_ended_child() {
    let (mut parent, mut child) = family();
    let first = child.record.clone();
    let answer = child.turn([failed(1, failure::failure("Boom", "bad"))]).sent().remove(0);
    // Python's way: the same action id, too.
    let step = parent.deliver(answer.clone()).turn([crate::support::make::child(1, "c", "ship")]);
    let again = step.sent().remove(0);
    assert_ne!(again.id, first.start);
    let step = child.at(2_000).deliver(again.clone()).turn([task(1, "pack")]);
    step.is("OrchestratorStarted @2000
         ExecutionStarted#0 ship parent=i#1
         TaskScheduled#1 pack
         task pack #1
         = Running");
    assert_ne!(child.record.execution, first.execution, "a fresh execution");
    assert_eq!((child.record.generation, child.record.start), (1, again.id));
    assert_eq!((child.record.details.failure(), child.record.times.created.0), (None, 2_000));

    // The first child's answer, delivered again, answers nothing; the second's does.
    child.complete(1, "packed");
    let answer_again = child.turn([completed(2, "shipped")]).sent().remove(0);
    parent.at(2_000).deliver(answer).deliver(answer_again).turn([]).is("OrchestratorStarted @2000
         SubOrchestrationInstanceCompleted 1(shipped)
         dropped NotOpen
         = Running");
}

#[test]
fn behaviour_24_a_start_over_a_running_instance_fails_the_parent_s_call() {
    let mut run = Run::running([task(1, "pay")]);
    let mut parent = Run::created(
        dauer_core::send::start(
            StartRequest::new(id("parent"), "order"),
            ExecutionId(41),
            run.caller(),
            Over::Refuse,
        )
        .unwrap(),
        1_000,
    );
    let start = parent.turn([child(1, "i", "ship")]).sent().remove(0);
    let step = run.deliver(start.clone()).turn([]);
    step.is("→ parent SubOrchestrationInstanceFailed 1 !InstanceAlreadyExists: The instance 'i' is running already; choose another id for the child.
         dropped Running
         = Running");
    let answer = step.sent().remove(0);
    assert_eq!((answer.answers, answer.execution), (Some(start.id), Some(parent.record.execution)));
    parent.deliver(answer).turn([]);
    assert_eq!(parent.ledger.open_count(), 0, "the parent does not wait for ever");
    // The running instance is as it was.
    run.complete(1, "ok").turn([completed(2, "done")]);
}

#[test]
fn a_repeat_of_the_same_start_is_dropped_in_every_state() {
    let (_, mut child) = family();
    let start = child.inbox[0].clone();
    // The relay of an outbox delivers again while it runs, in the next run, and after its end.
    child.turn([task(1, "pack")]);
    child.deliver(start.clone()).turn([]).is("dropped Repeat\n= Running");
    child.complete(1, "ok").turn([continued(2, "", vec![])]);
    child.deliver(start.clone()).turn([task(1, "pack")]);
    assert_eq!(child.ledger.open_count(), 1, "the next run began by its own start");
    child.complete(1, "ok").turn([completed(2, "done")]);
    let step = child.deliver(start.clone()).turn([]);
    step.is("dropped Repeat\n= Completed");
    assert_eq!(child.record.hold(), Hold::Ended);
    let stored = &child.history.last().unwrap().batch;
    assert_eq!(stored.consumed, [(start.id, Fate::Dropped(DropReason::Repeat))]);
}

/// JavaScript's retry handlers read the type of the failure and loop for ever on a rewritten one (D6).
#[test]
fn behaviour_27_a_child_s_failure_reaches_the_parent_unchanged() {
    let details = failure::failure("PaymentError", "declined")
        .with_stack("at pay")
        .with_inner(failure::failure("Timeout", "slow").with_inner(failure::failure("Root", "cable")))
        .with_property("code", 402.0)
        .non_retriable();
    let (mut parent, mut child) = family();
    let answer = child.turn([failed(1, details.clone())]).sent().remove(0);
    let event = answer.event.event().unwrap();
    let Some(EventType::SubOrchestrationInstanceFailed(failed)) = event.event_type else {
        panic!("{event:?}")
    };
    assert_eq!(failed.failure_details, Some(details.clone()));
    parent.deliver(answer).turn([]);
    let stored: Vec<TaskFailureDetails> = parent
        .events()
        .into_iter()
        .filter_map(|event| match event.event_type {
            Some(EventType::SubOrchestrationInstanceFailed(failed)) => failed.failure_details,
            _ => None,
        })
        .collect();
    assert_eq!(stored, [details]);
}

#[test]
fn behaviour_27_every_end_of_a_child_answers_with_details() {
    let end = |status| {
        let (_, mut child) = family();
        let sent = child.turn([action::complete(1, status, Some("out".into()), None)]).sent();
        crate::support::message_line(&sent[0])
    };
    assert_eq!(end(OrchestrationStatus::Completed), "→ i SubOrchestrationInstanceCompleted 1(out)");
    assert_eq!(
        end(OrchestrationStatus::Terminated),
        "→ i SubOrchestrationInstanceFailed 1 !OrchestrationTerminated: The sub-orchestration 'c' was terminated."
    );
    assert_eq!(
        end(OrchestrationStatus::Canceled),
        "→ i SubOrchestrationInstanceFailed 1 !OrchestrationCanceled: The sub-orchestration 'c' was canceled."
    );
    assert_eq!(
        end(OrchestrationStatus::Failed),
        "→ i SubOrchestrationInstanceFailed 1 !OrchestrationFailed: The sub-orchestration 'c' failed without saying why."
    );
}

#[test]
fn an_answer_for_an_earlier_run_of_the_parent_is_dropped() {
    let (mut parent, mut child) = family();
    parent.raise("x", None).turn([continued(2, "", vec![])]);
    parent.turn([crate::support::make::child(1, "d", "ship")]);
    let answer = child.turn([completed(1, "stale")]).sent().remove(0);
    parent.deliver(answer).turn([]).is("dropped OtherExecution\n= Running");
    assert_eq!(parent.ledger.open_count(), 1);
}

#[test]
fn a_child_that_starts_its_own_parent_s_id_is_told_so() {
    let mut run = Run::start("order", None);
    let start = run.turn([child(1, "i", "order")]).sent().remove(0);
    assert!(matches!(start.class, Class::Start(_)));
    let answer = run.deliver(start).turn([]).sent().remove(0);
    run.deliver(answer).turn([completed(2, "done")]);
    assert_eq!(run.record.status, Status::Completed);
}
