//! The world of one rule: a hub, its sessions and its clock, in words short enough that a rule fits a screen.

use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{Either, select};

use dauer_store::{
    ClaimedTurn, Create, Created, Delivered, DumpItem, Fence, Host, HostId, HubName, Inspection, InstanceId,
    Message, Page, Query, Record, Refused, Reuse, SessionId, Status, Store, Timestamp, Work,
};

use crate::fixture::{Call, Fault, FaultPlan, Fixture, Hub};
use crate::hands::Hands;
use crate::message;
use crate::session::Session;
use crate::snapshot::Snapshot;
use crate::step::Step;

/// How long sessions live without renewal: far longer than any rule takes, so that only the clock's hook ends them.
pub const LEASE: Duration = Duration::from_secs(600);
/// Longer than a lease.
pub const PAST_LEASE: Duration = Duration::from_secs(660);
/// An hour, for things that are delayed.
pub const HOUR: Duration = Duration::from_secs(3600);

/// A hub of its own for one rule.
pub struct World<'a> {
    /// The rule this world belongs to; every failed check names it.
    pub rule: &'static str,
    /// The store's time when the rule began.
    pub began: Timestamp,
    fixture: &'a dyn Fixture,
    hub: Hub,
    hands: Hands,
    next: AtomicU64,
}

impl<'a> World<'a> {
    /// Opens a hub named after the rule.
    pub async fn open(fixture: &'a dyn Fixture, rule: &'static str) -> Self {
        let name = rule.split('_').next().unwrap_or(rule);
        Self::named(fixture, rule, name, 1).await
    }

    /// Opens a second hub on the same store.
    pub async fn beside(&self, suffix: &str) -> World<'a> {
        // Far from the first hub's numbers: sessions are unique in the whole store.
        Self::named(self.fixture, self.rule, &format!("{}{suffix}", self.hub.name), 1_000_000).await
    }

    async fn named(fixture: &'a dyn Fixture, rule: &'static str, name: &str, first: u64) -> World<'a> {
        let name = HubName::new(name).unwrap_or_else(|invalid| panic!("{rule}: {invalid}"));
        let manage = fixture.store().hub(name.clone());
        let hub = Hub { name, manage };
        let hands = Hands::default();
        let mut world = Self { rule, began: Timestamp(0), fixture, hub, hands, next: AtomicU64::new(first) };
        let began = world.everything().await.into_iter().find_map(|item| match item {
            DumpItem::Now(now) => Some(now),
            _ => None,
        });
        world.began = began.unwrap_or_else(|| panic!("{rule}: a dump tells the store's time"));
        world
    }

    /// The client's half of the hub.
    #[must_use]
    pub fn manage(&self) -> &dyn dauer_store::Manage {
        &*self.hub.manage
    }

    /// The store that the hub is in.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        self.fixture.store()
    }

    /// The hub's name.
    #[must_use]
    pub fn name(&self) -> &HubName {
        &self.hub.name
    }

    /// A number that this world has not given before.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The store's time so long after the rule began.
    #[must_use]
    pub fn at(&self, after: Duration) -> Timestamp {
        self.began.after(after)
    }

    /// Fails the rule unless that holds.
    #[track_caller]
    pub fn check(&self, holds: bool, what: &str) {
        assert!(holds, "{}: {what}", self.rule);
    }

    /// Fails the rule unless both are the same.
    #[track_caller]
    pub fn same<T: PartialEq + Debug>(&self, found: &T, expected: &T, what: &str) {
        assert!(found == expected, "{}: {what}\n   found: {found:?}\nexpected: {expected:?}", self.rule);
    }

    /// Fails the rule unless the call was fenced.
    #[track_caller]
    pub fn fenced<T: Debug>(&self, result: Result<T, Refused>, what: &str) {
        assert!(matches!(result, Err(Refused::Fenced)), "{}: {what} should be fenced: {result:?}", self.rule);
    }

    /// What a call gave, which must not be refused.
    #[track_caller]
    pub fn ok<T>(&self, result: Result<T, Refused>, call: &str) -> T {
        result.unwrap_or_else(|refused| panic!("{}: {call} was refused: {refused}", self.rule))
    }

    #[track_caller]
    fn single<T>(&self, mut answers: Vec<T>, call: &str) -> T {
        let count = answers.len();
        match (answers.pop(), count) {
            (Some(answer), 1) => answer,
            _ => panic!("{}: {call} of one item has {count} answers", self.rule),
        }
    }

    /// Opens a session with a lease of [`LEASE`], of a process that executes code.
    pub async fn session(&self) -> Session {
        self.session_that(true).await
    }

    /// The same of a server, whose workers are elsewhere.
    pub async fn server(&self) -> Session {
        self.session_that(false).await
    }

    async fn session_that(&self, runs_code: bool) -> Session {
        let number = self.number();
        let id = HostId::new(format!("host {number}")).expect("short and printable");
        let host = Host { id, session: SessionId(u128::from(number)), lease: LEASE, runs_code };
        self.session_of(self.fixture.session(&self.hub, host).await)
    }

    /// A session that the rule has opened itself.
    #[must_use]
    pub fn session_of(&self, work: Arc<dyn Work>) -> Session {
        Session::new(self.rule, work, self.hands.clone())
    }

    /// The host of the session dies.
    pub async fn kill(&self, session: Session) {
        self.fixture.kill(session.into_work()).await;
    }

    /// Moves the store's clock, and then that of the hosts.
    pub async fn advance(&self, by: Duration) {
        self.fixture.advance(by).await;
        self.hands.advance(by);
    }

    /// Makes one call under a fault and gives its answer; fails the rule when the fault did not strike.
    pub async fn faulted<T>(&self, call: Call, fault: Fault, made: impl Future<Output = T>) -> T {
        let struck = self.fixture.fault(FaultPlan { call, fault }).await;
        let answer = made.await;
        struck.await;
        answer
    }

    /// Makes a call, lets the store carry it out, and drops it before its answer comes.
    pub async fn dropped<T>(&self, call: Call, made: impl Future<Output = T>) {
        let struck = self.fixture.fault(FaultPlan { call, fault: Fault::AnswerWithheld }).await;
        match select(pin!(made), struck).await {
            Either::Left(_) => panic!("{}: the answer of {call:?} should have been withheld", self.rule),
            Either::Right(_) => {}
        }
    }

    /// Creates an instance by that start.
    pub async fn create(&self, start: Message, reuse: Reuse) -> Result<Created, Refused> {
        self.single(self.manage().create(vec![Create::new(start, reuse)]).await, "create")
    }

    /// Starts an instance that was not there, and gives its start.
    pub async fn start(&self, id: &str) -> Message {
        let start = self.start_message(id);
        self.start_with(start.clone()).await;
        start
    }

    /// Starts an instance that was not there by that start.
    pub async fn start_with(&self, start: Message) {
        let execution = message::execution(&start);
        let created = self.create(start, Reuse::default()).await;
        let created = self.ok(created, "create");
        self.same(&created, &Created::New(execution), "an absent instance is created");
    }

    /// Sends a message.
    pub async fn send(&self, message: Message) -> Delivered {
        let delivered = self.try_send(message).await;
        self.ok(delivered, "send")
    }

    /// Sends a message that may be refused.
    pub async fn try_send(&self, message: Message) -> Result<Delivered, Refused> {
        self.single(self.manage().send(vec![message]).await, "send")
    }

    /// Sends a message that arrives.
    pub async fn deliver(&self, message: Message) {
        let delivered = self.send(message).await;
        self.same(&delivered, &Delivered::Applied, "the message arrives");
    }

    /// The record of an instance, and its fence.
    pub async fn get(&self, id: &str) -> Option<(Fence, Record)> {
        let records = self.ok(self.manage().get(vec![instance(id)]).await, "get");
        self.single(records, "get")
    }

    /// The record of an instance that is there, and its fence.
    pub async fn found(&self, id: &str) -> (Fence, Record) {
        self.get(id).await.unwrap_or_else(|| panic!("{}: {id} should exist", self.rule))
    }

    /// An instance that no session has claimed, as a turn with these messages: what an amendment from outside is made of.
    pub async fn unclaimed(&self, id: &str, messages: Vec<Message>) -> ClaimedTurn {
        let stored = self.snapshot().await;
        let found = stored.instance(id).unwrap_or_else(|| panic!("{}: '{id}' is there", self.rule));
        let record = found.record.clone();
        let (execution, revision) = (record.execution, record.revision);
        let fence = Fence { instance: instance(id), execution, revision, epoch: found.epoch };
        ClaimedTurn { fence, record, messages, more: false, history: None, now: self.began }
    }

    /// What an inspection tells of an instance.
    pub async fn inspect(&self, id: &str) -> Option<Inspection> {
        let found = self.ok(self.manage().inspect(vec![instance(id)]).await, "inspect");
        self.single(found, "inspect")
    }

    /// One page of a query. A store that says it lags is asked again after that long: then the answer must be true.
    pub async fn query(&self, query: Query) -> Page {
        let page = self.ok(self.manage().query(query.clone()).await, "query");
        if page.lag.is_zero() {
            return page;
        }
        self.advance(page.lag).await;
        self.ok(self.manage().query(query).await, "query")
    }

    /// Everything the hub holds, as [`dauer_store::Manage::load`] takes it.
    pub async fn everything(&self) -> Vec<DumpItem> {
        let (mut items, mut after) = (Vec::new(), None);
        loop {
            let part = self.ok(self.manage().dump(after).await, "dump");
            items.extend(part.items);
            after = part.next;
            if after.is_none() {
                return items;
            }
        }
    }

    /// Everything the hub holds, to compare and to look into.
    pub async fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.everything().await)
    }

    /// Runs one turn of an instance that is the only one ready, and lets go of it.
    pub async fn run(&self, step: impl FnOnce(&ClaimedTurn) -> Step) -> ClaimedTurn {
        let session = self.session().await;
        let turn = session.turn().await;
        session.commit(step(&turn)).await;
        turn
    }

    /// Starts an instance and runs its first turn: running, open, nobody holds it, nothing waits.
    pub async fn running(&self, id: &str) -> ClaimedTurn {
        self.start(id).await;
        self.run(Step::of).await
    }

    /// A running instance with one scheduled task.
    pub async fn running_with_task(&self, id: &str) -> ClaimedTurn {
        self.start(id).await;
        self.run(|turn| Step::of(turn).tasks([self.task(turn, "pay")])).await
    }

    /// Starts an instance and ends it in its first turn.
    pub async fn ended(&self, id: &str) -> ClaimedTurn {
        self.start(id).await;
        self.run(|turn| Step::of(turn).ended(Status::Completed)).await
    }
}

impl World<'_> {
    /// Replaces an ended instance by another start, and ends that in its first turn.
    pub async fn ended_again(&self, id: &str) -> ClaimedTurn {
        let created = self.create(self.start_message(id), Reuse::default()).await;
        let created = self.ok(created, "create");
        self.check(matches!(created, Created::New(_)), "an ended instance is replaced");
        self.run(|turn| Step::of(turn).ended(Status::Completed)).await
    }
}

/// An instance id that is known to be valid.
#[must_use]
pub fn instance(id: &str) -> InstanceId {
    InstanceId::new(id).expect("the rules use short, printable ids")
}
