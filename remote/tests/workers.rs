//! A hub whose workers are elsewhere: what they are sent, and what their answers do.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::time::Duration;

use crate::support::{Stage, activity, answer, complete, id, next, no_item, schedule, turn};
use dauer_core::model::{Filter, Kind, Payload, Queues, Status, VersionRule};
use dauer_proto::{ActivityResponse, OrchestratorResponse, WorkItemRequest, event};
use dauer_remote::{Options, Worker};

#[tokio::test]
async fn turns_and_activities_go_out_and_their_answers_end_the_run() {
    let stage = Stage::new(Options::default());
    let mut stream = stage.workers.connect(Worker::default());
    stage.start("order", "checkout", Some("1")).await;
    let (token, request) = turn(next(&mut stream).await);
    // behaviour-12, behaviour-13
    let kinds: Vec<_> = request.new_events.iter().map(event::kind_name).collect();
    assert_eq!((kinds, request.past_events.len()), (vec!["OrchestratorStarted", "ExecutionStarted"], 0));
    assert_eq!(request.execution_id.as_ref().map(String::len), Some(32));
    assert!(request.entity_parameters.is_some(), "behaviour-15");
    stage.workers.complete_turn(answer(&token, "order", vec![schedule(1, "pay", "2")])).await;
    let (token, request) = activity(next(&mut stream).await);
    // behaviour-17
    assert_eq!((request.name.as_str(), request.input.as_deref(), request.task_id), ("pay", Some("2"), 1));
    assert_eq!(request.orchestration_instance.unwrap().instance_id, "order");
    let done = ActivityResponse {
        instance_id: "order".into(),
        task_id: 1,
        result: Some("3".into()),
        completion_token: token,
        ..ActivityResponse::default()
    };
    stage.bring(done).await;
    let (token, request) = turn(next(&mut stream).await);
    assert_eq!(request.past_events.len(), 3, "what was committed comes along");
    stage.workers.complete_turn(answer(&token, "order", vec![complete(2, "4")])).await;
    // The call returns when the commit is durable: nobody has to wait any more.
    let record = stage.client.get(&id("order")).await.unwrap().unwrap();
    assert_eq!((record.status, record.details.output().map(Payload::as_str)), (Status::Completed, Some("4")));
    let figures = stage.workers.figures();
    assert_eq!((figures.turns_answered, figures.activities_answered, figures.turns_held), (2, 1, 0));
    stage.stop().await;
}

#[tokio::test]
async fn answers_that_are_stale_foreign_or_double_are_dropped() {
    // behaviour-8, behaviour-21
    let stage = Stage::new(Options::default());
    let mut stream = stage.workers.connect(Worker::default());
    stage.start("a", "checkout", None).await;
    let (token, _) = turn(next(&mut stream).await);
    let end = |token: &str, output: &str| answer(token, "a", vec![complete(1, output)]);
    stage.workers.complete_turn(end("nonsense", "wrong")).await;
    stage.workers.complete_turn(answer(&token, "b", vec![complete(1, "wrong")])).await;
    stage.workers.complete_turn(answer(&token, "@@", vec![complete(1, "wrong")])).await;
    assert_eq!(stage.client.get(&id("a")).await.unwrap().unwrap().status, Status::Pending, "behaviour-19");
    stage.workers.complete_turn(end(&token, "right")).await;
    stage.workers.complete_turn(end(&token, "again")).await;
    let record = stage.client.get(&id("a")).await.unwrap().unwrap();
    assert_eq!(record.details.output().map(Payload::as_str), Some("right"));
    assert_eq!(stage.workers.figures().answers_dropped, 4);
    // Without a token it is known by what it is about (behaviour-21).
    stage.start("go", "checkout", None).await;
    turn(next(&mut stream).await);
    stage.workers.complete_turn(answer("", "go", vec![complete(1, "done")])).await;
    assert_eq!(
        stage.client.get(&id("go")).await.unwrap().unwrap().details.output().map(Payload::as_str),
        Some("done")
    );
    stage.stop().await;
}

#[tokio::test]
async fn a_turn_of_a_lost_stream_goes_to_another_and_the_first_answer_counts() {
    // behaviour-7
    let stage = Stage::new(Options::default());
    let mut first = stage.workers.connect(Worker { activities_max: 0, ..Worker::default() });
    stage.start("a", "checkout", None).await;
    let (old, _) = turn(next(&mut first).await);
    let mut second = stage.workers.connect(Worker::default());
    drop(first);
    let (new, again) = turn(next(&mut second).await);
    assert_ne!(old, new);
    assert_eq!(again.instance_id, "a");
    // The lost worker answers all the same, over another connection, and is the first.
    stage.workers.complete_turn(answer(&old, "a", vec![complete(1, "late")])).await;
    stage.workers.complete_turn(answer(&new, "a", vec![complete(1, "second")])).await;
    let record = stage.client.get(&id("a")).await.unwrap().unwrap();
    assert_eq!(record.details.output().map(Payload::as_str), Some("late"));
    stage.stop().await;
}

#[tokio::test]
async fn a_turn_that_nobody_has_any_more_is_given_back_without_blame() {
    let stage = Stage::new(Options { turn_return_after: Duration::ZERO, ..Options::default() });
    let mut first = stage.workers.connect(Worker::default());
    stage.start("a", "checkout", None).await;
    let (old, _) = turn(next(&mut first).await);
    drop(first);
    stage.until_given_back().await;
    let mut second = stage.workers.connect(Worker::default());
    let (new, _) = turn(next(&mut second).await);
    stage.workers.complete_turn(answer(&old, "a", vec![complete(1, "stale")])).await;
    stage.workers.complete_turn(answer(&new, "a", vec![complete(1, "fresh")])).await;
    let record = stage.client.get(&id("a")).await.unwrap().unwrap();
    assert_eq!((record.details.output().map(Payload::as_str), record.attempts), (Some("fresh"), 0));
    stage.stop().await;
}

#[tokio::test]
async fn an_activity_of_a_lost_stream_is_left_alone_for_a_while() {
    for (grace, expected) in [(Duration::from_secs(60), "late"), (Duration::ZERO, "again")] {
        let stage = Stage::new(Options { reconnect_grace: grace, ..Options::default() });
        let mut first = stage.workers.connect(Worker::default());
        stage.start("a", "checkout", None).await;
        let (token, _) = turn(next(&mut first).await);
        stage.workers.complete_turn(answer(&token, "a", vec![schedule(1, "pay", "2")])).await;
        let (old, _) = activity(next(&mut first).await);
        let mut second = stage.workers.connect(Worker::default());
        drop(first);
        let result = |token: String, result: &str| ActivityResponse {
            instance_id: "a".into(),
            task_id: 1,
            result: Some(result.into()),
            completion_token: token,
            ..ActivityResponse::default()
        };
        if grace.is_zero() {
            let (new, _) = activity(next(&mut second).await);
            stage.bring(result(new, "again")).await;
            stage.bring(result(old, "late")).await;
        } else {
            stage.bring(result(old, "late")).await;
        }
        let (_, request) = turn(next(&mut second).await);
        let answered = request.new_events.iter().filter_map(crate::support::result_of).collect::<Vec<_>>();
        assert_eq!(answered, [expected], "one of them counts");
        stage.stop().await;
    }
}

#[tokio::test]
async fn what_is_abandoned_comes_again_after_a_while() {
    // behaviour-34
    let stage = Stage::new(Options { abandon_delay: Duration::from_millis(20), ..Options::default() });
    let mut stream = stage.workers.connect(Worker::default());
    stage.start("a", "checkout", None).await;
    let (token, first) = turn(next(&mut stream).await);
    stage.workers.abandon(&token);
    stage.workers.abandon(&token);
    let (token, second) = turn(next(&mut stream).await);
    assert_eq!(first.new_events[1..], second.new_events[1..], "the same batch, but for its time");
    let trouble = stage.client.get(&id("a")).await.unwrap().unwrap().trouble.unwrap();
    assert!(trouble.reason.contains("gave the turn back"), "it is shown: {trouble:?}");
    stage.workers.complete_turn(answer(&token, "a", vec![schedule(1, "pay", "2")])).await;
    let (token, _) = activity(next(&mut stream).await);
    stage.workers.abandon(&token);
    let (_, again) = activity(next(&mut stream).await);
    assert_eq!(again.task_id, 1);
    assert_eq!(stage.workers.figures().abandoned, 2);
    stage.stop().await;
}

#[tokio::test]
async fn a_worker_has_no_more_in_its_hands_than_it_says() {
    let stage = Stage::new(Options::default());
    let mut stream = stage.workers.connect(Worker { turns_max: 2, activities_max: 1, ..Worker::default() });
    for name in ["a", "b", "c"] {
        stage.start(name, "checkout", None).await;
    }
    let (first, request) = turn(next(&mut stream).await);
    turn(next(&mut stream).await);
    no_item(&mut stream).await;
    let two = vec![schedule(1, "pay", "1"), schedule(2, "pay", "2")];
    stage.workers.complete_turn(answer(&first, &request.instance_id, two)).await;
    // One more turn and one activity, in any order.
    let items = [next(&mut stream).await, next(&mut stream).await];
    let turns =
        items.iter().filter(|item| matches!(item.request, Some(WorkItemRequest::OrchestratorRequest(_))));
    assert_eq!(turns.count(), 1);
    no_item(&mut stream).await;
    let figures = stage.workers.figures();
    assert_eq!((figures.turns_held, figures.activities_held), (2, 1));
    // Another worker takes what the first has no room for.
    let mut second = stage.workers.connect(Worker::default());
    let (_, request) = activity(next(&mut second).await);
    assert_eq!(request.task_id, 2);
    stage.stop().await;
}

#[tokio::test]
async fn what_only_a_busy_worker_can_do_waits_for_it() {
    let stage = Stage::new(Options::default());
    let only = |name: &str, turns_max| {
        let orchestrations = Filter::from_iter([(name.into(), VersionRule::Any)]);
        Worker { turns_max, queues: Queues { orchestrations, ..Queues::default() }, ..Worker::default() }
    };
    stage.start("a", "checkout", None).await;
    stage.start("b", "checkout", None).await;
    // There is room in the hub, so that both are claimed, but not for these.
    let _wide = stage.workers.connect(only("refund", 10));
    let mut narrow = stage.workers.connect(only("checkout", 1));
    let (first, request) = turn(next(&mut narrow).await);
    no_item(&mut narrow).await;
    stage.workers.complete_turn(answer(&first, &request.instance_id, vec![complete(1, "1")])).await;
    let (_, other) = turn(next(&mut narrow).await);
    assert_ne!(other.instance_id, request.instance_id);
    stage.stop().await;
}

#[tokio::test]
async fn a_worker_that_does_not_read_is_sent_no_more() {
    let stage = Stage::new(Options { unread_bytes_max: 5_000, ..Options::default() });
    let large = "x".repeat(3_000);
    for name in ["a", "b", "c"] {
        stage.start(name, "checkout", Some(&large)).await;
    }
    let mut slow = stage.workers.connect(Worker::default());
    let refunds = Filter::from_iter([("refund".into(), VersionRule::Any)]);
    let queues = Queues { orchestrations: refunds, ..Queues::default() };
    let mut others = stage.workers.connect(Worker { queues, ..Worker::default() });
    stage.until(|figures| figures.turns_held >= 2).await;
    no_item(&mut others).await;
    assert_eq!(stage.workers.figures().turns_held, 2, "the second is the one beyond the limit");
    // As soon as it reads it is sent the rest.
    let mut seen: Vec<_> = Vec::new();
    for _ in 0..3 {
        seen.push(turn(next(&mut slow).await).1.instance_id);
    }
    seen.sort();
    assert_eq!(seen, ["a", "b", "c"]);
    stage.stop().await;
}

#[tokio::test]
async fn a_hub_claims_no_more_than_its_workers_have_room_for() {
    let stage = Stage::new(Options::default());
    for name in ["a", "b", "c"] {
        stage.start(name, "checkout", None).await;
    }
    let mut stream = stage.workers.connect(Worker { turns_max: 1, ..Worker::default() });
    turn(next(&mut stream).await);
    let scale = stage.client.hub().scale().await.unwrap();
    let count = |of: &std::collections::BTreeMap<Kind, usize>| of.get(&Kind::Orchestration).copied();
    assert_eq!((count(&scale.held), count(&scale.ready)), (Some(1), Some(2)), "others may do the rest");
    stage.stop().await;
}

#[tokio::test]
async fn what_a_host_gives_up_leaves_room() {
    let stage = Stage::new(Options::default());
    let mut stream = stage.workers.connect(Worker::default());
    stage.start("a", "checkout", None).await;
    turn(next(&mut stream).await);
    let workers = std::sync::Arc::clone(&stage.workers);
    assert_eq!(workers.figures().turns_held, 1);
    stage.stop().await;
    assert_eq!(workers.figures().turns_held, 0);
}

#[tokio::test]
async fn a_worker_gets_only_what_it_asks_for() {
    // behaviour-56
    let stage = Stage::new(Options::default());
    let names = |rules: &[(&str, VersionRule)]| {
        Filter::from_iter(rules.iter().map(|(name, rule)| ((*name).into(), rule.clone())))
    };
    let two = VersionRule::Listed(vec!["2".into()]);
    let queues = Queues {
        orchestrations: names(&[("checkout", two.clone())]),
        entities: Filter::none(),
        activities: names(&[("pay", two)]),
    };
    let mut narrow = stage.workers.connect(Worker { queues, ..Worker::default() });
    stage.start_version("plain", "checkout", None).await;
    stage.start_version("old", "checkout", Some("1")).await;
    stage.start_version("other", "refund", Some("2")).await;
    stage.start_version("new", "checkout", Some("2")).await;
    let (token, request) = turn(next(&mut narrow).await);
    assert_eq!(request.instance_id, "new");
    // An activity without a version is known by its name.
    stage
        .workers
        .complete_turn(answer(&token, "new", vec![schedule(1, "pay", "1"), schedule(2, "ship", "1")]))
        .await;
    let (_, request) = activity(next(&mut narrow).await);
    assert_eq!(request.name, "pay");
    no_item(&mut narrow).await;
    let mut wide = stage.workers.connect(Worker::default());
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(match next(&mut wide).await.request {
            Some(WorkItemRequest::OrchestratorRequest(request)) => request.instance_id,
            Some(WorkItemRequest::ActivityRequest(request)) => request.name,
            other => panic!("{other:?}"),
        });
    }
    seen.sort();
    assert_eq!(seen, ["old", "other", "plain", "ship"]);
    stage.stop().await;
}

#[tokio::test]
async fn what_no_worker_can_read_fails_with_the_reason() {
    // behaviour-10
    let stage = Stage::new(Options::default());
    let small = Worker { item_bytes_max: 2_000, streams_history: true, ..Worker::default() };
    let mut stream = stage.workers.connect(small);
    stage.start("large", "checkout", Some(&"x".repeat(3_000))).await;
    let record = stage.ended("large").await;
    let failure = record.details.failure().unwrap().decode::<dauer_proto::TaskFailureDetails>().unwrap();
    assert_eq!((record.status, failure.error_type.as_str()), (Status::Failed, "WorkItemTooLarge"));
    assert!(failure.error_message.contains("than 2000"), "{}", failure.error_message);
    stage.start("small", "checkout", None).await;
    let (token, _) = turn(next(&mut stream).await);
    stage.workers.complete_turn(answer(&token, "small", vec![schedule(1, "pay", &"x".repeat(3_000))])).await;
    let (_, request) = turn(next(&mut stream).await);
    let failed = request.new_events.iter().find_map(crate::support::failure_of).unwrap();
    assert_eq!((failed.error_type.as_str(), failed.is_non_retriable), ("WorkItemTooLarge", true));
    stage.stop().await;
}

#[tokio::test]
async fn a_worker_that_can_fetches_a_long_history_itself() {
    // behaviour-10, behaviour-29
    let stage = Stage::new(Options { history_streamed_from: 1_000, ..Options::default() });
    let mut stream =
        stage.workers.connect(Worker { streams_history: true, item_bytes_max: 5_000, ..Worker::default() });
    stage.start("long", "checkout", Some(&"x".repeat(4_000))).await;
    let (token, request) = turn(next(&mut stream).await);
    assert!(!request.requires_history_streaming, "nothing is committed yet");
    stage.workers.complete_turn(answer(&token, "long", vec![])).await;
    stage.client.raise(&id("long"), "go", Some("y".repeat(2_000))).await.unwrap();
    let (token, request) = turn(next(&mut stream).await);
    assert!(request.requires_history_streaming && request.past_events.is_empty());
    let execution = request.execution_id;
    // It lost what it had: once more, all of it.
    let wanted = OrchestratorResponse {
        instance_id: "long".into(),
        completion_token: token,
        requires_history: true,
        ..OrchestratorResponse::default()
    };
    let mut wide = stage.workers.connect(Worker::default());
    stage.workers.complete_turn(wanted).await;
    let (token, request) = turn(next(&mut wide).await);
    assert_eq!((request.past_events.len(), request.requires_history_streaming), (2, false));
    assert_eq!(request.execution_id, execution);
    stage.workers.complete_turn(answer(&token, "long", vec![complete(1, "ok")])).await;
    assert_eq!(stage.ended("long").await.status, Status::Completed);
    stage.stop().await;
}

#[tokio::test]
#[allow(deprecated, reason = "the SDKs that split answers still use the fields")]
async fn an_answer_in_parts_is_carried_out_once_and_whole() {
    // behaviour-29
    let stage = Stage::new(Options::default());
    let mut stream = stage.workers.connect(Worker::default());
    stage.start("a", "checkout", None).await;
    let (token, _) = turn(next(&mut stream).await);
    let part = |index, last: bool, actions| OrchestratorResponse {
        is_partial: !last,
        chunk_index: Some(index),
        ..answer(&token, "a", actions)
    };
    stage.workers.complete_turn(part(0, false, vec![schedule(1, "pay", "1")])).await;
    stage.workers.complete_turn(part(0, false, vec![schedule(1, "pay", "1")])).await;
    no_item(&mut stream).await;
    stage.workers.complete_turn(part(1, true, vec![schedule(2, "pay", "2")])).await;
    let mut tasks =
        vec![activity(next(&mut stream).await).1.task_id, activity(next(&mut stream).await).1.task_id];
    tasks.sort_unstable();
    assert_eq!(tasks, [1, 2]);
    no_item(&mut stream).await;
    stage.stop().await;
}

#[tokio::test]
async fn another_worker_is_asked_when_one_hangs() {
    let stage = Stage::new(Options { turn_answer_max: Duration::from_millis(30), ..Options::default() });
    let mut hangs = stage.workers.connect(Worker::default());
    stage.start("a", "checkout", None).await;
    let (old, _) = turn(next(&mut hangs).await);
    let mut other = stage.workers.connect(Worker::default());
    let (new, _) = turn(next(&mut other).await);
    no_item(&mut hangs).await;
    assert_ne!(old, new);
    stage.workers.complete_turn(answer(&old, "a", vec![complete(1, "after all")])).await;
    assert_eq!(stage.ended("a").await.details.output().map(Payload::as_str), Some("after all"));
    stage.stop().await;
}

#[tokio::test]
async fn an_idle_stream_is_pinged_and_a_closed_one_ends() {
    // behaviour-4
    let stage = Stage::new(Options { ping_every: Duration::from_millis(10), ..Options::default() });
    let mut stream = stage.workers.connect(Worker::default());
    for _ in 0..3 {
        assert!(matches!(
            crate::support::any(&mut stream).await.unwrap().request,
            Some(WorkItemRequest::HealthPing(_))
        ));
    }
    stage.workers.close();
    while crate::support::any(&mut stream).await.is_some() {}
    let mut late = stage.workers.connect(Worker::default());
    assert!(crate::support::any(&mut late).await.is_none(), "nobody connects any more");
    stage.stop().await;
}
