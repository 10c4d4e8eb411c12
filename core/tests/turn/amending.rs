//! What a client does to a run that no host takes a turn of: it ends, suspends, resumes and replaces it from outside.

use dauer_core::model::{Hold, Message, Over, Status};
use dauer_core::send::{self, StartRequest};
use dauer_core::{Revision, Timestamp};

use crate::support::make::*;
use crate::support::{Run, Step, assert_text, id};

fn suspension(run: &mut Run) -> Message {
    let caller = run.caller();
    send::suspend(run.id.clone(), Some("wait".into()), caller).unwrap()
}

fn resumption(run: &mut Run) -> Message {
    let caller = run.caller();
    send::resume(run.id.clone(), None, caller).unwrap()
}

#[track_caller]
fn amended(run: &mut Run, message: Message) -> Step {
    run.amend(message).unwrap().expect("it changes something")
}

fn suspended() -> Run {
    let mut run = Run::start("order", Some("input"));
    let message = suspension(&mut run);
    amended(&mut run, message).is("dropped Obeyed\n= Suspended");
    run
}

/// Instance `c`, started by the parent `i`.
fn child_of_a_parent() -> Run {
    let mut parent = Run::start("order", None);
    let start = parent.turn([child(1, "c", "ship")]).sent().remove(0);
    Run::created(start, 1_000)
}

/// A run that continued as new, and whose next run has not begun.
fn next_run() -> Run {
    let mut run = Run::start("order", None);
    run.turn([continued(1, "again", vec![])]);
    assert_eq!((run.record.status, run.prologue.len()), (Status::Running, 1));
    run
}

#[test]
fn terminating_an_unborn_run_consumes_its_start() {
    let mut run = child_of_a_parent();
    let message = run.termination(Some("no"), true);
    amended(&mut run, message).is("OrchestratorStarted @1000
         ExecutionStarted#0 ship parent=i#1
         ExecutionTerminated (no) recurse
         ExecutionCompleted Terminated(no)
         → i SubOrchestrationInstanceFailed 1 !OrchestrationTerminated: The sub-orchestration 'c' was terminated.
         = Terminated");
    assert!(run.inbox.is_empty(), "a start that is left blocks purge and create");
    assert_eq!((run.record.hold(), run.record.revision), (Hold::Ended, Revision(1)));
}

/// The host and the client that end the same unborn run write the same history.
#[test]
fn terminating_an_unborn_run_writes_what_a_turn_would() {
    let (mut by_turn, mut by_client) = (Run::start("order", None), Run::start("order", None));
    let message = by_client.termination(Some("no"), false);
    amended(&mut by_client, message);
    by_turn.terminate(Some("no"), false).turn([]);
    assert_text(&by_client.text(), &by_turn.text());
    assert_eq!(by_client.record, by_turn.record);
}

#[test]
fn terminating_a_scheduled_run_consumes_its_start() {
    let request = StartRequest { scheduled: Some(Timestamp(9_000)), ..StartRequest::new(id("i"), "order") };
    let mut run = Run::requested(request);
    let message = run.at(2_000).termination(None, false);
    amended(&mut run, message).is("OrchestratorStarted @2000
         ExecutionStarted#0 order
         ExecutionTerminated
         ExecutionCompleted Terminated
         = Terminated");
    assert!(run.inbox.is_empty(), "the start does not come up at its time");
}

#[test]
fn terminating_a_continued_run_consumes_its_prologue() {
    let mut run = next_run();
    let message = run.termination(None, false);
    amended(&mut run, message);
    assert!(run.prologue.is_empty() && run.inbox.is_empty());
    assert_text(
        &run.text(),
        "OrchestratorStarted @1000
         ExecutionStarted#0 order(again)
         ExecutionTerminated
         ExecutionCompleted Terminated",
    );
}

#[test]
fn terminating_an_ended_run_is_refused() {
    let mut run = Run::running([completed(1, "done")]);
    let message = run.termination(None, false);
    let refused = run.amend(message).err().unwrap();
    assert_eq!(refused.reason, "the run has ended; there is nothing to change");
}

#[test]
fn amending_an_unborn_run_without_its_start_is_refused() {
    let mut run = Run::start("order", None);
    run.inbox.clear();
    let message = run.termination(None, false);
    let refused = run.amend(message).err().unwrap();
    let expected = "the run has not begun, and its start does not wait; read the instance again";
    assert_eq!(refused.reason, expected);
}

#[test]
fn suspended_unborn_run_begins_only_when_resumed() {
    let mut run = suspended();
    assert_eq!((run.record.status, run.record.hold()), (Status::Suspended, Hold::Unborn));
    assert!(run.claim().is_empty(), "its start waits");
    run.raise("early", None);
    assert!(run.claim().is_empty(), "and so does an event");
    let message = resumption(&mut run);
    amended(&mut run, message).is("dropped Obeyed\n= Pending");
    run.turn([]).is("OrchestratorStarted @1000
         ExecutionStarted#0 order(input)
         EventRaised early
         = Running");
}

#[test]
fn suspending_an_unborn_run_twice_changes_nothing() {
    let mut run = suspended();
    let before = run.record.clone();
    let message = suspension(&mut run);
    assert!(run.amend(message).unwrap().is_none());
    assert_eq!(run.record, before);
    let mut run = Run::start("order", None);
    let message = resumption(&mut run);
    assert!(run.amend(message).unwrap().is_none(), "nothing is suspended");
}

#[test]
fn terminating_a_suspended_unborn_run_ends_it() {
    let mut run = suspended();
    let message = run.termination(Some("no"), false);
    amended(&mut run, message);
    assert!(run.inbox.is_empty());
    assert_text(
        &run.text(),
        "OrchestratorStarted @1000
         ExecutionStarted#0 order(input)
         ExecutionTerminated (no)
         ExecutionCompleted Terminated(no)",
    );
}

/// A parent that ends sends its children a terminate. A host obeys it, although the child is suspended.
#[test]
fn a_turn_ends_a_suspended_unborn_run() {
    let mut run = suspended();
    run.terminate(Some("no"), false).turn([]).is("OrchestratorStarted @1000
         ExecutionStarted#0 order(input)
         ExecutionTerminated (no)
         ExecutionCompleted Terminated(no)
         = Terminated");
}

#[test]
fn a_turn_resumes_a_suspended_unborn_run() {
    let mut run = suspended();
    run.suspend().turn([]).is("dropped NotOpen\n= Suspended");
    run.resume().turn([]).is("dropped Obeyed\n= Pending");
    run.turn([]).is("OrchestratorStarted @1000\nExecutionStarted#0 order(input)\n= Running");
}

#[test]
fn resumed_continued_run_is_running_as_before() {
    let mut run = next_run();
    let message = suspension(&mut run);
    amended(&mut run, message).is("dropped Obeyed\n= Suspended");
    assert!(run.claim().is_empty());
    let message = resumption(&mut run);
    amended(&mut run, message).is("dropped Obeyed\n= Running");
    assert_eq!(run.record.hold(), Hold::Open);
    run.turn([]).is("OrchestratorStarted @1000\nExecutionStarted#0 order(again)\n= Running");
}

/// Its code may be gone: the suspension is in the history, as if the code had been asked.
#[test]
fn begun_run_is_suspended_and_resumed_from_outside() {
    let mut run = Run::running([task(1, "pay")]);
    let message = suspension(&mut run);
    amended(&mut run, message).is("OrchestratorStarted @1000\nExecutionSuspended\n= Suspended");
    assert_eq!(run.record.hold(), Hold::Control);
    let message = resumption(&mut run);
    amended(&mut run, message).is("OrchestratorStarted @1000\nExecutionResumed\n= Running");
    run.complete(1, "ok").turn([completed(2, "done")]);
    assert_eq!(run.record.status, Status::Completed);
}

#[test]
fn replacing_an_unborn_run_is_one_checkpoint() {
    let mut run = child_of_a_parent();
    let start = run.other_start("known", Over::Refuse);
    let (execution, message) = (crate::support::start_of(&start).execution, start.id);
    amended(&mut run, start).is("
         → i SubOrchestrationInstanceFailed 1 !OrchestrationTerminated: The sub-orchestration 'c' was terminated.
         first ExecutionStarted#0 known
         = Pending");
    assert_eq!((run.inbox.len(), run.prologue.len()), (0, 1), "the old start is gone, the new one is first");
    assert_eq!(
        (run.record.execution, run.record.start),
        (execution, message),
        "a repeat is recognised by it"
    );
    assert_eq!((run.record.generation, &*run.record.queue.name), (1, "known"));
    run.turn([]).is("OrchestratorStarted @1000\nExecutionStarted#0 known\n= Running");
}

#[test]
fn replacing_a_suspended_unborn_run_begins_the_new_one() {
    let mut run = suspended();
    let start = run.other_start("known", Over::Refuse);
    amended(&mut run, start).is("first ExecutionStarted#0 known\n= Pending");
    run.turn([]).is("OrchestratorStarted @1000\nExecutionStarted#0 known\n= Running");
}

#[test]
fn replacing_a_begun_run_terminates_its_children() {
    let mut run = Run::running([child(1, "c", "ship")]);
    let start = run.other_start("known", Over::Refuse);
    amended(&mut run, start).is(r#"→ c ExecutionTerminated ("replaced by a new start") recurse
         first ExecutionStarted#0 known
         = Pending"#);
}

#[test]
fn replacing_a_run_by_its_own_start_changes_nothing() {
    let mut run = Run::start("order", None);
    let start = run.inbox[0].clone();
    assert!(run.amend(start.clone()).unwrap().is_none(), "it has not begun");
    run.turn([]);
    assert!(run.amend(start).unwrap().is_none(), "it has begun");
}
