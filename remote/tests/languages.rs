//! Workers that are not like the others: those that send no token back (Go's), and those that do one thing at a time (Java's).

use std::time::Duration;

use dauer_core::model::Status;
use dauer_proto::{ActivityResponse, WorkItemRequest};
use dauer_remote::{Options, Worker};

use crate::support::{Stage, activity, answer, complete, id, next, no_item, schedule, timer, turn};

/// A worker whose answers name no token.
fn forgetful() -> Worker {
    Worker { names_tokens: false, ..Worker::default() }
}

fn result(instance: &str, task_id: i32, text: &str) -> ActivityResponse {
    ActivityResponse {
        instance_id: instance.into(),
        task_id,
        result: Some(text.into()),
        ..ActivityResponse::default()
    }
}

/// behaviour-21: the activity of an earlier run has the same number in its history as that of the next, and its answer comes
/// late.
#[tokio::test]
async fn the_answer_to_an_activity_of_an_earlier_run_is_no_answer_to_this_one() {
    let stage = Stage::new(Options::default());
    let mut stream = stage.workers.connect(forgetful());
    stage.start("loop", "checkout", None).await;
    turn(next(&mut stream).await);
    let first = vec![schedule(0, "pay", "1"), crate::support::go_on(1)];
    stage.workers.complete_turn(answer("", "loop", first)).await;
    // The activity of the first run, and the next run, in any order.
    let (mut old, mut seen) = (None, 0);
    while seen < 2 {
        let item = next(&mut stream).await;
        if let Some(WorkItemRequest::ActivityRequest(request)) = &item.request {
            old = Some(request.task_id);
        }
        seen += 1;
    }
    stage.workers.complete_turn(answer("", "loop", vec![schedule(0, "pay", "2")])).await;
    let (_, new) = activity(next(&mut stream).await);
    let old = old.unwrap();
    assert_ne!(new.task_id, old, "each has a number of its own");
    stage.bring(result("loop", old, "old")).await;
    stage.bring(result("loop", new.task_id, "new")).await;
    let (_, request) = turn(next(&mut stream).await);
    let results: Vec<_> = request.new_events.iter().filter_map(crate::support::result_of).collect();
    assert_eq!(results, ["new"]);
    stage.stop().await;
}

/// behaviour-21: what an earlier turn was answered with comes once more.
#[tokio::test]
async fn an_answer_to_an_earlier_turn_is_no_answer_to_this_one() {
    let stage = Stage::new(Options::default());
    let mut stream = stage.workers.connect(forgetful());
    stage.start("order", "checkout", None).await;
    turn(next(&mut stream).await);
    let first = || answer("", "order", vec![schedule(0, "pay", "1")]);
    stage.workers.complete_turn(first()).await;
    let (_, request) = activity(next(&mut stream).await);
    stage.bring(result("order", request.task_id, "paid")).await;
    turn(next(&mut stream).await);
    stage.workers.complete_turn(first()).await;
    assert_eq!(stage.workers.figures().answers_dropped, 1);
    stage.workers.complete_turn(answer("", "order", vec![complete(1, "done")])).await;
    let record = stage.ended("order").await;
    assert_eq!((record.status, record.details.output().unwrap().as_str()), (Status::Completed, "done"));
    stage.stop().await;
}

/// behaviour-7, behaviour-21: a worker that has lost its stream answers over another connection. Whoever names no token
/// is waited for, so that nobody else answers the same turn.
#[tokio::test]
async fn a_turn_of_a_lost_stream_is_left_to_a_worker_that_names_no_token() {
    let stage = Stage::new(Options::default());
    let mut lost = stage.workers.connect(forgetful());
    stage.start("order", "checkout", None).await;
    turn(next(&mut lost).await);
    drop(lost);
    let mut again = stage.workers.connect(forgetful());
    no_item(&mut again).await;
    stage.workers.complete_turn(answer("", "order", vec![])).await;
    stage.client.raise(&id("order"), "go", None).await.unwrap();
    let (_, request) = turn(next(&mut again).await);
    assert_eq!(request.past_events.len(), 2, "the first turn was answered once");
    stage.workers.complete_turn(answer("", "order", vec![complete(0, "done")])).await;
    assert_eq!(stage.ended("order").await.status, Status::Completed);
    stage.stop().await;
}

/// behaviour-21: two workers had the same turn, because the first took too long. Its answer is not taken for the next turn.
#[tokio::test]
async fn late_answer_without_a_token_is_no_answer_to_the_next_turn() {
    let stage = Stage::new(Options { turn_answer_max: Duration::from_secs(1), ..Options::default() });
    let mut slow = stage.workers.connect(Worker { activities_max: 0, ..forgetful() });
    stage.start("order", "checkout", None).await;
    turn(next(&mut slow).await);
    let mut other = stage.workers.connect(forgetful());
    turn(next(&mut other).await);
    stage.workers.complete_turn(answer("", "order", vec![schedule(0, "pay", "1")])).await;
    let (_, request) = activity(next(&mut other).await);
    stage.bring(result("order", request.task_id, "paid")).await;
    // The slow worker owes an answer.
    no_item(&mut slow).await;
    no_item(&mut other).await;
    stage.workers.complete_turn(answer("", "order", vec![])).await;
    assert_eq!(stage.workers.figures().answers_dropped, 1);
    turn(next(&mut slow).await);
    stage.workers.complete_turn(answer("", "order", vec![complete(1, "done")])).await;
    let record = stage.ended("order").await;
    assert_eq!((record.status, record.details.output().unwrap().as_str()), (Status::Completed, "done"));
    stage.stop().await;
}

/// A worker that never pays its debt does not keep the instance from others.
#[tokio::test]
async fn turn_owed_for_too_long_is_handed_out_again() {
    let stage = Stage::new(Options { turn_answer_max: Duration::from_millis(100), ..Options::default() });
    let mut slow = stage.workers.connect(Worker { activities_max: 0, ..forgetful() });
    stage.start("order", "checkout", None).await;
    turn(next(&mut slow).await);
    let mut other = stage.workers.connect(forgetful());
    turn(next(&mut other).await);
    stage.workers.complete_turn(answer("", "order", vec![schedule(0, "pay", "1")])).await;
    let (_, request) = activity(next(&mut other).await);
    stage.bring(result("order", request.task_id, "paid")).await;
    turn(next(&mut slow).await);
    stage.stop().await;
}

/// The worker is gone for good: another one has the turn after a while.
#[tokio::test]
async fn a_turn_of_a_worker_that_never_answers_goes_to_another() {
    let grace = Duration::from_millis(100);
    let stage = Stage::new(Options { reconnect_grace: grace, ..Options::default() });
    let mut lost = stage.workers.connect(forgetful());
    stage.start("order", "checkout", None).await;
    turn(next(&mut lost).await);
    drop(lost);
    let mut again = stage.workers.connect(forgetful());
    turn(next(&mut again).await);
    stage.stop().await;
}

/// behaviour-9: a worker with one thread for everything has one thing in its hands; others get the rest, and when it is
/// done it gets more.
#[tokio::test]
async fn a_worker_of_one_thread_has_one_thing_at_a_time() {
    let stage = Stage::new(Options::default());
    let mut single = stage.workers.connect(Worker { items_max: 1, ..Worker::default() });
    stage.start("a", "checkout", None).await;
    let (token, request) = turn(next(&mut single).await);
    stage.start("b", "checkout", None).await;
    no_item(&mut single).await;
    let mut other = stage.workers.connect(Worker { items_max: 1, ..Worker::default() });
    assert_eq!(turn(next(&mut other).await).1.instance_id, "b");
    stage.workers.complete_turn(answer(&token, &request.instance_id, vec![schedule(1, "pay", "1")])).await;
    activity(next(&mut single).await);
    stage.start("c", "checkout", None).await;
    no_item(&mut single).await;
    stage.stop().await;
}

/// Whoever calls an entity is told that there are none, instead of waiting for ever.
#[tokio::test]
async fn a_call_of_an_entity_fails_with_the_reason() {
    let stage = Stage::new(Options::default());
    let mut stream = stage.workers.connect(Worker::default());
    stage.start("order", "checkout", None).await;
    let (token, _) = turn(next(&mut stream).await);
    stage.workers.complete_turn(answer(&token, "order", vec![crate::support::call_entity(1)])).await;
    let record = stage.ended("order").await;
    let failure = record.details.failure().unwrap().decode::<dauer_proto::TaskFailureDetails>().unwrap();
    assert_eq!((record.status, failure.error_type.as_str()), (Status::Failed, "EntitiesNotSupported"));
    stage.stop().await;
}

/// behaviour-35: the host has asked when something is due while the worker had the turn, and knows of the long timer only.
#[tokio::test]
async fn a_short_timer_beside_a_long_one_is_not_late() {
    let stage = Stage::polling(Options::default(), Duration::from_secs(3_600));
    let mut stream = stage.workers.connect(Worker::default());
    for (instance, after) in [("long", Duration::from_secs(600)), ("short", Duration::from_millis(300))] {
        stage.start(instance, "checkout", None).await;
        let (token, _) = turn(next(&mut stream).await);
        no_item(&mut stream).await;
        stage.workers.complete_turn(answer(&token, instance, vec![timer(1, after)])).await;
    }
    let (_, request) = turn(next(&mut stream).await);
    assert_eq!(request.instance_id, "short");
    stage.stop().await;
}
