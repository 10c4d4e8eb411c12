//! The end of a run that no worker asked for: after trouble, and from outside.

use dauer_core::Revision;
use dauer_core::model::{Hold, Status};
use dauer_proto::failure;

use crate::support::make::*;
use crate::support::{Run, Step};

fn force(run: &mut Run, reason: Option<&str>, recurse: bool) -> Step {
    let message = run.termination(reason, recurse);
    run.amend(message).unwrap().unwrap()
}

#[test]
fn trouble_that_is_final_fails_the_run_with_its_reason() {
    let mut parent = Run::start("order", None);
    let start = parent.turn([child(1, "c", "ship")]).sent().remove(0);
    let mut run = Run::created(start, 1_000);
    run.turn([task(1, "pack"), lock(2, "s", &["@counter@a"])]);
    let before = run.record.details.custom_status().cloned();
    let step = run.complete(1, "ok").fail(failure::failure("Panic", "index out of bounds"));
    step.is("OrchestratorStarted @1000
         TaskCompleted 1(ok)
         ExecutionCompleted Failed !Panic: index out of bounds
         → i SubOrchestrationInstanceFailed 1 !Panic: index out of bounds
         → @counter@a EntityUnlockSent s @counter@a by c
         = Failed");
    assert_eq!((run.record.hold(), run.record.details.custom_status().cloned()), (Hold::Ended, before));
    assert!(run.inbox.is_empty(), "the messages of the failed turn are used up");
}

#[test]
fn a_run_that_cannot_begin_can_still_fail() {
    let mut run = Run::start("unknown", Some("7"));
    run.fail(failure::failure("UnknownName", "no worker knows 'unknown'")).is("OrchestratorStarted @1000
         ExecutionStarted#0 unknown(7)
         ExecutionCompleted Failed !UnknownName: no worker knows 'unknown'
         = Failed");
    // Its id can be used again, also by a start that came in place of an ended run and failed itself.
    let start = run.other_start("known", dauer_core::model::Over::Refuse);
    run.deliver(start).fail(failure::failure("UnknownName", "still"));
    assert_eq!((run.record.generation, run.record.status), (1, Status::Failed));
}

#[test]
fn an_end_from_outside_tells_everyone_and_leaves_the_inbox() {
    let mut parent = Run::start("order", None);
    let start = parent.turn([child(1, "c", "ship")]).sent().remove(0);
    let mut run = Run::created(start, 1_000);
    run.turn([child(1, "grandchild", "pack"), lock(2, "s", &["@counter@a"])]);
    run.at(2_000).raise("x", None);
    force(&mut run, Some("stuck"), true).is(r#"OrchestratorStarted @2000
         ExecutionTerminated (stuck) recurse
         ExecutionCompleted Terminated(stuck)
         → i SubOrchestrationInstanceFailed 1 !OrchestrationTerminated: The sub-orchestration 'c' was terminated.
         → grandchild ExecutionTerminated ("the parent was terminated") recurse
         → @counter@a EntityUnlockSent s @counter@a by c
         = Terminated"#);
    assert_eq!((run.record.details.output().unwrap().as_str(), run.record.hold()), ("stuck", Hold::Ended));
    assert_eq!((run.inbox.len(), run.record.revision), (1, Revision(2)));
}

#[test]
fn an_end_from_outside_without_recursion_spares_children() {
    let mut run = Run::running([child(1, "c", "ship")]);
    assert!(force(&mut run, None, false).sent().is_empty());
}

#[test]
fn the_ledger_says_whether_the_run_has_ended() {
    let mut run = Run::running([task(1, "pay")]);
    assert!(!run.ledger.is_ended());
    run.complete(1, "ok").turn([completed(2, "done")]);
    assert!(run.ledger.is_ended());
    let mut forced = Run::running([]);
    force(&mut forced, None, false);
    assert!(forced.ledger.is_ended());
}

/// Every live instance has a ledger: one that kept the input would hold every large input twice.
#[test]
fn the_ledger_keeps_the_start_without_its_input() {
    let mut run = Run::start("order", Some("a large input"));
    run.turn([]);
    let started = run.ledger.started().unwrap();
    assert_eq!((started.name.as_str(), started.input.as_deref()), ("order", None));
}
