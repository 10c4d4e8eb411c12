//! The file of the current format, and of the one before, which is migrated. Older ones are refused: no release has written
//! them.
//!
//! `DAUER_GOLDEN=write cargo test -p dauer-sqlite --test all golden::` writes the file of the current format again: only when
//! the format has changed, under a new name. `DAUER_GOLDEN=describe` writes the text of the migrated file again: when a dump
//! shows more than before.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::build::{detail, event, host, instance, message, start, step, task};
use crate::support::claims::{Claims, want};
use crate::support::{Folder, clock, everything, options, run};
use dauer_sqlite::{OpenError, SqliteStore};
use dauer_store::{
    Batch, Checkpoint, ClaimedTurn, Class, Control, Created, Death, Deaths, DumpItem, EntityRecord, Epoch,
    History, HubKey, HubName, Item, Manage, Message, Parent, Payload, Purge, Query, Revision, SessionId,
    Status, StoredBatch, TaskName, Then, Timestamp, Trial, Work,
};

/// The format that is written now.
const CURRENT: &str = "format9";

/// The format before, which is migrated.
const BEFORE: &str = "format8";

fn golden(name: &str, extension: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.{extension}"))
}

fn hub() -> HubName {
    HubName::new("golden").expect("a valid name")
}

/// Everything, with the bytes that a dump does not print.
fn describe(items: &[DumpItem]) -> String {
    let mut text = String::new();
    let bytes = |bytes: &[u8]| -> String { String::from_utf8_lossy(bytes).escape_debug().collect() };
    for item in items {
        text += &format!("{item:#?}\n");
        if let DumpItem::Instance(dump) = item {
            let messages =
                dump.prologue.iter().chain(&dump.inbox).map(|Message { event, .. }| event.stored());
            let batches = dump.history.iter().map(|StoredBatch { batch, .. }| batch.events.stored());
            for content in messages.chain(batches) {
                text += &format!("bytes {}\n", bytes(content));
            }
            let details = &dump.record.details;
            let payloads = [details.custom_status(), details.output()];
            text += &format!("payloads {:?}\n", payloads.map(|p| p.map(Payload::as_str)));
        }
        if let DumpItem::Task(dump) = item {
            text += &format!("bytes {}\n", bytes(dump.task.event.stored()));
        }
    }
    text
}

/// A hub with something of everything.
async fn fill(store: &SqliteStore) {
    let manage = store.hub(hub());
    let mut child = start("child");
    if let Class::Start(start) = &mut child.start.class {
        let execution = start.execution;
        start.parent = Some(Box::new(Parent { instance: instance("parent"), execution, event_id: 5 }));
        start.tags = [("zone".to_owned(), "north".to_owned())].into();
    }
    let session = manage.attach(host(1, Duration::from_secs(600))).await.expect("a session");
    remove(&*manage, &*session).await;
    let created = manage.create(vec![child, start("ended"), start("waiting"), start("kept")]).await;
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    for turn in session.claim_turns(want(10)).await.expect("a claim") {
        let mut step = step(&turn);
        match turn.fence.instance.as_str() {
            "ended" => {
                step.record.status = dauer_store::Status::Failed;
                detail(&mut step, &turn, |details| {
                    details.set_output(Some("\"out\"".into()));
                    details.set_failure(Some(event("failure")));
                });
            }
            "child" => {
                step.tasks = vec![task(&turn, "pay"), task(&turn, "ship")];
                step.take = 1;
                step.then = Then::Keep;
                detail(&mut step, &turn, |details| {
                    details.set_custom_status(Some("\"half\"".into()));
                    details.set_entity(Some(EntityRecord { state: Some("7".into()), ..Default::default() }));
                });
            }
            "kept" => step.then = Then::Keep,
            _ => {
                let mut timer = message("waiting", "timer");
                timer.visible_at = turn.now.after(Duration::from_secs(3600));
                step.timers = vec![timer];
            }
        }
        let committed = session.commit_turns(vec![step.into()]).await.remove(0).expect("a commit");
        if turn.fence.instance.as_str() == "kept" {
            let next =
                session.commit_turns(vec![in_one_row(turn, committed.revision).into()]).await.remove(0);
            assert_eq!(next.expect("a commit").taken.len(), 2);
        }
    }
    let mut suspend = message("child", "suspend");
    suspend.class = Class::Control(Control::Suspend);
    let mut later = start("later");
    if let Class::Start(start) = &mut later.start.class {
        let execution = start.execution;
        start.parent = Some(Box::new(Parent { instance: instance("parent"), execution, event_id: 6 }));
        start.tags = [("zone".to_owned(), "south".to_owned())].into();
        start.scheduled = Some(Timestamp(1_700_003_600_000));
    }
    later.start.visible_at = Timestamp(1_700_003_600_000);
    manage.create(vec![later]).await.remove(0).expect("a start");
    manage
        .send(vec![message("child", "first"), suspend, message("nobody", "x"), message("@bag@1", "add")])
        .await;
    try_alone(&*manage, &*session).await;
}

/// The hub gets a key. A task that is adopted and a turn have died during a trial, and are tried again.
async fn try_alone(manage: &dyn Manage, session: &dyn Work) {
    manage.key(HubKey([7; 32])).await.expect("a key");
    let ship = session.claim_activities(want(1)).await.expect("a claim").remove(0).task;
    let name = TaskName { instance: ship.instance, task: ship.id };
    let ship = session.adopt(vec![name]).await.remove(0).expect("a task").expect("it is open");
    let bag = session.claim_turns(want(1)).await.expect("a claim").remove(0);
    for item in [Item::Task(ship.fence), Item::Turn(bag.fence)] {
        let open = Trial { item: item.clone(), open: true };
        session.trial(vec![open.clone()]).await.remove(0).expect("a trial");
        let death = Death { item, known: Deaths::default() };
        let deaths = session.died(vec![death]).await.remove(0).expect("a death");
        assert_eq!(deaths.trials, 1);
        session.trial(vec![open]).await.remove(0).expect("a trial");
    }
}

/// Starts an instance, ends and removes it: the hub has a floor, and remembers the start.
async fn remove(manage: &dyn Manage, session: &dyn Work) {
    manage.create(vec![start("removed")]).await.remove(0).expect("a start");
    let turn = session.claim_turns(want(1)).await.expect("a claim").remove(0);
    let mut end = step(&turn);
    end.record.status = Status::Completed;
    session.commit_turns(vec![end.into()]).await.remove(0).expect("a commit");
    let purged = manage.purge(Purge::Ids(vec![instance("removed")])).await.expect("a purge");
    assert_eq!(purged.count, 1);
}

/// The next turn of a kept instance, which needs no more than its row of the history. It takes two tasks: the event of one is in
/// that row, the other has its own.
fn in_one_row(mut turn: ClaimedTurn, revision: Revision) -> Checkpoint {
    turn.fence.revision = revision;
    turn.messages.clear();
    let mut step = step(&turn);
    step.tasks = vec![task(&turn, "pack"), task(&turn, "weigh")];
    let events = [event("time"), step.tasks[0].event.clone()];
    let produced = step.tasks.iter().map(|task| task.id).collect();
    step.history = History::Append(Batch::join(&events, Vec::new(), produced).expect("our own format"));
    (step.take, step.then) = (2, Then::Keep);
    step
}

/// Makes the file small: what is tested is the layout of the tables, not the size of a page.
fn shrink(file: &Path) {
    let database = rusqlite::Connection::open(file).unwrap();
    database.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).unwrap();
    database.execute_batch("PRAGMA page_size = 1024; VACUUM;").unwrap();
}

/// Opens a copy of the golden file of a format: everything in it is as it was, and goes on, with so many tasks.
fn goes_on(name: &str, tasks: usize) -> Folder {
    let folder = Folder::new();
    assert!(std::fs::metadata(golden(name, "db")).unwrap().len() < 100_000);
    std::fs::copy(golden(name, "db"), folder.file()).unwrap();
    let store = SqliteStore::open(folder.file(), options(&clock())).unwrap();
    let manage = store.hub(hub());
    let expected = std::fs::read_to_string(golden(name, "txt")).unwrap();
    assert_eq!(describe(&run(everything(&*manage))), expected);

    run(async {
        let tagged = Query { tags: [("zone".to_owned(), "north".to_owned())].into(), ..Query::default() };
        let found = manage.query(tagged).await.unwrap().records;
        assert_eq!(found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["child"]);
        manage.end_session(SessionId(1)).await.unwrap();
        let session = manage.attach(host(2, Duration::from_secs(600))).await.unwrap();
        let turns = session.claim_turns(want(10)).await.unwrap();
        let claimed: Vec<_> = turns.iter().map(|turn| turn.fence.instance.as_str()).collect();
        assert_eq!(claimed, ["child", "@bag@1"]);
        let committed = session.commit_turns(turns.iter().map(|turn| step(turn).into()).collect()).await;
        assert!(committed.iter().all(Result::is_ok), "{committed:?}");
        assert_eq!(session.claim_activities(want(10)).await.unwrap().len(), tasks);
    });
    drop(manage);
    store.close();
    folder
}

#[test]
fn file_of_format_8_is_migrated_and_goes_on() {
    if std::env::var("DAUER_GOLDEN").is_ok_and(|wish| wish == "describe") {
        let folder = Folder::new();
        std::fs::copy(golden(BEFORE, "db"), folder.file()).unwrap();
        let store = SqliteStore::open(folder.file(), options(&clock())).unwrap();
        std::fs::write(golden(BEFORE, "txt"), describe(&run(everything(&*store.hub(hub()))))).unwrap();
    }
    let folder = goes_on(BEFORE, 4);
    let version = |sql: &str| {
        let file = rusqlite::Connection::open(folder.file()).unwrap();
        file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((version("PRAGMA user_version"), version("SELECT format FROM meta")), (9, 9));
}

#[test]
fn file_of_an_older_format_is_refused_as_older() {
    for older in [1, 7] {
        let folder = Folder::new();
        std::fs::copy(golden(BEFORE, "db"), folder.file()).unwrap();
        let file = rusqlite::Connection::open(folder.file()).unwrap();
        file.pragma_update(None, "user_version", older).unwrap();
        drop(file);
        let bytes = std::fs::read(folder.file()).unwrap();
        let refused = SqliteStore::open(folder.file(), options(&clock()));
        let Err(OpenError::Older { format, .. }) = &refused else { panic!("format {older} was opened") };
        assert_eq!(*format, older);
        let text = refused.err().unwrap().to_string();
        assert!(text.contains("the dauer that wrote it"), "{text}");
        assert_eq!(std::fs::read(folder.file()).unwrap(), bytes, "the file is as it was");
    }
}

#[test]
fn file_of_format_9_is_read_and_goes_on() {
    if std::env::var("DAUER_GOLDEN").is_ok_and(|wish| wish == "write") {
        let folder = Folder::new();
        let store = SqliteStore::open(folder.file(), options(&clock())).unwrap();
        run(fill(&store));
        std::fs::write(golden(CURRENT, "txt"), describe(&run(everything(&*store.hub(hub()))))).unwrap();
        store.close();
        shrink(&folder.file());
        std::fs::copy(folder.file(), golden(CURRENT, "db")).unwrap();
    }
    let folder = goes_on(CURRENT, 4);
    let store = SqliteStore::open(folder.file(), options(&clock())).unwrap();
    let manage = store.hub(hub());
    assert_eq!(run(manage.key(HubKey([9; 32]))).unwrap(), HubKey([7; 32]), "the first candidate");
    let created = run(manage.create(vec![start("removed"), start("new")]));
    assert!(matches!(created[0], Ok(Created::Repeat(None))), "its start is remembered: {created:?}");
    let (fence, _) = run(manage.get(vec![instance("new")])).unwrap().remove(0).unwrap();
    assert_eq!((fence.epoch, fence.revision), (Epoch(2), Revision(2)), "above the instance that was removed");
}

#[test]
fn several_handles_that_open_an_older_file_at_once_migrate_it_once() {
    let folder = Folder::new();
    std::fs::copy(golden(BEFORE, "db"), folder.file()).unwrap();
    let expected = std::fs::read_to_string(golden(BEFORE, "txt")).unwrap();
    let together = std::sync::Barrier::new(4);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                together.wait();
                let store = SqliteStore::open(folder.file(), options(&clock())).unwrap();
                assert_eq!(describe(&run(everything(&*store.hub(hub())))), expected);
            });
        }
    });
}

/// One damaged row must not keep the rest of the file from being opened.
#[test]
fn damaged_instance_of_an_older_file_leaves_the_rest_usable() {
    let folder = Folder::new();
    std::fs::copy(golden(BEFORE, "db"), folder.file()).unwrap();
    let damage = rusqlite::Connection::open(folder.file()).unwrap();
    damage.execute("UPDATE instances SET base = x'0108ff' WHERE id = 'kept'", []).unwrap();
    drop(damage);
    let store = SqliteStore::open(folder.file(), options(&clock())).unwrap();
    let items = run(everything(&*store.hub(hub())));
    let damaged: Vec<&str> = items
        .iter()
        .filter_map(|item| match item {
            DumpItem::Damaged(id, _) => Some(id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(damaged, ["kept"]);
    let whole = items.iter().filter(|item| matches!(item, DumpItem::Instance(_))).count();
    assert!(whole > 1, "the other instances are read");
}
