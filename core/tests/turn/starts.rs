//! Starts over instances that exist.

use dauer_core::model::{History, Hold, Over, Status};
use dauer_core::{Revision, Timestamp};

use crate::support::make::*;
use crate::support::{Run, assert_text, start_of};

#[test]
fn a_start_over_an_ended_instance_replaces_it() {
    let mut run = Run::running([completed(1, "old")]);
    let start = run.other_start("again", Over::Refuse);
    run.at(4_000).deliver(start.clone());
    let step = run.turn([task(1, "pay")]);
    step.is("OrchestratorStarted @4000
         ExecutionStarted#0 again
         TaskScheduled#1 pay
         task pay #1
         = Running");
    let History::Replace { execution, prologue, .. } = &step.checkpoint.history else {
        panic!("a new history")
    };
    assert_eq!((*execution, prologue.len()), (start_of(&start).execution, 0));
    let record = &run.record;
    assert_eq!((record.generation, record.revision), (1, Revision(2)), "the revision is never reset");
    assert_eq!((record.details.output(), record.times.created), (None, Timestamp(4_000)));
    assert_eq!((record.start, record.queue.name.as_ref()), (start.id, "again"));
}

#[test]
fn only_the_first_of_two_starts_replaces_an_ended_instance() {
    let mut run = Run::running([completed(1, "old")]);
    let (first, second) = (run.other_start("first", Over::Refuse), run.other_start("second", Over::Refuse));
    run.deliver(first).deliver(second);
    run.turn([]).is("OrchestratorStarted @1000\nExecutionStarted#0 first\ndropped Running\n= Running");
}

#[test]
fn a_client_s_start_with_terminate_replaces_a_living_run_in_one_commit() {
    let mut parent = Run::start("order", None);
    let start = parent.turn([child(1, "c", "ship")]).sent().remove(0);
    let mut run = Run::created(start, 1_000);
    run.turn([
        child(1, "grandchild", "pack"),
        task(2, "pay"),
        timer(3, 9_000),
        lock(4, "s", &["@counter@a"]),
    ]);
    let new = run.other_start("fresh", Over::Terminate);
    let step = run.at(2_000).deliver(new.clone()).turn([]);
    step.is(r#"→ i SubOrchestrationInstanceFailed 1 !OrchestrationTerminated: The sub-orchestration 'c' was terminated.
         → grandchild ExecutionTerminated ("replaced by a new start") recurse
         → @counter@a EntityUnlockSent s @counter@a by c
         first ExecutionStarted#0 fresh
         = Pending"#);
    assert_eq!((run.record.hold(), run.record.parent.clone()), (Hold::Control, None));
    assert_eq!((run.record.generation, run.record.start), (1, new.id));
    assert_eq!(run.record.times.created, Timestamp(2_000));
    // What the old run waited for comes to nothing.
    run.complete(2, "stale");
    let step = run.turn([completed(1, "done")]);
    step.is("OrchestratorStarted @2000
         ExecutionStarted#0 fresh
         ExecutionCompleted#1 Completed(done)
         dropped OtherExecution
         = Completed");
    assert!(step.sent().is_empty(), "the old parent is told once");
    // The start that was there twice replaces nothing.
    run.deliver(new).turn([]).is("dropped Repeat\n= Completed");
}

#[test]
fn events_that_were_there_first_go_to_the_old_run() {
    let mut run = Run::running([task(1, "pay")]);
    run.raise("first", None);
    let new = run.other_start("fresh", Over::Terminate);
    run.deliver(new).raise("after", None);
    run.turn([]).is("OrchestratorStarted @1000\nEventRaised first\n= Running");
    run.turn([]).is("first ExecutionStarted#0 fresh\n= Pending");
    run.turn([]).is("OrchestratorStarted @1000
         ExecutionStarted#0 fresh
         EventRaised after
         = Running");
}

#[test]
fn a_run_that_continues_as_new_in_every_turn_can_be_replaced() {
    let mut run = Run::running([continued(1, "", vec![])]);
    run.raise("x", None);
    let new = run.other_start("fresh", Over::Terminate);
    run.deliver(new);
    // Without giving way before it begins, the loop would put its own start first for ever.
    run.turn([continued(1, "", vec![])]).is("first ExecutionStarted#0 fresh\n= Pending");
    run.turn([]).is("OrchestratorStarted @1000\nExecutionStarted#0 fresh\n= Running");
}

#[test]
fn a_suspended_run_can_be_replaced() {
    let mut run = Run::running([]);
    run.suspend().turn([]);
    let new = run.other_start("fresh", Over::Terminate);
    run.deliver(new).turn([]).is("first ExecutionStarted#0 fresh\n= Pending");
    assert_eq!(run.record.status, Status::Pending);
    run.turn([]);
    assert_eq!(run.record.status, Status::Running, "the suspension was the old run's");
}

#[test]
fn a_refused_start_of_a_client_changes_nothing() {
    let mut run = Run::running([task(1, "pay")]);
    let before = run.text();
    let other = run.other_start("other", Over::Refuse);
    let step = run.deliver(other).turn([]);
    step.is("dropped Running\n= Running");
    assert_text(&run.text(), &before);
    assert!(step.sent().is_empty(), "there is no parent to be told");
}

/// The start that came first has its turn, also when the run before it ended without ever having begun.
#[test]
fn a_start_with_terminate_waits_for_the_run_that_begins_in_the_same_turn() {
    let mut run = Run::start("order", None);
    let message = run.termination(None, false);
    run.amend(message).unwrap();
    let (first, second) =
        (run.other_start("first", Over::Refuse), run.other_start("second", Over::Terminate));
    run.deliver(first).deliver(second);
    run.turn([]).is("OrchestratorStarted @1000\nExecutionStarted#0 first\n= Running");
    run.turn([]).is("first ExecutionStarted#0 second\n= Pending");
    assert_eq!(run.record.generation, 2);
}
