//! Results that were never in the inbox: they are used by the turn's own commit.

use dauer_core::model::{Completion, Fate, Over};
use dauer_core::turn::Answer;

use crate::support::make::*;
use crate::support::{Run, id};

fn actions(actions: impl IntoIterator<Item = dauer_proto::OrchestratorAction>) -> Answer {
    Answer { actions: actions.into_iter().collect(), ..Answer::default() }
}

#[test]
fn fused_results_are_applied_without_the_inbox() {
    let mut run = Run::running([task(1, "pay"), task(2, "ship")]);
    let done = vec![run.completion(1, Ok("paid")), run.completion(2, Ok("shipped"))];
    let step = run.take_turn(done.clone(), actions([task(3, "mail")])).unwrap();
    step.is("OrchestratorStarted @1000
         TaskCompleted 1(paid)
         TaskCompleted 2(shipped)
         TaskScheduled#3 mail
         task mail #3
         = Running");
    assert!(step.checkpoint.consumed.is_empty(), "nothing is taken from the inbox");
    assert_eq!(step.checkpoint.completions, done);
    let stored = &run.history.last().unwrap().batch.consumed;
    let expected = [(done[0].answer.id, Fate::Event(1)), (done[1].answer.id, Fate::Event(2))];
    assert_eq!(stored, &expected, "the auditor can follow them all the same");
}

#[test]
fn fused_results_come_after_the_messages_and_give_the_same_history() {
    let mut fused = Run::running([task(1, "pay")]);
    fused.raise("x", None);
    let done = fused.completion(1, Ok("paid"));
    let step = fused.take_turn(vec![done.clone()], actions([])).unwrap();
    let mut plain = Run::running([task(1, "pay")]);
    plain.raise("x", None).deliver(done.answer).turn([]);
    assert_eq!(fused.text(), plain.text());
    assert_eq!(fused.ledger, plain.ledger);
    assert_eq!(step.checkpoint.consumed.len(), 1);
}

/// The answer came by the inbox, too: a session that took the task over had sent it.
#[test]
fn a_fused_result_of_what_is_answered_already_is_dropped() {
    let mut run = Run::running([task(1, "pay")]);
    let done = run.completion(1, Ok("second"));
    run.complete(1, "first").turn([]);
    let step = run.take_turn(vec![done], actions([])).unwrap();
    step.is("dropped NotOpen\n= Running");
    assert_eq!(step.checkpoint.completions.len(), 1, "the store still withdraws the task");
}

/// The result of that task, by a message of its own.
fn answered(run: &Run, result: &str) -> Completion {
    let mut done = run.completion(1, Ok(result));
    done.answer.id = dauer_core::identity::requested(&id(result), 7);
    done
}

/// Whichever way the two came.
#[test]
fn of_two_answers_in_one_turn_the_first_counts() {
    let first_counts = "OrchestratorStarted @1000
         TaskCompleted 1(first)
         dropped NotOpen
         = Running";
    let mut waiting = Run::running([task(1, "pay")]);
    let (first, second) = (answered(&waiting, "first").answer, answered(&waiting, "second").answer);
    waiting.deliver(first).deliver(second).turn([]).is(first_counts);
    let mut mixed = Run::running([task(1, "pay")]);
    let second = answered(&mixed, "second");
    mixed.complete(1, "first").take_turn(vec![second], actions([])).unwrap().is(first_counts);
    let mut fused = Run::running([task(1, "pay")]);
    let both = vec![answered(&fused, "first"), answered(&fused, "second")];
    fused.take_turn(both, actions([])).unwrap().is(first_counts);
}

#[test]
fn a_fused_result_of_an_ended_run_wakes_nobody() {
    let mut run = Run::running([task(1, "log"), completed(2, "done")]);
    let done = run.completion(1, Ok("logged"));
    run.take_turn(vec![done], actions([])).unwrap().is("dropped Ended\n= Completed");
}

#[test]
fn a_suspended_run_takes_no_fused_results() {
    let mut run = Run::running([task(1, "pay")]);
    let done = run.completion(1, Ok("paid"));
    // In the batch of the suspend, and while it holds: not used, so the hub delivers it as a message.
    let step = run.suspend().take_turn(vec![done.clone()], actions([])).unwrap();
    step.is("OrchestratorStarted @1000\nExecutionSuspended\n= Suspended");
    assert!(step.checkpoint.completions.is_empty());
    let step = run.take_turn(vec![done.clone()], actions([])).unwrap();
    step.is("= Suspended");
    assert!(step.checkpoint.completions.is_empty());
    let step = run.resume().take_turn(vec![done], actions([])).unwrap();
    step.is("OrchestratorStarted @1000\nExecutionResumed\nTaskCompleted 1(paid)\n= Running");
}

#[test]
fn a_fused_result_of_a_run_that_is_replaced_is_used_up() {
    let mut run = Run::running([task(1, "pay")]);
    let done = run.completion(1, Ok("paid"));
    let new = run.other_start("fresh", Over::Terminate);
    assert_eq!(new.to, id("i"));
    let step = run.deliver(new).take_turn(vec![done], actions([])).unwrap();
    step.is("first ExecutionStarted#0 fresh\n= Pending");
    assert_eq!(step.checkpoint.completions.len(), 1);
    assert!(step.events.is_empty());
}

/// Not kept for a resume that the replaced run will never see.
#[test]
fn a_fused_result_of_a_suspended_run_that_is_replaced_is_used_up() {
    let mut run = Run::running([task(1, "pay")]);
    let done = run.completion(1, Ok("paid"));
    run.suspend().turn([]);
    let new = run.other_start("fresh", Over::Terminate);
    let step = run.deliver(new).take_turn(vec![done.clone()], actions([])).unwrap();
    step.is("first ExecutionStarted#0 fresh\n= Pending");
    assert_eq!(step.checkpoint.completions, [done]);
}
