//! The client: starts that can be repeated, histories as streams, and what it says to bad input. On both stores, through
//! the public API.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, ClientError, Event, EventType, Hub, InstanceId, InvalidName, InvalidRequest,
    Orchestration, OrchestrationContext, RawClientError, Refused, Result, Reuse, Status, Timestamp,
};
use futures::TryStreamExt;
use futures::future::join_all;

use crate::support::{Folder, Running, SOON};

const COUNT: Activity<u32, u32> = Activity::new("count");
const BULK: Activity<u32, String> = Activity::new("bulk");
const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
const WAITS: Orchestration<u32, u32> = Orchestration::new("waits");
const LARGE: Orchestration<u32, usize> = Orchestration::new("large");
const GO: Event<u32> = Event::new("go");

async fn order(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(COUNT, &n).await?)
}

async fn waits(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(n + ctx.event(GO).await?)
}

/// Characters of one result of [`LARGE`]: four of them are more than one page of history.
const BULK_CHARACTERS: usize = 300_000;
const BULKS: u32 = 8;

async fn large(ctx: OrchestrationContext, n: u32) -> Result<usize> {
    let mut characters = 0;
    for _ in 0..n {
        characters += ctx.call(BULK, &n).await?.len();
    }
    Ok(characters)
}

/// A worker for all of them, and how often the activity of the orders ran.
fn work(hub: &Hub) -> (Running, Arc<AtomicU32>) {
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    let running = Running::on(hub, |worker| {
        worker
            .orchestration(ORDER, order)
            .orchestration(WAITS, waits)
            .orchestration(LARGE, large)
            .activity(BULK, |_: ActivityContext, _: u32| async { Ok("x".repeat(BULK_CHARACTERS)) })
            .activity(COUNT, move |_: ActivityContext, n: u32| {
                count.fetch_add(1, Ordering::SeqCst);
                async move { Ok(n) }
            })
    });
    (running, ran)
}

/// A hub in memory, and one in a file.
fn hubs(folder: &Folder) -> [Hub; 2] {
    ["memory:", &folder.url()].map(|url| dauer::open(url).unwrap())
}

#[tokio::test]
async fn the_same_request_again_starts_nothing() {
    let folder = Folder::new("request");
    for hub in hubs(&folder) {
        let (running, ran) = work(&hub);
        let start = |n: u32, request: &str| running.client.start(ORDER, &n).id("order-1").request_id(request);
        let first = start(4, "cart-1").await.unwrap();
        assert_eq!(first.output_within(SOON).await.unwrap(), 4);
        let ended = first.status().await.unwrap();
        // Without the request id the ended one would be replaced.
        let again = start(5, "cart-1").await.unwrap();
        assert_eq!(again.status().await.unwrap(), ended);
        assert_eq!(again.output_within(SOON).await.unwrap(), 4, "what the second one says is not looked at");
        // Another request is another start.
        assert_eq!(start(6, "cart-2").await.unwrap().output_within(SOON).await.unwrap(), 6);
        assert_eq!(ran.load(Ordering::SeqCst), 2);
        // The same request for another instance is another start.
        let other = running.client.start(ORDER, &7).id("order-2").request_id("cart-1").await.unwrap();
        assert_eq!(other.output_within(SOON).await.unwrap(), 7);
        running.stop().await;
    }
}

#[tokio::test]
async fn a_request_without_an_id_is_one_instance_for_everyone() {
    let folder = Folder::new("everyone");
    let (running, ran) = work(&dauer::open(&folder.url()).unwrap());
    // As other processes have it open: each with its own connections and nothing in common but the file.
    let elsewhere: Vec<Hub> = (0..4).map(|_| dauer::open(&folder.url()).unwrap()).collect();
    let starts = elsewhere.iter().map(|hub| async {
        let started = hub.client().start(ORDER, &4).request_id("6fa459ea-ee8a-3ca4-894e-db77e160355e").await;
        started.unwrap().id().to_string()
    });
    let ids = join_all(starts).await;
    // A UUID stands for itself.
    assert_eq!(ids, vec!["6fa459eaee8a3ca4894edb77e160355e"; 4]);
    let order = running.client.handle(ORDER, &ids[0]).unwrap();
    assert_eq!(order.output_within(SOON).await.unwrap(), 4);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    join_all(elsewhere.iter().map(Hub::close)).await;
    running.stop().await;
}

#[tokio::test]
async fn a_start_has_all_that_was_asked_for() {
    let folder = Folder::new("asked");
    for hub in hubs(&folder) {
        let client = hub.client();
        let at = Timestamp(4_000_000_000_000);
        let started =
            client.start(ORDER.version("2"), &4).id("later").at(at).tag("team", "north").tag("a", "b");
        let later = client.get(started.await.unwrap().id()).await.unwrap().unwrap();
        assert_eq!((later.name(), later.version(), later.status()), ("order", Some("2"), Status::Pending));
        assert_eq!((later.scheduled(), later.tag("team"), later.tags().len()), (Some(at), Some("north"), 2));
        let never = Reuse { replaceable: Vec::new() };
        let (running, _) = work(&hub);
        let first = client.start(ORDER, &4).id("once").reuse(never.clone()).await.unwrap();
        let ended = first.ended_within(SOON).await.unwrap();
        assert_eq!((ended.output::<u32>().unwrap(), ended.status()), (Some(4), Status::Completed));
        assert!(matches!(ended.output::<String>(), Err(ClientError::Undecodable { what: "output", .. })));
        let kept = client.start(ORDER, &5).id("once").reuse(never).await.err().unwrap();
        let ClientError::Client(RawClientError::Refused(Refused::Exists(status))) = kept else {
            panic!("{kept}")
        };
        assert_eq!(status, Status::Completed);
        // A living one is replaced only by who says so; it is ended for it.
        let living = client.start(WAITS, &4).id("living").await.unwrap();
        living.started_within(SOON).await.unwrap();
        assert!(client.start(WAITS, &5).id("living").await.is_err());
        let any = Reuse { replaceable: vec![Status::Pending, Status::Running] };
        let second = client.start(WAITS, &10).id("living").reuse(any).await.unwrap();
        second.raise(GO, &1).await.unwrap();
        running
            .wait(second.id(), |record| record.details.output().is_some_and(|it| it.as_str() == "11"))
            .await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_history_is_read_to_its_end_however_long() {
    let folder = Folder::new("history");
    for hub in hubs(&folder) {
        let (running, _) = work(&hub);
        let handle = running.client.start(LARGE, &BULKS).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), BULKS as usize * BULK_CHARACTERS);
        let history = handle.history().await.unwrap();
        let record = handle.status().await.unwrap().unwrap();
        assert_eq!((history.instance(), history.execution()), (handle.id(), record.execution));
        let events: Vec<_> = history.try_collect().await.unwrap();
        assert_eq!(events.len(), record.history_len as usize);
        let results = events.iter().filter_map(|event| match &event.event_type {
            Some(EventType::TaskCompleted(completed)) => completed.result.as_ref().map(String::len),
            _ => None,
        });
        assert_eq!(results.collect::<Vec<_>>(), vec![BULK_CHARACTERS + 2; BULKS as usize], "in quotes");
        let last = events.last().unwrap().event_type.as_ref();
        assert!(matches!(last, Some(EventType::ExecutionCompleted(_))), "{last:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_history_says_when_its_run_is_gone() {
    let folder = Folder::new("gone");
    for hub in hubs(&folder) {
        let (running, _) = work(&hub);
        let handle = running.client.start(ORDER, &4).id("order-1").await.unwrap();
        handle.output_within(SOON).await.unwrap();
        let mut stale = running.client.history(handle.id()).await.unwrap();
        handle.restart().await.unwrap();
        handle.output_within(SOON).await.unwrap();
        let moved = stale.next().await.unwrap().unwrap_err();
        assert!(
            matches!(&moved, ClientError::Client(RawClientError::MovedOn(id)) if id == handle.id()),
            "{moved}"
        );
        assert!(stale.next().await.is_none(), "an error is the end");
        running.stop().await;
        // What has not begun has no history, which is no error.
        let pending = hub.client().start(ORDER, &4).await.unwrap();
        assert!(pending.history().await.unwrap().next().await.is_none());
    }
}

#[tokio::test]
async fn names_that_break_a_rule_are_refused_with_field_and_limit() {
    let folder = Folder::new("names");
    for hub in hubs(&folder) {
        let client = hub.client();
        let long = "x".repeat(101);
        let empty = client.start(ORDER, &1).id("").await.err().unwrap();
        assert!(matches!(empty, ClientError::Name(InvalidName::Empty { field: "instance id" })), "{empty:?}");
        let too_long = client.start(ORDER, &1).id(long.clone()).await.err().unwrap();
        assert_eq!(too_long.to_string(), "instance id has 101 characters; at most 100 are allowed");
        assert!(client.start(ORDER, &1).id("x".repeat(100)).await.is_ok(), "the limit is allowed");
        for id in ["", &long, "line\nbreak"] {
            assert!(matches!(client.handle(ORDER, id).err().unwrap(), ClientError::Name(_)), "{id:?}");
        }
        let request = client.start(ORDER, &1).request_id("").await.err().unwrap();
        assert_eq!(request.to_string(), "request id is empty; give it at least one character");
        let request = client.start(ORDER, &1).request_id("é".repeat(128)).await.err().unwrap();
        assert_eq!(request.to_string(), "request id has 256 bytes; at most 255 are allowed");
        let tag = client.start(ORDER, &1).tag("", "x").await.err().unwrap();
        assert_eq!(tag.to_string(), "tag key is empty; give it at least one character");
        let nameless: Orchestration<u32, u32> = Orchestration::new("");
        let name = client.start(nameless, &1).await.err().unwrap();
        assert_eq!(name.to_string(), "orchestration name is empty; give it at least one character");
        let event = client.raise(&InstanceId::new("x".repeat(100)).unwrap(), Event::new(""), &1).await;
        assert_eq!(event.unwrap_err().to_string(), "event name is empty; give it at least one character");
        assert_eq!(client.query().page().await.unwrap().instances.len(), 1, "nothing else was started");
    }
}

#[tokio::test]
async fn payloads_over_the_limit_are_refused_with_field_and_limit() {
    const TEXT: Orchestration<String, String> = Orchestration::new("text");
    const SAID: Event<String> = Event::new("said");
    const LIMIT: usize = 16 * 1024 * 1024;
    let folder = Folder::new("payloads");
    for hub in hubs(&folder) {
        let client = hub.client();
        // With its quotes one byte too many.
        let large = "x".repeat(LIMIT - 1);
        let input = client.start(TEXT, &large).id("text-1").await.err().unwrap();
        let ClientError::Client(RawClientError::Invalid(InvalidRequest::Payload { field, bytes, limit })) =
            input
        else {
            panic!("{input:?}")
        };
        assert_eq!((field, bytes, limit), ("input", LIMIT + 1, LIMIT));
        assert!(client.get(&InstanceId::new("text-1").unwrap()).await.unwrap().is_none());
        let text = client.start(TEXT, &String::new()).await.unwrap();
        let event = text.raise(SAID, &large).await.unwrap_err().to_string();
        assert!(event.starts_with("event data has 16777217 bytes, at most 16777216 are allowed"), "{event}");
        let tag = client.start(TEXT, &String::new()).tag("size", "x".repeat(LIMIT + 1)).await.err().unwrap();
        assert!(tag.to_string().starts_with("tag value has 16777217 bytes"), "{tag}");
        let far = client.start(TEXT, &String::new()).at(Timestamp(i64::MAX)).await.err().unwrap();
        assert!(far.to_string().starts_with("scheduled start is more than 100 years ahead"), "{far}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_by_every_call() {
    let folder = Folder::new("absent");
    for hub in hubs(&folder) {
        let client = hub.client();
        let nobody = client.handle(ORDER, "nobody").unwrap();
        assert!(client.get(nobody.id()).await.unwrap().is_none());
        assert!(nobody.status().await.unwrap().is_none());
        let moment = Duration::from_millis(1);
        let errors = [
            nobody.history().await.err().unwrap(),
            nobody.purge().await.unwrap_err(),
            nobody.raise(GO, &1).await.unwrap_err(),
            nobody.suspend("x").await.unwrap_err(),
            nobody.resume("x").await.unwrap_err(),
            nobody.terminate("x").await.unwrap_err(),
            nobody.rewind("x").await.unwrap_err(),
            nobody.restart().await.unwrap_err(),
            nobody.restart_as("somebody").await.err().unwrap(),
            nobody.output_within(moment).await.unwrap_err(),
            nobody.started_within(moment).await.unwrap_err(),
        ];
        for error in errors {
            assert!(
                matches!(&error, ClientError::Client(RawClientError::Absent(id)) if id == nobody.id()),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn a_restart_under_another_id_takes_nobodys_place() {
    let folder = Folder::new("restart-as");
    for hub in hubs(&folder) {
        let (running, _) = work(&hub);
        let handle = running.client.start(ORDER, &4).id("order-1").await.unwrap();
        handle.output_within(SOON).await.unwrap();
        let other = handle.restart_as("order-2").await.unwrap();
        let kept = other.ended_within(SOON).await.unwrap();
        let taken = handle.restart_as("order-2").await.err().unwrap();
        let ClientError::Client(RawClientError::Refused(Refused::Exists(Status::Completed))) = taken else {
            panic!("{taken:?}")
        };
        assert_eq!(running.client.get(other.id()).await.unwrap(), Some(kept));
        let pending =
            running.client.start(ORDER.version("9"), &1).at(Timestamp(4_000_000_000_000)).await.unwrap();
        // What has not begun can be copied too, with its version, which nobody here runs, and now.
        let early = pending.restart_as("order-3").await.unwrap();
        let raw = running.client.raw();
        let record = raw.get(early.id()).await.unwrap().unwrap();
        assert_eq!((record.queue.version.as_deref(), record.times.scheduled), (Some("9"), None));
        assert_eq!(raw.input(early.id(), &record).await.unwrap().as_deref(), Some("1"));
        running.stop().await;
    }
}

/// An hour of patience is for an instance that is there.
#[tokio::test]
async fn wait_for_an_unknown_instance_fails_at_once() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let folder = Folder::new("unknown");
    for url in ["memory:".to_owned(), folder.url()] {
        let hub = dauer::open(&url).unwrap();
        let unknown = hub.client().handle(ORDER, "unknown").unwrap();
        let waits = async {
            let started = unknown.started_within(HOUR).await.map(drop);
            let ended = unknown.ended_within(HOUR).await.map(drop);
            let output = unknown.output_within(HOUR).await.map(drop);
            let condition = hub.client().raw().wait(unknown.id(), HOUR, |_| true).await.map(drop);
            [started, ended, output, condition.map_err(ClientError::from)]
        };
        for waited in tokio::time::timeout(SOON, waits).await.expect("it waits for what is not there") {
            let absent =
                matches!(&waited, Err(ClientError::Client(RawClientError::Absent(id))) if id == unknown.id());
            assert!(absent, "{url}: {waited:?}");
        }
        hub.close().await;
    }
}
