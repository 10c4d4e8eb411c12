//! What the writer answers when SQLite fails: before, in the middle of and at the end of a transaction.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures::executor::block_on;

use dauer_store::{HubName, Refused};

use super::job::Job;
use super::{Ear, Listeners, Order, Tally, Watch, Writer, answers_of, batch_job};
use crate::fail::Outcome;
use crate::open::{connect, prepare};
use crate::options::{Durability, Options};
use crate::state::{Group, Scope};
use dauer_store::SystemClock;

/// A file of its own, removed with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dauer-writer-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    fn path(&self) -> PathBuf {
        self.0.join("hub.db")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Operation = fn(&mut Scope<'_, '_>) -> Outcome<()>;

/// One job of all these operations.
fn job(operations: Vec<Operation>) -> (Box<dyn Job>, super::job::Answers<()>) {
    batch_job(HubName::default(), operations, |scope, operation: &Operation| operation(scope), |()| {})
}

/// A writer on that file that is driven by hand, and whoever could send it orders.
fn writer(file: &File, change: &str) -> (Writer, Arc<mpsc::Sender<Order>>) {
    let gate = prepare(&file.path(), Durability::Full).expect("a new file");
    let db = connect(&file.path(), Durability::Full).expect("it opens");
    db.execute_batch(change).expect("a setting of the connection");
    db.busy_timeout(Duration::ZERO).expect("a setting of the connection");
    let (sender, orders) = mpsc::channel();
    let sender = Arc::new(sender);
    let lives = Arc::new(crate::life::Lives::new(&file.path()));
    let writer = Writer {
        path: file.path(),
        durability: Durability::Full,
        db: Some(db),
        seen: None,
        told: None,
        gate,
        clock: Arc::new(SystemClock::new()),
        limits: Options::default().limits,
        group: Group::new(Arc::default(), lives, Default::default()),
        tally: Arc::new(Tally::new(&file.path(), Durability::Full)),
        listeners: Arc::<Listeners>::default(),
        orders,
        watch: Watch::new(&file.path(), &sender),
        look_watched: Duration::from_secs(60),
        has_company: false,
    };
    (writer, sender)
}

/// Gives each group to a writer on that file, as one job each; the answers are in the order of the operations.
fn answers(file: &File, change: &str, groups: Vec<Vec<Operation>>) -> Vec<Result<(), Refused>> {
    let (mut writer, _sender) = writer(file, change);
    let mut answers = Vec::new();
    for group in groups {
        let count = group.len();
        let (job, waiting) = job(group);
        writer.serve(vec![job]);
        answers.extend(block_on(answers_of(waiting, count)));
    }
    answers
}

#[test]
#[cfg(target_os = "linux")]
fn an_idle_writer_hardly_looks_and_is_told_of_a_write() {
    let file = File::new("watched");
    let (mut writer, _sender) = writer(&file, "");
    let _changes = writer.listeners.subscribe(&HubName::default(), Ear::Client);
    writer.serve(vec![job(vec![write_one]).0]);
    let mut look = Duration::from_millis(1);
    while look < writer.look_watched {
        look = writer.look_after(look);
    }
    let other = connect(&file.path(), Durability::Full).expect("it opens");
    other.execute("UPDATE dropped SET count = count + 1", []).expect("nobody else writes");
    let orders = writer.next(&mut look).expect("there are senders");
    assert!(matches!(orders[..], [Order::Written]), "told, long before it would have looked");
    writer.has_company = true;
    assert_eq!(writer.look_after(look), crate::life::LOOK_EVERY, "who dies writes nothing");
}

fn count(file: &File) -> i64 {
    let db = connect(&file.path(), Durability::Full).expect("it opens");
    db.query_row("SELECT coalesce(sum(count), 0) FROM dropped", [], |row| row.get(0)).expect("a number")
}

/// Writes something that can be counted.
fn write_one(scope: &mut Scope<'_, '_>) -> Outcome<()> {
    scope
        .db
        .execute("INSERT INTO dropped VALUES (1, 1, 1) ON CONFLICT DO UPDATE SET count = count + 1", [])?;
    Ok(())
}

/// Writes something, and then breaks.
fn write_and_break(scope: &mut Scope<'_, '_>) -> Outcome<()> {
    write_one(scope)?;
    scope.db.execute("INSERT INTO meta VALUES (2, 1, 1, 1)", [])?;
    Ok(())
}

/// Leaves a debt that only the commit looks at.
fn break_the_commit(scope: &mut Scope<'_, '_>) -> Outcome<()> {
    write_one(scope)?;
    scope.db.execute_batch(
        "CREATE TEMP TABLE parent (x INTEGER PRIMARY KEY);
         CREATE TEMP TABLE child (x REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
         INSERT INTO child VALUES (1);",
    )?;
    Ok(())
}

#[test]
fn what_breaks_in_a_group_takes_nothing_with_it_and_leaves_nothing() {
    let file = File::new("broken");
    let answers = answers(&file, "", vec![vec![write_one, write_and_break, write_one]]);
    assert!(matches!(answers[..], [Ok(()), Err(Refused::NotExecuted(_)), Ok(())]), "{answers:?}");
    assert_eq!(count(&file), 2);
}

#[test]
fn a_commit_that_fails_is_unknown_and_the_next_goes_through() {
    let file = File::new("commit");
    let groups = vec![vec![break_the_commit as Operation, write_one], vec![write_one]];
    let answers = answers(&file, "PRAGMA foreign_keys = ON", groups);
    assert!(
        matches!(answers[..], [Err(Refused::Unknown(_)), Err(Refused::Unknown(_)), Ok(())]),
        "{answers:?}"
    );
    assert_eq!(count(&file), 1, "what was unknown did not happen, the rest did");
}

#[test]
fn a_transaction_that_cannot_begin_is_not_executed() {
    let file = File::new("begin");
    drop(prepare(&file.path(), Durability::Full).expect("a new file"));
    let other = connect(&file.path(), Durability::Full).expect("it opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let answers = answers(&file, "", vec![vec![write_one]]);
    assert!(matches!(answers[..], [Err(Refused::NotExecuted(_))]), "{answers:?}");
    assert_eq!(count(&file), 0);
}

/// Writes more than the file may have.
fn write_much(scope: &mut Scope<'_, '_>) -> Outcome<()> {
    scope.db.execute("INSERT INTO details VALUES (1, zeroblob(10000000))", [])?;
    Ok(())
}

#[test]
fn a_full_disk_is_told_takes_nothing_with_it_and_heals() {
    let file = File::new("full");
    // SQLite answers as it does when the disk is full.
    let full = "PRAGMA max_page_count = 200";
    let told = answers(&file, full, vec![vec![write_one, write_much, write_one], vec![write_one]]);
    let [Ok(()), Err(Refused::NotExecuted(cause)), Ok(()), Ok(())] = &told[..] else { panic!("{told:?}") };
    assert!(cause.to_string().contains("full"), "{cause}");
    assert_eq!(count(&file), 3);
}
