//! Behaviour 28: continue-as-new.

use dauer_core::Timestamp;
use dauer_core::model::{History, Hold, Status};
use dauer_core::send::StartRequest;
use dauer_core::turn::Answer;
use dauer_proto::{CompleteOrchestrationAction, HistoryEvent, event};

use crate::support::make::*;
use crate::support::{Run, assert_text, id, start_of};

/// An event as a worker hands it back: by value, without the time it came.
fn unconsumed(name: &str, data: Option<&str>) -> HistoryEvent {
    HistoryEvent { timestamp: None, ..event::event_raised(0, name, data.map(Into::into)) }
}

#[test]
fn behaviour_28_the_next_run_begins_with_its_start_and_what_is_carried_over() {
    let tags = [("team".to_owned(), "blue".to_owned())];
    let request = StartRequest {
        version: Some("1".into()),
        input: Some("first".into()),
        tags: tags.clone().into(),
        ..StartRequest::new(id("i"), "loop")
    };
    let mut run = Run::requested(request);
    run.record.times.created = Timestamp(900);
    let first = run.record.clone();
    run.answer(Answer { custom_status: Some("busy".into()), ..Answer::default() });
    run.raise("a", Some("1")).raise("b", None);
    let step = run.at(2_000).turn([continued(1, "second", vec![unconsumed("b", None)])]);
    step.is("first ExecutionStarted#0 loop(second) version=1 team=blue
         first EventRaised b
         = Running");
    let History::Replace { batches, .. } = &step.checkpoint.history else {
        panic!("the old history is gone")
    };
    assert!(batches.is_empty());
    assert_eq!((run.record.status, run.record.hold()), (Status::Running, Hold::Open));
    assert_eq!((run.record.generation, run.record.start), (1, first.start));
    assert_eq!((run.record.times.created, &run.record.tags), (Timestamp(900), &tags.into()));
    assert_eq!((run.record.details.custom_status(), run.record.queue.clone()), (None, first.queue));
    assert_ne!(run.record.execution, first.execution);

    run.raise("late", None);
    let step = run.turn([]);
    assert_text(
        &step.new_events().join("\n"),
        "OrchestratorStarted @2000
         ExecutionStarted#0 loop(second) version=1 team=blue
         EventRaised b
         EventRaised late",
    );
}

/// Python's worker sends an empty time, others none.
#[test]
fn behaviour_13_a_carried_event_without_a_time_has_the_turns() {
    for sent in [None, Some(dauer_proto::Timestamp::default())] {
        let mut run = Run::running([]);
        run.raise("a", None);
        let carried = HistoryEvent { timestamp: sent, ..unconsumed("a", None) };
        let step = run.at(2_000).turn([continued(1, "", vec![carried])]);
        let stored = step.prologue()[1].event.event().unwrap();
        assert_eq!(stored.timestamp, Some(dauer_proto::time::from_millis(2_000)), "{sent:?}");
    }
}

/// The old id lets a client's repeat of the same raise be recognised in the next run too.
#[test]
fn behaviour_28_a_carried_event_keeps_the_id_it_came_with() {
    let mut run = Run::running([]);
    run.raise("a", Some("1")).raise("b", None);
    let ids: Vec<_> = run.inbox.iter().map(|message| message.id).collect();
    let step = run.turn([continued(1, "", vec![unconsumed("b", None), unconsumed("a", Some("1"))])]);
    let carried: Vec<_> = step.prologue()[1..].iter().map(|message| message.id).collect();
    assert_eq!(carried, [ids[1], ids[0]]);
}

#[test]
fn behaviour_28_of_equal_events_the_latest_are_the_ones_carried() {
    let mut run = Run::running([]);
    run.raise("a", None).turn([]);
    run.raise("a", None).raise("a", Some("")).raise("a", None);
    let ids: Vec<_> = run.inbox.iter().map(|message| message.id).collect();
    let step = run.turn([continued(1, "", vec![unconsumed("a", None), unconsumed("a", None)])]);
    let carried: Vec<_> = step.prologue()[1..].iter().map(|message| message.id).collect();
    assert_eq!(carried, [ids[0], ids[2]], "absent and empty data are different events");
}

#[test]
fn behaviour_28_an_event_that_nobody_sent_gets_an_id_of_its_own() {
    let mut run = Run::running([]);
    run.raise("a", None);
    let known = run.inbox[0].id;
    let made = vec![unconsumed("a", None), unconsumed("made up", None), unconsumed("made up", None)];
    let step = run.turn([continued(1, "", made)]);
    let ids: Vec<_> = step.prologue().iter().map(|message| message.id).collect();
    assert_eq!(ids[1], known);
    let mut distinct = ids.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 4, "start, known and two derived ids: {ids:?}");
    for message in step.prologue() {
        assert!(message.event.event().is_ok(), "every stored event is whole, its time included");
    }
}

#[test]
fn behaviour_28_an_event_carried_through_many_runs_keeps_its_id() {
    let mut run = Run::running([]);
    run.raise("a", None);
    let id = run.inbox[0].id;
    for _ in 0..5 {
        let step = run.turn([continued(1, "", vec![unconsumed("a", None)])]);
        assert_eq!(step.prologue()[1].id, id);
    }
    run.turn([completed(1, "")]).is(r#"OrchestratorStarted @1000
        ExecutionStarted#0 order("")
        EventRaised a
        ExecutionCompleted#1 Completed("")
        = Completed"#);
}

#[test]
fn behaviour_28_only_raised_events_can_be_carried_over() {
    let mut run = Run::running([]);
    let fired = event::timer_fired(1, 1, dauer_proto::time::from_millis(1));
    let stalled = run.raise("a", None).refused([continued(1, "", vec![fired])]);
    assert_eq!(stalled.reason, "a TimerFired event cannot be carried over, only an EventRaised can");
}

/// Ids start over with each run: a stale answer would complete an unrelated call (D15, durabletask-js#328).
#[test]
fn behaviour_28_answers_to_the_old_run_are_dropped() {
    let mut run = Run::running([task(1, "pay"), timer(2, 3_000), call(3, "@counter@a", "add", "r")]);
    let stale = [run.completion(1, Ok("stale")).answer, run.timers[0].clone()];
    run.raise("x", None).turn([continued(4, "", vec![])]);
    run.turn([task(1, "pay"), timer(2, 9_000)]);
    for message in stale {
        run.at(3_000).deliver(message).turn([]).is("dropped OtherExecution\n= Running");
    }
    run.complete(1, "fresh").turn([]).is("OrchestratorStarted @3000\nTaskCompleted 1(fresh)\n= Running");
}

#[test]
fn behaviour_28_the_version_stays_unless_a_new_one_is_given() {
    let request = StartRequest { version: Some("1".into()), ..StartRequest::new(id("i"), "loop") };
    let next = |new_version: Option<&str>| {
        let mut run = Run::requested(request.clone());
        let new_version = new_version.map(Into::into);
        run.turn([continued_with(1, CompleteOrchestrationAction { new_version, ..Default::default() })]);
        let queue = run.record.queue.version.clone();
        run.turn([]);
        assert_eq!(
            run.ledger.started().unwrap().version.as_deref(),
            queue.as_deref(),
            "record and event agree"
        );
        queue
    };
    assert_eq!(next(None).as_deref(), Some("1"));
    assert_eq!(next(Some("")).as_deref(), Some("1"));
    assert_eq!(next(Some("2")).as_deref(), Some("2"));
}

#[test]
fn behaviour_28_tags_given_with_the_completion_replace_the_old_ones() {
    let old = [("team".to_owned(), "blue".to_owned())];
    let new = [("team".to_owned(), "red".to_owned())];
    let request = StartRequest { tags: old.into(), ..StartRequest::new(id("i"), "loop") };
    let mut run = Run::requested(request);
    let completion = CompleteOrchestrationAction { tags: new.clone().into(), ..Default::default() };
    run.turn([continued_with(1, completion)]).is("first ExecutionStarted#0 loop team=red\n= Running");
    assert_eq!(run.record.tags, new.into());
}

#[test]
fn behaviour_28_a_child_keeps_its_parent_over_runs() {
    let mut parent = Run::start("order", None);
    let mut run = Run::created(parent.turn([child(1, "c", "ship")]).sent().remove(0), 1_000);
    run.turn([continued(1, "2", vec![])]).is("first ExecutionStarted#0 ship(2) parent=i#1\n= Running");
    assert_eq!(run.record.parent.as_ref().map(|parent| parent.event_id), Some(1));
}

/// azure-functions-durable-extension#2264: both in one batch used to throw.
#[test]
fn a_terminate_in_the_batch_of_continue_as_new_ends_the_next_run() {
    let mut run = Run::running([]);
    let step = run.raise("x", None).terminate(Some("stop"), true).turn([continued(1, "2", vec![])]);
    step.is("first ExecutionStarted#0 order(2)\n= Running");
    // However often it goes on: its code is not asked again.
    assert!(!run.plan().is_run());
    run.turn([]).is("OrchestratorStarted @1000
         ExecutionStarted#0 order(2)
         ExecutionTerminated (stop) recurse
         ExecutionCompleted Terminated(stop)
         = Terminated");
}

#[test]
fn a_suspend_in_the_batch_of_continue_as_new_holds_the_next_run() {
    let mut run = Run::running([]);
    let step = run.raise("x", None).suspend().turn([continued(1, "2", vec![unconsumed("x", None)])]);
    step.is("first ExecutionStarted#0 order(2)
         first ExecutionSuspended
         first EventRaised x
         = Running");
    run.turn([]).is("OrchestratorStarted @1000
         ExecutionStarted#0 order(2)
         ExecutionSuspended
         = Suspended");
    // The carried event waits; after the resume it comes before what was sent later.
    run.raise("y", None).resume();
    run.turn([]).is("OrchestratorStarted @1000\nExecutionResumed\n= Running");
    run.turn([]).is("OrchestratorStarted @1000\nEventRaised x\nEventRaised y\n= Running");
}

#[test]
fn a_suspend_that_was_resumed_is_not_carried_into_the_next_run() {
    let mut run = Run::running([]);
    run.suspend().turn([]);
    run.resume().turn([continued(1, "2", vec![])]).is("first ExecutionStarted#0 order(2)\n= Running");
}

/// A turn's time may be ahead of the store's: that of a host whose clock was, or of a store that was moved. What it sends
/// is for now all the same. A run whose start could not be seen yet would begin without it.
#[test]
fn what_a_turn_sends_is_visible_at_once() {
    let mut run = Run::start("loop", None);
    let step =
        run.at(9_000_000).turn([child(1, "child", "c"), continued(2, "", vec![unconsumed("b", None)])]);
    let History::Replace { prologue, .. } = &step.checkpoint.history else { panic!("a new run begins") };
    let sent = prologue.iter().chain(&step.checkpoint.messages);
    let times: Vec<Timestamp> = sent.map(|message| message.visible_at).collect();
    assert_eq!(times, [Timestamp::default(); 3]);
}

/// The worker goes on although it was told to end; the next run ends before it begins, whatever else came.
#[test]
fn a_terminate_that_a_run_continues_over_is_carried() {
    let mut run = Run::running([]);
    run.terminate(Some("stop"), false).suspend();
    run.turn([continued(1, "2", vec![])]).is("first ExecutionStarted#0 order(2)
         first ExecutionTerminated (stop)
         = Running");
    run.turn([]);
    assert_eq!(run.record.status, Status::Terminated);
}

/// What the start says, in its event and to stores, is true of the run that it begins.
#[test]
fn behaviour_28_the_start_of_the_next_run_names_that_run() {
    let tags = [("team".to_owned(), "blue".to_owned())];
    let request = StartRequest {
        scheduled: Some(Timestamp(9_000)),
        tags: tags.into(),
        ..StartRequest::new(id("parent"), "order")
    };
    let mut parent = Run::requested(request);
    let scheduled = |message: &dauer_core::model::Message| match message.event.event().unwrap().event_type {
        Some(dauer_proto::EventType::ExecutionStarted(started)) => started.scheduled_start_timestamp,
        other => panic!("not a start: {other:?}"),
    };
    assert!(scheduled(&parent.inbox[0]).is_some());
    let sent = parent.at(9_000).turn([child(1, "c", "ship"), continued(2, "", vec![])]);
    assert_eq!(scheduled(&sent.prologue()[0]), None, "only the first run was put off");

    let mut child = Run::created(sent.sent().remove(0), 9_000);
    let step = child.turn([continued(1, "", vec![])]);
    for (run, start) in [(&parent, &sent.prologue()[0]), (&child, &step.prologue()[0])] {
        let begun = start_of(start);
        assert_eq!(begun.execution, run.record.execution);
        assert_eq!((&begun.queue, &begun.tags), (&run.record.queue, &run.record.tags));
        assert_eq!(begun.parent, run.record.parent);
    }
    assert!(child.record.parent.is_some() && !parent.record.tags.is_empty());
    child.turn([]);
    let instance = child.ledger.started().unwrap().orchestration_instance.clone().unwrap();
    assert_eq!(instance.instance_id, "c");
    assert_eq!(instance.execution_id, Some(child.record.execution.to_string()));
}

/// Not held back as before its first turn: what comes meanwhile begins with it.
#[test]
fn behaviour_28_a_run_that_continues_in_its_first_turn_is_open() {
    let mut run = Run::start("order", None);
    run.turn([continued(1, "", vec![])]);
    assert_eq!((run.record.status, run.record.hold()), (Status::Running, Hold::Open));
}

/// What the code reported of itself was of the run that is over.
#[test]
fn behaviour_28_a_custom_status_given_with_the_completion_is_not_the_next_run_s() {
    let mut run = Run::start("order", None);
    let actions = vec![continued(1, "", vec![])];
    run.answer(Answer { actions, custom_status: Some("last words".into()), ..Answer::default() });
    assert_eq!(run.record.details.custom_status(), None);
}
