//! One host at work, with the claims and commits that rules are made of.

use std::sync::Arc;
use std::time::Duration;

use dauer_store::{
    Checkpoint, ClaimedTurn, Committed, Completion, Delivered, Fence, Item, Lost, Mail, Queues, Refused,
    Release, SessionId, Tags, TaskLease, Trouble, Want, Work,
};

/// A session, and the rule it serves: what must not go wrong fails that rule by name.
pub struct Session {
    pub(crate) rule: &'static str,
    pub(crate) work: Arc<dyn Work>,
}

/// Asks for up to so many items of any kind and size.
#[must_use]
pub fn want(count: usize) -> Want {
    Want { count, bytes: usize::MAX, queues: Queues::default(), tags: Tags::new() }
}

/// More than any rule makes ready.
const ALL: usize = 100;

impl Session {
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

    /// Claims turns.
    pub async fn claim(&self, want: Want) -> Vec<ClaimedTurn> {
        self.ok(self.work.claim_turns(want).await, "claim_turns")
    }

    /// Claims every turn that is ready.
    pub async fn turns(&self) -> Vec<ClaimedTurn> {
        self.claim(want(ALL)).await
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

    /// The ids of kept instances for which messages wait.
    pub async fn waiting_mail(&self) -> Vec<String> {
        let waiting = self.ok(self.work.waiting_mail().await, "waiting_mail");
        waiting.instances.iter().map(ToString::to_string).collect()
    }

    /// How long until the next message for a kept instance becomes visible.
    pub async fn next_mail(&self) -> Option<Duration> {
        self.ok(self.work.waiting_mail().await, "waiting_mail").next
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

    /// Claims tasks.
    pub async fn claim_tasks(&self, want: Want) -> Vec<TaskLease> {
        self.ok(self.work.claim_activities(want).await, "claim_activities")
    }

    /// Claims every task that is ready.
    pub async fn tasks(&self) -> Vec<TaskLease> {
        self.claim_tasks(want(ALL)).await
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
        self.single(self.work.commit_turns(vec![std::sync::Arc::new(step.into())]).await, "commit_turns")
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

    /// Ends the session.
    pub async fn detach(&self) {
        self.ok(self.work.detach().await, "detach");
    }
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
