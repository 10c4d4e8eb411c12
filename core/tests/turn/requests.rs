//! Behaviours 12 to 21: what a worker is sent.

use dauer_core::model::{Encoded, Kind, QueueKey, Status};
use dauer_core::send::StartRequest;
use dauer_core::turn::Answer;
use dauer_core::workitem::{
    Past, Tokens, Work, activity_outcome, activity_request, is_for_workers, orchestrator_request,
};
use dauer_core::{ExecutionId, Timestamp};
use dauer_proto::{
    ActivityResponse, Duration, EventType, ExecutionRewoundEvent, OrchestrationTraceContext,
    ScheduleTaskAction, event, failure, time,
};

use crate::support::make::*;
use crate::support::{Run, assert_text, event_line, id, start_of};

#[test]
fn behaviour_12_new_events_begin_with_the_time_and_the_start_and_follow_in_order_of_arrival() {
    let mut run = Run::start("order", Some("7"));
    run.raise("paid", Some("1")).raise("sent", None);
    let request = orchestrator_request(&run.plan(), Past::Sent(run.events())).unwrap();
    // Workers answer by these, and some SDKs make ids of children from them.
    assert_eq!(
        (request.instance_id.as_str(), request.execution_id),
        ("i", Some(run.record.execution.to_string()))
    );
    assert!(request.past_events.is_empty());
    let new: Vec<_> = request.new_events.iter().map(event_line).collect();
    assert_text(
        &new.join("\n"),
        "OrchestratorStarted @1000
         ExecutionStarted#0 order(7)
         EventRaised paid(1)
         EventRaised sent",
    );

    run.turn([task(1, "pay")]);
    run.at(2_000).complete(1, "ok");
    let request = orchestrator_request(&run.plan(), Past::Sent(run.events())).unwrap();
    let past: Vec<_> = request.past_events.iter().map(event_line).collect();
    assert_text(
        &past.join("\n"),
        "OrchestratorStarted @1000
         ExecutionStarted#0 order(7)
         EventRaised paid(1)
         EventRaised sent
         TaskScheduled#1 pay",
    );
    let new: Vec<_> = request.new_events.iter().map(event_line).collect();
    assert_text(&new.join("\n"), "OrchestratorStarted @2000\nTaskCompleted 1(ok)");
}

/// Python and JavaScript raise on a work item without new events, so such a turn never reaches a worker.
#[test]
fn behaviour_12_a_turn_without_new_events_is_not_sent_to_a_worker() {
    let mut run = Run::running([task(1, "pay")]);
    run.complete(1, "ok").turn([]);
    run.complete(1, "ok again");
    assert!(!run.plan().is_run());
    assert!(run.plan().new_events().is_empty());
    run.turn([]).is("dropped NotOpen\n= Running");
}

/// A store that broke the rule "the start comes first" is named, instead of a worker failing on the history.
#[test]
fn behaviour_12_an_event_without_the_start_stalls() {
    let mut run = Run::start("order", None);
    run.inbox.clear();
    run.careless = true;
    run.raise("paid", None);
    let stalled = run.refused([]);
    assert!(stalled.reason.contains("came without its start"), "{stalled}");
}

/// A worker that is not told to fetch the history would replay without it.
#[test]
fn behaviour_10_a_worker_that_streams_is_told_to_fetch_the_history() {
    let mut run = Run::running([task(1, "pay")]);
    run.complete(1, "ok");
    let request = orchestrator_request(&run.plan(), Past::Streamed).unwrap();
    assert!(request.requires_history_streaming && request.past_events.is_empty());
    let request = orchestrator_request(&run.plan(), Past::Sent(run.events())).unwrap();
    assert!(!request.requires_history_streaming && !request.past_events.is_empty());
}

#[test]
fn behaviour_13_every_event_has_a_time_and_the_conventional_id() {
    let mut run = Run::running([
        task(1, "pay"),
        timer(2, 3_000),
        child(3, "c", "ship"),
        send_event(4, "other", "go"),
        lock(5, "section", &["@counter@a"]),
    ]);
    run.raise("paid", None).complete(1, "ok").at(3_000).suspend();
    run.turn([]);
    run.resume().turn([]);
    run.terminate(None, false).turn([terminated(7, "x")]);
    for event in run.events() {
        assert!(event.timestamp.is_some(), "{}", event_line(&event));
        let expected = match event.event_type.as_ref().unwrap() {
            EventType::ExecutionStarted(_) => 0,
            EventType::TaskScheduled(_) => 1,
            EventType::TimerCreated(_) => 2,
            EventType::SubOrchestrationInstanceCreated(_) => 3,
            EventType::EventSent(_) => 4,
            EventType::EntityLockRequested(_) => 5,
            EventType::ExecutionCompleted(_) => 7,
            _ => -1,
        };
        assert_eq!(event.event_id, expected, "{}", event_line(&event));
    }
}

#[test]
fn behaviour_13_the_execution_id_is_32_hex_digits_and_new_for_every_run() {
    let mut run = Run::start("order", None);
    let first = orchestrator_request(&run.plan(), Past::Sent(Vec::new())).unwrap();
    let execution = first.execution_id.clone().unwrap();
    assert!(ExecutionId::parse(&execution).is_some(), "{execution}");
    let started = first.new_events[1].clone();
    let Some(EventType::ExecutionStarted(started)) = started.event_type else { panic!("{started:?}") };
    let instance = started.orchestration_instance.unwrap();
    assert_eq!((instance.instance_id.as_str(), instance.execution_id), ("i", Some(execution.clone())));
    assert!(started.parent_instance.is_none());

    run.turn([continued(1, "2", vec![])]);
    let next = orchestrator_request(&run.plan(), Past::Sent(Vec::new())).unwrap();
    assert_ne!(next.execution_id, Some(execution));
    assert_eq!(next.execution_id, Some(run.record.execution.to_string()));
}

#[test]
fn behaviour_14_a_child_knows_its_parent_by_instance_execution_name_and_action() {
    let mut run = Run::start("order", None);
    let step = run.turn([child(3, "c", "ship")]);
    let child = Run::created(step.sent().remove(0), 1_000);
    let request = orchestrator_request(&child.plan(), Past::Sent(Vec::new())).unwrap();
    let Some(EventType::ExecutionStarted(started)) = request.new_events[1].event_type.clone() else {
        panic!()
    };
    let parent = started.parent_instance.unwrap();
    assert_eq!((parent.task_scheduled_id, parent.name.as_deref()), (3, Some("order")));
    let instance = parent.orchestration_instance.unwrap();
    assert_eq!(instance.instance_id, "i");
    assert_eq!(instance.execution_id, Some(run.record.execution.to_string()));
}

#[test]
fn behaviour_15_entity_parameters_are_always_set() {
    let request = orchestrator_request(&Run::start("order", None).plan(), Past::Streamed).unwrap();
    let window = request.entity_parameters.unwrap().entity_message_reorder_window;
    assert_eq!(window, Some(Duration::default()));
}

#[test]
fn behaviour_16_the_worker_gets_its_trace_context_back_until_the_run_ends() {
    let answered = OrchestrationTraceContext {
        span_id: Some("span-1".into()),
        span_start_time: Some(time::from_millis(900)),
    };
    let mut run = Run::start("order", None);
    let first = orchestrator_request(&run.plan(), Past::Sent(Vec::new())).unwrap();
    assert_eq!(first.orchestration_trace_context, None);
    run.answer(Answer { trace: Some(answered.clone()), ..Answer::default() });
    run.raise("paid", None);
    let second = orchestrator_request(&run.plan(), Past::Sent(run.events())).unwrap();
    assert_eq!(second.orchestration_trace_context, Some(answered.clone()));
    // The next run is a span of its own.
    let trace = Some(answered);
    run.answer(Answer { actions: vec![continued(1, "", vec![])], trace, ..Answer::default() });
    assert_eq!(orchestrator_request(&run.plan(), Past::Streamed).unwrap().orchestration_trace_context, None);
    // A stored trace context that cannot be read is an error, not a missing one.
    run.record.details.set_trace(Some(Encoded::from_stored(vec![9].into())));
    assert!(orchestrator_request(&run.plan(), Past::Streamed).is_err());
}

#[test]
fn behaviour_16_trace_context_is_passed_from_start_to_activity_and_child() {
    let request = StartRequest { trace: Some(trace("00-client")), ..StartRequest::new(id("i"), "order") };
    let mut run = Run::requested(request);
    let pay = ScheduleTaskAction {
        name: "pay".into(),
        parent_trace_context: Some(trace("00-task")),
        ..ScheduleTaskAction::default()
    };
    let ship = dauer_proto::CreateSubOrchestrationAction {
        instance_id: "c".into(),
        name: "ship".into(),
        parent_trace_context: Some(trace("00-child")),
        ..Default::default()
    };
    let step = run.turn([task_with(1, pay), child_with(2, ship)]);
    step.is("OrchestratorStarted @1000
         ExecutionStarted#0 order trace=00-client
         TaskScheduled#1 pay trace=00-task
         SubOrchestrationInstanceCreated#2 c ship trace=00-child
         task pay #1
         → c start ExecutionStarted#0 ship trace=00-child parent=i#2
         = Running");
    let request = activity_request(&step.checkpoint.tasks[0]).unwrap();
    assert_eq!(request.parent_trace_context, Some(trace("00-task")));
    // The next run keeps the client's.
    let next = run.raise("x", None).turn([continued(3, "", vec![])]);
    next.is(r#"first ExecutionStarted#0 order("") trace=00-client
        = Running"#);
}

#[test]
fn behaviour_17_an_activity_request_has_all_that_the_action_had() {
    let tags = [("team".to_owned(), "blue".to_owned())];
    let pay = ScheduleTaskAction {
        name: "pay".into(),
        version: Some("2".into()),
        input: Some(String::new()),
        tags: tags.clone().into(),
        parent_trace_context: Some(trace("00-task")),
    };
    let mut run = Run::start("order", None);
    let checkpoint = run.turn([task_with(0, pay)]).checkpoint;
    let [task] = checkpoint.tasks.as_slice() else { panic!("one task") };
    assert_eq!(task.queue, QueueKey::new(Kind::Activity, "pay", Some("2")));
    assert_eq!(task.tags, tags.clone().into());
    let request = activity_request(task).unwrap();
    assert_eq!((request.name.as_str(), request.version.as_deref()), ("pay", Some("2")));
    assert_eq!(request.input.as_deref(), Some(""), "an empty input is an input");
    assert_eq!((request.task_id, request.tags), (0, tags.into()));
    assert_eq!(request.parent_trace_context, Some(trace("00-task")));
    let instance = request.orchestration_instance.unwrap();
    assert_eq!(instance.instance_id, "i");
    assert_eq!(instance.execution_id, Some(run.record.execution.to_string()));

    let wrong =
        dauer_core::model::Task { event: Encoded::new(&event::orchestrator_started(1)), ..task.clone() };
    let error = activity_request(&wrong).unwrap_err().to_string();
    assert!(error.contains("carries a OrchestratorStarted event"), "{error}");
}

/// An SDK that sends an empty version means none (D9): a worker that lists versions must still be given the task.
#[test]
fn behaviour_17_an_empty_version_of_an_activity_is_none() {
    let pay = ScheduleTaskAction { name: "pay".into(), version: Some(String::new()), ..Default::default() };
    let mut run = Run::start("order", None);
    let checkpoint = run.turn([task_with(1, pay)]).checkpoint;
    assert_eq!(checkpoint.tasks[0].queue.version, None);
}

#[test]
fn behaviour_17_an_activity_outcome_is_its_failure_or_its_result() {
    let boom = failure::failure("Boom", "bad");
    let response = ActivityResponse { result: Some(String::new()), ..ActivityResponse::default() };
    assert_eq!(activity_outcome(response.clone()), Ok(Some(String::new())));
    let response = ActivityResponse { failure_details: Some(boom.clone()), ..response };
    assert_eq!(activity_outcome(response), Err(boom));
}

/// Go and Java fail on events they do not know; dauer's own bookkeeping must not reach a history (D5).
#[test]
fn behaviour_18_a_history_holds_nothing_exotic() {
    let mut run = Run::start("order", None);
    run.turn([task(1, "pay")]);
    run.complete(1, "ok").turn([timer(2, 2_000)]);
    run.at(2_000).turn([child(3, "c", "ship")]);
    let done = run.ledger.open_children().count();
    assert_eq!(done, 1);
    assert_text(
        &run.text(),
        "OrchestratorStarted @1000
         ExecutionStarted#0 order
         TaskScheduled#1 pay
         OrchestratorStarted @1000
         TaskCompleted 1(ok)
         TimerCreated#2 @2000
         OrchestratorStarted @2000
         TimerFired 2 @2000
         SubOrchestrationInstanceCreated#3 c ship",
    );
}

#[test]
fn behaviour_19_pending_until_the_first_commit_then_running() {
    let mut run = Run::start("order", None);
    assert_eq!(run.record.status, Status::Pending);
    let _dispatched = run.plan();
    assert_eq!(run.record.status, Status::Pending);
    run.turn([task(1, "pay")]);
    assert_eq!(run.record.status, Status::Running);
}

/// That only one work item of an instance is in flight is a rule of stores (fence, conformance rules 2 and 3). Core's
/// part: a turn takes everything it was given, and what arrives meanwhile stays for the next.
#[test]
fn behaviour_20_a_turn_takes_all_it_was_given_and_leaves_what_comes_later() {
    let mut run = Run::running([]);
    run.raise("a", None).raise("b", None);
    let plan = run.plan();
    run.raise("late", None);
    let finished =
        dauer_core::turn::finish(plan, run.ledger.clone(), Answer::default(), &run.limits).unwrap();
    let step = run.commit(finished, None);
    step.is("OrchestratorStarted @1000\nEventRaised a\nEventRaised b\n= Running");
    run.turn([]).is("OrchestratorStarted @1000\nEventRaised late\n= Running");
}

#[test]
fn behaviour_21_tokens_are_unique_and_answer_once() {
    let mut tokens = Tokens::new(7);
    let turn = Work::Turn(id("i"));
    let first = tokens.issue(turn.clone(), "first");
    let second = tokens.issue(turn.clone(), "second");
    assert_ne!(first, second);
    assert_ne!(Tokens::new(8).issue(turn.clone(), "first"), first, "another process has other tokens");
    assert_eq!(tokens.resolve(&first, &turn), Some(first.clone()));
    assert_eq!(tokens.take(&first), Some("first"));
    assert_eq!(tokens.resolve(&first, &turn), None, "a late answer is recognised");
    assert_eq!(tokens.take(&first), None);
    // The older dispatch is gone, the newer stands.
    assert_eq!(tokens.resolve("", &turn), Some(second.clone()));
    assert_eq!(tokens.resolve(&second, &Work::Turn(id("j"))), None, "a token for other work");
    assert_eq!((tokens.len(), tokens.is_empty()), (1, false));
}

#[test]
fn behaviour_21_without_a_token_the_work_is_known_by_instance_and_task() {
    let mut tokens = Tokens::new(7);
    let task = |instance: &str, task: i32| Work::Task(id(instance), task);
    tokens.issue(task("i", 0), "i0");
    tokens.issue(task("i", 1), "i1");
    tokens.issue(task("j", 0), "j0");
    tokens.issue(Work::Turn(id("i")), "turn");
    let mut answer = |work: &Work| tokens.resolve("", work).and_then(|token| tokens.take(&token));
    assert_eq!(answer(&task("i", 1)), Some("i1"));
    assert_eq!(answer(&task("i", 1)), None);
    assert_eq!(answer(&task("j", 0)), Some("j0"));
    assert_eq!(answer(&Work::Turn(id("i"))), Some("turn"));
    assert_eq!(answer(&task("i", 0)), Some("i0"));
    assert!(tokens.is_empty());
}

#[test]
fn behaviour_21_unanswered_dispatches_are_counted() {
    let mut tokens = Tokens::new(7);
    let counted = |tokens: &Tokens<i32>| (tokens.len(), tokens.is_empty());
    assert_eq!(counted(&tokens), (0, true));
    let issued = [0, 1, 2].map(|task| tokens.issue(Work::Task(id("i"), task), task));
    assert_eq!(counted(&tokens), (3, false));
    assert_eq!(tokens.take(&issued[1]), Some(1));
    assert_eq!(counted(&tokens), (2, false));
}

/// On the loss of a stream its work goes back (behaviour 7); a completion that still comes finds nothing.
#[test]
fn behaviour_21_the_dispatches_of_a_lost_stream_are_withdrawn() {
    let mut tokens = Tokens::new(7);
    let lost = tokens.issue(Work::Turn(id("i")), 1);
    let kept = tokens.issue(Work::Turn(id("j")), 2);
    let also = tokens.issue(Work::Task(id("i"), 4), 1);
    let mut all: Vec<_> = tokens.all().copied().collect();
    all.sort_unstable();
    assert_eq!(all, [1, 1, 2]);
    assert_eq!(tokens.withdraw(|stream| *stream == 1), [1, 1]);
    assert_eq!(tokens.take(&lost), None);
    assert_eq!(tokens.take(&also), None);
    assert_eq!(tokens.resolve("", &Work::Turn(id("i"))), None);
    assert_eq!(tokens.get_mut(&kept), Some(&mut 2));
}

#[test]
fn the_turn_of_a_new_run_has_no_past_and_is_dispatched_under_the_new_execution() {
    let mut run = Run::running([completed(1, "done")]);
    let start = run.other_start("again", dauer_core::model::Over::Refuse);
    let execution = start_of(&start).execution;
    run.at(5_000).deliver(start);
    let plan = run.plan();
    assert!(plan.is_fresh());
    assert_eq!(plan.now(), Timestamp(5_000));
    let request = orchestrator_request(&plan, Past::Sent(Vec::new())).unwrap();
    assert_eq!(request.execution_id, Some(execution.to_string()));
}

#[test]
fn behaviours_18_and_54_workers_do_not_see_that_a_run_was_rewound() {
    assert!(!is_for_workers(&event::execution_rewound(0, ExecutionRewoundEvent::default())));
    assert!(is_for_workers(&event::event_raised(0, "paid", None)));
    assert!(is_for_workers(&event::orchestrator_started(0)));
}
