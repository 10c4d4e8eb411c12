//! One host at work, with the claims and commits that rules are made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dauer_store::{
    Amount, Checkpoint, ClaimedTurn, Committed, Completion, Credit, Death, Deaths, Delivered, Fence, Item,
    Lost, Mail, Next, Recalled, Refused, Release, SessionId, TaskLease, TaskName, Trial, Trouble, Until,
    Work,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::hands::Hands;

/// A session, and the rule it serves: what must not go wrong fails that rule by name.
pub struct Session {
    rule: &'static str,
    work: Arc<dyn Work>,
    hands: Hands,
    /// The number of the last credit.
    number: AtomicU64,
}

/// Credit for that many turns, of any queue and size. The session gives it its number.
#[must_use]
pub fn turns(count: usize) -> Credit {
    Credit { turns: Amount::items(count), ..Credit::default() }
}

/// Credit for that many tasks, of any queue and size. The session gives it its number.
#[must_use]
pub fn tasks(count: usize) -> Credit {
    Credit { tasks: Amount::items(count), ..Credit::default() }
}

/// More than any rule makes ready.
const ALL: usize = 100;

/// Longer than any rule moves the clock.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);

/// A call of `next` that has begun.
pub type Waits<'s> = BoxFuture<'s, Result<Next, Refused>>;

impl Session {
    pub(crate) fn new(rule: &'static str, work: Arc<dyn Work>, hands: Hands) -> Self {
        Self { rule, work, hands, number: AtomicU64::new(0) }
    }

    pub(crate) fn into_work(self) -> Arc<dyn Work> {
        self.work
    }

    /// Which session this is.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.work.session()
    }

    /// The session itself, for calls that a rule makes with care.
    #[must_use]
    pub fn work(&self) -> &Arc<dyn Work> {
        &self.work
    }

    fn ok<T>(&self, result: Result<T, Refused>, call: &str) -> T {
        result.unwrap_or_else(|refused| panic!("{}: {call} was refused: {refused}", self.rule))
    }

    fn single<T>(&self, mut answers: Vec<T>, call: &str) -> T {
        let count = answers.len();
        match (answers.pop(), count) {
            (Some(answer), 1) => answer,
            _ => panic!("{}: {call} of one item has {count} answers", self.rule),
        }
    }

    /// Sets credit under a number of its own, and gives that number.
    pub fn grant(&self, credit: Credit) -> u64 {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        self.work.credit(Credit { number, ..credit });
        number
    }

    /// Takes the credit back.
    pub fn take_back(&self) {
        let number = self.number.load(Ordering::Relaxed);
        self.work.credit(Credit { number, ..Credit::default() });
    }

    /// Looks once, with the credit that is set.
    pub async fn look(&self) -> Next {
        self.ok(self.work.next(Until::Once).await, "next")
    }

    /// Wins what is ready with that credit in one look, and takes the credit back.
    pub async fn try_win(&self, credit: Credit) -> Result<Next, Refused> {
        self.grant(credit);
        let next = self.work.next(Until::Once).await;
        self.take_back();
        next
    }

    /// Waits until there is something.
    #[must_use]
    pub fn waits(&self) -> Waits<'_> {
        self.work.next(Until::At(&self.hands, self.hands.after(FOR_EVER)))
    }

    /// Waits until there is something, or so much time has passed.
    #[must_use]
    pub fn waits_for(&self, duration: Duration) -> Waits<'_> {
        self.work.next(Until::At(&self.hands, self.hands.after(duration)))
    }

    /// The call has nothing to return yet.
    #[track_caller]
    pub fn still_waits(&self, waits: &mut Waits<'_>, why: &str) {
        if let Some(next) = waits.now_or_never() {
            panic!("{}: {why}, but the call returned {next:?}", self.rule);
        }
    }

    /// The end of a call that waits.
    pub async fn returned(&self, waits: Waits<'_>) -> Next {
        self.ok(waits.await, "next")
    }

    /// Gets back what was won with these numbers.
    pub async fn recall(&self, first: u64, last: u64) -> Recalled {
        self.ok(self.work.recall(first, last).await, "recall")
    }

    /// Wins turns.
    pub async fn claim(&self, credit: Credit) -> Vec<ClaimedTurn> {
        self.ok(self.try_win(credit).await, "next").turns
    }

    /// Claims every turn that is ready.
    pub async fn turns(&self) -> Vec<ClaimedTurn> {
        self.claim(turns(ALL)).await
    }

    /// Claims every turn that is ready; that is one.
    pub async fn turn(&self) -> ClaimedTurn {
        let mut turns = self.turns().await;
        assert!(turns.len() == 1, "{}: one turn should be ready, not {}", self.rule, turns.len());
        turns.remove(0)
    }

    /// Claims every turn that is ready, and gives that one.
    pub async fn turn_of(&self, id: &str) -> ClaimedTurn {
        let turn = self.turns().await.into_iter().find(|turn| turn.fence.instance.as_str() == id);
        turn.unwrap_or_else(|| panic!("{}: {id} should be ready", self.rule))
    }

    /// Claims, and there is nothing.
    pub async fn no_turn(&self, why: &str) {
        let turns = self.turns().await;
        let ids: Vec<_> = turns.iter().map(|turn| &turn.fence.instance).collect();
        assert!(ids.is_empty(), "{}: {why}, but {ids:?} was claimed", self.rule);
    }

    /// The kept instances for which messages wait, by one look.
    pub async fn waiting_mail(&self) -> Vec<String> {
        self.take_back();
        named(&self.look().await)
    }

    /// Reads the messages for an instance.
    pub async fn mail(&self, fence: &Fence) -> Mail {
        let read = self.try_mail(fence).await;
        self.ok(read, "mail")
    }

    /// Reads the messages for an instance, if the session may.
    pub async fn try_mail(&self, fence: &Fence) -> Result<Mail, Refused> {
        self.single(self.work.mail(vec![fence.clone()]).await, "mail")
    }

    /// Wins tasks.
    pub async fn claim_tasks(&self, credit: Credit) -> Vec<TaskLease> {
        self.ok(self.try_win(credit).await, "next").tasks
    }

    /// Claims every task that is ready.
    pub async fn tasks(&self) -> Vec<TaskLease> {
        self.claim_tasks(tasks(ALL)).await
    }

    /// Claims every task that is ready; that is one.
    pub async fn task(&self) -> TaskLease {
        let mut tasks = self.tasks().await;
        assert!(tasks.len() == 1, "{}: one task should be ready, not {}", self.rule, tasks.len());
        tasks.remove(0)
    }

    /// Claims tasks, and there is nothing.
    pub async fn no_task(&self, why: &str) {
        let none = self.tasks().await.is_empty();
        assert!(none, "{}: {why}, but a task was claimed", self.rule);
    }

    /// Commits one turn, which succeeds.
    pub async fn commit(&self, step: impl Into<Checkpoint>) -> Committed {
        let result = self.try_commit(step).await;
        self.ok(result, "commit_turns")
    }

    /// Commits one turn.
    pub async fn try_commit(&self, step: impl Into<Checkpoint>) -> Result<Committed, Refused> {
        self.single(self.work.commit_turns(vec![Arc::new(step.into())]).await, "commit_turns")
    }

    /// Answers one task.
    pub async fn complete(&self, completion: Completion) -> Delivered {
        let result =
            self.single(self.work.complete_activities(vec![completion]).await, "complete_activities");
        self.ok(result, "complete_activities")
    }

    /// Renews the session.
    pub async fn renew(&self) -> Vec<Lost> {
        self.ok(self.work.renew().await, "renew")
    }

    /// Gives one item back.
    pub async fn release(&self, release: Release) {
        let result = self.single(self.work.release(vec![release]).await, "release");
        self.ok(result, "release");
    }

    /// Gives one item back at once.
    pub async fn release_item(&self, item: Item) {
        self.release(Release { item, delay: Duration::ZERO, trouble: None, failed: false }).await;
    }

    /// Adopts a task.
    pub async fn adopt(&self, name: &TaskName) -> Option<TaskLease> {
        let result = self.try_adopt(name).await;
        self.ok(result, "adopt")
    }

    /// Adopts a task, if the session may.
    pub async fn try_adopt(&self, name: &TaskName) -> Result<Option<TaskLease>, Refused> {
        self.single(self.work.adopt(vec![name.clone()]).await, "adopt")
    }

    /// Reports that a worker died with an item of which the session knows these deaths.
    pub async fn died(&self, item: &Item, known: Deaths) -> Result<Deaths, Refused> {
        self.single(self.work.died(vec![Death { item: item.clone(), known }]).await, "died")
    }

    /// Opens or closes a trial of an item.
    pub async fn trial(&self, item: &Item, open: bool) {
        let result = self.try_trial(item, open).await;
        self.ok(result, "trial");
    }

    /// Opens or closes a trial of an item, if the session may.
    pub async fn try_trial(&self, item: &Item, open: bool) -> Result<(), Refused> {
        self.single(self.work.trial(vec![Trial { item: item.clone(), open }]).await, "trial")
    }

    /// Ends the session.
    pub async fn detach(&self) {
        self.ok(self.work.detach().await, "detach");
    }
}

/// The instances whose messages an answer names.
#[must_use]
pub(crate) fn named(next: &Next) -> Vec<String> {
    next.mail.iter().map(ToString::to_string).collect()
}

/// How an item is given back.
pub trait GiveBack {
    /// The item.
    fn item(&self) -> Item;

    /// At once, as if it had never been claimed.
    fn plainly(&self) -> Release {
        Release { item: self.item(), delay: Duration::ZERO, trouble: None, failed: false }
    }

    /// As a failed attempt.
    fn failed(&self) -> Release {
        Release { failed: true, ..self.plainly() }
    }

    /// Not to be claimed for so long.
    fn delayed(&self, delay: Duration) -> Release {
        Release { delay, ..self.plainly() }
    }

    /// As a failed attempt, with what went wrong.
    fn troubled(&self, trouble: Trouble) -> Release {
        Release { trouble: Some(trouble), ..self.failed() }
    }
}

impl GiveBack for ClaimedTurn {
    fn item(&self) -> Item {
        Item::Turn(self.fence.clone())
    }
}

impl GiveBack for TaskLease {
    fn item(&self) -> Item {
        Item::Task(self.fence.clone())
    }
}
