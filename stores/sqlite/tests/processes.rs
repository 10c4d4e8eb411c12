//! Several processes on one file: made together, killed in the middle, nothing that was acknowledged is lost.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dauer_sqlite::{Options, SqliteStore};
use dauer_store::{HubName, Revision, Work};
use support::build::{host, instance, start, step};
use support::claims::{Claims, want};
use support::{Folder, everything, run};

/// How often a process is killed.
const KILLS: usize = 20;

/// Names the file for a process that this test started as its helper.
const FILE: &str = "DAUER_SQLITE_TEST_FILE";
/// Tells the helpers apart.
const NUMBER: &str = "DAUER_SQLITE_TEST_NUMBER";

/// This test again, in a process of its own.
fn helper(test: &str, file: &Path, number: usize) -> Child {
    Command::new(std::env::current_exe().expect("the test knows where it is"))
        .args(["--exact", test, "--nocapture", "--quiet"])
        .env(FILE, file)
        .env(NUMBER, number.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test can be started again")
}

/// The file and number of a helper; nothing in the test itself.
fn role() -> Option<(String, u128)> {
    Some((std::env::var(FILE).ok()?, std::env::var(NUMBER).ok()?.parse().ok()?))
}

fn hub() -> HubName {
    HubName::default()
}

fn integrity(file: &Path) -> String {
    let database = rusqlite::Connection::open(file).unwrap();
    database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the parent listens");
}

/// Creates, claims and commits until it is killed, and says what was acknowledged.
fn work_until_killed(file: &str, number: u128) {
    let store = SqliteStore::open(file, Options::default()).expect("the file opens");
    let manage = store.hub(hub());
    run(async {
        let session = manage.attach(host(number, Duration::from_secs(3600))).await.expect("a session");
        for round in 0u32.. {
            let id = format!("run{number}-{round}");
            manage.create(vec![start(&id)]).await.remove(0).expect("a new instance");
            say(&format!("ack created {id}"));
            commit_some(&*session).await;
        }
    });
}

async fn commit_some(session: &dyn Work) {
    for turn in session.claim_turns(want(3)).await.expect("a claim") {
        let committed = session.commit_turns(vec![step(&turn).into()]).await.remove(0).expect("it is ours");
        say(&format!("ack committed {} {}", turn.fence.instance, committed.revision.0));
    }
}

/// What a killed process had been told: instances, each with the highest acknowledged revision.
fn kill_after(mut child: Child, lines: usize, acknowledged: &mut BTreeMap<String, u64>) {
    let mut output = BufReader::new(child.stdout.take().expect("its output is ours"));
    let (mut line, mut seen) = (Vec::new(), 0);
    while output.read_until(b'\n', &mut line).expect("the pipe works") > 0 {
        let text = String::from_utf8_lossy(&line).into_owned();
        // The runner of tests says things of its own; a line that the kill cut off was not said.
        let words: Vec<&str> = text.strip_suffix('\n').unwrap_or("").split(' ').collect();
        match words[..] {
            ["ack", "created", id] => drop(acknowledged.entry(id.to_owned()).or_default()),
            ["ack", "committed", id, revision] => {
                let known = acknowledged.entry(id.to_owned()).or_default();
                *known = (*known).max(revision.parse().expect("a number"));
            }
            _ => {}
        }
        seen += usize::from(words.first() == Some(&"ack"));
        if seen == lines {
            child.kill().expect("it runs");
        }
        line.clear();
    }
    assert!(!child.wait().expect("it has ended").success(), "the child was killed");
    assert!(seen >= lines, "the child ended by itself after {seen} acknowledgements");
}

#[test]
fn what_was_acknowledged_survives_the_kill() {
    const NAME: &str = "what_was_acknowledged_survives_the_kill";
    if let Some((file, number)) = role() {
        return work_until_killed(&file, number);
    }
    let folder = Folder::new();
    let mut acknowledged = BTreeMap::new();
    // Any sequence will do, as long as the kills come at different moments; this one is always the same.
    let mut random = 12_345usize;
    for number in 0..KILLS {
        random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345) % (1 << 31);
        kill_after(helper(NAME, &folder.file(), number + 1), 1 + random / 7 % 60, &mut acknowledged);
    }
    assert_eq!(integrity(&folder.file()), "ok");
    let manage = SqliteStore::open(folder.file(), Options::default()).unwrap().hub(hub());
    let mut committed = 0;
    for (id, revision) in &acknowledged {
        let found = run(manage.get(vec![instance(id)])).unwrap().remove(0);
        let (_, record) = found.unwrap_or_else(|| panic!("{id} was acknowledged and is gone"));
        assert!(
            record.revision >= Revision(*revision),
            "{id} was at {revision}, is at {:?}",
            record.revision
        );
        let history = run(manage.read_history(&instance(id), None, 0, usize::MAX)).unwrap().batches;
        let stored: Vec<u64> = history.iter().map(|batch| batch.revision.0).collect();
        assert_eq!(stored, (1..=record.revision.0).collect::<Vec<_>>(), "the history of {id} has a gap");
        committed += usize::from(*revision > 0);
    }
    assert!(acknowledged.len() > KILLS && committed > KILLS, "too little happened to show anything");
}

#[test]
fn six_processes_make_one_file() {
    const NAME: &str = "six_processes_make_one_file";
    const PROCESSES: usize = 6;
    if let Some((file, number)) = role() {
        let store = SqliteStore::open(file, Options::default()).expect("the file opens");
        let created = run(store.hub(hub()).create(vec![start(&format!("of{number}"))])).remove(0);
        assert!(created.is_ok(), "{created:?}");
        return store.close();
    }
    for _ in 0..5 {
        let folder = Folder::new();
        let children: Vec<Child> =
            (0..PROCESSES).map(|number| helper(NAME, &folder.file(), number)).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        assert_eq!(integrity(&folder.file()), "ok");
        let manage = SqliteStore::open(folder.file(), Options::default()).unwrap().hub(hub());
        let ids = (0..PROCESSES).map(|number| instance(&format!("of{number}"))).collect();
        let found = run(manage.get(ids)).unwrap();
        assert!(found.iter().all(Option::is_some), "{found:?}");
    }
}

#[test]
fn six_handles_opened_at_once_make_one_file() {
    let folder = Folder::new();
    let file = folder.file();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let file = &file;
            scope.spawn(move || {
                let store = SqliteStore::open(file, Options::default()).expect("the file opens");
                run(store.hub(hub()).create(vec![start(&format!("of{number}"))])).remove(0).expect("created");
            });
        }
    });
    let manage = SqliteStore::open(&file, Options::default()).unwrap().hub(hub());
    assert!(run(everything(&*manage)).len() >= 7, "the time and six instances");
}
