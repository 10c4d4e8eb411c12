//! What the writer answers when SQLite fails: before, in the middle of and at the end of a transaction.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures::FutureExt as _;
use futures::executor::block_on;

use dauer_store::{
    Class, Create, Encoded, ExecutionId, Host, HubName, InstanceId, Kind, Message, Origin, Over, QueueKey,
    Queues, Record, Refused, Reuse, SessionId, Start, Tags, Timestamp, Want,
};

use super::job::Job;
use super::waiting::Awaited;
use super::{Ear, Listeners, Order, Tally, Waiting, Watch, Writer, answers_of, batch_job};
use crate::fail::Outcome;
use crate::open::{connect, prepare};
use crate::options::{Durability, Options};
use crate::state::{Group, Scope, What};
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
        follower: crate::touched::Follower::default(),
        gate,
        clock: Arc::new(SystemClock::new()),
        limits: Options::default().limits,
        group: Group::new(Arc::default(), lives, Default::default()),
        tally: Arc::new(Tally::new(&file.path(), Durability::Full)),
        listeners: Arc::<Listeners>::default(),
        orders,
        waiting: Vec::new(),
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

/// A session that claims.
fn attach(scope: &mut Scope<'_, '_>) -> Outcome<()> {
    let id = dauer_store::HostId::new("host").expect("short and printable");
    scope.attach(&Host { id, session: SessionId(1), lease: Duration::from_secs(30) })
}

/// Something that becomes ready.
fn start(scope: &mut Scope<'_, '_>, id: &str) -> Outcome<()> {
    let to = InstanceId::new(id).expect("short and printable");
    let message = dauer_core::identity::requested(&to, 7);
    let queue = QueueKey::new(Kind::Orchestration, "Orders", None);
    let record = Record::pending(queue, ExecutionId(u128::from_be_bytes(message.0)), message);
    let start = Message {
        id: message,
        to,
        execution: None,
        class: Class::Start(Box::new(Start { record, over: Over::Refuse })),
        origin: Origin::Client { request: Some(7) },
        answers: None,
        visible_at: Timestamp(0),
        event: Encoded::from_stored(vec![1].into()),
    };
    scope.create(&Create::new(start, Reuse::default())).map(drop)
}

/// A writer with a session whose claim waits.
fn writer_with_claim(file: &File, change: &str) -> (Writer, impl Future<Output = Awaited>) {
    let (mut writer, _) = writer(file, change);
    writer.serve(vec![job(vec![attach]).0]);
    let want = Want { count: 9, bytes: usize::MAX, queues: Queues::default(), tags: Tags::new() };
    let undelivered = Arc::clone(&writer.group.undelivered);
    let (claim, answer) = Waiting::new(HubName::default(), SessionId(1), want, undelivered);
    writer.waiting.push(claim);
    (writer, answer.map(|answer| answer.expect("the writer is there")))
}

fn names(awaited: Awaited) -> Vec<String> {
    let turns = awaited.expect("it was not refused").receive();
    turns.iter().map(|turn| turn.fence.instance.to_string()).collect()
}

#[test]
fn a_claim_that_waits_goes_on_when_its_transaction_breaks() {
    let file = File::new("waits-broken");
    let (mut writer, mut answer) = writer_with_claim(&file, "");
    writer.serve(vec![job(vec![|scope| start(scope, "a"), write_and_break]).0]);
    assert!((&mut answer).now_or_never().is_none(), "nobody has won anything");
    writer.serve(vec![job(vec![|scope| start(scope, "b")]).0]);
    let won = answer.now_or_never().expect("it is new");
    assert_eq!(names(won), ["b"], "of the other its host was told, and asks");
    assert!(writer.waiting.is_empty());
}

#[test]
fn a_claim_that_waits_is_told_when_nobody_knows_what_it_won() {
    let file = File::new("waits-unknown");
    let (mut writer, mut answer) = writer_with_claim(&file, "PRAGMA foreign_keys = ON");
    writer.serve(vec![job(vec![write_one]).0]);
    assert!((&mut answer).now_or_never().is_none(), "nothing has become ready");
    writer.serve(vec![job(vec![|scope| start(scope, "a"), break_the_commit]).0]);
    let refused = answer.now_or_never().expect("told").err();
    assert!(matches!(refused, Some(Refused::Unknown(_))), "{refused:?}");
    let session = writer.group.undelivered.of(1, What::Turn);
    assert_eq!(session.len(), 1, "what it may have won waits for the next claim, which looks");
}
