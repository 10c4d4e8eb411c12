//! A small world: one store, one hub, and words for what happens in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use futures::future::BoxFuture;

use dauer_memory::{ManualClock, MemoryHub, MemoryStore};
use dauer_store::*;

pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const BEGIN: Timestamp = Timestamp(1_000_000);

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: MemoryStore,
    pub(crate) hub: Arc<MemoryHub>,
    next: AtomicU64,
}

pub(crate) fn id(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

pub(crate) fn bytes(count: usize) -> Encoded {
    Encoded::from_stored(vec![1; count].into())
}

pub(crate) fn message_id(number: u64) -> MessageId {
    MessageId(u128::from(number).to_be_bytes())
}

/// What a session asks for, of turns or of tasks.
#[derive(Clone)]
pub(crate) struct Want {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    pub(crate) queues: Queues,
}

pub(crate) fn want(count: usize) -> Want {
    Want { count, bytes: usize::MAX, queues: Queues::default() }
}

impl Want {
    /// Credit for turns, or for tasks, under the next number of its session.
    pub(crate) fn credit(self, number: u64, turns: bool) -> Credit {
        let amount = Amount { count: self.count, bytes: self.bytes };
        let (turns, tasks) = if turns { (amount, Amount::default()) } else { (Amount::default(), amount) };
        Credit { number, turns, tasks, queues: self.queues, ..Credit::default() }
    }
}

/// Numbers of credit: they grow for every session.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// Looks once with that credit, and has none afterwards.
fn look(session: &Arc<dyn Work>, want: Want, turns: bool) -> Result<Next, Refused> {
    session.credit(want.credit(next_number(), turns));
    let next = block_on(session.next(Until::Once));
    session.credit(Credit { number: next_number(), ..Credit::default() });
    next
}

pub(crate) fn only(name: &str) -> Queues {
    let filter = Filter::from_iter([(name.into(), VersionRule::Any)]);
    Queues { orchestrations: filter.clone(), entities: filter.clone(), activities: filter }
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::new(BEGIN));
        let store = MemoryStore::new(clock.clone());
        let hub = store.hub(HubName::new("tests").unwrap());
        Self { clock, store, hub, next: AtomicU64::new(1) }
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn session_of(&self, host: &str, number: u128) -> Arc<dyn Work> {
        block_on(self.hub.attach(host_of(host, number))).unwrap()
    }

    pub(crate) fn session(&self) -> Arc<dyn Work> {
        let number = self.number();
        self.session_of(&format!("host{number}"), u128::from(number))
    }

    pub(crate) fn message(&self, to: &str, class: Class) -> Message {
        Message {
            id: message_id(self.number()),
            to: id(to),
            execution: None,
            class,
            origin: Origin::Client { request: None },
            answers: None,
            visible_at: self.store.now(),
            event: bytes(10),
        }
    }

    pub(crate) fn event(&self, to: &str) -> Message {
        self.message(to, Class::Ordinary)
    }

    pub(crate) fn start(&self, to: &str, name: &str) -> Message {
        let message = self.event(to);
        let queue = QueueKey::new(Kind::Orchestration, name, None);
        let execution = ExecutionId(u128::from_be_bytes(message.id.0) << 32);
        Message { class: Class::Start(Box::new(Opening::new(queue, execution))), ..message }
    }

    pub(crate) fn try_create(&self, start: Message, reuse: Reuse) -> Result<Created, Refused> {
        block_on(self.hub.create(vec![Create::new(start, reuse)])).remove(0)
    }

    pub(crate) fn create(&self, start: &Message) {
        let created = self.try_create(start.clone(), Reuse::default()).unwrap();
        assert!(matches!(created, Created::New(_)), "{created:?}");
    }

    pub(crate) fn send(&self, message: &Message) -> Delivered {
        block_on(self.hub.send(vec![message.clone()])).remove(0).unwrap()
    }

    pub(crate) fn get(&self, of: &str) -> (Fence, Record) {
        block_on(self.hub.get(vec![id(of)])).unwrap().remove(0).unwrap()
    }

    /// Starts an instance and runs its first turn, which lets go of it.
    pub(crate) fn running(&self, of: &str) -> ClaimedTurn {
        self.create(&self.start(of, "Orders"));
        let session = self.session();
        let turn = turn_of(&session, of);
        commit(&session, step(&turn)).unwrap();
        block_on(session.detach()).unwrap();
        turn
    }

    pub(crate) fn task(&self, turn: &ClaimedTurn, name: &str) -> Task {
        let number = self.number();
        Task {
            id: message_id(number),
            instance: turn.fence.instance.clone(),
            execution: turn.fence.execution,
            event_id: i32::try_from(number).unwrap(),
            queue: QueueKey::new(Kind::Activity, name, None),
            tags: Tags::new(),
            event: bytes(10),
        }
    }

    pub(crate) fn answer(&self, lease: &TaskLease) -> Completion {
        let event = self.event(lease.task.instance.as_str());
        let execution = Some(lease.task.execution);
        let answer = Message { execution, answers: Some(lease.task.id), ..event };
        Completion { fence: lease.fence.clone(), answer }
    }

    pub(crate) fn dump(&self) -> Vec<DumpItem> {
        dump_of(&self.hub)
    }

    pub(crate) fn dumped(&self, of: &str) -> InstanceDump {
        let found = self.dump().into_iter().find_map(|item| match item {
            DumpItem::Instance(dump) if dump.id == id(of) => Some(*dump),
            _ => None,
        });
        found.unwrap()
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        let found = self.dump().into_iter().find_map(|item| match item {
            DumpItem::Dropped(of, count) if of == reason => Some(count),
            _ => None,
        });
        found.unwrap_or(0)
    }
}

pub(crate) fn host_of(host: &str, number: u128) -> Host {
    Host { id: HostId::new(host).unwrap(), session: SessionId(number), lease: LEASE, runs_code: true }
}

pub(crate) fn dump_of(hub: &MemoryHub) -> Vec<DumpItem> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let part = block_on(hub.dump(after)).unwrap();
        items.extend(part.items);
        after = part.next;
        if after.is_none() {
            return items;
        }
    }
}

pub(crate) fn try_turns(session: &Arc<dyn Work>, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
    look(session, want, true).map(|next| next.turns)
}

pub(crate) fn turns(session: &Arc<dyn Work>, want: Want) -> Vec<ClaimedTurn> {
    try_turns(session, want).unwrap()
}

pub(crate) fn turn_of(session: &Arc<dyn Work>, of: &str) -> ClaimedTurn {
    let mut claimed = turns(session, want(100));
    assert_eq!(names(&claimed), [of]);
    claimed.remove(0)
}

pub(crate) fn tasks(session: &Arc<dyn Work>) -> Vec<TaskLease> {
    tasks_of(session, want(100))
}

pub(crate) fn tasks_of(session: &Arc<dyn Work>, want: Want) -> Vec<TaskLease> {
    look(session, want, false).unwrap().tasks
}

pub(crate) fn names(turns: &[ClaimedTurn]) -> Vec<&str> {
    turns.iter().map(|turn| turn.fence.instance.as_str()).collect()
}

pub(crate) fn ids(messages: &[Message]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

pub(crate) fn batch(count: u32) -> Batch {
    Batch { count, events: bytes(count as usize * 10), consumed: Vec::new(), produced: Vec::new() }
}

/// Consumes what the turn was given, appends one event and lets go.
pub(crate) fn step(turn: &ClaimedTurn) -> Checkpoint {
    Checkpoint {
        fence: turn.fence.clone(),
        consumed: ids(&turn.messages),
        completions: Vec::new(),
        history: History::Append(batch(1)),
        record: Record { status: Status::Running, ..turn.record.clone() }.since(&turn.record.details),
        tasks: Vec::new(),
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then: Then::Release { delay: Duration::ZERO },
    }
}

pub(crate) fn ended(turn: &ClaimedTurn, status: Status) -> Checkpoint {
    let step = step(turn);
    Checkpoint { record: NextRecord { status, ..step.record }, ..step }
}

pub(crate) fn commit(session: &Arc<dyn Work>, checkpoint: Checkpoint) -> Result<Committed, Refused> {
    block_on(session.commit_turns(vec![checkpoint.into()])).remove(0)
}

pub(crate) fn complete(session: &Arc<dyn Work>, completion: Completion) -> Delivered {
    block_on(session.complete_activities(vec![completion])).remove(0).unwrap()
}

pub(crate) fn release(item: Item) -> Release {
    Release { item, delay: Duration::ZERO, trouble: None, failed: false }
}

pub(crate) fn fenced<T: std::fmt::Debug>(result: Result<T, Refused>) {
    assert!(matches!(result, Err(Refused::Fenced)), "{result:?}");
}

/// The environment of a host whose clock stands still.
#[derive(Default)]
pub(crate) struct StillEnv;

impl Env for StillEnv {
    fn now(&self) -> Timestamp {
        BEGIN
    }

    fn steady(&self) -> Steady {
        Steady(0)
    }

    fn sleep_until(&self, _at: Steady) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _work: BoxFuture<'static, ()>) {
        panic!("a wait spawns nothing")
    }

    fn random(&self) -> u64 {
        0
    }
}
