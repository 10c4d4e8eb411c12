//! Servers that end while workers execute their activities, and the answers that come to other servers.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::time::Duration;

use dauer::{HostOptions, Hub};
use dauer_core::model::{DropReason, Payload, Status};
use dauer_proto::ActivityResponse;
use dauer_remote::{Brought, Options, Worker, WorkerStream};

use crate::support::{Stage, activity, answer, complete, id, next, no_item, result_of, schedule, turn};

/// Settings under which a killed server is soon known to be dead.
fn short() -> HostOptions {
    HostOptions {
        lease: Duration::from_millis(300),
        poll_max: Duration::from_millis(20),
        drain_max: Duration::from_millis(10),
        ..HostOptions::default()
    }
}

fn grace(restart_grace: Duration) -> Options {
    Options { restart_grace, ..Options::default() }
}

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);

fn done(instance: &str, token: &str) -> ActivityResponse {
    ActivityResponse {
        instance_id: instance.into(),
        task_id: 1,
        result: Some("paid".into()),
        completion_token: token.into(),
        ..ActivityResponse::default()
    }
}

/// Starts an instance whose worker gets its activity. Returns the token.
async fn activity_out(stage: &Stage, stream: &mut WorkerStream, instance: &str) -> String {
    stage.start(instance, "checkout", None).await;
    let (token, _) = turn(next(stream).await);
    stage.workers.complete_turn(answer(&token, instance, vec![schedule(1, "pay", "2")])).await;
    let (token, _) = activity(next(stream).await);
    token
}

/// The worker of the turn that follows the result ends the run.
async fn ends_with_the_result(stage: &Stage, stream: &mut WorkerStream, instance: &str) {
    let (token, request) = turn(next(stream).await);
    let results: Vec<_> = request.new_events.iter().filter_map(result_of).collect();
    assert_eq!(results, ["paid"]);
    stage.workers.complete_turn(answer(&token, instance, vec![complete(2, "done")])).await;
    let record = stage.ended(instance).await;
    assert_eq!(
        (record.status, record.details.output().map(Payload::as_str)),
        (Status::Completed, Some("done"))
    );
}

async fn dropped(hub: &Hub, reason: DropReason) -> u64 {
    let mut found = 0;
    let mut after = None;
    loop {
        let part = hub.manage().dump(after).await.unwrap();
        for item in part.items {
            if let dauer_store::DumpItem::Dropped(why, count) = item
                && why == reason
            {
                found = count;
            }
        }
        after = part.next;
        if after.is_none() {
            return found;
        }
    }
}

#[tokio::test]
async fn answer_after_a_stop_is_taken_by_the_next_server() {
    let hub = dauer::open("memory:").unwrap();
    let patient = HostOptions { drain_max: LONG, ..short() };
    let first = Stage::on(&hub, grace(LONG), patient);
    let mut stream = first.workers.connect(Worker::default());
    let token = activity_out(&first, &mut stream, "a").await;
    // It waits for no activity: this would take an hour.
    first.stop().await;
    let second = Stage::on(&hub, grace(LONG), short());
    let mut stream = second.workers.connect(Worker::default());
    no_item(&mut stream).await;
    second.bring(done("a", &token)).await;
    ends_with_the_result(&second, &mut stream, "a").await;
    assert_eq!(dropped(&hub, DropReason::NotHeld).await, 0);
    second.stop().await;
}

#[tokio::test]
async fn answer_after_a_kill_is_taken_before_and_after_the_takeover() {
    for before in [true, false] {
        let hub = dauer::open("memory:").unwrap();
        let first = Stage::on(&hub, grace(LONG), short());
        let mut stream = first.workers.connect(Worker::default());
        let token = activity_out(&first, &mut stream, "a").await;
        first.kill();
        let second = Stage::on(&hub, grace(LONG), short());
        let mut stream = second.workers.connect(Worker::default());
        if before {
            // The session of the first one may still live: the task is taken from it all the same.
            second.bring(done("a", &token)).await;
        } else {
            second.until_taken_over("a").await;
            no_item(&mut stream).await;
            second.bring(done("a", &token)).await;
        }
        ends_with_the_result(&second, &mut stream, "a").await;
        second.stop().await;
    }
}

#[tokio::test]
async fn task_of_a_dead_server_is_begun_after_the_grace() {
    let hub = dauer::open("memory:").unwrap();
    let first = Stage::on(&hub, grace(LONG), short());
    let mut stream = first.workers.connect(Worker::default());
    let old = activity_out(&first, &mut stream, "a").await;
    first.kill();
    let began = std::time::Instant::now();
    let second = Stage::on(&hub, grace(Duration::from_millis(900)), short());
    let mut stream = second.workers.connect(Worker::default());
    let (new, _) = activity(next(&mut stream).await);
    assert!(began.elapsed() >= Duration::from_millis(900), "it was begun too early");
    assert_ne!(old, new);
    // Both tokens are good, and one answer counts.
    second.bring(done("a", &old)).await;
    ends_with_the_result(&second, &mut stream, "a").await;
    second.bring(done("a", &new)).await;
    second.stop().await;
}

#[tokio::test]
async fn answer_to_another_living_server_is_taken_once() {
    let hub = dauer::open("memory:").unwrap();
    let first = Stage::on(&hub, grace(LONG), short());
    let mut stream = first.workers.connect(Worker { turns_max: 0, ..Worker::default() });
    let second = Stage::on(&hub, grace(LONG), short());
    let mut turns = second.workers.connect(Worker { activities_max: 0, ..Worker::default() });
    second.start("a", "checkout", None).await;
    let (token, _) = turn(next(&mut turns).await);
    second.workers.complete_turn(answer(&token, "a", vec![schedule(1, "pay", "2")])).await;
    let (token, _) = activity(next(&mut stream).await);
    second.bring(done("a", &token)).await;
    // The same answer reaches the server that handed the activity out.
    first.bring(done("a", &token)).await;
    ends_with_the_result(&second, &mut turns, "a").await;
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn worker_that_resumes_keeps_its_activity_beyond_the_grace() {
    let hub = dauer::open("memory:").unwrap();
    let own = || Worker { name: Some("w".into()), resumes: true, ..Worker::default() };
    let first = Stage::on(&hub, grace(LONG), short());
    let mut stream = first.workers.connect(own());
    let token = activity_out(&first, &mut stream, "a").await;
    activity_out(&first, &mut stream, "b").await;
    first.stop().await;
    let second = Stage::on(&hub, grace(Duration::from_millis(400)), short());
    let unknown = second
        .workers
        .resume(&"w".into(), vec![(id("a"), token.clone()), (id("a"), "t1.nonsense".into())])
        .await;
    assert_eq!(unknown, ["t1.nonsense"]);
    let mut stream = second.workers.connect(own());
    let mut other = second.workers.connect(Worker::default());
    // The other activity is begun again: the grace is over.
    let begun = tokio::select! {
        item = next(&mut stream) => activity(item).1,
        item = next(&mut other) => activity(item).1,
    };
    assert_eq!(begun.orchestration_instance.unwrap().instance_id, "b");
    no_item(&mut other).await;
    second.bring(done("a", &token)).await;
    drop(other);
    ends_with_the_result(&second, &mut stream, "a").await;
    second.stop().await;
}

#[tokio::test]
async fn worker_without_tokens_answers_the_next_server() {
    let hub = dauer::open("memory:").unwrap();
    let go = || Worker { names_tokens: false, ..Worker::default() };
    let first = Stage::on(&hub, grace(LONG), short());
    let mut stream = first.workers.connect(go());
    first.start("a", "checkout", None).await;
    turn(next(&mut stream).await);
    first.workers.complete_turn(answer("", "a", vec![schedule(1, "pay", "2")])).await;
    let (_, request) = activity(next(&mut stream).await);
    first.stop().await;
    let second = Stage::on(&hub, grace(LONG), short());
    let mut stream = second.workers.connect(go());
    second.bring(ActivityResponse { task_id: request.task_id, ..done("a", "") }).await;
    let (_, request) = turn(next(&mut stream).await);
    assert_eq!(request.new_events.iter().filter_map(result_of).collect::<Vec<_>>(), ["paid"]);
    second.stop().await;
}

#[tokio::test]
async fn answer_to_a_closed_server_is_not_taken() {
    let hub = dauer::open("memory:").unwrap();
    let first = Stage::on(&hub, grace(LONG), short());
    let mut stream = first.workers.connect(Worker::default());
    let token = activity_out(&first, &mut stream, "a").await;
    let workers = std::sync::Arc::clone(&first.workers);
    first.stop().await;
    let closing = std::sync::Arc::clone(&workers);
    let late = tokio::spawn(async move { workers.complete_activity(done("a", &token)).await });
    // No session of this server takes the answer any more.
    tokio::task::yield_now().await;
    closing.close();
    assert_eq!(late.await.unwrap(), Brought::NotTaken);
}

#[tokio::test]
async fn foreign_tokens_and_answers_of_gone_runs_are_dropped() {
    let hub = dauer::open("memory:").unwrap();
    let stage = Stage::on(&hub, grace(LONG), short());
    let mut stream = stage.workers.connect(Worker::default());
    let token = activity_out(&stage, &mut stream, "a").await;
    let other = dauer::open("memory:").unwrap();
    let elsewhere = Stage::on(&other, grace(LONG), short());
    let _worker = elsewhere.workers.connect(Worker::default());
    elsewhere.bring(done("a", &token)).await;
    assert_eq!(elsewhere.workers.figures().answers_dropped, 1, "a token of another hub");
    stage.client.terminate(&id("a"), None, false).await.unwrap();
    let (end, _) = turn(next(&mut stream).await);
    stage.workers.complete_turn(answer(&end, "a", vec![complete(2, "never")])).await;
    stage.bring(done("a", &token)).await;
    let brought = stage.workers.complete_activity(done("a", &token)).await;
    assert_eq!(brought, Brought::Taken);
    assert!(stage.ended("a").await.status.is_ended());
    stage.stop().await;
    elsewhere.stop().await;
}
