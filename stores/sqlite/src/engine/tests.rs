//! What the writer answers when SQLite fails: before, in the middle of and at the end of a transaction.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures::FutureExt as _;
use futures::executor::block_on;

use dauer_store::{
    Amount, Class, Clock, Create, Credit, Encoded, ExecutionId, Host, HubName, InstanceId, Item, Kind,
    Message, Next, Opening, Origin, QueueKey, Refused, Reuse, SessionId, Timestamp, Until,
};
use dauer_store_kit::calls::{Desk, Desks, Looked, next};
use dauer_store_kit::hints::Listener;

use super::job::Job;
use super::{FileTime, Listeners, Order, Tally, Watch, Writer, answers_of, batch_job, look_job};
use crate::fail::Outcome;
use crate::open::{connect, prepare};
use crate::options::{Durability, Options};
use crate::state::{Found, Group, Scope, View};
use dauer_store::SystemClock;

/// A file of its own, removed with the test.
pub(super) struct File(PathBuf);

impl File {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dauer-writer-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Self(path)
    }

    pub(super) fn path(&self) -> PathBuf {
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
    batch_job(HubName::default(), operations, |scope, operation: &Operation| operation(scope))
}

/// A writer on that file that is driven by hand, and whoever could send it orders.
pub(super) fn writer(file: &File, change: &str) -> (Writer, Arc<mpsc::Sender<Order>>) {
    let gate = prepare(&file.path(), Durability::Full).expect("a new file");
    let db = connect(&file.path(), Durability::Full).expect("it opens");
    db.execute_batch(change).expect("a setting of the connection");
    db.busy_timeout(Duration::ZERO).expect("a setting of the connection");
    let (sender, orders) = mpsc::channel();
    let sender = Arc::new(sender);
    let lives = Arc::new(crate::life::Lives::new(&file.path()));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let desks = Arc::new(Desks::new(Arc::clone(&clock)));
    let writer = Writer {
        path: file.path(),
        durability: Durability::Full,
        db: Some(db),
        seen: None,
        told: None,
        follower: crate::touched::Follower::default(),
        gate,
        time: Arc::new(FileTime::new(clock)),
        limits: Options::default().limits,
        group: Group::new(Arc::clone(&desks), lives, Default::default()),
        tally: Arc::new(Tally::new(&file.path(), Durability::Full)),
        listeners: Arc::<Listeners>::default(),
        desks,
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
    let _changes = writer.listeners.subscribe(&HubName::default(), Listener::Client);
    writer.serve(vec![job(vec![write_one]).0]);
    let mut look = Duration::from_millis(1);
    while look < writer.look_watched {
        look = writer.look_after(look);
    }
    let other = connect(&file.path(), Durability::Full).expect("it opens");
    other.execute("UPDATE dropped SET count = count + 1", []).expect("no other connection writes");
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
    other.execute_batch("BEGIN IMMEDIATE").expect("no other connection writes");
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
pub(super) fn attach(scope: &mut Scope<'_, '_>) -> Outcome<()> {
    let id = dauer_store::HostId::new("host").expect("short and printable");
    scope.attach(&Host { id, session: SessionId(1), lease: Duration::from_secs(30), runs_code: true })
}

/// Something that becomes ready.
fn start(scope: &mut Scope<'_, '_>, id: &str) -> Outcome<()> {
    let to = InstanceId::new(id).expect("short and printable");
    let message = dauer_core::identity::requested(&to, 7);
    let queue = QueueKey::new(Kind::Orchestration, "Orders", None);
    let opening = Opening::new(queue, ExecutionId(u128::from_be_bytes(message.0)));
    let start = Message {
        id: message,
        to,
        execution: None,
        class: Class::Start(Box::new(opening)),
        origin: Origin::Client { request: Some(7) },
        answers: None,
        visible_at: Timestamp(0),
        event: Encoded::from_stored(vec![1].into()),
    };
    scope.create(&Create::new(start, Reuse::default())).map(drop)
}

/// A writer with a session that has credit and has looked, so that it wins what is new.
fn writer_with_credit(file: &File, change: &str) -> (RefCell<Writer>, Arc<Desk>, Arc<mpsc::Sender<Order>>) {
    let (mut writer, sender) = writer(file, change);
    writer.serve(vec![job(vec![attach]).0]);
    let desk = writer.desks.open(HubName::default(), SessionId(1));
    desk.credit(Credit { number: 1, turns: Amount::items(9), ..Credit::default() });
    let writer = RefCell::new(writer);
    assert_eq!(look(&writer, &desk).expect("it looks"), Next::default());
    (writer, desk, sender)
}

/// What the session has won, after one look.
fn look(writer: &RefCell<Writer>, desk: &Arc<Desk>) -> Result<Next, Refused> {
    let looks = |look| {
        let (job, answers) = look_job(HubName::default(), (SessionId(1), Arc::clone(desk)), look);
        writer.borrow_mut().serve(vec![job]);
        let looked = |found: Found| Looked { mail: found.mail, due: None };
        answers_of(answers, 1).map(move |mut answers| answers.remove(0).map(looked))
    };
    block_on(next(desk, Until::Once, looks))
}

fn names(next: &Next) -> Vec<&str> {
    next.turns.iter().map(|turn| turn.fence.instance.as_str()).collect()
}

fn held(file: &File) -> i64 {
    let db = connect(&file.path(), Durability::Full).expect("it opens");
    let held = "SELECT count(*) FROM instances WHERE holder IS NOT NULL";
    db.query_row(held, [], |row| row.get(0)).expect("a number")
}

#[test]
fn win_in_a_transaction_that_breaks_is_none_and_is_looked_for() {
    let file = File::new("wins-broken");
    let (writer, desk, _sender) = writer_with_credit(&file, "");
    writer.borrow_mut().serve(vec![job(vec![|scope| start(scope, "a"), write_and_break]).0]);
    assert_eq!(held(&file), 0, "the start is there, and no session has it");
    let won = look(&writer, &desk).expect("it looks");
    assert_eq!(names(&won), ["a"]);
    assert_eq!(won.turns[0].fence.epoch.0, 1, "it was won once");
    writer.borrow_mut().serve(vec![job(vec![|scope| start(scope, "b")]).0]);
    assert_eq!(held(&file), 2, "the next transaction spends credit again");
}

#[test]
fn win_in_doubt_fails_the_wait_and_is_recalled() {
    let file = File::new("wins-unknown");
    let (writer, desk, _sender) = writer_with_credit(&file, "PRAGMA foreign_keys = ON");
    writer.borrow_mut().serve(vec![job(vec![|scope| start(scope, "a"), break_the_commit]).0]);
    let refused = look(&writer, &desk).err();
    assert!(matches!(refused, Some(Refused::Unknown(_))), "{refused:?}");
    let items = desk.recall(1, 1);
    assert!(matches!(&items[..], [Item::Turn(fence)] if fence.instance.as_str() == "a"), "{items:?}");
    let db = connect(&file.path(), Durability::Full).expect("it opens");
    let view = View::of(&db, &HubName::default(), Timestamp(0)).expect("a view");
    let recalled = view.recalled(SessionId(1), &items, &Options::default().limits).expect("a read");
    assert_eq!(recalled.turns, [], "it did not happen");
}

#[test]
fn look_that_wins_nothing_begins_no_write() {
    let file = File::new("looks");
    let (writer, desk, _sender) = writer_with_credit(&file, "");
    let other = connect(&file.path(), Durability::Full).expect("it opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("no other connection writes");
    assert_eq!(look(&writer, &desk).expect("it need not wait"), Next::default());
    other.execute_batch("ROLLBACK").expect("it has begun");
    desk.credit(Credit { number: 1, ..Credit::default() });
    writer.borrow_mut().serve(vec![job(vec![|scope| start(scope, "a")]).0]);
    desk.credit(Credit { number: 1, turns: Amount::items(9), ..Credit::default() });
    other.execute_batch("BEGIN IMMEDIATE").expect("no other connection writes");
    let refused = look(&writer, &desk).err();
    assert!(matches!(refused, Some(Refused::NotExecuted(_))), "the control: it has to write: {refused:?}");
    other.execute_batch("ROLLBACK").expect("it has begun");
    assert_eq!(names(&look(&writer, &desk).expect("it looks")), ["a"]);
}

#[test]
fn read_ordered_behind_a_write_sees_what_it_won() {
    let file = File::new("behind");
    let (writer, desk, sender) = writer_with_credit(&file, "");
    let (job, _answers) = job(vec![|scope| start(scope, "a")]);
    let (caller, recalled) = mpsc::channel();
    let named = Arc::clone(&desk);
    let recall: super::Read = Box::new(move |file| {
        let (db, now) = file.expect("the file is there");
        let view = View::of(db, &HubName::default(), now).expect("a view");
        let limits = Options::default().limits;
        let recalled = view.recalled(SessionId(1), &named.recall(1, 1), &limits);
        caller.send(recalled.expect("a read")).expect("the test waits");
    });
    for order in [Order::Job(job), Order::Read(recall), Order::Close] {
        assert!(sender.send(order).is_ok());
    }
    writer.into_inner().run();
    let turns = recalled.recv().expect("it was read").turns;
    assert_eq!(turns.iter().map(|turn| turn.fence.instance.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(turns[0].messages.len(), 1, "its start");
    assert!(desk.offer().is_none(), "the number wins nothing from then on");
}
