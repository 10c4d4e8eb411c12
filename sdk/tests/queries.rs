//! Finding instances by every condition, page by page and as a stream, and removing those that have ended. On both
//! stores, through the public API.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::time::Duration;

use dauer::{
    Client, ClientError, Error, Event, HostOptions, Hub, InstanceId, Orchestration, OrchestrationContext,
    PAGE_SIZE_MAX, QueryCall, RawClientError, Refused, Result, Status, Timestamp,
};
use futures::TryStreamExt;
use futures::future::join_all;

use crate::support::{Folder, Running, SOON};

const DONE: Orchestration<u32, u32> = Orchestration::new("done");
const BROKEN: Orchestration<u32, u32> = Orchestration::new("broken");
const WAITS: Orchestration<u32, u32> = Orchestration::new("waits");
const GO: Event<u32> = Event::new("go");

async fn done(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    ctx.set_status(&"nearly");
    Ok(n)
}

async fn broken(_: OrchestrationContext, _: u32) -> Result<u32> {
    Err(Error::msg("on purpose"))
}

async fn waits(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(n + ctx.event(GO).await?)
}

fn hubs(folder: &Folder) -> [Hub; 2] {
    ["memory:", &folder.url()].map(|url| dauer::open(url).unwrap())
}

fn work(hub: &Hub) -> Running {
    Running::on(hub, |worker| {
        let options = HostOptions::default();
        worker
            .orchestration(DONE, done)
            .orchestration(BROKEN, broken)
            .orchestration(WAITS, waits)
            .options(options)
    })
}

async fn ids(query: QueryCall) -> Vec<String> {
    query.stream().map_ok(|instance| instance.id().to_string()).try_collect().await.unwrap()
}

/// Waits until what is created next is created later: a store's time has milliseconds.
async fn moment_passes() {
    let began = std::time::SystemTime::now();
    while began.elapsed().is_ok_and(|passed| passed < Duration::from_millis(2)) {
        tokio::task::yield_now().await;
    }
}

/// An instance in every state that a query can ask for, and a worker. Their ids are in the order of their creation.
async fn filled(hub: &Hub) -> Running {
    let running = work(hub);
    let client = &running.client;
    let start = |code: Orchestration<u32, u32>, id: &str| client.start(code, &1).id(id).tag("zone", "north");
    start(DONE, "a1-done").tag("size", "small").await.unwrap().ended_within(SOON).await.unwrap();
    moment_passes().await;
    start(BROKEN, "a2-broken").await.unwrap().ended_within(SOON).await.unwrap();
    let waiting = client.start(WAITS, &1).id("b1-waits").tag("zone", "south").await.unwrap();
    waiting.started_within(SOON).await.unwrap();
    let paused = client.start(WAITS, &1).id("b2-paused").await.unwrap();
    paused.suspend("for the test").await.unwrap();
    running.wait(paused.id(), |record| record.status == Status::Suspended).await;
    moment_passes().await;
    let killed = client.start(WAITS, &1).id("b3-killed").await.unwrap();
    killed.terminate("for the test").await.unwrap();
    killed.ended_within(SOON).await.unwrap();
    let stalled = client.start(WAITS.version("9"), &1).id("c1-stalled").await.unwrap();
    running.wait(stalled.id(), |record| record.trouble.is_some()).await;
    client.start(WAITS, &1).id("c2-later").at(Timestamp(4_000_000_000_000)).await.unwrap();
    running
}

/// Those of [`filled`].
const IDS: [&str; 7] =
    ["a1-done", "a2-broken", "b1-waits", "b2-paused", "b3-killed", "c1-stalled", "c2-later"];

#[tokio::test]
async fn every_condition_selects_its_own() {
    let folder = Folder::new("conditions");
    for hub in hubs(&folder) {
        let running = filled(&hub).await;
        let all = || running.client.query();
        let broken = running.client.get(&InstanceId::new("a2-broken").unwrap()).await.unwrap().unwrap();
        let cases: [(&str, QueryCall, &[&str]); 15] = [
            ("status", all().status(Status::Failed), &["a2-broken"]),
            ("two", all().status(Status::Completed).status(Status::Terminated), &["a1-done", "b3-killed"]),
            ("statuses", all().statuses([Status::Suspended, Status::Running]), &["b1-waits", "b2-paused"]),
            ("nobody", all().status(Status::Canceled), &[]),
            ("name", all().name("done"), &["a1-done"]),
            ("no name", all().name("nobody"), &[]),
            ("prefix", all().id_prefix("b"), &["b1-waits", "b2-paused", "b3-killed"]),
            ("tag", all().tag("zone", "north"), &["a1-done", "a2-broken"]),
            ("tags", all().tag("zone", "north").tag("size", "small"), &["a1-done"]),
            ("no tag", all().tag("zone", "north").tag("size", "large"), &[]),
            ("stalled", all().stalled(), &["c1-stalled"]),
            ("from", all().created_from(Timestamp(4_000_000_000_000)), &[]),
            ("to is exclusive", all().created_to(broken.created()), &["a1-done"]),
            ("together", all().name("waits").status(Status::Pending).stalled(), &["c1-stalled"]),
            ("all", all(), &IDS),
        ];
        for (what, query, expected) in cases {
            assert_eq!(ids(query).await, expected, "{what}");
        }
        let reversed: Vec<_> = IDS.into_iter().rev().collect();
        assert_eq!(ids(all().newest_first()).await, reversed);
        let killed = running.client.get(&InstanceId::new("b3-killed").unwrap()).await.unwrap().unwrap();
        let between = all().created_from(broken.created()).created_to(killed.created());
        let between_ids = ids(between.clone()).await;
        assert!(between_ids.contains(&"b1-waits".into()) && !between_ids.contains(&"b3-killed".into()));
        for size in [1, 2, 9] {
            let mut newest = ids(between.clone().newest_first().page_size(size)).await;
            newest.reverse();
            assert_eq!(newest, between_ids, "by {size}");
        }
        let from = ids(all().created_from(broken.created())).await;
        assert!(from.contains(&"a2-broken".into()) && !from.contains(&"a1-done".into()), "{from:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_found_is_typed() {
    let folder = Folder::new("typed");
    for hub in hubs(&folder) {
        let running = filled(&hub).await;
        let page = running.client.query().page().await.unwrap();
        assert_eq!(page.next, None);
        let [done, broken, waits, .., stalled, later] = &page.instances[..] else { panic!("{page:?}") };
        assert_eq!((done.name(), done.version(), done.status()), ("done", None, Status::Completed));
        assert_eq!(done.output::<u32>().unwrap(), Some(1));
        assert_eq!(done.custom_status::<String>().unwrap().as_deref(), Some("nearly"));
        let wrong = done.custom_status::<u32>().unwrap_err();
        assert!(matches!(wrong, ClientError::Undecodable { what: "custom status", .. }), "{wrong}");
        assert!(done.completed() >= Some(done.created()) && done.updated() >= done.created());
        assert_eq!((done.failure(), done.trouble(), done.parent()), (None, None, None));
        assert_eq!(broken.failure().unwrap().message, "on purpose");
        assert_eq!((waits.output::<u32>().unwrap(), waits.completed()), (None, None));
        assert!(stalled.trouble().unwrap().reason.contains("not registered in version '9'"));
        assert_eq!(later.scheduled(), Some(Timestamp(4_000_000_000_000)));
        assert_eq!(
            done.record(),
            &running.client.handle(DONE, "a1-done").unwrap().status().await.unwrap().unwrap()
        );
        running.stop().await;
    }
}

#[tokio::test]
async fn pages_join_to_the_whole_while_instances_come() {
    let folder = Folder::new("join");
    for hub in hubs(&folder) {
        let client = hub.client();
        let start = |id: String| async { client.start(DONE, &1).id(id).tag("zone", "north").await.unwrap() };
        for number in 0..7 {
            start(format!("old-{number}")).await;
        }
        let (whole, mut started) = (ids(client.query()).await, 0);
        for size in [1, 2, 3, 7, 100] {
            let mut queries = vec![client.query(), client.query().tag("zone", "north")];
            queries.extend(queries.clone().into_iter().map(QueryCall::newest_first));
            let reversed: Vec<String> = whole.iter().rev().cloned().collect();
            for (query, whole) in queries.into_iter().zip([&whole, &whole, &reversed, &reversed]) {
                let (mut joined, mut after) = (Vec::new(), None::<String>);
                loop {
                    let page = query.clone().id_prefix("old-").page_size(size);
                    let page = match after.take() {
                        None => page,
                        Some(after) => page.after(after),
                    };
                    let page = page.page().await.unwrap();
                    assert!(page.instances.len() <= size);
                    joined.extend(page.instances.iter().map(|instance| instance.id().to_string()));
                    started += 1;
                    start(format!("new-{started}")).await;
                    match page.next {
                        None => break,
                        next => after = next,
                    }
                }
                assert_eq!(&joined, whole, "by {size}");
                assert_eq!(&ids(query.id_prefix("old-").page_size(size)).await, whole, "by {size}");
            }
        }
    }
}

#[tokio::test]
async fn pages_of_no_size_and_cursors_of_nothing_are_refused() {
    let folder = Folder::new("nonsense");
    for hub in hubs(&folder) {
        let client = hub.client();
        for found in [0, PAGE_SIZE_MAX + 1, usize::MAX] {
            let error = client.query().page_size(found).page().await.unwrap_err();
            let ClientError::PageSize { found: told, limit: PAGE_SIZE_MAX } = error else {
                panic!("{error}")
            };
            assert_eq!(told, found);
            assert!(client.query().page_size(found).stream().next().await.unwrap().is_err());
        }
        assert!(client.query().page_size(PAGE_SIZE_MAX).page().await.is_ok());
        for cursor in ["", "nonsense", "/", "1", "1/", "x/order-1", "99999999999999999999/order-1", "1/\n"] {
            let error = client.query().after(cursor).page().await.unwrap_err();
            let ClientError::Client(RawClientError::Refused(Refused::Cursor(told))) = error else {
                panic!("{error}")
            };
            assert_eq!(told, cursor);
            let mut stream = client.query().after(cursor).stream();
            assert!(stream.next().await.unwrap().is_err() && stream.next().await.is_none());
        }
        // One of the other order would lead back.
        for (cursor, query) in
            [("1/order-1", client.query().newest_first()), ("newest:1/order-1", client.query())]
        {
            let error = query.after(cursor).page().await.unwrap_err();
            assert!(error.to_string() == "the store refused", "{error}");
            assert!(matches!(error, ClientError::Client(RawClientError::Refused(Refused::Cursor(_)))));
        }
        // One of an instance that is gone is as good as any.
        assert!(client.query().after("1/order-1").page().await.unwrap().instances.is_empty());
    }
}

#[tokio::test]
async fn an_ended_instance_is_removed_and_nothing_else() {
    let folder = Folder::new("purge-one");
    for hub in hubs(&folder) {
        let running = filled(&hub).await;
        let client = &running.client;
        for (id, expected) in
            [("b1-waits", Status::Running), ("b2-paused", Status::Suspended), ("c2-later", Status::Pending)]
        {
            let living = client.handle(WAITS, id).unwrap();
            let error = living.purge().await.unwrap_err();
            let ClientError::Client(RawClientError::NotEnded { instance, status }) = error else {
                panic!("{error}")
            };
            assert_eq!((instance.as_str(), status), (id, expected));
        }
        for id in ["a1-done", "a2-broken", "b3-killed"] {
            let id = InstanceId::new(id).unwrap();
            client.purge(&id).await.unwrap();
            assert!(client.get(&id).await.unwrap().is_none());
            for again in [client.purge(&id).await, client.raise(&id, GO, &1).await] {
                let error = again.unwrap_err();
                assert!(matches!(error, ClientError::Client(RawClientError::Absent(_))), "{error}");
            }
        }
        assert_eq!(ids(client.query()).await, ["b1-waits", "b2-paused", "c1-stalled", "c2-later"]);
        // What is started under the id is new.
        let again = client.start(DONE, &5).id("a1-done").await.unwrap();
        assert_eq!(again.output_within(SOON).await.unwrap(), 5);
        running.stop().await;
    }
}

async fn many(client: &Client, count: u32) {
    let starts = (0..count).map(|n| async move {
        let started = client.start(DONE, &n).id(format!("many-{n:03}")).tag("batch", "1").await.unwrap();
        started.ended_within(SOON).await.unwrap();
    });
    join_all(starts).await;
}

#[tokio::test]
async fn a_purge_by_query_is_bounded_and_goes_on() {
    let folder = Folder::new("purge-many");
    for hub in hubs(&folder) {
        let running = filled(&hub).await;
        let client = &running.client;
        // More than two steps of it.
        many(client, 250).await;
        let batch = || client.query().tag("batch", "1");
        let none = batch().purge().at_most(0).await.unwrap();
        assert_eq!((none.count, none.more), (0, true));
        let first = batch().purge().at_most(3).await.unwrap();
        assert_eq!((first.count, first.more), (3, true));
        let oldest = client.query().id_prefix("many-").page_size(1).page().await.unwrap();
        let second = batch().purge().at_most(130).await.unwrap();
        assert_eq!((second.count, second.more), (130, true));
        assert!(client.get(oldest.instances[0].id()).await.unwrap().is_none(), "the oldest go first");
        // Neither cursor nor page size is a bound of it.
        let rest = batch().page_size(1).after("4000000000000/x").purge().await.unwrap();
        assert_eq!((rest.count, rest.more), (117, false));
        assert_eq!(batch().purge().await.unwrap(), batch().purge().await.unwrap());
        let mut left = ids(client.query()).await;
        left.sort();
        let mut expected = IDS.map(String::from).to_vec();
        expected.sort();
        assert_eq!(left, expected, "what does not match stays");
        let exactly = client.query().status(Status::Failed).purge().at_most(1).await.unwrap();
        assert_eq!((exactly.count, exactly.more), (1, false));
        let all = client.query().purge().await.unwrap();
        assert_eq!((all.count, all.more), (2, false));
        assert_eq!(
            ids(client.query()).await,
            ["b1-waits", "b2-paused", "c1-stalled", "c2-later"],
            "the living stay"
        );
        let living = client.query().statuses([Status::Completed, Status::Running]).purge().await.unwrap_err();
        assert!(matches!(living, ClientError::Living { status: Status::Running }), "{living}");
        running.stop().await;
    }
}
