//! The same random calls on the memory store, which is the reference, and on this one: the same answers, the same dump.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::support::build::{event, host, instance, message, start, step, task, want};
use crate::support::{Folder, clock, everything, options, run};
use dauer_core::identity::{alike, requested};
use dauer_memory::MemoryStore;
use dauer_sqlite::{Clock, ManualClock, Memory, Options, SqliteStore};
use dauer_store::{
    Checkpoint, ClaimedTurn, Class, Committed, Completion, Control, Create, Created, ExecutionId, Fence,
    Filter, Hold, HubName, Item, Kind, Manage, Message, Order, Over, Purge, Query, QueueKey, Queues, Record,
    Release, SessionId, Start, Status, Tags, Task, TaskLease, Then, Timestamp, Trouble, TroubleKind,
    VersionRule, Want, Work,
};

const RUNS: u64 = 12;
const CALLS: usize = 500;
const LEASE: Duration = Duration::from_secs(30);

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The clock of one store, read by the other.
struct Shown(Arc<ManualClock>);

impl dauer_memory::Clock for Shown {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// One session on both stores.
struct Pair {
    id: SessionId,
    memory: Arc<dyn Work>,
    sqlite: Arc<dyn Work>,
    turns: Vec<ClaimedTurn>,
    tasks: Vec<TaskLease>,
}

struct Both {
    random: Random,
    clock: Arc<ManualClock>,
    memory: Arc<dyn Manage>,
    sqlite: Arc<dyn Manage>,
    sessions: Vec<Pair>,
    next: u128,
    committed: usize,
    fused: usize,
    read: usize,
    amended: usize,
    tagged: usize,
    repeated: usize,
}

/// Whether both answered the same, in any order; causes are the store's own.
#[track_caller]
fn same<T: Debug>(what: &str, memory: Vec<T>, sqlite: Vec<T>) {
    let told = |answers: Vec<T>| {
        let mut told: Vec<String> = answers.iter().map(|answer| format!("{answer:?}")).collect();
        told.sort();
        told
    };
    assert_eq!(told(memory), told(sqlite), "{what}");
}

/// The result of a task.
fn answer(lease: TaskLease) -> Completion {
    let mut answer = message(lease.fence.instance.as_str(), "answer");
    (answer.id, answer.answers) = (lease.task.id, Some(lease.task.id));
    answer.execution = Some(lease.task.execution);
    Completion { fence: lease.fence, answer }
}

/// The next turn of an instance that a commit has kept.
fn goes_on(step: &Checkpoint, committed: &Committed) -> Option<ClaimedTurn> {
    let Committed { revision, arrived, now, .. } = committed.clone();
    let record = Record { revision, ..step.record.clone() };
    let fence = Fence { execution: record.execution, revision, ..step.fence.clone() };
    let kept = step.then == Then::Keep && record.hold != Hold::Ended;
    kept.then_some(ClaimedTurn { fence, record, messages: arrived, more: false, history: None, now })
}

impl Both {
    async fn attach(&mut self) {
        self.next += 1;
        let host = host(self.next, LEASE);
        let memory = self.memory.attach(host.clone()).await.unwrap();
        let sqlite = self.sqlite.attach(host.clone()).await.unwrap();
        self.sessions.push(Pair { id: host.session, memory, sqlite, turns: vec![], tasks: vec![] });
    }

    /// None, one or two of a few.
    fn some_tags(&mut self) -> Tags {
        let (zone, size) =
            (["north", "south"][self.random.below(2) as usize].to_owned(), self.random.below(3));
        match self.random.below(4) {
            0 => Tags::new(),
            1 => [("zone".to_owned(), zone), ("size".to_owned(), size.to_string())].into(),
            _ => [("zone".to_owned(), zone)].into(),
        }
    }

    /// A start of one of two names, often one that was made before: by its id, or, where the client named no request, by its
    /// content.
    fn some_start(&mut self) -> Create {
        let to = format!("order{}", self.random.below(12));
        let mut create = start(&to);
        let draw = self.random.below(6);
        let id = match self.random.below(3) {
            0 => alike(&instance(&to), b"equal", draw),
            _ => requested(&instance(&to), u128::from(draw)),
        };
        self.next += 1;
        let name = ["Orders", "Refunds"][self.random.below(2) as usize];
        let record = Record {
            tags: self.some_tags(),
            ..Record::pending(QueueKey::new(Kind::Orchestration, name, None), ExecutionId(self.next), id)
        };
        create.start.class = Class::Start(Box::new(Start { record, over: Over::Refuse }));
        create.retry = self.random.below(3) == 0;
        Create { start: Message { id, ..create.start }, ..create }
    }

    /// All turns, or those of one queue, or of one tag.
    fn some_want(&mut self) -> Want {
        let name = ["Orders", "Refunds"][self.random.below(2) as usize];
        let named = [(Arc::from(name), VersionRule::Any)];
        match self.random.below(6) {
            0 | 1 => Want {
                queues: Queues { orchestrations: Filter::from_iter(named), ..Queues::default() },
                ..want(100)
            },
            2 => Want { tags: self.some_tags(), ..want(100) },
            _ => want(100),
        }
    }

    fn some_message(&mut self) -> Message {
        if self.random.below(8) == 0 {
            return self.some_start().start;
        }
        let text = format!("message {}", self.random.below(200));
        let mut message = message(&format!("order{}", self.random.below(12)), &text);
        message.class = match self.random.below(8) {
            0 => Class::Control(Control::Suspend),
            1 => Class::Control(Control::Resume),
            _ => Class::Ordinary,
        };
        if self.random.below(3) == 0 {
            message.visible_at = self.clock.now().after(Duration::from_secs(self.random.below(50)));
        }
        if self.random.below(6) == 0 {
            message.to = instance("@bag@1");
        }
        message
    }

    /// A checkpoint of that turn, of any kind, perhaps with results of tasks that the session has.
    fn some_step(&mut self, turn: &ClaimedTurn, tasks: &mut Vec<TaskLease>) -> Checkpoint {
        let mut step = step(turn);
        if self.random.below(2) == 0 {
            let of_this_run = |lease: &mut TaskLease| {
                lease.fence.instance == turn.fence.instance && lease.task.execution == turn.fence.execution
            };
            step.completions = tasks.extract_if(.., of_this_run).map(answer).collect();
            self.fused += step.completions.len();
        }
        match self.random.below(10) {
            0 | 8 | 9 => step.then = Then::Keep,
            1 => (step.record.status, step.record.hold) = (Status::Completed, Hold::Ended),
            2 => (step.record.status, step.record.hold) = (Status::Terminated, Hold::Ended),
            3 => (step.record.status, step.record.hold) = (Status::Suspended, Hold::Control),
            4 => step.consumed.truncate(1),
            5 => {
                let execution = ExecutionId(u128::from(self.random.below(u64::MAX)));
                let carried = self.some_message();
                let prologue = vec![Message { to: turn.fence.instance.clone(), ..carried }];
                step.record.execution = execution;
                step.history = dauer_store::History::Replace { execution, batches: vec![], prologue };
            }
            _ => step.then = Then::Release { delay: Duration::from_secs(self.random.below(20)) },
        }
        step.tasks = (0..self.random.below(3)).map(|n| task(turn, &format!("work{n}"))).collect();
        if self.random.below(8) == 0 {
            // Too large to lie beside its instance.
            step.tasks.push(Task { event: event(&"x".repeat(2_000)), ..task(turn, "heavy") });
        }
        step.take = self.random.below(4) as usize;
        let mut timer = self.some_message();
        timer.execution = Some(step.record.execution);
        step.timers = vec![Message { to: turn.fence.instance.clone(), ..timer }];
        step.messages = (0..self.random.below(3)).map(|_| self.some_message()).collect();
        step
    }

    async fn client_call(&mut self, kind: u64) {
        match kind {
            0 => {
                let create = self.some_start();
                let memory = self.memory.create(vec![create.clone()]).await;
                self.repeated += memory.iter().filter(|r| matches!(r, Ok(Created::Repeat(_)))).count();
                same("create", memory, self.sqlite.create(vec![create]).await);
            }
            2 => {
                let batch = vec![self.some_message(), self.some_message()];
                let memory = self.memory.send(batch.clone()).await;
                same("send", memory, self.sqlite.send(batch).await);
            }
            4 => {
                let tags = self.some_tags();
                let purge = Purge::Matching { query: Query { tags, ..Query::default() }, budget: 1 };
                let memory = self.memory.purge(purge.clone()).await;
                same("purge", vec![memory], vec![self.sqlite.purge(purge).await]);
            }
            3 => {
                // Over the head of whoever holds it.
                let held: Vec<&ClaimedTurn> = self.sessions.iter().flat_map(|pair| &pair.turns).collect();
                if !held.is_empty() {
                    let mut change = step(held[self.random.below(held.len() as u64) as usize]);
                    change.consumed.clear();
                    let memory = self.memory.amend(change.clone()).await;
                    self.amended += usize::from(memory.is_ok());
                    same("amend", vec![memory], vec![self.sqlite.amend(change).await]);
                }
            }
            5 => self.clock.advance(Duration::from_secs(self.random.below(20))),
            6 => {
                let pair = self.sessions.remove(0);
                if self.random.below(2) == 0 {
                    same("detach", vec![pair.memory.detach().await], vec![pair.sqlite.detach().await]);
                } else {
                    let memory = self.memory.end_session(pair.id).await;
                    same("end_session", vec![memory], vec![self.sqlite.end_session(pair.id).await]);
                }
                self.attach().await;
            }
            _ => {
                same("scale", vec![self.memory.scale().await], vec![self.sqlite.scale().await]);
                let order = [Order::OldestFirst, Order::NewestFirst][self.random.below(2) as usize];
                let query = Query { tags: self.some_tags(), page: 3, order, ..Query::default() };
                let memory = self.memory.query(query.clone()).await;
                let found = memory.as_ref().map_or(0, |page| page.records.len());
                self.tagged += if query.tags.is_empty() { 0 } else { found };
                same("query", vec![memory], vec![self.sqlite.query(query).await]);
            }
        }
    }

    async fn session_call(&mut self, kind: u64) {
        let at = self.random.below(self.sessions.len() as u64) as usize;
        let mut pair = self.sessions.remove(at);
        match kind {
            0 => {
                let want = self.some_want();
                let (memory, sqlite) =
                    (pair.memory.claim_turns(want.clone()).await, pair.sqlite.claim_turns(want).await);
                same("claim_turns", memory.unwrap_or_default(), sqlite.clone().unwrap_or_default());
                pair.turns.extend(sqlite.unwrap_or_default());
            }
            1 if !pair.turns.is_empty() => {
                let turn = pair.turns.remove(self.random.below(pair.turns.len() as u64) as usize);
                let step = self.some_step(&turn, &mut pair.tasks);
                let memory = pair.memory.commit_turns(vec![step.clone().into()]).await;
                self.committed += usize::from(memory[0].is_ok());
                if let Ok(committed) = &memory[0] {
                    pair.tasks.extend(committed.taken.iter().cloned());
                    pair.turns.extend(goes_on(&step, committed));
                }
                same("commit_turns", memory, pair.sqlite.commit_turns(vec![step.clone().into()]).await);
                if self.random.below(4) == 0 {
                    let memory = pair.memory.commit_turns(vec![step.clone().into()]).await;
                    same("the same again", memory, pair.sqlite.commit_turns(vec![step.into()]).await);
                }
            }
            2 => self.mail_call(&mut pair).await,
            3 => {
                let (memory, sqlite) = (
                    pair.memory.claim_activities(want(100)).await,
                    pair.sqlite.claim_activities(want(100)).await,
                );
                same("claim_activities", memory.unwrap_or_default(), sqlite.clone().unwrap_or_default());
                pair.tasks.extend(sqlite.unwrap_or_default());
            }
            4 if !pair.tasks.is_empty() => {
                let done = vec![answer(pair.tasks.remove(0))];
                let memory = pair.memory.complete_activities(done.clone()).await;
                same("complete_activities", memory, pair.sqlite.complete_activities(done).await);
            }
            5 => {
                let turns = pair.turns.pop().map(|turn| Item::Turn(turn.fence));
                let items = turns.into_iter().chain(pair.tasks.pop().map(|task| Item::Task(task.fence)));
                let trouble = Trouble {
                    kind: TroubleKind::Panic,
                    reason: "it broke".into(),
                    since: self.clock.now(),
                    attempts: 0,
                };
                let failed = self.random.below(2) == 0;
                let delay = Duration::from_secs(self.random.below(10));
                let releases: Vec<Release> = items
                    .map(|item| Release { item, delay, trouble: failed.then(|| trouble.clone()), failed })
                    .collect();
                let memory = pair.memory.release(releases.clone()).await;
                same("release", memory, pair.sqlite.release(releases).await);
            }
            _ => {
                let (memory, sqlite) = (pair.memory.renew().await, pair.sqlite.renew().await);
                same("renew", memory.unwrap_or_default(), sqlite.unwrap_or_default());
            }
        }
        self.sessions.push(pair);
    }

    /// Reads the mail of a turn that the session holds.
    async fn mail_call(&mut self, pair: &mut Pair) {
        if pair.turns.is_empty() {
            return;
        }
        let at = self.random.below(pair.turns.len() as u64) as usize;
        let fence = pair.turns[at].fence.clone();
        let memory = pair.memory.mail(vec![fence.clone()]).await;
        same("mail", memory.clone(), pair.sqlite.mail(vec![fence]).await);
        if let Ok(mail) = memory.into_iter().next().unwrap() {
            self.read += mail.messages.len();
            pair.turns[at].messages = mail.messages;
        }
        // A store may name instances that the session has not committed.
        let named = pair.sqlite.waiting_mail().await.unwrap_or_default();
        let kept = pair.memory.waiting_mail().await.unwrap_or_default();
        for one in kept.instances {
            assert!(named.instances.contains(&one), "{one} is not among {named:?}");
        }
        let first = named.next.into_iter().chain(kept.next).min();
        assert_eq!(named.next, first, "never later than the next message of a kept instance");
    }

    async fn compare(&self) {
        same("everything", everything(&*self.memory).await, everything(&*self.sqlite).await);
    }
}

/// All, little or nothing is held in memory: what is read and what is known must be the same.
fn memory_held(seed: u64) -> Memory {
    match seed % 3 {
        0 => Memory::default(),
        1 => Memory { instances: 2, messages: 1 },
        _ => Memory { instances: 0, messages: 0 },
    }
}

/// Answers how many turns were committed, with how many results, how many were changed from outside, how many were found by
/// their tags, and how many starts were repeats.
async fn random_calls(seed: u64, folder: &Folder) -> [usize; 6] {
    let clock = clock();
    let memory_held = memory_held(seed);
    let sqlite =
        SqliteStore::open(folder.file(), Options { memory: memory_held, ..options(&clock) }).unwrap();
    let memory = MemoryStore::new(Arc::new(Shown(clock.clone())));
    memory.set_limits(options(&clock).limits);
    let (memory, sqlite) = (memory.hub(HubName::default()), sqlite.hub(HubName::default()));
    let mut both = Both {
        random: Random(seed),
        clock,
        memory,
        sqlite,
        sessions: vec![],
        next: 0,
        committed: 0,
        fused: 0,
        read: 0,
        amended: 0,
        tagged: 0,
        repeated: 0,
    };
    for _ in 0..3 {
        both.attach().await;
    }
    for _ in 0..CALLS {
        // What becomes ready at the same time may be claimed in any order, and orders are compared.
        both.clock.advance(Duration::from_millis(1));
        match both.random.below(32) {
            0..3 => both.client_call(0).await,
            3..6 => both.client_call(2).await,
            6 => both.client_call(4).await,
            7 | 8 => both.client_call(5).await,
            9 => both.client_call(6).await,
            10 => both.client_call(7).await,
            11 => both.client_call(3).await,
            12..17 => both.session_call(0).await,
            17..22 => both.session_call(1).await,
            22 => both.session_call(2).await,
            call => both.session_call((call - 23) % 4 + 3).await,
        }
        both.compare().await;
    }
    [both.committed, both.fused, both.amended, both.tagged, both.repeated, both.read]
}

#[test]
fn both_stores_answer_and_hold_the_same() {
    let mut all = [0; 6];
    for seed in 1..=RUNS {
        // The name of the thread tells the seed when it fails.
        let named = std::thread::Builder::new().name(format!("seed {seed}"));
        let done = named.spawn(move || run(random_calls(seed, &Folder::new()))).unwrap().join();
        let done = done.expect("the thread has told what differs");
        all.iter_mut().zip(done).for_each(|(sum, one)| *sum += one);
    }
    let [committed, fused, amended, tagged, repeated, read] = all;
    let enough = committed > 250 && fused > 50 && amended > 20 && tagged > 20 && repeated > 20 && read > 20;
    assert!(
        enough,
        "{committed} commits with {fused} results, {amended} amended, {tagged} tagged, {repeated} repeats, {read} read: too little"
    );
}
