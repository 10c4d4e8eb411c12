//! What a turn costs does not depend on how many tasks of its instance are open, nor on how many messages wait of which it
//! takes one: counted in steps of the statements, in rows and in bytes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::executor::block_on;
use rusqlite::StatementStatus;
use rusqlite::trace::{TraceEvent, TraceEventCodes};

use dauer_store::{
    Amount, Batch, Checkpoint, ClaimedTurn, Class, Control, Credit, Encoded, EntityRecord, ExecutionId,
    History, Hold, HubName, InstanceId, Kind, Lock, Message, MessageId, Origin, QueueKey, Revision,
    SessionId, Status, StoreLimits, Tags, Task, Then, Timestamp, Until,
};
use dauer_store_kit::calls::{Desk, Looked, next};

use super::tests::{File, attach, writer};
use super::{Writer, answers_of, batch_job, look_job};
use crate::fail::Outcome;
use crate::state::{Scope, View};

const TASKS: u64 = 10_000;
const MESSAGES: u64 = 50_000;

/// Calls that are carried out in one transaction while an instance is prepared.
const AT_ONCE: u64 = 1_000;

/// Turns that are measured, after as many that are not: the first ones prepare statements.
const TURNS: u64 = 8;

/// What a turn may cost, in tenths of what it costs without all that.
const ALLOWED_TENTHS: u64 = 15;

const ENTITY: &str = "@bag@1";

#[derive(Debug, Default)]
struct Counted {
    steps: AtomicU64,
    rows_read: AtomicU64,
}

/// The cost of some turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    steps: u64,
    rows_read: u64,
    rows_written: u64,
    /// Of the log.
    bytes: u64,
}

impl Cost {
    fn is_within(&self, base: &Self) -> bool {
        let within = |cost: u64, base: u64| cost * 10 <= base * ALLOWED_TENTHS;
        within(self.steps, base.steps)
            && within(self.rows_read, base.rows_read)
            && within(self.rows_written, base.rows_written)
            && within(self.bytes, base.bytes)
    }
}

/// A writer, a session and one instance.
struct Bench {
    writer: Writer,
    desk: Arc<Desk>,
    counted: Arc<Counted>,
    log: PathBuf,
    id: InstanceId,
    /// Nothing is held in memory when a turn begins.
    cold: bool,
    then: Then,
    hold: Hold,
    sent: u64,
    /// The last turn, for the next one of a kept instance.
    turn: Option<ClaimedTurn>,
    _file: File,
}

impl Bench {
    /// An entity that has had one turn, which left it with that hold.
    fn new(name: &str, hold: Hold, then: Then, cold: bool) -> Self {
        let file = File::new(name);
        let (mut writer, _) = writer(&file, "");
        writer.limits = StoreLimits { checkpoint_items: u64::MAX, mail_bytes: 1, ..writer.limits };
        let counted = Arc::new(Counted::default());
        count(&mut writer, Arc::clone(&counted));
        let desk = writer.desks.open(HubName::default(), SessionId(1));
        let log = PathBuf::from(format!("{}-wal", file.path().display()));
        let id = InstanceId::new(ENTITY).expect("short and printable");
        let mut bench =
            Self { writer, desk, counted, log, id, cold, then, hold, sent: 0, turn: None, _file: file };
        bench.write(attach);
        bench.send(1, Class::Ordinary, None);
        bench.turn(Vec::new());
        bench
    }

    fn write<T: Send + 'static>(
        &mut self,
        mut operation: impl FnMut(&mut Scope<'_, '_>) -> Outcome<T> + Send + 'static,
    ) -> T {
        let (job, answers) = batch_job(HubName::default(), vec![()], move |scope, ()| operation(scope));
        self.writer.serve(vec![job]);
        block_on(answers_of(answers, 1)).remove(0).expect("the operation is allowed")
    }

    /// Sends messages, from an instance or a client.
    fn send(&mut self, count: u64, class: Class, sender: Option<&str>) {
        let first = self.sent;
        self.sent += count;
        for begin in (first..first + count).step_by(AT_ONCE as usize) {
            let end = (begin + AT_ONCE).min(first + count);
            let messages: Vec<Message> =
                (begin..end).map(|number| message(&self.id, number, class.clone(), sender)).collect();
            self.write(move |scope| messages.iter().try_for_each(|message| scope.send(message).map(drop)));
        }
    }

    /// Wins a turn, or goes on with the one that was kept, and commits it with these tasks. It takes one message.
    fn turn(&mut self, tasks: Vec<Task>) {
        if self.cold {
            self.writer.group.forget();
        }
        let mut turn = match self.turn.take().filter(|_| self.then == Then::Keep) {
            Some(turn) if turn.messages.is_empty() => self.read(turn),
            Some(turn) => turn,
            None => self.look(),
        };
        let mut checkpoint = step(&turn, &self.hold, self.then);
        checkpoint.tasks = tasks;
        let committed = self.write(move |scope| scope.commit(SessionId(1), &checkpoint));
        turn.fence.revision = committed.revision;
        turn.messages = committed.arrived;
        self.turn = Some(turn);
    }

    /// Credit is there for the look alone: the write that makes the instance ready is not measured.
    fn look(&mut self) -> ClaimedTurn {
        let credit = Credit { number: 1, turns: Amount { count: 1, bytes: 1 }, ..Credit::default() };
        self.desk.credit(credit);
        let desk = Arc::clone(&self.desk);
        let writer = std::cell::RefCell::new(&mut self.writer);
        let looks = |look| {
            let (job, answers) = look_job(HubName::default(), (SessionId(1), Arc::clone(&desk)), look);
            writer.borrow_mut().serve(vec![job]);
            async { answers_of(answers, 1).await.remove(0).map(|_| Looked::default()) }
        };
        let mut won = block_on(next(&self.desk, Until::Once, looks)).expect("a look");
        self.desk.credit(Credit { number: 1, ..Credit::default() });
        let turn = won.turns.pop().expect("a turn");
        assert_eq!(turn.messages.len(), 1, "it takes one");
        turn
    }

    /// Reads the mail of a kept instance, as the host does that its commit has told of none.
    fn read(&mut self, mut turn: ClaimedTurn) -> ClaimedTurn {
        let db = self.writer.db.as_ref().expect("it is open");
        let now = self.writer.time.now(Timestamp::default());
        let view = View::of(db, &HubName::default(), now).expect("a view");
        let mail = view.mail(SessionId(1), &turn.fence, &self.writer.limits).expect("a read");
        turn.messages = mail.messages;
        assert_eq!(turn.messages.len(), 1, "it takes one");
        turn
    }

    /// Truncates the log. It grows by what a turn writes only if it is empty before: a log that was copied into the file is
    /// written again from its beginning, and its length stays.
    fn empty_log(&self) {
        let db = self.writer.db.as_ref().expect("it is open");
        let busy: i64 =
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("a checkpoint");
        assert_eq!(busy, 0, "no other connection reads");
    }

    fn counted(&self) -> Cost {
        let log = std::fs::metadata(&self.log).expect("there is a log").len();
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (steps, rows_read) = (load(&self.counted.steps), load(&self.counted.rows_read));
        Cost { steps, rows_read, rows_written: self.writer.tally.read().rows, bytes: log }
    }

    /// The cost of turns, each for one message that is sent before it.
    fn measure(&mut self, class: &Class, sender: Option<&str>) -> Cost {
        let mut sum = Cost { steps: 0, rows_read: 0, rows_written: 0, bytes: 0 };
        for number in 0..2 * TURNS {
            self.send(1, class.clone(), sender);
            self.empty_log();
            let before = self.counted();
            self.turn(Vec::new());
            let after = self.counted();
            if number >= TURNS {
                sum.steps += after.steps - before.steps;
                sum.rows_read += after.rows_read - before.rows_read;
                sum.rows_written += after.rows_written - before.rows_written;
                sum.bytes += after.bytes - before.bytes;
            }
        }
        sum
    }
}

fn count(writer: &mut Writer, counted: Arc<Counted>) {
    let mut steps_of: BTreeMap<String, u64> = BTreeMap::new();
    let db = writer.db.as_mut().expect("it is open");
    db.trace_v2(
        TraceEventCodes::SQLITE_TRACE_PROFILE | TraceEventCodes::SQLITE_TRACE_ROW,
        Some(move |event: TraceEvent<'_>| match event {
            TraceEvent::Profile(statement, _) => {
                let steps = u64::try_from(statement.get_status(StatementStatus::VmStep)).unwrap_or(0);
                let before = steps_of.insert(statement.sql().into_owned(), steps).unwrap_or(0);
                counted.steps.fetch_add(steps.saturating_sub(before), Ordering::Relaxed);
            }
            TraceEvent::Row(_) => _ = counted.rows_read.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }),
    )
    .expect("it is traced");
}

fn message(to: &InstanceId, number: u64, class: Class, sender: Option<&str>) -> Message {
    let id = MessageId((u128::from(number) + 1).to_be_bytes());
    let origin = match sender {
        None => Origin::Client { request: Some(7) },
        Some(sender) => Origin::Turn {
            instance: InstanceId::new(sender).expect("short and printable"),
            execution: ExecutionId(1),
            revision: Revision(number),
            ordinal: Some(0),
        },
    };
    let event = Encoded::from_stored(vec![1, 2, 3].into());
    Message {
        id,
        to: to.clone(),
        execution: None,
        class,
        origin,
        answers: None,
        visible_at: Timestamp(0),
        event,
    }
}

fn step(turn: &ClaimedTurn, hold: &Hold, then: Then) -> Checkpoint {
    let events = Encoded::from_stored(vec![1].into());
    let batch = Batch { count: 1, events, consumed: Vec::new(), produced: Vec::new() };
    let mut record = turn.record.clone();
    record.status = match hold {
        Hold::Control => Status::Suspended,
        _ => Status::Running,
    };
    if let Hold::From(owner) = hold {
        let lock = Lock { section: "s".into(), owner: owner.clone(), owner_execution: ExecutionId(1) };
        record.details.set_entity(Some(EntityRecord { lock: Some(lock), ..EntityRecord::default() }));
    }
    Checkpoint {
        fence: turn.fence.clone(),
        consumed: turn.messages.iter().take(1).map(|message| message.id).collect(),
        completions: Vec::new(),
        history: History::Append(batch),
        record: record.since(&turn.record.details),
        tasks: Vec::new(),
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then,
    }
}

fn task(id: &InstanceId, turn: &ClaimedTurn, number: u64) -> Task {
    Task {
        id: MessageId((u128::from(number) + (1 << 64)).to_be_bytes()),
        instance: id.clone(),
        execution: turn.fence.execution,
        event_id: 3,
        queue: QueueKey::new(Kind::Activity, "work", None),
        tags: Tags::new(),
        event: Encoded::from_stored(vec![1].into()),
    }
}

/// Both ways to go on after a turn, with and without what is held in memory.
fn ways() -> Vec<(Then, bool)> {
    let release = Then::Release { delay: std::time::Duration::ZERO };
    vec![(release, false), (release, true), (Then::Keep, false), (Then::Keep, true)]
}

/// Compares turns of an instance that was prepared with turns of one that was not.
fn compare(what: &str, (hold, class, sender): (Hold, Class, Option<&str>), prepare: impl Fn(&mut Bench)) {
    for (number, (then, cold)) in ways().into_iter().enumerate() {
        let name = |part: &str| format!("{what}-{part}-{number}");
        let mut base = Bench::new(&name("base"), hold.clone(), then, cold);
        let base = base.measure(&class, sender);
        let mut bench = Bench::new(&name("much"), hold.clone(), then, cold);
        prepare(&mut bench);
        let much = bench.measure(&class, sender);
        eprintln!("{what}, {then:?}, cold: {cold}: {much:?} with, {base:?} without");
        assert!(much.is_within(&base), "{what}, {then:?}, cold: {cold}: {much:?} with, {base:?} without");
    }
}

#[test]
fn turn_with_ten_thousand_open_tasks_costs_like_one_without() {
    compare("tasks", (Hold::Open, Class::Ordinary, None), |bench| {
        for begin in (0..TASKS).step_by(AT_ONCE as usize) {
            bench.send(1, Class::Ordinary, None);
            let turn = bench.turn.clone().expect("it has had a turn");
            let tasks = (begin..begin + AT_ONCE).map(|number| task(&bench.id, &turn, number)).collect();
            bench.turn(tasks);
        }
    });
}

#[test]
fn turn_that_takes_one_of_many_messages_costs_like_one_without() {
    compare("messages", (Hold::Open, Class::Ordinary, None), |bench| {
        bench.send(MESSAGES, Class::Ordinary, None);
    });
}

#[test]
fn turn_of_a_suspended_instance_with_messages_costs_alike() {
    let resume = Class::Control(Control::Resume);
    compare("suspended", (Hold::Control, resume, None), |bench| {
        bench.send(MESSAGES, Class::Ordinary, None);
    });
}

#[test]
fn turn_of_a_locked_entity_with_messages_costs_alike() {
    let owner = "owner";
    let hold = Hold::From(InstanceId::new(owner).expect("short and printable"));
    compare("locked", (hold, Class::Ordinary, Some(owner)), |bench| {
        bench.send(MESSAGES, Class::Ordinary, Some("other"));
    });
}
