//! Workers that are lost with what they execute: deaths, suspects and trials.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::time::Duration;

use dauer::HostOptions;
use dauer_core::model::Status;
use dauer_proto::ActivityResponse;
use dauer_remote::{Options, Worker};

use crate::support::{Stage, activity, answer, complete, failure_of, next, no_item, schedule, turn};

/// Settings under which a lost worker is soon dead, and a trial short.
fn quick() -> Options {
    Options {
        reconnect_grace: Duration::ZERO,
        trial_quiet: Duration::from_millis(20),
        suspect_delay: Duration::from_millis(5),
        ..Options::default()
    }
}

fn stage(options: Options) -> Stage {
    let host = HostOptions {
        poll_max: Duration::from_millis(20),
        drain_max: Duration::from_millis(10),
        ..HostOptions::default()
    };
    Stage::on(&dauer::open("memory:").unwrap(), options, host)
}

/// A worker for activities.
fn hands() -> Worker {
    Worker { turns_max: 0, activities_max: 4, ..Worker::default() }
}

/// A worker for turns.
fn head() -> Worker {
    Worker { activities_max: 0, ..Worker::default() }
}

fn done(instance: &str, token: String) -> ActivityResponse {
    ActivityResponse {
        instance_id: instance.into(),
        task_id: 1,
        completion_token: token,
        ..ActivityResponse::default()
    }
}

#[tokio::test]
async fn death_is_counted_before_the_activity_goes_out_again() {
    let stage = stage(quick());
    let mut turns = stage.workers.connect(head());
    let first = stage.workers.connect(hands());
    stage.start("a", "checkout", None).await;
    let (token, _) = turn(next(&mut turns).await);
    stage.workers.complete_turn(answer(&token, "a", vec![schedule(1, "pay", "2")])).await;
    stage.until(|figures| figures.activities_held == 1).await;
    let mut second = stage.workers.connect(hands());
    drop(first);
    let (token, _) = activity(next(&mut second).await);
    assert_eq!(stage.tasks("a").await[0].deaths.workers, 1);
    stage.bring(done("a", token)).await;
    turn(next(&mut turns).await);
    stage.stop().await;
}

#[tokio::test]
async fn poison_activity_crashes_after_few_workers_and_harms_no_other() {
    let stage = stage(quick());
    let mut turns = stage.workers.connect(head());
    for instance in ["poison", "healthy"] {
        stage.start(instance, "checkout", None).await;
        let (token, request) = turn(next(&mut turns).await);
        let id = request.instance_id;
        stage.workers.complete_turn(answer(&token, &id, vec![schedule(1, &id, "")])).await;
    }
    let (mut killed, mut healthy) = (0, None);
    let ended = loop {
        let mut worker = stage.workers.connect(hands());
        let dies = async {
            loop {
                let (token, request) = activity(next(&mut worker).await);
                if request.name == "poison" {
                    return;
                }
                // It takes longer than its worker lives, but for the last.
                healthy = Some(token);
            }
        };
        tokio::select! {
            () = dies => killed += 1,
            item = next(&mut turns) => break turn(item),
        }
        assert!(killed < 40, "it goes on for ever");
    };
    let (_, request) = ended;
    assert_eq!(request.instance_id, "poison");
    let failures: Vec<_> = request.new_events.iter().filter_map(failure_of).collect();
    assert_eq!(failures[0].error_type, "ActivityCrashed");
    // Eight slots: three deaths until it runs alone, and seven trials.
    assert!((7..=11).contains(&killed), "{killed} workers");
    let healthy = match healthy {
        Some(token) => token,
        None => activity(next(&mut stage.workers.connect(hands())).await).0,
    };
    assert!(stage.tasks("healthy").await[0].deaths.trials == 0, "it was never alone when its worker died");
    stage.bring(done("healthy", healthy)).await;
    let (_, request) = turn(next(&mut turns).await);
    assert_eq!(request.instance_id, "healthy");
    stage.stop().await;
}

#[tokio::test]
async fn poison_turn_is_stalled_and_its_run_goes_on() {
    let stage = stage(quick());
    stage.start("poison", "checkout", None).await;
    let mut killed = 0;
    let trouble = loop {
        let mut worker = stage.workers.connect(Worker { turns_max: 4, ..Worker::default() });
        tokio::select! {
            item = next(&mut worker) => { turn(item); }
            trouble = stage.until_stalled("poison") => break trouble,
        }
        killed += 1;
        assert!(killed < 40, "it goes on for ever");
    };
    assert_eq!(trouble.kind, dauer_core::model::TroubleKind::HostDied);
    let record = stage.client.get(&crate::support::id("poison")).await.unwrap().unwrap();
    assert_eq!(record.status, Status::Pending, "it has not failed");
    stage.stop().await;
}

#[tokio::test]
async fn nothing_else_goes_to_the_worker_of_a_trial() {
    let stage = stage(Options { trial_quiet: Duration::from_millis(300), ..quick() });
    let mut turns = stage.workers.connect(head());
    stage.start("suspect", "checkout", None).await;
    let (token, _) = turn(next(&mut turns).await);
    stage.workers.complete_turn(answer(&token, "suspect", vec![schedule(1, "pay", "")])).await;
    // One item at once: after one death it is tried.
    let one = || Worker { turns_max: 0, activities_max: 2, items_max: 2, ..Worker::default() };
    for _ in 0..1 {
        let mut dies = stage.workers.connect(one());
        activity(next(&mut dies).await);
    }
    let mut worker = stage.workers.connect(one());
    let (suspect, _) = activity(next(&mut worker).await);
    let began = std::time::Instant::now();
    stage.start("other", "checkout", None).await;
    let (token, _) = turn(next(&mut turns).await);
    stage.workers.complete_turn(answer(&token, "other", vec![schedule(1, "pay", "")])).await;
    let (other, request) = activity(next(&mut worker).await);
    assert_eq!(request.orchestration_instance.unwrap().instance_id, "other");
    assert!(began.elapsed() >= Duration::from_millis(250), "the trial was not quiet");
    stage.bring(done("suspect", suspect)).await;
    stage.bring(done("other", other)).await;
    stage.stop().await;
}

#[tokio::test]
async fn named_worker_that_comes_again_keeps_what_it_had_received() {
    let options =
        Options { reconnect_grace: Duration::from_secs(60), received_after: Duration::ZERO, ..quick() };
    let stage = stage(options);
    let mut turns = stage.workers.connect(head());
    let named = || Worker { name: Some("host,1,abc".into()), ..hands() };
    let mut first = stage.workers.connect(named());
    stage.start("a", "checkout", None).await;
    let (token, _) = turn(next(&mut turns).await);
    stage.workers.complete_turn(answer(&token, "a", vec![schedule(1, "pay", "2")])).await;
    let (token, _) = activity(next(&mut first).await);
    drop(first);
    let mut again = stage.workers.connect(named());
    stage.until(|figures| figures.activities_held == 1).await;
    no_item(&mut again).await;
    assert_eq!(stage.tasks("a").await[0].deaths.workers, 0, "it did not die");
    stage.bring(done("a", token)).await;
    turn(next(&mut turns).await);
    stage.stop().await;
}

#[tokio::test]
async fn resuming_worker_gets_again_what_it_does_not_name() {
    let stage = stage(Options { reconnect_grace: Duration::from_secs(60), ..quick() });
    let mut turns = stage.workers.connect(head());
    let own = || Worker { name: Some("own".into()), resumes: true, ..hands() };
    let first = stage.workers.connect(own());
    stage.start("a", "checkout", None).await;
    let (token, _) = turn(next(&mut turns).await);
    stage.workers.complete_turn(answer(&token, "a", vec![schedule(1, "pay", "2")])).await;
    stage.until(|figures| figures.activities_held == 1).await;
    // It lost its stream before it read the item.
    drop(first);
    let mut again = stage.workers.connect(own());
    let (token, _) = activity(next(&mut again).await);
    assert_eq!(stage.tasks("a").await[0].deaths.workers, 0);
    stage.bring(done("a", token)).await;
    let (token, _) = turn(next(&mut turns).await);
    stage.workers.complete_turn(answer(&token, "a", vec![complete(2, "")])).await;
    stage.stop().await;
}
