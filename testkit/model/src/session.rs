//! One session of a host, with what the store keeps for it while it is open: credit and items that were not returned.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dauer_store::{
    Amount, Changes, Checkpoint, ClaimedTurn, Committed, Completion, Credit, Death, Deaths, Delivered, Fence,
    Item, Lost, Mail, Next, Recalled, Refused, Release, SessionId, Slice, TaskLease, TaskName, Trial, Until,
    Work,
};
use futures::future::{Either, ready};

use crate::fault::{Call, unpoisoned};
use crate::hub::ModelHub;
use crate::mistake::{Mistake as M, Wrong};
use crate::state::{Found, State};

/// Credit, and what it has won.
#[derive(Default)]
pub(crate) struct Desk {
    credit: Credit,
    /// Numbers up to this one win nothing.
    recalled: Option<u64>,
    /// What `next` has not returned, with the number of the credit that won it.
    turns: Vec<(u64, ClaimedTurn)>,
    tasks: Vec<(u64, TaskLease)>,
    /// How many of them do not count; only a mistake sets it.
    uncounted: usize,
    /// Everything that was won, with the number of the credit that won it.
    known: Vec<(u64, Item)>,
}

impl Desk {
    pub(crate) fn credit(&self) -> &Credit {
        &self.credit
    }

    fn set(&mut self, credit: Credit, wrong: Wrong) {
        let recalled = self.recalled.is_some_and(|last| credit.number <= last);
        if !recalled || wrong.makes(M::RecalledNumberWins) {
            self.credit = credit;
        }
        if wrong.makes(M::UnreturnedUncounted) {
            self.uncounted = self.turns.len();
        }
    }

    /// The room for the next turn, and whether it is won whatever its size.
    pub(crate) fn turn_room(&self, wrong: Wrong) -> Option<(usize, bool)> {
        let counted = self.turns.iter().skip(self.uncounted);
        let sizes = counted.map(|(_, turn)| turn.messages.iter().map(|m| m.event.len()).sum());
        room(self.credit.turns, sizes, wrong)
    }

    /// The same for the next task.
    pub(crate) fn task_room(&self, wrong: Wrong) -> Option<(usize, bool)> {
        room(self.credit.tasks, self.tasks.iter().map(|(_, lease)| lease.task.event.len()), wrong)
    }

    pub(crate) fn win_turn(&mut self, turn: ClaimedTurn) {
        self.known.push((self.credit.number, Item::Turn(turn.fence.clone())));
        self.turns.push((self.credit.number, turn));
    }

    pub(crate) fn win_task(&mut self, lease: TaskLease) {
        self.known.push((self.credit.number, Item::Task(lease.fence.clone())));
        self.tasks.push((self.credit.number, lease));
    }

    fn take(&mut self, found: &Found, wrong: Wrong) -> Next {
        let keeps = wrong.makes(M::NextReturnsTwice);
        let turns = if keeps { self.turns.clone() } else { std::mem::take(&mut self.turns) };
        let tasks = std::mem::take(&mut self.tasks);
        self.credit.turns.count = self.credit.turns.count.saturating_sub(turns.len());
        self.credit.tasks.count = self.credit.tasks.count.saturating_sub(tasks.len());
        self.uncounted = 0;
        Next {
            turns: turns.into_iter().map(|(_, turn)| turn).collect(),
            tasks: tasks.into_iter().map(|(_, lease)| lease).collect(),
            mail: found.mail.clone(),
        }
    }

    /// Ends the numbers up to `last`. Returns what was won with those from `first` on.
    fn recall(&mut self, first: u64, last: u64, wrong: Wrong) -> Vec<Item> {
        self.recalled = self.recalled.max(Some(last));
        if self.credit.number <= last && !wrong.makes(M::RecalledNumberWins) {
            (self.credit.turns, self.credit.tasks) = Default::default();
        }
        self.turns.retain(|(number, _)| *number > last);
        self.tasks.retain(|(number, _)| *number > last);
        let asked = self.known.iter().filter(|(number, _)| (first..=last).contains(number));
        asked.map(|(_, item)| item.clone()).collect()
    }
}

/// What is left of credit after items of these sizes.
fn room(credit: Amount, sizes: impl Iterator<Item = usize>, wrong: Wrong) -> Option<(usize, bool)> {
    let sizes: Vec<usize> = sizes.collect();
    let count = if wrong.makes(M::CountIgnored) && credit.count > 0 { usize::MAX } else { credit.count };
    let bytes = if wrong.makes(M::BytesIgnored) { usize::MAX } else { credit.bytes };
    let left = bytes.saturating_sub(sizes.iter().sum());
    (sizes.len() < count).then_some((left, sizes.is_empty()))
}

/// One session in one hub of a model.
pub(crate) struct ModelSession {
    hub: ModelHub,
    id: SessionId,
    desk: Arc<Mutex<Desk>>,
}

impl ModelSession {
    pub(crate) fn open(hub: ModelHub, id: SessionId) -> Self {
        let desk = Arc::<Mutex<Desk>>::default();
        hub.model().open(hub.name(), id, &desk);
        Self { hub, id, desk }
    }

    fn read<T>(&self, operation: impl FnOnce(&mut State) -> T) -> T {
        self.hub.model().read(self.hub.name(), operation)
    }

    /// Looks once. What it has won is no longer kept for the next call.
    fn look(&self) -> Result<(Next, Found), Refused> {
        self.read(|state| {
            let mut desk = unpoisoned(&self.desk);
            let found = state.look(self.id, &mut desk)?;
            let next = desk.take(&found, state.wrong());
            Ok((next, found))
        })
    }
}

#[async_trait]
impl Work for ModelSession {
    fn session(&self) -> SessionId {
        self.id
    }

    fn credit(&self, credit: Credit) {
        let wrong = self.read(|state| state.wrong());
        unpoisoned(&self.desk).set(credit, wrong);
        if !wrong.makes(M::CreditWakesNothing) {
            self.hub.model().ring();
        }
    }

    async fn next(&self, until: Until<'_>) -> Result<Next, Refused> {
        let model = self.hub.model();
        loop {
            let ends = match until {
                Until::Once => true,
                Until::At(env, at) => env.steady() >= at,
            };
            let rung = model.rung();
            let (next, found) = model.call(Call::Next, || self.look()).await??;
            if ends || !next.is_empty() {
                return Ok(next);
            }
            let sleep = match until {
                Until::Once => Either::Left(ready(())),
                Until::At(env, at) => {
                    let due = found.due.map(|due| env.steady().after(due));
                    Either::Right(env.sleep_until(due.into_iter().chain([at]).min().unwrap_or(at)))
                }
            };
            model.changed(rung, sleep).await;
        }
    }

    async fn recall(&self, first: u64, last: u64) -> Result<Recalled, Refused> {
        self.read(|state| {
            let items = unpoisoned(&self.desk).recall(first, last, state.wrong());
            state.recalled(self.id, &items)
        })
    }

    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>> {
        self.read(|state| fences.iter().map(|fence| state.mail(self.id, fence)).collect())
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        self.read(|state| state.load_history(self.id, fence, (from, max_bytes)))
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        let commit =
            |state: &mut State, checkpoint| state.commit(Some(self.id), Arc::unwrap_or_clone(checkpoint));
        self.hub.batch(Call::CommitTurns, batch, commit).await
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        let complete = |state: &mut State, completion| state.complete(self.id, completion);
        self.hub.batch(Call::CompleteActivities, batch, complete).await
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        self.hub.write(|state| state.renew(self.id))
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        let release = |item: Release| self.hub.write(|state| state.release(self.id, item));
        items.into_iter().map(release).collect()
    }

    async fn adopt(&self, tasks: Vec<TaskName>) -> Vec<Result<Option<TaskLease>, Refused>> {
        let adopt = |name: TaskName| self.hub.write(|state| state.adopt(self.id, name));
        tasks.into_iter().map(adopt).collect()
    }

    async fn died(&self, deaths: Vec<Death>) -> Vec<Result<Deaths, Refused>> {
        let died = |death: Death| self.hub.write(|state| state.died(self.id, &death));
        deaths.into_iter().map(died).collect()
    }

    async fn trial(&self, trials: Vec<Trial>) -> Vec<Result<(), Refused>> {
        let trial = |trial: Trial| self.hub.write(|state| state.trial(self.id, &trial));
        trials.into_iter().map(trial).collect()
    }

    async fn detach(&self) -> Result<(), Refused> {
        self.hub.write(|state| state.detach(self.id));
        Ok(())
    }

    fn changes(&self) -> Changes {
        self.hub.model().changes()
    }
}
