//! Every operation with every act: how often it is carried out, what the caller is told, and what the plan learns.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dauer_core::send::{self, Caller};
use dauer_faults::{
    Act, Answer, Call, Destination, Fate, Faulty, Interceptor, Op, Plan, Struck, wrap_hub, wrap_session,
    wrap_store,
};
use dauer_memory::{ManualClock, MemoryStore};
use dauer_store::{
    Batch, Changes, Checkpoint, Completion, Credit, Death, Deaths, Details, Epoch, ExecutionId, Fence,
    History, HubKey, HubName, Item, Kind, List, Manage as _, Message, MessageId, Purge, Query, QueueKey,
    Record, Release, Revision, SessionId, Store, TaskFence, TaskName, Then, Timestamp, Trial, Until, Work,
};
use futures::FutureExt;
use futures::executor::block_on;
use support::{Script, create, credit, host, id};

/// Notes each operation that reaches the store.
#[derive(Default)]
struct Arrived(Mutex<Vec<Op>>);

#[async_trait]
impl Interceptor for Arrived {
    async fn call(&self, call: Call, to: Destination<'_>) -> Answer {
        self.0.lock().unwrap().push(call.op());
        to.carry_out(call).await
    }

    fn credit(&self, credit: Credit, to: &Arc<dyn Work>) {
        self.0.lock().unwrap().push(Op::Credit);
        to.credit(credit);
    }
}

impl Arrived {
    fn count(&self, op: Op) -> usize {
        let mut arrived = self.0.lock().unwrap();
        let count = arrived.iter().filter(|arrived| **arrived == op).count();
        arrived.clear();
        count
    }
}

fn fence() -> Fence {
    Fence { instance: id("order"), execution: ExecutionId(1), revision: Revision(0), epoch: Epoch(0) }
}

fn task_fence() -> TaskFence {
    TaskFence { task: MessageId([1; 16]), instance: id("order"), epoch: Epoch(1) }
}

fn message() -> Message {
    send::raise(id("order"), "go", None, Caller { request: 9, repeatable: true, now: Timestamp(1_000) })
        .unwrap()
}

fn checkpoint() -> Checkpoint {
    let queue = QueueKey::new(Kind::Orchestration, "code", None);
    Checkpoint {
        fence: fence(),
        consumed: Vec::new(),
        completions: Vec::new(),
        history: History::Append(Batch::join(&[], Vec::new(), Vec::new()).unwrap()),
        record: Record::pending(queue, ExecutionId(1), MessageId([0; 16])).since(&Details::new()),
        tasks: Vec::new(),
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then: Then::Release { delay: Duration::ZERO },
    }
}

/// A call of each operation. Batches have two items.
fn sample(op: Op) -> Call {
    let completion = || Completion { fence: task_fence(), answer: message() };
    let task_name = || TaskName { instance: id("order"), task: task_fence().task };
    let death = |item| Death { item, known: Deaths::default() };
    let trial = |item| Trial { item, open: true };
    let release = |item| Release { item, delay: Duration::ZERO, trouble: None, failed: false };
    match op {
        Op::Hubs => Call::Hubs {},
        Op::HasHub => Call::HasHub { name: HubName::default() },
        Op::DeleteHub => Call::DeleteHub { name: HubName::new("other").unwrap() },
        Op::Close => Call::Close {},
        Op::Create => Call::Create { batch: vec![create("one"), create("two")] },
        Op::Send => Call::Send { batch: vec![message(), message()] },
        Op::Amend => Call::Amend { checkpoint: checkpoint().into() },
        Op::Get => Call::Get { ids: vec![id("order")] },
        Op::Inspect => Call::Inspect { ids: vec![id("order")] },
        Op::Sessions => Call::Sessions {},
        Op::Query => Call::Query { query: Query::default() },
        Op::List => Call::List { list: List::default() },
        Op::ReadHistory => {
            Call::ReadHistory { instance: id("order"), execution: None, from: 0, max_bytes: usize::MAX }
        }
        Op::ReadStart => Call::ReadStart { instance: id("order") },
        Op::Purge => Call::Purge { purge: Purge::Ids(vec![id("order")]) },
        Op::Retry => Call::Retry { ids: vec![id("order")] },
        Op::Key => Call::Key { candidate: HubKey([7; 32]) },
        Op::Attach => Call::Attach { host: host(2) },
        Op::EndSession => Call::EndSession { session: SessionId(3) },
        Op::Scale => Call::Scale {},
        Op::Dump => Call::Dump { after: None },
        Op::Load => Call::Load { items: Vec::new() },
        Op::Credit => Call::Credit { credit: credit(1, 1) },
        Op::Next => Call::Next { until: None },
        Op::Recall => Call::Recall { first: 0, last: 0 },
        Op::Mail => Call::Mail { fences: vec![fence(), fence()] },
        Op::LoadHistory => Call::LoadHistory { fence: fence(), from: 0, max_bytes: usize::MAX },
        Op::CommitTurns => Call::CommitTurns { batch: vec![checkpoint().into(), checkpoint().into()] },
        Op::CompleteActivities => Call::CompleteActivities { batch: vec![completion(), completion()] },
        Op::Renew => Call::Renew {},
        Op::Release => {
            Call::Release { items: vec![release(Item::Turn(fence())), release(Item::Task(task_fence()))] }
        }
        Op::Adopt => Call::Adopt { tasks: vec![task_name(), task_name()] },
        Op::Died => Call::Died { deaths: vec![death(Item::Turn(fence())), death(Item::Task(task_fence()))] },
        Op::Trial => {
            Call::Trial { trials: vec![trial(Item::Turn(fence())), trial(Item::Task(task_fence()))] }
        }
        Op::Detach => Call::Detach {},
    }
}

/// A store behind faults, and what reaches it.
struct World {
    plan: Arc<Script>,
    arrived: Arc<Arrived>,
    store: Arc<dyn Store>,
}

impl World {
    fn new() -> Self {
        let memory = MemoryStore::new(Arc::new(ManualClock::new(Timestamp(1_000))));
        let (plan, arrived) = (Arc::<Script>::default(), Arc::<Arrived>::default());
        let store = wrap_store(Arc::new(memory), Arc::clone(&arrived) as Arc<dyn Interceptor>);
        Self { plan, arrived, store }
    }

    /// Makes the call through the traits. `None` while there is no answer.
    fn call(&self, call: Call) -> Option<Answer> {
        let faulty: Arc<dyn Interceptor> = Arc::new(Faulty::new(Arc::clone(&self.plan) as Arc<dyn Plan>));
        let hub = self.store.hub(HubName::default());
        let session = block_on(hub.attach(host(1))).unwrap();
        self.arrived.0.lock().unwrap().clear();
        let to = match call.op() {
            Op::Hubs | Op::HasHub | Op::DeleteHub | Op::Close => {
                Destination::Store(wrap_store(Arc::clone(&self.store), faulty))
            }
            Op::Credit
            | Op::Next
            | Op::Recall
            | Op::Mail
            | Op::LoadHistory
            | Op::CommitTurns
            | Op::CompleteActivities
            | Op::Renew
            | Op::Release
            | Op::Adopt
            | Op::Died
            | Op::Trial
            | Op::Detach => Destination::Session(wrap_session(session, faulty), Until::Once),
            _ => Destination::Hub(wrap_hub(hub, faulty)),
        };
        to.carry_out(call).now_or_never()
    }
}

/// How often the text of the answer has that refusal.
fn refusals(answer: &Answer, word: &str) -> usize {
    format!("{answer:?}").matches(word).count()
}

fn check(op: Op, act: Act) {
    let world = World::new();
    let (call, fate) = (sample(op), Fate::of(act));
    world.plan.then(op, fate);
    let items = call.items();
    let answer = world.call(call);
    let times = match act {
        Act::Pass | Act::LoseAnswer | Act::Withhold => 1,
        Act::Refuse | Act::LoseRequest => 0,
        Act::Twice => 2,
    };
    assert_eq!(world.arrived.count(op), times, "{op} {act:?}");
    let struck = if act == Act::Pass { Vec::new() } else { vec![Struck { op, fate }] };
    assert_eq!(world.plan.struck(), struck, "{op} {act:?}");
    assert_eq!(answer.is_none(), act == Act::Withhold, "{op} {act:?}");
    let Some(answer) = answer else { return };
    assert_eq!(answer.op(), op);
    let injected = refusals(&answer, "injected fault");
    let (refused, unknown) = (refusals(&answer, "NotExecuted("), refusals(&answer, "Unknown("));
    match act {
        Act::Pass | Act::Twice => assert_eq!(injected, 0, "{answer:?}"),
        Act::Refuse => assert_eq!((injected, refused), (items, items), "{answer:?}"),
        Act::LoseRequest | Act::LoseAnswer => assert_eq!((injected, unknown), (items, items), "{answer:?}"),
        Act::Withhold => {}
    }
}

#[test]
fn each_operation_is_answered_as_each_act_says() {
    for op in Op::ALL {
        for act in Act::ALL.into_iter().filter(|act| act.impossible(*op).is_none()) {
            check(*op, act);
        }
    }
}

#[test]
fn impossible_act_passes_and_is_not_counted() {
    let mut impossible = 0;
    for op in Op::ALL {
        for act in Act::ALL.into_iter().filter(|act| act.impossible(*op).is_some()) {
            let world = World::new();
            world.plan.then(*op, Fate::of(act));
            let answer = world.call(sample(*op)).unwrap();
            assert_eq!((world.arrived.count(*op), answer.op()), (1, *op), "{op} {act:?}");
            assert_eq!(world.plan.struck(), [], "{op} {act:?}");
            impossible += 1;
        }
    }
    // Four of credit, three of close, and `next` twice.
    assert_eq!(impossible, 8);
}

#[test]
fn wrapper_without_an_interceptor_of_its_own_changes_nothing() {
    struct Unnoticed;
    impl Interceptor for Unnoticed {
        fn changes(&self, changes: Changes) -> Changes {
            changes
        }
    }
    let memory = MemoryStore::new(Arc::new(ManualClock::new(Timestamp(1_000))));
    let hub = wrap_hub(memory.hub(HubName::default()), Arc::new(Unnoticed));
    block_on(hub.create(vec![create("order")])).remove(0).unwrap();
    let session = block_on(hub.attach(host(1))).unwrap();
    assert_eq!(session.session(), SessionId(1));
    session.credit(credit(1, 1));
    let turns = block_on(session.next(Until::Once)).unwrap().turns;
    assert_eq!(turns[0].fence.instance, id("order"));
    assert_eq!(hub.limits(), memory.hub(HubName::default()).limits());
}
