//! dauer's own management service, through the Rust SDK.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dauer::{
    ClientError, HubName, InstanceId, Orchestration, RawClientError, Record, RemoteError, Server, Status,
    Timestamp,
};
use dauer_core::model::{Batch, Kind, QueueKey, Tags, Task, Trouble, TroubleKind};
use dauer_core::{Epoch, ExecutionId, HostId, MessageId, Revision, SessionId};
use dauer_proto::EventType;
use dauer_store::{
    Amount, Checkpoint, Credit, DumpItem, History, InstanceDump, Item, Order, Query, Release, Then, Until,
    WaitingClass,
};
use futures::TryStreamExt;

use crate::code::{self, ASKS, Counts, FAILS};
use crate::support::{SOON, Served, Working, eventually};

/// Instances of the test of limits that match, among as many others of each of two names.
const MATCHES: usize = 301;

/// A stalled instance, as it lies in a store.
fn stalled(number: usize, kind: TroubleKind) -> DumpItem {
    let queue = QueueKey::new(Kind::Orchestration, "order", Some("2"));
    let pending = Record::pending(queue, ExecutionId(number as u128 + 1), MessageId([number as u8 + 1; 16]));
    let (since, reason) = (Timestamp(1_700_000_000_000), format!("trouble {number}"));
    let record = Record {
        attempts: 3,
        revision: Revision(2),
        trouble: Some(Box::new(Trouble {
            kind,
            reason,
            since,
            attempts: 3,
            others: Vec::new(),
            build: None,
        })),
        tags: [("zone".to_owned(), "north".to_owned())].into_iter().collect::<Tags>(),
        ..pending
    };
    DumpItem::Instance(Box::new(InstanceDump {
        id: InstanceId::new(format!("stalled-{number}")).unwrap(),
        record,
        epoch: Epoch(1),
        holder: None,
        trial: false,
        ready_at: None,
        not_before: Timestamp(0),
        history: Vec::new(),
        prologue: Vec::new(),
        inbox: Vec::new(),
        outbox: Vec::new(),
        memory: Vec::new(),
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_full_whatever_the_condition() {
    let served = Served::new().await;
    let inside = served.inside().client();
    for number in 0..3 * MATCHES {
        let name = ["pick", "other", "third"][number % 3];
        let orchestration: Orchestration<u32, u32> = Orchestration::new(name);
        let id = format!("{name}-{number}");
        inside.start(orchestration, &1).id(id).tag("zone", name).await.unwrap();
    }
    let client = served.hub().client();
    let name = Query { name: Some("pick".into()), ..Query::default() };
    let tags = [("zone".to_owned(), "pick".to_owned())].into_iter().collect::<Tags>();
    let tagged = Query { tags, ..Query::default() };
    let prefixed = Query { prefix: Some("pick".into()), ..Query::default() };
    for query in [name, tagged, prefixed] {
        for order in [Order::OldestFirst, Order::NewestFirst] {
            for limit in [1, 100, MATCHES] {
                let asked = Query { order, page: limit, ..query.clone() };
                let page = client.raw().query(asked.clone()).await.unwrap();
                assert_eq!(page.records.len(), limit, "{asked:?}");
                assert_eq!(page, inside.raw().query(asked).await.map(told).unwrap());
            }
        }
    }
    served.stop().await;
}

/// A page as a server tells it: without the start of each instance.
fn told(mut page: dauer_store::Page) -> dauer_store::Page {
    for (_, record) in &mut page.records {
        record.start = MessageId([0; 16]);
    }
    page
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_trouble_is_told_as_the_store_has_it() {
    let kinds = [
        TroubleKind::Mismatch,
        TroubleKind::Panic,
        TroubleKind::UnknownName,
        TroubleKind::Undecodable,
        TroubleKind::NotDurable,
        TroubleKind::InvalidAnswer,
        TroubleKind::TooLarge,
        TroubleKind::HostDied,
    ];
    let served = Served::new().await;
    let items = kinds.into_iter().enumerate().map(|(number, kind)| stalled(number, kind)).collect();
    served.inside().manage().load(items).await.unwrap();
    served.inside().client().start(ASKS, &1).id("sound").await.unwrap();
    let query = Query { stalled: true, ..Query::default() };
    let here = served.inside().client().raw().query(query.clone()).await.unwrap();
    let there = served.hub().client().raw().query(query).await.unwrap();
    assert_eq!(there.records.len(), kinds.len());
    assert_eq!(there, told(here));
    served.stop().await;
}

/// The holder, the waiting messages and the open tasks of an instance, through the server and beside it.
#[tokio::test(flavor = "multi_thread")]
async fn inspection_is_the_same_through_a_server() {
    let served = Served::new().await;
    let (hub, inside) = (served.hub(), served.inside());
    let id = |text: &str| InstanceId::new(text).unwrap();
    let both = async |of: &InstanceId| {
        let here = inside.client().raw().inspect(of).await.unwrap();
        let there = hub.client().raw().inspect(of).await.unwrap();
        let told = here.map(|mut seen| {
            seen.record.start = MessageId([0; 16]);
            // The store's time goes on between the two.
            seen.inspection.now = there.as_ref().unwrap().inspection.now;
            seen
        });
        assert_eq!(there, told);
        told
    };
    assert_eq!(both(&id("absent")).await, None);
    hub.client().start(ASKS, &1).id("waits").await.unwrap();
    hub.client().raw().raise(&id("waits"), "early", None).await.unwrap();
    let waits = both(&id("waits")).await.unwrap().inspection;
    let classes: Vec<_> = waits.messages.iter().map(|message| message.class).collect();
    assert_eq!(classes, [WaitingClass::Start, WaitingClass::Ordinary]);
    assert_eq!((waits.waiting, waits.holder), (2, None));
    assert!(waits.ready_at.is_some());

    // A session of a host that runs a turn and a task.
    let session = raw_session(&inside).await;
    let (turns, tasks) = (Amount::items(1), Amount::items(1));
    session.credit(Credit { number: 1, turns, ..Credit::default() });
    let turn = session.next(Until::Once).await.unwrap().turns.remove(0);
    let held = both(&id("waits")).await.unwrap().inspection.holder.unwrap();
    assert_eq!((held.session, held.lives), (SessionId(7), true));
    assert_eq!(held.host.unwrap().as_str(), "tester");
    let (fence, record) = (turn.fence, turn.record);
    let task = Task {
        id: MessageId([9; 16]),
        instance: id("waits"),
        execution: record.execution,
        event_id: 1,
        queue: QueueKey::new(Kind::Activity, "pay", Some("3")),
        tags: Tags::new(),
        event: turn.messages[0].event.clone(),
    };
    let checkpoint = Checkpoint {
        fence,
        consumed: turn.messages.iter().map(|message| message.id).collect(),
        completions: Vec::new(),
        history: History::Append(Batch::join(&[], Vec::new(), Vec::new()).unwrap()),
        record: Record { status: Status::Running, ..record.clone() }.since(&record.details),
        tasks: vec![task],
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then: Then::Release { delay: Duration::ZERO },
    };
    session.commit_turns(vec![checkpoint.into()]).await.remove(0).unwrap();
    session.credit(Credit { number: 1, tasks, ..Credit::default() });
    assert_eq!(session.next(Until::Once).await.unwrap().tasks.len(), 1);
    let tasks = both(&id("waits")).await.unwrap().inspection.tasks;
    assert_eq!((tasks.len(), &*tasks[0].queue.name, tasks[0].event_id), (1, "pay", 1));
    assert_eq!(tasks[0].holder.as_ref().unwrap().session, SessionId(7));
    served.stop().await;
}

/// A session of a host elsewhere, and that of the server itself, which stands for the workers connected to it.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_the_same_through_a_server() {
    let served = Served::new().await;
    let (hub, inside) = (served.hub(), served.inside());
    let client = hub.client();
    assert_eq!(client.raw().sessions().await.unwrap(), []);
    assert_eq!(served.store.hubs().await.unwrap(), [], "the list creates no hub");
    let _elsewhere = raw_session(&inside).await;
    let here = inside.client().raw().sessions().await.unwrap();
    assert_eq!(client.raw().sessions().await.unwrap(), here);
    assert_eq!((here[0].session.id, here[0].session.lives, here[0].workers), (SessionId(7), true, None));
    assert_eq!(here[0].session.host.as_str(), "tester");

    let working = Working::start(code::register(hub.worker(), &Arc::default()));
    let own = async |connected| {
        let sessions = client.raw().sessions().await.unwrap();
        sessions.into_iter().find(|each| each.workers == Some(connected))
    };
    let host = eventually(async || own(1).await).await.session.host;
    assert!(host.as_str().starts_with("server-"), "{host}");
    working.stop().await;
    let idle = eventually(async || own(0).await).await.session;
    assert_eq!((idle.host, idle.lives), (host, true), "the server's host waits for the next worker");
    served.stop().await;
}

/// Its history is empty, although it is not pending.
#[tokio::test(flavor = "multi_thread")]
async fn run_suspended_before_it_began_is_read_over_a_server() {
    let served = Served::new().await;
    let client = served.hub().client();
    let asks = client.start(ASKS, &1).id("held").await.unwrap();
    client.raw().suspend(asks.id(), None).await.unwrap();
    let events: Vec<_> = client.history(asks.id()).await.unwrap().try_collect().await.unwrap();
    assert_eq!(events, []);
    let record = client.raw().get(asks.id()).await.unwrap().unwrap();
    assert_eq!(record.status, Status::Suspended);
    assert_eq!(client.raw().input(asks.id(), &record).await.unwrap().as_deref(), Some("1"));
    let begins = client.raw().wait_started(asks.id(), Duration::from_millis(200)).await;
    assert!(matches!(begins, Err(RawClientError::TimedOut(_))), "{begins:?}");
    served.stop().await;
}

/// A session without a host.
async fn raw_session(hub: &dauer::Hub) -> Arc<dyn dauer_store::Work> {
    let (session, id) = (SessionId(7), HostId::new("tester").unwrap());
    let host = dauer_store::Host { id, session, lease: Duration::from_secs(60), runs_code: true };
    hub.manage().attach(host).await.unwrap()
}

/// Behaviour 54: the history keeps the `ExecutionStarted` of the first run, on which ids of children rest.
#[tokio::test(flavor = "multi_thread")]
async fn rewound_history_is_read_over_a_server() {
    let served = Served::new().await;
    let (hub, counts) = (served.hub(), Arc::new(Counts::default()));
    let working = Working::start(code::register(hub.worker(), &counts));
    let fails = hub.client().start(FAILS, &7).id("fails").await.unwrap();
    let first = fails.ended_within(SOON).await.unwrap();
    assert_eq!(first.status(), Status::Failed);
    counts.mended.store(1, Ordering::SeqCst);
    fails.rewind("it is mended").await.unwrap();
    fails.output_within(SOON).await.unwrap();
    let events: Vec<_> = hub.client().history(fails.id()).await.unwrap().try_collect().await.unwrap();
    let started = events.iter().find_map(|event| match &event.event_type {
        Some(EventType::ExecutionStarted(started)) => started.orchestration_instance.clone(),
        _ => None,
    });
    assert_eq!(started.unwrap().execution_id, Some(first.execution().to_string()));
    assert!(events.iter().any(|event| matches!(event.event_type, Some(EventType::ExecutionRewound(_)))));
    working.stop().await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hubs_are_those_that_the_token_may_use() {
    let file = std::env::temp_dir().join(format!("dauer-rust-sdk-hubs-{}", std::process::id()));
    std::fs::write(&file, "north secret-of-north-0123\n* secret-of-all-012345\n").unwrap();
    let served = Served::with(|options| options.tokens = Some(file.clone())).await;
    let all = Server::at(&served.url()).unwrap().token("secret-of-all-012345").unwrap();
    let name = |text: &str| HubName::new(text).unwrap();
    assert_eq!(all.hubs().await.unwrap(), [], "asking makes none");
    for hub in ["north", "south"] {
        all.hub(name(hub)).client().start(ASKS, &0).await.unwrap();
    }
    assert_eq!(all.hubs().await.unwrap(), [name("north"), name("south")]);
    // Neither names a hub: the default one is not its own.
    let one = Server::at(&served.url()).unwrap().token("secret-of-north-0123").unwrap();
    assert_eq!(one.hubs().await.unwrap(), [name("north")]);
    let denied = one.connect().client().query().page().await.map(drop).unwrap_err();
    assert!(
        matches!(&denied, ClientError::Client(RawClientError::Remote(RemoteError::Denied { .. }))),
        "{denied}"
    );
    let nobody = Server::at(&served.url()).unwrap().hubs().await.unwrap_err();
    assert!(matches!(&nobody, RawClientError::Remote(RemoteError::Denied { .. })), "{nobody}");
    std::fs::remove_file(&file).unwrap();
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_hubs_are_told_and_others_are_not_found() {
    let name = |text: &str| HubName::new(text).unwrap();
    let served = Served::with(|options| options.hubs = Some(vec![name("south"), name("north")])).await;
    let server = Server::at(&served.url()).unwrap();
    assert_eq!(server.hubs().await.unwrap(), [name("north"), name("south")]);
    assert!(server.hub(name("north")).client().raw().is_empty().await.unwrap());
    let refused = server.connect().client().query().page().await.map(drop).unwrap_err();
    assert!(dauer_hub::with_causes(&refused).contains("there is no task hub 'default'"), "{refused}");
    served.stop().await;
}

/// A server that is not dauer's, or is older: the service that it lacks is named.
#[tokio::test(flavor = "multi_thread")]
async fn server_without_the_service_is_said_to_lack_it() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let foreign = tonic::transport::Server::builder().add_service(health).serve_with_incoming(incoming);
    let foreign = tokio::spawn(foreign);
    let lacks = format!("the server {url} has no service dauer.management.v1.Management; ");
    let server = Server::at(&url).unwrap();
    let hubs = server.hubs().await.unwrap_err();
    assert!(hubs.to_string().starts_with(&lacks), "{hubs}");
    let sessions = server.connect().client().raw().sessions().await.unwrap_err();
    assert!(sessions.to_string().starts_with(&lacks), "{sessions}");
    let query = server.connect().client().query().name("order").page().await.map(drop).unwrap_err();
    assert!(dauer_hub::with_causes(&query).contains(&lacks), "{query}");
    foreign.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_is_the_same_through_a_server() {
    let served = Served::new().await;
    let (client, inside) = (served.hub().client(), served.inside());
    let id = |text: &str| InstanceId::new(text).unwrap();
    client.start(ASKS, &1).id("rests").await.unwrap();
    let session = raw_session(&inside).await;
    session.credit(Credit { number: 1, turns: Amount::items(1), ..Credit::default() });
    let turn = session.next(Until::Once).await.unwrap().turns.remove(0);
    let trouble = Trouble::new(TroubleKind::Panic, "it failed", Timestamp(1_700_000_000_000));
    let (item, delay) = (Item::Turn(turn.fence), Duration::from_secs(3_600));
    let release = Release { item, delay, trouble: Some(trouble), failed: true };
    session.release(vec![release]).await.remove(0).unwrap();

    let many: Vec<InstanceId> = (0..1_000).map(|number| id(&format!("absent-{number}"))).collect();
    assert_eq!(client.raw().retry_ids(&[many, vec![id("rests")]].concat()).await.unwrap(), 1);
    assert_eq!(client.raw().retry_ids(&[id("rests")]).await.unwrap(), 0, "its delay is over");
    client.retry(&id("rests")).await.unwrap();
    client.start(ASKS, &1).id("sound").await.unwrap();
    let refused = client.retry(&id("sound")).await.unwrap_err();
    assert!(matches!(refused, ClientError::Client(RawClientError::NotStalled { .. })), "{refused}");
    let refused = client.retry(&id("absent")).await.unwrap_err();
    assert!(matches!(refused, ClientError::Client(RawClientError::Absent(_))), "{refused}");
    served.stop().await;
}
