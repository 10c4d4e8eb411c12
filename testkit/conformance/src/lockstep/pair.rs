//! One session on both stores, and what its host has.

use std::sync::Arc;

use dauer_store::{
    Checkpoint, ClaimedTurn, Credit, Host, Next, Recalled, Refused, SessionId, TaskLease, Until, Work,
};

use super::{same, same_answer};

pub(super) struct Pair {
    pub(super) host: Host,
    pub(super) model: Arc<dyn Work>,
    pub(super) other: Arc<dyn Work>,
    /// The number of the last credit.
    pub(super) number: u64,
    /// The first number whose answers were lost.
    pub(super) unheard: Option<u64>,
    pub(super) turns: Vec<ClaimedTurn>,
    pub(super) tasks: Vec<TaskLease>,
    pub(super) last_commit: Option<Checkpoint>,
}

impl Pair {
    pub(super) fn new(host: Host, model: Arc<dyn Work>, other: Arc<dyn Work>) -> Self {
        let (turns, tasks) = (Vec::new(), Vec::new());
        Self { host, model, other, number: 0, unheard: None, turns, tasks, last_commit: None }
    }

    pub(super) fn id(&self) -> SessionId {
        self.model.session()
    }

    /// Sets credit under the next number.
    pub(super) fn grant(&mut self, credit: Credit) {
        self.number += 1;
        self.set(credit);
    }

    /// Takes the credit back.
    pub(super) fn take_back(&self) {
        self.set(Credit::default());
    }

    pub(super) fn set(&self, credit: Credit) {
        let credit = Credit { number: self.number, ..credit };
        self.model.credit(credit.clone());
        self.other.credit(credit);
    }

    /// Looks once on both stores. Returns the answer of the judged one.
    pub(super) async fn look(&self) -> Option<Next> {
        let (model, other) = (self.model.next(Until::Once).await, self.other.next(Until::Once).await);
        let what = format!("next of {:?}", self.id());
        same_answer(
            &what,
            &model.as_ref().map(|_| ()).map_err(Clone::clone),
            &other.as_ref().map(|_| ()).map_err(Clone::clone),
        );
        let (Ok(model), Ok(other)) = (model, other) else { return None };
        same(&format!("turns by {what}"), &model.turns, &other.turns);
        same(&format!("tasks by {what}"), &model.tasks, &other.tasks);
        // A store may name instances that the session has not committed.
        let named = model.mail.iter().all(|id| other.mail.contains(id));
        assert!(named, "mail by {what}\nmodel: {:?}\nother: {:?}", model.mail, other.mail);
        Some(other)
    }

    /// The host has these now.
    pub(super) fn take(&mut self, turns: Vec<ClaimedTurn>, tasks: Vec<TaskLease>) {
        for turn in turns {
            if !self.turns.iter().any(|held| held.fence == turn.fence) {
                self.turns.push(turn);
            }
        }
        for lease in tasks {
            if !self.tasks.iter().any(|held| held.fence == lease.fence) {
                self.tasks.push(lease);
            }
        }
    }

    /// Gets back what was won with numbers from `first` on.
    pub(super) async fn recall(&mut self, first: u64) -> Option<Recalled> {
        let last = self.number;
        let model = self.model.recall(first, last).await;
        let other = self.other.recall(first, last).await;
        let what = format!("recall of {first} to {last} by {:?}", self.id());
        let outcome = |answer: &Result<Recalled, Refused>| answer.as_ref().map(|_| ()).map_err(Clone::clone);
        same_answer(&what, &outcome(&model), &outcome(&other));
        let (Ok(model), Ok(other)) = (model, other) else { return None };
        same(&format!("turns by {what}"), &model.turns, &other.turns);
        same(&format!("tasks by {what}"), &model.tasks, &other.tasks);
        Some(other)
    }
}
