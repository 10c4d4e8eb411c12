//! Behaviours 30, 31 and 34: suspend, resume, terminate; and what a turn that was given back leaves behind.

use dauer_core::model::{Hold, Message, Over, Status};
use dauer_core::send::StartRequest;
use dauer_core::{ExecutionId, MessageId, Revision, Timestamp};

use crate::support::make::*;
use crate::support::{Run, assert_text, id};

#[test]
fn behaviour_30_a_suspend_ends_the_batch_and_holds_the_instance() {
    let mut run = Run::running([task(1, "pay")]);
    run.raise("before", None).suspend().raise("after", None).complete(1, "ok");
    run.turn([]).is("OrchestratorStarted @1000
         EventRaised before
         ExecutionSuspended
         = Suspended");
    assert_eq!((run.record.status, run.record.hold()), (Status::Suspended, Hold::Control));
    assert_eq!(run.inbox.len(), 2, "what came later waits");
    assert!(run.claim().is_empty(), "and wakes nobody");
    run.resume().turn([]).is("OrchestratorStarted @1000\nExecutionResumed\n= Running");
    assert_eq!(run.record.hold(), Hold::Open);
    let last = run.turn([]);
    last.is("OrchestratorStarted @1000\nEventRaised after\nTaskCompleted 1(ok)\n= Running");
}

/// The worker of Go answers a suspended turn with the actions of the whole run; they are scheduled once.
/// An operator's second click. Python's worker would fail on it.
#[test]
fn behaviour_30_a_resume_of_a_run_that_is_not_suspended_reaches_no_worker() {
    let mut run = Run::running([]);
    let step = run.resume().turn([]);
    assert!(step.new_events().is_empty(), "{:?}", step.new_events());
    step.is("dropped NotOpen\n= Running");
    run.resume().raise("go", None);
    run.turn([]).is("OrchestratorStarted @1000\nEventRaised go\ndropped NotOpen\n= Running");
}

#[test]
fn behaviour_30_a_suspended_instance_may_still_schedule() {
    let mut run = Run::start("order", None);
    run.suspend();
    run.turn([task(1, "pay")]).is("OrchestratorStarted @1000
         ExecutionStarted#0 order
         ExecutionSuspended
         TaskScheduled#1 pay
         task pay #1
         = Suspended");
}

#[test]
fn behaviour_30_suspend_twice_and_resume_once() {
    let mut run = Run::running([]);
    run.suspend().turn([]);
    run.suspend().turn([]).is("dropped NotOpen\n= Suspended");
    run.resume().suspend().resume();
    run.turn([]).is("OrchestratorStarted @1000\nExecutionResumed\nExecutionSuspended\n= Suspended");
    run.turn([]).is("OrchestratorStarted @1000\nExecutionResumed\n= Running");
}

#[test]
fn behaviour_30_terminate_works_on_a_suspended_instance() {
    let mut run = Run::running([child(1, "c", "ship")]);
    run.suspend().turn([]);
    run.terminate(Some("bye"), true);
    run.turn([terminated(2, "bye")]).is(r#"OrchestratorStarted @1000
         ExecutionTerminated (bye) recurse
         ExecutionCompleted#2 Terminated(bye)
         → c ExecutionTerminated ("the parent was terminated") recurse
         = Terminated"#);
    assert_eq!(run.record.hold(), Hold::Ended, "not Suspended, as in Go");
}

#[test]
fn behaviour_31_the_output_of_a_terminate_is_kept_as_it_is() {
    let mut run = Run::running([]);
    run.terminate(Some("{\"why\": 1}"), false).turn([terminated(1, "{\"why\": 1}")]);
    assert_eq!(run.record.status, Status::Terminated);
    assert_eq!(run.record.details.output().unwrap().as_str(), "{\"why\": 1}");
}

#[test]
fn behaviour_31_recursion_reaches_only_the_open_children_of_this_run() {
    let mut run = Run::start("order", None);
    run.turn([child(1, "old run", "ship")]);
    run.raise("x", None).turn([continued(2, "", vec![])]);
    let sent = run.turn([child(1, "done", "ship"), child(2, "open", "ship"), task(3, "pay")]).sent();
    let mut done = Run::created(sent[0].clone(), 1_000);
    run.deliver(done.turn([completed(0, "")]).sent().remove(0));
    run.turn([]);
    // A child of the terminating turn itself is started and told, in this order.
    run.terminate(None, true);
    let step = run.turn([child(4, "new", "ship"), terminated(5, "")]);
    let mut told: Vec<_> = step.sent().iter().skip(1).map(|message| message.to.to_string()).collect();
    told.sort();
    assert_eq!(step.sent()[0].to.as_str(), "new");
    assert_eq!(told, ["new", "open"]);
}

/// The identities of what a turn sends of its own accord are part of the format: counted from 0, under the revision that
/// the commit makes. A host of another version that takes the same turn again must send the same messages.
#[test]
fn behaviour_31_what_children_are_told_has_the_identity_of_the_format() {
    let mut run = Run::running([child(1, "one", "ship"), child(2, "two", "ship")]);
    let step = run.terminate(None, true).turn([terminated(3, "")]);
    let ids: Vec<_> = step.sent().iter().map(|message| message.id).collect();
    let execution = run.record.execution;
    let derived = |ordinal| dauer_core::identity::derived(&id("i"), execution, Revision(2), ordinal);
    assert_eq!(ids, [derived(0), derived(1)]);
}

/// Go's worker says nothing to a terminate while the run is suspended; the run ends all the same, and its children with it.
#[test]
fn behaviour_30_a_terminate_that_the_worker_does_not_obey_ends_the_run() {
    let mut run = Run::running([child(1, "c", "ship")]);
    run.suspend().turn([]);
    run.terminate(Some("bye"), true).turn([]).is(r#"OrchestratorStarted @1000
         ExecutionTerminated (bye) recurse
         ExecutionCompleted Terminated(bye)
         → c ExecutionTerminated ("the parent was terminated") recurse
         = Terminated"#);
    let mut run = Run::running([]);
    run.terminate(None, false).turn([task(1, "pay")]);
    assert_eq!(run.record.status, Status::Terminated, "whatever else it asks for");
}

/// Java's worker dies of a terminate that comes together with what ends the run.
#[test]
fn behaviour_31_a_terminate_comes_alone() {
    let mut run = Run::running([task(1, "pay")]);
    run.complete(1, "ok").terminate(Some("bye"), false).raise("later", None);
    run.turn([]).is("OrchestratorStarted @1000\nTaskCompleted 1(ok)\n= Running");
    run.turn([terminated(2, "bye")]).is("OrchestratorStarted @1000
         ExecutionTerminated (bye)
         ExecutionCompleted#2 Terminated(bye)
         = Terminated");
}

#[test]
fn behaviour_31_without_recursion_children_are_left_alone() {
    let mut run = Run::running([child(1, "c", "ship")]);
    let step = run.terminate(None, false).turn([terminated(2, "")]);
    assert!(step.sent().is_empty());
}

/// azure-functions-durable-extension#1380: start and terminate in one batch used to lose the start. The code is not run.
#[test]
fn behaviour_31_terminate_before_the_first_turn_ends_the_run_without_its_code() {
    let mut run = Run::start("order", None);
    run.raise("early", None).terminate(Some("no"), false);
    assert!(!run.plan().is_run());
    run.turn([]).is("OrchestratorStarted @1000
         ExecutionStarted#0 order
         EventRaised early
         ExecutionTerminated (no)
         ExecutionCompleted Terminated(no)
         = Terminated");
}

#[test]
fn behaviour_31_a_message_for_an_ended_instance_is_dropped() {
    let mut run = Run::running([task(1, "pay"), completed(2, "done")]);
    run.terminate(None, true).raise("x", None).complete(1, "ok");
    // A store drops them; one that delivers them anyway does not bring the run back to life.
    run.careless = true;
    run.turn([]).is("dropped Ended\ndropped Ended\ndropped Ended\n= Completed");
    assert_eq!(run.record.status, Status::Completed);
}

/// Releasing the claim after a delay, to another worker, is the store's and the hub's part (rule 9, `release`). Core's:
/// a plan changes nothing, so the same messages give the same work item again.
#[test]
fn behaviour_34_an_abandoned_turn_is_the_same_turn_again() {
    let mut run = Run::running([task(1, "pay")]);
    run.complete(1, "ok").raise("x", None);
    let abandoned = run.plan();
    run.record.attempts = 1;
    let again = run.plan();
    assert_eq!(abandoned.new_events(), again.new_events());
    run.turn([completed(2, "")]);
    assert_eq!(run.record.attempts, 0, "a commit ends the count");
}

fn scheduled() -> Run {
    let request = StartRequest { scheduled: Some(Timestamp(9_000)), ..StartRequest::new(id("i"), "order") };
    Run::requested(request)
}

#[test]
fn behaviour_36_terminate_ends_a_scheduled_start_without_running_code() {
    let mut run = scheduled();
    run.at(2_000).suspend().terminate(Some("no"), true);
    assert!(!run.plan().is_run(), "no worker sees it");
    run.turn([]).is("OrchestratorStarted @2000
         ExecutionStarted#0 order
         ExecutionTerminated (no) recurse
         ExecutionCompleted Terminated(no)
         dropped Obeyed
         = Terminated");
    assert_eq!(run.record.details.output().unwrap().as_str(), "no");
    assert!(run.inbox.is_empty(), "its start does not come up later");
}

#[test]
fn behaviour_36_suspend_before_a_scheduled_start_holds_it_back() {
    let mut run = scheduled();
    run.at(2_000).suspend().raise("early", None);
    run.turn([]).is("dropped Obeyed\n= Suspended");
    assert_eq!(run.record.hold(), Hold::Unborn);
    run.at(9_000);
    assert!(run.claim().is_empty(), "its time has come, and it is suspended");
    run.resume().turn([]).is("dropped Obeyed\n= Pending");
    run.turn([]).is("OrchestratorStarted @9000
         ExecutionStarted#0 order
         EventRaised early
         = Running");
}

#[test]
fn resume_before_a_scheduled_start_ends_the_suspension() {
    let mut run = scheduled();
    run.at(2_000).suspend().turn([]);
    run.at(3_000).resume().turn([]).is("dropped Obeyed\n= Pending");
    run.at(9_000).turn([]).is("OrchestratorStarted @9000
         ExecutionStarted#0 order
         = Running");
}

#[test]
fn control_before_a_scheduled_start_counts_in_order() {
    let mut run = scheduled();
    run.at(2_000).suspend().resume().suspend();
    run.turn([]).is("dropped Obeyed\ndropped Obeyed\ndropped Obeyed\n= Suspended");
    let mut run = scheduled();
    run.at(2_000).resume().suspend().resume();
    run.turn([]).is("dropped NotOpen\ndropped Obeyed\ndropped Obeyed\n= Pending");
}

#[test]
fn behaviour_36_events_before_a_scheduled_start_wait_for_it() {
    let mut run = scheduled();
    run.at(2_000).raise("early", None);
    assert_eq!(run.claim().len(), 1, "only the start, for a turn that something else wakes");
    // Even a store that hands the event out too early does no harm.
    run.careless = true;
    run.turn([]).is("= Pending");
    run.at(9_000).turn([]).is("OrchestratorStarted @9000
         ExecutionStarted#0 order
         EventRaised early
         = Running");
}

#[test]
fn a_start_over_a_scheduled_one_is_refused_or_takes_its_place() {
    let mut run = scheduled();
    let other = run.other_start("other", Over::Refuse);
    run.at(2_000).deliver(other).turn([]).is("dropped Running\n= Pending");

    let other = run.other_start("other", Over::Terminate);
    run.suspend().deliver(other).turn([]).is("first ExecutionStarted#0 other\n= Pending");
    assert!(run.inbox.is_empty(), "the replaced start does not come up at its time");
    run.turn([completed(1, "")]);
    run.at(9_000);
    assert!(run.claim().is_empty(), "nor does the suspend that was for it");
}

/// The start of the same run under another id, as after a continue-as-new, must not begin it before its time.
#[test]
fn a_second_start_of_a_scheduled_run_is_a_repeat() {
    let mut run = scheduled();
    let first = run.inbox[0].clone();
    let repeat = Message { id: MessageId([7; 16]), visible_at: Timestamp::default(), ..first };
    run.at(2_000).deliver(repeat).turn([]).is("dropped Repeat\n= Pending");
    assert_eq!(run.record.history_len, 0, "nothing has begun");
}

/// A start that was refused, and its parent told, must not run after all when the instance then ends.
#[test]
fn a_refused_start_does_not_replace_the_instance_that_a_terminate_ends() {
    let mut run = scheduled();
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
    let child = parent.turn([child(1, "i", "ship")]).sent().remove(0);
    run.at(2_000).deliver(child).terminate(None, false);
    let step = run.turn([]);
    assert_eq!(step.sent().len(), 1, "the parent is told");
    assert!(run.inbox.is_empty(), "and the start is gone");
    assert_text(
        &run.text(),
        "OrchestratorStarted @2000
         ExecutionStarted#0 order
         ExecutionTerminated
         ExecutionCompleted Terminated",
    );
}

/// A suspension ends with the run that it holds back.
#[test]
fn suspension_of_a_replaced_run_does_not_reach_the_next() {
    let mut run = scheduled();
    run.at(2_000).suspend().turn([]);
    let other = run.other_start("other", Over::Terminate);
    run.amend(other).unwrap().expect("it replaces the run");
    assert_eq!((run.record.status, run.record.hold()), (Status::Pending, Hold::Control));
}
