//! Rewind (behaviour 54): what failed is done again, what succeeded is not, and children come along.

use dauer_core::model::{Class, Fate, Hold, Status};
use dauer_proto::failure::failure;
use dauer_proto::{EventType, ScheduleTaskAction};

use crate::support::make::*;
use crate::support::{Run, Step, assert_text};

/// A run of `order` whose activity `pay` succeeded and whose activity `ship` failed, which failed the run.
fn failed_run() -> Run {
    let mut run = Run::running([task(0, "pay")]);
    run.at(2_000).complete(0, "paid").turn([task(1, "ship")]);
    run.at(3_000)
        .fail_task(1, failure("Down", "no carrier"))
        .turn([failed(2, failure("Down", "no carrier"))]);
    assert_eq!(run.record.status, Status::Failed);
    run
}

fn tasks(step: &Step) -> Vec<&str> {
    step.checkpoint.tasks.iter().map(|task| task.queue.name.as_ref()).collect()
}

#[test]
fn behaviour_54_what_failed_is_done_again_and_what_succeeded_is_not() {
    let mut run = failed_run();
    // What some SDKs give with a failure, and keep for the next turn.
    let failure = run.record.details.failure().cloned();
    run.record.details.set_output(Some("\"half\"".to_owned().into()));
    run.record.details.set_trace(failure);
    let old = run.record.clone();
    let step = run.at(5_000).rewind("the carrier is back").unwrap();
    step.is("OrchestratorStarted @1000
         ExecutionStarted#0 order
         TaskScheduled#0 pay
         OrchestratorStarted @2000
         TaskCompleted 0(paid)
         TaskScheduled#1 ship
         OrchestratorStarted @3000
         ExecutionRewound
         task ship #1
         first ExecutionRewound
         = Running");
    let prologue = step.prologue()[0].event.event().unwrap();
    let Some(EventType::ExecutionRewound(rewound)) = prologue.event_type else { panic!("{prologue:?}") };
    assert_eq!(rewound.reason.as_deref(), Some("the carrier is back"));
    assert_eq!(run.events().last().unwrap().timestamp, Some(dauer_proto::time::from_millis(5_000)));
    assert_ne!(run.record.execution, old.execution, "answers to the old run are dropped");
    assert_eq!((run.record.generation, run.record.start), (old.generation + 1, old.start));
    let details = &run.record.details;
    assert_eq!((details.output(), details.failure(), details.trace()), (None, None, None));
    let step = run.turn([]);
    assert_eq!(step.new_events(), ["OrchestratorStarted @5000"], "so that the code is run");
    run.at(6_000).complete(1, "shipped").turn([completed(2, "done")]).is("OrchestratorStarted @6000
         TaskCompleted 1(shipped)
         ExecutionCompleted#2 Completed(done)
         = Completed");
}

#[test]
fn a_rewind_does_not_go_back_in_time() {
    let mut run = failed_run();
    run.at(2_500).rewind("").unwrap();
    assert_eq!(run.events().last().unwrap().timestamp, Some(dauer_proto::time::from_millis(3_000)));
}

#[test]
fn behaviour_54_only_a_failed_run_is_rewound() {
    let mut run = Run::running([task(0, "pay")]);
    let refused = run.rewind("").err().unwrap();
    assert!(refused.reason.contains("Running cannot be rewound, only a failed one"), "{refused}");
    run.complete(0, "paid").turn([completed(1, "done")]);
    assert!(run.rewind("").is_err());
}

#[test]
fn an_answer_to_the_old_run_does_not_count() {
    let mut run = Run::running([task(0, "pay"), task(1, "ship")]);
    let late = run.completion(0, Ok("paid")).answer;
    run.fail_task(1, failure("Down", "")).turn([failed(2, failure("Down", ""))]);
    let step = run.rewind("").unwrap();
    assert_eq!(tasks(&step), ["pay", "ship"], "all that is open, in its order");
    run.turn([]);
    run.deliver(late).turn([]).is("dropped OtherExecution\n= Running");
}

/// Attempts before the last were dealt with by the code: it will see them fail again, and wait no longer than it did.
#[test]
fn failures_that_the_code_went_on_from_stay() {
    let mut run = Run::running([task(0, "pay")]);
    run.at(2_000).fail_task(0, failure("Down", "1")).turn([timer(1, 3_000)]);
    run.at(3_000).turn([task(2, "pay")]);
    run.at(4_000).fail_task(2, failure("Down", "2")).turn([failed(3, failure("Down", "2"))]);
    let step = run.rewind("").unwrap();
    assert_eq!(tasks(&step), ["pay"]);
    assert_eq!(step.checkpoint.tasks[0].event_id, 2);
    assert!(run.text().contains("TaskFailed 0"), "{}", run.text());
    assert!(!run.text().contains("TaskFailed 2"), "{}", run.text());
}

/// All that failed at the same point is done again at once.
#[test]
fn several_failures_are_taken_out_together() {
    let mut run = Run::running([task(0, "a"), task(1, "b"), task(2, "c")]);
    run.at(2_000).fail_task(0, failure("Down", "")).turn([]);
    run.at(3_000).complete(1, "ok").turn([]);
    run.at(4_000).fail_task(2, failure("Down", "")).turn([failed(3, failure("Down", ""))]);
    let step = run.rewind("").unwrap();
    assert_eq!(tasks(&step), ["a", "c"]);
    assert!(run.text().contains("TaskCompleted 1(ok)"));
}

/// The code caught the failure, undid its work and then failed. What it did has happened, and is not forgotten: nothing but
/// the end is taken out.
#[test]
fn what_followed_from_a_failure_is_not_undone() {
    let mut run = Run::running([task(0, "pay")]);
    run.at(2_000).complete(0, "paid").turn([task(1, "ship")]);
    run.at(3_000).fail_task(1, failure("Down", "")).turn([task(2, "refund")]);
    run.at(4_000).complete(2, "refunded").turn([failed(3, failure("Down", ""))]);
    let before = run.text();
    let step = run.rewind("").unwrap();
    assert_eq!(tasks(&step), [""; 0]);
    let kept = before.replace("ExecutionCompleted#3 Failed !Down: ", "ExecutionRewound");
    assert_text(&run.text(), &kept);
}

#[test]
fn a_run_that_failed_by_its_own_code_runs_that_code_again() {
    let mut run = Run::running([task(0, "pay")]);
    run.at(2_000).complete(0, "paid").turn([failed(1, failure("Bug", "divided by zero"))]);
    let step = run.rewind("mended").unwrap();
    assert_eq!(tasks(&step), [""; 0]);
    run.turn([completed(1, "done")]);
    assert_eq!(run.record.status, Status::Completed);
}

#[test]
fn timers_and_events_are_kept() {
    let mut run = Run::running([timer(0, 90_000), task(1, "pay")]);
    run.raise("paid", Some("7")).turn([]);
    run.fail_task(1, failure("Down", "")).turn([failed(2, failure("Down", ""))]);
    let step = run.rewind("").unwrap();
    assert_eq!(step.checkpoint.timers.len(), 1);
    assert_eq!(step.checkpoint.timers[0].visible_at.0, 90_000);
    assert!(run.text().contains("EventRaised paid"));
    run.turn([]);
    // The event is still the same message: a repeat of it is carried over under its own id.
    let raised = |fates: &[(dauer_core::MessageId, Fate)]| {
        fates.iter().filter(|(_, f)| matches!(f, Fate::Event(_))).count()
    };
    assert_eq!(raised(&run.history[0].batch.consumed), 1);
}

/// The resume came after the end, and was dropped. A seed of the simulator waited for it for ever.
#[test]
fn a_suspension_that_was_in_force_at_the_end_is_over() {
    let mut run = Run::running([task(0, "pay")]);
    run.suspend().turn([]);
    run.resume().turn([]);
    run.complete(0, "paid").suspend().turn([failed(1, failure("Bug", ""))]);
    run.rewind("").unwrap();
    assert_eq!((run.record.status, run.record.hold()), (Status::Running, Hold::Open));
    let text = run.text();
    assert_eq!(text.matches("ExecutionSuspended").count(), 1, "{text}");
    assert_eq!(text.matches("ExecutionResumed").count(), 1, "{text}");
    run.turn([completed(1, "done")]);
    assert_eq!(run.record.status, Status::Completed);
}

/// An entity remembers what it was asked, so that the same request again is answered as before; the answer goes to the new
/// run, which has another execution.
#[test]
fn open_entity_calls_and_lock_requests_are_sent_again() {
    let mut run = Run::start("order", None);
    let first =
        run.turn([call(0, "@counter@a", "get", "r-1"), lock(1, "s", &["@counter@b"]), task(2, "pay")]).sent();
    run.fail_task(2, failure("Down", "")).turn([failed(3, failure("Down", ""))]);
    let again = run.rewind("").unwrap().sent();
    let to = |sent: &[dauer_core::model::Message]| sent.iter().map(|m| m.to.to_string()).collect::<Vec<_>>();
    assert_eq!(to(&again), ["@counter@a", "@counter@b"]);
    assert_eq!(to(&again), to(&first));
    assert_ne!(again[0].id, first[0].id);
    let asked = again[0].event.event().unwrap();
    assert_eq!(asked.event_id, dauer_proto::event::NO_ACTION, "as the first time");
    let Some(EventType::EntityOperationCalled(asked)) = asked.event_type else { panic!("{asked:?}") };
    assert_eq!(asked.request_id, "r-1");
    assert_eq!(asked.parent_execution_id, Some(run.record.execution.to_string()));
}

#[test]
fn a_reused_id_is_issued_once() {
    let mut run = Run::running([task(0, "pay")]);
    run.fail_task(0, failure("Down", "1")).turn([task(0, "pay")]);
    run.fail_task(0, failure("Down", "2")).turn([failed(1, failure("Down", "2"))]);
    let step = run.rewind("").unwrap();
    assert_eq!(tasks(&step), ["pay"]);
    run.turn([]);
    run.complete(0, "paid").turn([completed(1, "done")]);
    assert_eq!(run.record.status, Status::Completed);
}

/// A parent whose child ended as `end` says, and failed for it or for another reason.
fn family(end: impl FnOnce(&mut Run) -> Option<Step>) -> (Run, Run) {
    let mut parent = Run::start("order", None);
    let step = parent.turn([child(1, "c", "ship"), task(2, "pay")]);
    let mut child = Run::created(step.sent().remove(0), 1_000);
    if let Some(step) = end(&mut child) {
        parent.deliver(step.sent().remove(0));
    } else {
        parent.fail_task(2, failure("Down", ""));
    }
    parent.turn([failed(3, failure("Down", ""))]);
    (parent, child)
}

/// Rewinds the parent and gives the child what it is sent.
fn rewind_both(parent: &mut Run, child: &mut Run) {
    let sent = parent.rewind("").unwrap().sent();
    assert_eq!(sent.len(), 1);
    assert!(matches!(sent[0].class, Class::Rewind(_)), "{sent:?}");
    child.deliver(sent[0].clone());
    parent.turn([]);
}

#[test]
fn a_failed_child_is_rewound_with_its_parent() {
    let (mut parent, mut child) = family(|child| {
        child.turn([task(0, "pack")]);
        Some(child.fail_task(0, failure("Down", "")).turn([failed(1, failure("Down", ""))]))
    });
    rewind_both(&mut parent, &mut child);
    let step = child.turn([]);
    assert_eq!((tasks(&step), child.record.status), (vec!["pack"], Status::Running));
    child.turn([]);
    let answer = child.complete(0, "packed").turn([completed(1, "shipped")]).sent().remove(0);
    parent.deliver(answer).turn([]).is("OrchestratorStarted @1000
         SubOrchestrationInstanceCompleted 1(shipped)
         = Running");
}

#[test]
fn a_child_that_succeeded_meanwhile_answers_again() {
    let (mut parent, mut child) = family(|_| None);
    let lost = child.turn([completed(1, "shipped")]).sent().remove(0);
    rewind_both(&mut parent, &mut child);
    let step = child.turn([]);
    assert_eq!(child.record.status, Status::Completed, "it does not run again");
    parent.deliver(lost).turn([]).is("dropped OtherExecution\n= Running");
    parent.deliver(step.sent().remove(0)).turn([]).is("OrchestratorStarted @1000
         SubOrchestrationInstanceCompleted 1(shipped)
         = Running");
}

#[test]
fn a_child_that_runs_is_adopted_by_the_new_run() {
    let (mut parent, mut child) = family(|child| {
        child.turn([task(0, "pack")]);
        None
    });
    rewind_both(&mut parent, &mut child);
    child.turn([]).is("dropped Obeyed\n= Running");
    let answer = child.complete(0, "packed").turn([completed(1, "shipped")]).sent().remove(0);
    parent.deliver(answer).turn([]).is("OrchestratorStarted @1000
         SubOrchestrationInstanceCompleted 1(shipped)
         = Running");
}

#[test]
fn a_rewind_that_comes_twice_counts_once() {
    let (mut parent, mut child) = family(|child| {
        child.turn([task(0, "pack")]);
        None
    });
    let sent = parent.rewind("").unwrap().sent().remove(0);
    child.deliver(sent.clone()).turn([]).is("dropped Obeyed\n= Running");
    child.deliver(sent).turn([]).is("dropped Repeat\n= Running");
}

#[test]
fn an_activity_is_asked_for_again_in_its_version() {
    for (version, expected) in [(Some("2"), Some("2")), (Some(""), None), (None, None)] {
        let version = version.map(str::to_owned);
        let action = ScheduleTaskAction { name: "ship".into(), version, ..Default::default() };
        let mut run = Run::running([task_with(0, action)]);
        run.fail_task(0, failure("Down", "")).turn([failed(1, failure("Down", ""))]);
        let step = run.rewind("").unwrap();
        let queues = step.checkpoint.tasks.iter().map(|task| task.queue.version.as_deref());
        assert_eq!(queues.collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn a_child_that_was_purged_is_started_anew() {
    let (mut parent, _purged) = family(|child| Some(child.turn([failed(1, failure("Down", ""))])));
    let sent = parent.rewind("").unwrap().sent().remove(0);
    parent.turn([]);
    let mut child = Run::created(sent.clone(), 2_000);
    child.turn([]).is("OrchestratorStarted @2000\nExecutionStarted#0 ship parent=i#1\n= Running");
    child.deliver(sent).turn([]).is("dropped Repeat\n= Running");
    let answer = child.raise("go", None).turn([completed(1, "shipped")]).sent().remove(0);
    parent.deliver(answer).turn([]).is("OrchestratorStarted @1000
         SubOrchestrationInstanceCompleted 1(shipped)
         = Running");
}

#[test]
fn somebody_elses_instance_under_the_childs_id_is_not_taken_for_it() {
    let (mut parent, _) = family(|_| None);
    let sent = parent.rewind("").unwrap().sent().remove(0);
    let mut other = Run::requested(dauer_core::send::StartRequest::new(sent.to.clone(), "other"));
    other.turn([task(0, "pack")]);
    let step = other.deliver(sent.clone()).turn([]);
    step.is("→ i SubOrchestrationInstanceFailed 1 !InstanceAlreadyExists: The instance 'c' is running already; choose another id for the child.
         dropped Running
         = Running");

    let mut other = Run::requested(dauer_core::send::StartRequest::new(sent.to.clone(), "other"));
    other.turn([completed(0, "")]);
    other.deliver(sent).turn([]);
    assert!(other.text().contains("ExecutionStarted#0 ship"), "an ended one gives way, as to a start");
}
