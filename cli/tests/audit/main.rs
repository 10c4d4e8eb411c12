//! `dauer audit`, on stores that are whole, absent, and damaged on purpose.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

mod hubs;
#[path = "../support/mod.rs"]
mod support;

use std::process::Output;

use dauer::{Activity, ActivityContext, Event, Orchestration, OrchestrationContext, Record, Result};
use dauer_audit::{Action, JournalWriter, Operation, Outcome};
use dauer_core::{InstanceId, MessageId};
use futures::FutureExt;
use futures::channel::oneshot;

use support::{Folder, SOON, block_on, dauer, snapshot, stderr, stdout};

const STEP: Activity<u32, u32> = Activity::new("step");
/// No worker of these tests has this one.
const NEVER: Activity<u32, u32> = Activity::new("never");
const GO: Event<u32> = Event::new("go");
const CHAIN: Orchestration<u32, u32> = Orchestration::new("chain");
const TASK: Orchestration<u32, u32> = Orchestration::new("task");
const TIMER: Orchestration<u32, u32> = Orchestration::new("timer");
const PARENT: Orchestration<u32, u32> = Orchestration::new("parent");
/// No worker of these tests has this one either.
const ABSENT: Orchestration<u32, u32> = Orchestration::new("absent");

async fn chain(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    let n = ctx.call(STEP, &n).await?;
    let n = ctx.call(STEP, &n).await?;
    Ok(ctx.call(STEP, &n).await?)
}

async fn task(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(NEVER, &n).await?)
}

async fn timer(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    ctx.sleep(std::time::Duration::from_secs(60 * 60)).await;
    Ok(ctx.event(GO).await? + n)
}

async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call_orchestration(TASK, &n).await?)
}

/// A store with an instance in several states, at rest.
async fn fill(url: &str) {
    let hub = dauer::open(url).unwrap();
    let worker = hub
        .worker()
        .orchestration(CHAIN, chain)
        .orchestration(TASK, task)
        .orchestration(TIMER, timer)
        .orchestration(PARENT, parent)
        .activity(STEP, |_: ActivityContext, n: u32| async move { Ok(n + 1) });
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(worker.build().unwrap().run(stopped.map(|_| ())));
    let client = hub.client();
    let done = client.start(CHAIN, &1).id("done").await.unwrap();
    for (orchestration, id) in [(TASK, "task"), (TIMER, "timer"), (PARENT, "parent"), (TIMER, "paused")] {
        let handle = client.start(orchestration, &1).id(id).await.unwrap();
        client.raw().wait(handle.id(), SOON, |record: &Record| record.history_len > 2).await.unwrap();
    }
    client.start(ABSENT, &1).id("pending").await.unwrap();
    let paused = client.handle(TIMER, "paused").unwrap();
    paused.suspend("for the test").await.unwrap();
    let suspended = |record: &Record| record.status == dauer::Status::Suspended;
    client.raw().wait(paused.id(), SOON, suspended).await.unwrap();
    paused.raise(GO, &1).await.unwrap();
    let child = |record: &Record| record.history_len >= 3;
    client.raw().wait(client.handle(PARENT, "parent").unwrap().id(), SOON, child).await.unwrap();
    assert_eq!(done.output_within(SOON).await.unwrap(), 4);
    // The child exists once its parent's turn is committed, and has its task after its own.
    let family = async {
        while dauer_audit::collect(&**hub.manage()).await.unwrap().tasks.len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, family).await.unwrap();
    drop(stop);
    running.await.unwrap().unwrap();
    hub.close().await;
}

fn filled(name: &str) -> Folder {
    let folder = Folder::new(name);
    block_on(fill(&folder.url()));
    folder
}

fn verdict(output: &Output) -> &str {
    stdout(output).lines().last().unwrap_or_default()
}

#[test]
fn a_whole_store_is_clean() {
    let folder = filled("whole");
    let path = folder.file();
    for store in [folder.url().as_str(), "dauer.db", "sqlite:dauer.db", path.to_str().unwrap()] {
        let output = dauer(&["audit", store], &folder);
        let text = stdout(&output);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{text}");
        let words: Vec<_> = verdict(&output).split(' ').collect();
        assert!(
            matches!(words[..], ["clean:", "7", "instances,", checks, "checks"] if checks != "0"),
            "{text}"
        );
        // Every invariant has its line: a number and what came of it.
        let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines.iter().filter(|line| line[0].starts_with(['I', 'L'])).count(), 23, "{text}");
        assert!(
            text.contains("I4   durability                   0  not checked: needs the journal"),
            "{text}"
        );
        for code in ["I1", "I2", "I3", "I5", "I6", "I7", "I8", "I10", "I13", "I15", "I16"] {
            let line = lines.iter().find(|line| line[0] == code).unwrap();
            assert_eq!(line.last(), Some(&"clean"), "{line:?}");
        }
    }
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let folder = Folder::new("missing");
    let missing =
        ["dauer.db", "sqlite:dauer.db", "sqlite:no/such/folder.db", "memory:"].map(|store| (store, 8));
    for (store, code) in missing.into_iter().chain([("redis:", 2), ("", 2)]) {
        let output = dauer(&["audit", store], &folder);
        assert_eq!(output.status.code(), Some(code), "{store}");
        assert!(stderr(&output).contains("\nhint: "), "{store}: {}", stderr(&output));
        assert!(verdict(&output).starts_with("not checked: "), "{store}: {}", stdout(&output));
        assert!(stderr(&output).starts_with("error: "), "{store}: {}", stderr(&output));
        assert_eq!(folder.names(), Vec::<String>::new(), "{store}");
    }
    std::fs::write(folder.file(), "Dear diary").unwrap();
    let output = dauer(&["audit", "dauer.db"], &folder);
    assert_eq!(output.status.code(), Some(8));
    assert!(verdict(&output).contains("is not a dauer store"), "{}", stdout(&output));
    assert_eq!(std::fs::read(folder.file()).unwrap(), b"Dear diary");
}

#[test]
fn a_store_with_nothing_in_it_is_not_checked_and_not_clean() {
    let folder = Folder::new("empty");
    block_on(async { dauer::open(&folder.url()).unwrap().close().await });
    let output = dauer(&["audit", "dauer.db"], &folder);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(verdict(&output), "not checked: 0 instances, and nothing to compare");
}

/// One damage: SQL, the invariant that shows it, and words of the sentence.
type Damage = (&'static str, &'static str, &'static str);

const DAMAGES: &[Damage] = &[
    (
        "DELETE FROM history WHERE instance = @done AND first = 0",
        "I1",
        "begins with event 3 where event 0 should follow",
    ),
    ("UPDATE history SET first = first + 1 WHERE instance = @done AND first > 0", "I1", "which is a gap"),
    (
        "CREATE TEMP TABLE twin AS SELECT * FROM history WHERE instance = @done AND first = 0;
         UPDATE twin SET key = NULL; INSERT INTO history SELECT * FROM twin",
        "I1",
        "which is an overlap",
    ),
    ("UPDATE history SET revision = 1 WHERE instance = @done", "I2", "two commits took one place"),
    (
        "UPDATE history SET epoch = 1000 WHERE instance = @done AND first = 0",
        "I2",
        "a superseded owner committed",
    ),
    ("UPDATE instances SET epoch = 0 WHERE id = 'done'", "I2", "the instance is only at 0"),
    ("UPDATE instances SET start = NULL WHERE id = 'pending'", "I3", "its start"),
    ("DELETE FROM history WHERE instance = @task", "I3", "no commit of this run produced it"),
    ("DELETE FROM inbox WHERE instance = @timer", "I8", "nothing waits to fire it"),
    ("DELETE FROM tasks WHERE instance = @task", "I15", "there is no task to run"),
    (
        "DELETE FROM tasks; DELETE FROM instances WHERE id NOT IN (@ours)",
        "I15",
        "does not exist and no start is on its way",
    ),
    ("UPDATE instances SET ready_at = NULL WHERE id = 'pending'", "I16", "is not ready at any time"),
    (
        "UPDATE inbox SET instance = @done WHERE instance = @paused AND kind = 1",
        "L3",
        "waits for an instance that is Completed",
    ),
];

fn damage(folder: &Folder, sql: &str) {
    let database = rusqlite::Connection::open(folder.file()).unwrap();
    let mut sql = sql.replace("@ours", "'done', 'task', 'timer', 'parent', 'paused', 'pending'");
    for id in ["done", "task", "timer", "parent", "paused", "pending"] {
        sql = sql.replace(&format!("@{id}"), &format!("(SELECT key FROM instances WHERE id = '{id}')"));
    }
    let before = database.total_changes();
    database.execute_batch(&sql).unwrap();
    assert!(database.total_changes() > before, "nothing was damaged by {sql}");
}

#[test]
fn damage_is_found_by_the_invariant_that_it_breaks() {
    let whole = filled("damage");
    let mut missed = Vec::new();
    for (number, (sql, code, says)) in DAMAGES.iter().enumerate() {
        let folder = Folder::new(&format!("damage-{number}"));
        std::fs::copy(whole.file(), folder.file()).unwrap();
        damage(&folder, sql);
        let output = dauer(&["audit", "dauer.db"], &folder);
        let text = stdout(&output);
        let line = text.lines().find(|line| line.starts_with(&format!("{code}: ")) && line.contains(says));
        let found = output.status.code() == Some(1)
            && line.is_some()
            && verdict(&output).starts_with("NOT CLEAN: ")
            && verdict(&output).contains("violation");
        if !found {
            missed.push(format!("{sql} ({code}, '{says}'):\n{text}{}", stderr(&output)));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn bytes_that_cannot_be_read_are_never_clean() {
    let whole = filled("bytes");
    for (sql, code) in [
        ("UPDATE history SET events = x'ff' WHERE instance = @done AND first = 0", 1),
        // The first byte is the format: this one seems to be of a newer dauer.
        ("UPDATE history SET trail = x'ff' WHERE instance = @done AND first = 0", 8),
        ("UPDATE instances SET start = x'' WHERE id = 'pending'", 1),
        ("UPDATE inbox SET body = x'' WHERE instance = @paused", 1),
        ("UPDATE tasks SET body = x'00' WHERE instance = @task", 1),
    ] {
        let folder = Folder::new("bytes-damaged");
        std::fs::copy(whole.file(), folder.file()).unwrap();
        damage(&folder, sql);
        let output = dauer(&["audit", "dauer.db"], &folder);
        assert_eq!(output.status.code(), Some(code), "{sql}\n{}", stdout(&output));
        assert!(!verdict(&output).starts_with("clean"), "{sql}\n{}", stdout(&output));
    }
}

#[test]
fn what_cannot_be_read_is_named_and_hides_nothing() {
    let folder = filled("unreadable");
    damage(&folder, "UPDATE instances SET base = x'00' WHERE id = 'done'");
    // Something else that is wrong is still found.
    damage(&folder, "DELETE FROM inbox WHERE instance = @timer");
    let output = dauer(&["audit", "dauer.db"], &folder);
    let says = |start: &str| stdout(&output).lines().any(|line| line.starts_with(start));
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(says("I1: done: it, or something of it, cannot be read: "), "{}", stdout(&output));
    assert!(says("I8: timer"), "{}", stdout(&output));
    assert!(verdict(&output).starts_with("NOT CLEAN: "), "{}", stdout(&output));
    // Whoever asks for another one is not disturbed; whoever asks for this is told.
    let other = dauer(&["get", "task"], &folder);
    assert_eq!(other.status.code(), Some(0), "{}", stderr(&other));
    let this = dauer(&["get", "done"], &folder);
    assert!(stderr(&this).contains("in the instance 'done'"), "{}", stderr(&this));
}

#[test]
fn many_violations_are_counted_and_the_first_are_printed() {
    let folder = filled("many");
    damage(
        &folder,
        "UPDATE history SET revision = 4711, epoch = 1000, first = first + 9; DELETE FROM tasks; DELETE FROM inbox",
    );
    let output = dauer(&["audit", "dauer.db"], &folder);
    let text = stdout(&output);
    let total: usize = verdict(&output).split(' ').nth(2).unwrap().parse().unwrap();
    assert!(total > 20, "{text}");
    assert!(text.contains(&format!("\nand {} more\n", total - 20)), "{text}");
}

/// Writes a journal of what a client would have been told of the store.
fn journal(folder: &Folder, more: &[(&str, Action)]) {
    let snapshot = snapshot(folder);
    let mut writer = JournalWriter::new(std::fs::File::create(folder.0.join("journal")).unwrap()).unwrap();
    let mut note = |id: &str, action: Action| {
        let (instance, outcome, at) = (InstanceId::new(id).unwrap(), Outcome::Acknowledged, snapshot.now);
        writer.note(&Operation { instance, action, outcome, at }).unwrap();
    };
    for (id, dump) in snapshot.instances.iter().filter(|(_, dump)| dump.record.parent.is_none()) {
        let (execution, start) = (dump.record.execution, dump.record.start);
        note(id.as_str(), Action::Started { execution, start });
        for message in dump.inbox.iter().filter(|_| id.as_str() == "paused") {
            note(id.as_str(), Action::Raised { message: message.id });
        }
    }
    let (status, output) = (dauer::Status::Completed, Some("4".to_owned()));
    note("done", Action::Ended { execution: None, status, output });
    for (id, action) in more {
        note(id, action.clone());
    }
}

fn with_journal(folder: &Folder) -> Output {
    dauer(&["audit", "dauer.db", "--journal", "journal"], folder)
}

#[test]
fn what_a_client_was_told_must_be_there() {
    let whole = filled("journal");
    journal(&whole, &[]);
    let output = with_journal(&whole);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let line = stdout(&output).lines().find(|line| line.starts_with("I4 ")).unwrap();
    // Six starts, the messages that wait at the suspended one (its timer and its event), one end.
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["I4", "durability", "9", "clean"]);

    let (execution, start) = (dauer::ExecutionId(1), MessageId([1; 16]));
    let (status, output) = (dauer::Status::Completed, Some("5".to_owned()));
    let cases: [(&str, Action, &str); 5] = [
        ("lost", Action::Started { execution, start }, "was acknowledged, but it does not exist"),
        ("lost", Action::Found, "does not exist"),
        ("task", Action::Raised { message: start }, "neither waiting nor applied"),
        ("task", Action::Ended { execution: None, status, output: None }, "but is Running"),
        ("done", Action::Ended { execution: None, status, output }, "another output"),
    ];
    for (id, action, says) in cases {
        journal(&whole, &[(id, action)]);
        let output = with_journal(&whole);
        assert_eq!((output.status.code(), verdict(&output)), (Some(1), "NOT CLEAN: 1 violation"), "{id}");
        let found =
            stdout(&output).lines().any(|line| line.starts_with(&format!("I4: {id}")) && line.contains(says));
        assert!(found, "{}", stdout(&output));
    }

    // The same from the other side: the journal is right, and the store has lost something.
    journal(&whole, &[]);
    for sql in [
        "DELETE FROM inbox WHERE instance = @paused AND kind = 1",
        "DELETE FROM inbox WHERE instance = @pending; DELETE FROM instances WHERE id = 'pending'",
    ] {
        let folder = Folder::new("journal-damaged");
        for file in ["dauer.db", "journal"] {
            std::fs::copy(whole.0.join(file), folder.0.join(file)).unwrap();
        }
        damage(&folder, sql);
        let output = with_journal(&folder);
        assert_eq!(output.status.code(), Some(1), "{sql}\n{}", stdout(&output));
        assert!(stdout(&output).lines().any(|line| line.starts_with("I4: ")), "{sql}\n{}", stdout(&output));
    }
}

#[test]
fn a_journal_that_is_none_is_refused_with_its_line() {
    let folder = filled("nonsense");
    let head = "{\"dauer_journal\":1}\n";
    let cases = [
        (None, "could not be opened"),
        (Some(String::new()), "line 1 is no head of a journal"),
        (Some(format!("{head}{{\"at\":1,\"instance\":\"a\",\"did\":\"found\"}}\nnonsense")), "line 3"),
        (Some("{\"dauer_journal\":9}".to_owned()), "version 9"),
    ];
    for (text, says) in cases {
        if let Some(text) = text {
            std::fs::write(folder.0.join("journal"), text).unwrap();
        }
        let output = with_journal(&folder);
        assert_eq!(output.status.code(), Some(2), "{says}");
        assert!(stderr(&output).contains(says), "{says}: {}", stderr(&output));
        assert!(verdict(&output).starts_with("not checked: ") && verdict(&output).contains(says), "{says}");
    }
}

#[test]
fn second_read_names_what_no_host_claims() {
    let folder = Folder::new("audit-again");
    let url = folder.url();
    block_on(async {
        let hub = dauer::open(&url).unwrap();
        hub.client().start(ABSENT, &1).id("pending").await.unwrap();
        hub.close().await;
    });
    let once = dauer(&["audit", &url], &folder);
    assert!(!stdout(&once).contains("no session claims it"), "{}", stdout(&once));
    let twice = dauer(&["audit", &url, "--again", "1"], &folder);
    assert_eq!(twice.status.code(), Some(0), "{}", stderr(&twice));
    let said = stdout(&twice);
    assert!(said.starts_with("note: pending: ready for "), "{said}");
    assert!(said.contains("no session claims it; start a worker that has 'absent'"), "{said}");
    assert!(said.trim_end().lines().last().unwrap().starts_with("clean: "), "{said}");
}
