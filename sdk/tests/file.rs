//! A hub in a file: what was begun is finished by whoever opens it next.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use dauer::{Activity, ActivityContext, Event, Orchestration, OrchestrationContext, Result, Status};

use crate::support::{Folder, Running, SOON};

const GO: Event<u32> = Event::new("go");
const STEP: Activity<u32, u32> = Activity::new("step");
const CODE: Orchestration<u32, u32> = Orchestration::new("code");

async fn step(_: ActivityContext, n: u32) -> Result<u32> {
    Ok(n + 1)
}

async fn code(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    let n = ctx.call(STEP, &n).await?;
    Ok(n + ctx.event(GO).await?)
}

#[tokio::test]
async fn a_run_goes_on_after_the_file_is_opened_again() {
    let folder = Folder::new("again");
    let first = Running::on(&dauer::open(&folder.url()).unwrap(), |worker| {
        worker.orchestration(CODE, code).activity(STEP, step)
    });
    let handle = first.client.start(CODE, &1).id("one").await.unwrap();
    first.wait(handle.id(), |record| record.history_len >= 5).await;
    first.stop().await;
    drop(handle);

    let hub = dauer::open(&folder.url()).unwrap();
    let handle = hub.client().handle(CODE, "one").unwrap();
    assert_eq!(handle.status().await.unwrap().unwrap().status, Status::Running);
    handle.raise(GO, &40).await.unwrap();
    let second = Running::on(&hub, |worker| worker.orchestration(CODE, code).activity(STEP, step));
    assert_eq!(handle.output_within(SOON).await.unwrap(), 42);
    second.stop().await;
}

#[tokio::test]
async fn two_workers_on_two_handles_of_one_file_share_the_work() {
    let folder = Folder::new("two");
    let start = |url: &str| {
        Running::on(&dauer::open(url).unwrap(), |worker| {
            worker.orchestration(CODE, code).activity(STEP, step)
        })
    };
    let (one, two) = (start(&folder.url()), start(&folder.url()));
    let mut handles = Vec::new();
    for i in 0..20 {
        let client = if i % 2 == 0 { &one.client } else { &two.client };
        handles.push(client.start(CODE, &i).id(format!("code-{i}")).await.unwrap());
    }
    for (i, handle) in (0..).zip(handles) {
        handle.raise(GO, &100).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), i + 101);
    }
    let hub = one.hub.clone();
    one.stop().await;
    two.stop().await;
    let snapshot = dauer_audit::collect(&**hub.manage()).await.unwrap();
    let report = dauer_audit::audit(&snapshot, &Default::default(), &Default::default());
    assert!(report.is_clean() && report.checked() > 500, "{report}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_with_the_reason() {
    let folder = Folder::new("text");
    std::fs::write(folder.0.join("hub.db"), "Dear diary, today I was opened as a database.").unwrap();
    let error = dauer::open(&folder.url()).err().unwrap();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("not a"), "{error}: {cause}");
    let missing = dauer::open("sqlite:/no/such/folder/hub.db").err().unwrap();
    assert!(std::error::Error::source(&missing).is_some(), "{missing}");
}

#[tokio::test]
async fn a_store_that_is_not_there_is_not_made_by_who_only_looks() {
    let folder = Folder::new("absent");
    for url in [folder.url(), "memory:".to_owned(), "sqlite:/no/such/folder/hub.db".to_owned()] {
        let error = dauer::open_existing(&url).err().unwrap();
        assert!(matches!(error, dauer::OpenError::Missing { .. }), "{error}");
    }
    std::fs::write(folder.0.join("hub.db"), "").unwrap();
    let error = dauer::open_existing(&folder.url()).err().unwrap();
    assert!(matches!(error, dauer::OpenError::Missing { .. }), "an empty file holds no store: {error}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "nothing was made beside it");
    let error = dauer::open_existing("redis:").err().unwrap();
    assert!(matches!(error, dauer::OpenError::UnknownStore { .. }), "{error}");

    std::fs::remove_file(folder.0.join("hub.db")).unwrap();
    dauer::open(&folder.url()).unwrap().close().await;
    assert!(dauer::open_existing(&folder.url()).is_ok());
}

#[tokio::test]
async fn a_hub_that_is_closed_refuses_and_has_everything_in_one_file() {
    let folder = Folder::new("closed");
    let hub = dauer::open(&folder.url()).unwrap();
    let handle = hub.client().start(CODE, &1).id("one").await.unwrap();
    assert!(folder.0.join("hub.db-wal").exists(), "there is something to be moved");
    hub.close().await;
    hub.close().await;
    assert!(!folder.0.join("hub.db-wal").exists());
    let refused = hub.manage().get(vec![handle.id().clone()]).await.unwrap_err();
    assert!(matches!(refused, dauer::Refused::NotExecuted(_)), "{refused}");
    let again = dauer::open(&folder.url()).unwrap();
    let record = again.client().handle(CODE, "one").unwrap().status().await.unwrap();
    assert_eq!(record.unwrap().status, Status::Pending);
}

#[tokio::test]
async fn a_worker_with_retention_removes_what_ended_long_ago() {
    let folder = Folder::new("retention");
    let running = Running::on(&dauer::open(&folder.url()).unwrap(), |worker| {
        let keep = std::time::Duration::from_millis(1);
        worker.orchestration(CODE, code).activity(STEP, step).retention(keep)
    });
    let handle = running.client.start(CODE, &1).id("one").await.unwrap();
    handle.raise(GO, &1).await.unwrap();
    let deadline = tokio::time::Instant::now() + SOON;
    while handle.status().await.unwrap().is_some() {
        assert!(tokio::time::Instant::now() < deadline, "it is never removed");
        tokio::task::yield_now().await;
    }
    running.stop().await;
}

/// How often the disk was waited for while an orchestration ran to its end.
async fn syncs(url: &str) -> u64 {
    let hub = dauer::open(url).unwrap();
    let running = Running::on(&hub, |worker| worker.orchestration(CODE, code).activity(STEP, step));
    let handle = running.client.start(CODE, &1).await.unwrap();
    handle.raise(GO, &40).await.unwrap();
    assert_eq!(handle.output_within(SOON).await.unwrap(), 42);
    let effort = hub.manage().effort();
    running.stop().await;
    assert!(effort.commits > 0, "{effort:?}");
    effort.syncs
}

const ONE: Orchestration<u32, u32> = Orchestration::new("one");

async fn one(ctx: OrchestrationContext, number: u32) -> Result<u32> {
    Ok(ctx.call(STEP, &number).await?)
}

/// The start and the claim of it, the first turn, the last: the claim of a host at rest waits in the store. Where it comes too
/// late for that, because others have the processor, it is a write of its own.
#[tokio::test]
async fn an_orchestration_of_one_activity_is_three_writes() {
    let folder = Folder::new("writes");
    let hub = dauer::open(&folder.url()).unwrap();
    let running = Running::on(&hub, |worker| worker.orchestration(ONE, one).activity(STEP, step));
    let mut fewest = u64::MAX;
    for number in 0..50 {
        let before = hub.manage().effort().commits;
        let handle = running.client.start(ONE, &number).await.unwrap();
        handle.output_within(SOON).await.unwrap();
        fewest = fewest.min(hub.manage().effort().commits - before);
    }
    assert_eq!(fewest, 3);
    running.stop().await;
}

#[tokio::test]
async fn durability_is_chosen_by_the_url() {
    let folder = Folder::new("durability");
    let url = folder.url();
    assert_eq!(syncs(&format!("{url}?durability=normal")).await, 0);
    assert!(syncs(&url).await > 0, "full is the default");
    assert!(syncs(&format!("{url}?durability=full")).await > 0);
    // The same file each time: all three runs are in it.
    let hub = dauer::open_existing(&format!("{url}?durability=normal")).unwrap();
    assert_eq!(hub.client().query().page().await.unwrap().instances.len(), 3);
    hub.close().await;
}

#[tokio::test]
async fn an_option_that_the_store_does_not_have_is_refused_by_its_name() {
    let folder = Folder::new("options");
    for option in [
        "durability=none",
        "durability",
        "Durability=full",
        "mode=ro",
        "durability=full&x=1",
        "=",
        "a b",
        "hub=",
        "hub=2x",
    ] {
        let url = format!("{}?{option}", folder.url());
        for opened in [dauer::open(&url), dauer::open_existing(&url)] {
            let text = opened.err().unwrap().to_string();
            let named = option.rsplit('&').next().unwrap();
            assert!(text.contains(&format!("has the option '{named}', which")), "{text}");
            assert!(text.contains("durability=normal") && text.contains("hub=NAME"), "{text}");
        }
    }
    let nothing = dauer::open("sqlite:?durability=full").err().unwrap();
    assert!(matches!(nothing, dauer::OpenError::UnknownStore { .. }), "{nothing}");
    let missing = dauer::open_existing(&format!("{}?durability=full", folder.url())).err().unwrap();
    assert!(matches!(missing, dauer::OpenError::Missing { .. }), "nothing was created: {missing}");
}

/// An orchestration that no worker has.
const NOBODYS: dauer::Orchestration<(), ()> = dauer::Orchestration::new("nobodys");

/// The hubs of a store.
async fn names(store: &dauer::Store) -> Vec<String> {
    store.hubs().await.unwrap().iter().map(|hub| hub.as_str().to_owned()).collect()
}

#[tokio::test]
async fn a_url_names_a_hub_of_its_own() {
    let folder = Folder::new("hubs");
    let count =
        async |url: &str| dauer::open(url).unwrap().client().query().page().await.unwrap().instances.len();
    let demo = dauer::open(&format!("{}?hub=demo&durability=normal", folder.url())).unwrap();
    demo.client().start(NOBODYS, &()).id("one").await.unwrap();
    assert_eq!(count(&folder.url()).await, 0, "the default hub is another one");
    assert_eq!(count(&format!("{}?hub=demo", folder.url())).await, 1);
    let store = dauer::Store::open(&folder.url()).unwrap();
    assert_eq!(store.named_hub(), None);
    assert_eq!(names(&store).await, ["demo"]);
    let north = dauer::Store::open(&format!("{}?hub=north", folder.url())).unwrap();
    assert_eq!(north.named_hub().map(dauer::HubName::as_str), Some("north"));
    assert_eq!(names(&north).await, ["demo"], "nothing was done to it yet");
    north.hub(north.named_hub().unwrap().clone()).client().start(NOBODYS, &()).await.unwrap();
    assert_eq!(names(&store).await, ["demo", "north"]);
    store.delete_hub(&dauer::HubName::new("demo").unwrap()).await.unwrap();
    assert_eq!(count(&format!("{}?hub=demo", folder.url())).await, 0);
    assert_eq!(names(&store).await, ["north"]);
}
