//! Turns and tasks that were won: each begins once, as soon as there is a place for it.
//!
//! Invariants:
//! - Every won item is in exactly one place: it waits here, is held ([`Slots`](super::slots::Slots)), or is being given back.
//! - An item that was received is not taken a second time from a recall, whatever has become of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;

use dauer_store::{ClaimedTurn, Item, Release, TaskLease, TaskName};

use super::slots::Admitted;
use super::suspects::Suspect;
use super::{Dispatch, Step, activity};

/// What was won and has no place yet, and what was received and may be recalled.
#[derive(Default)]
pub(super) struct Wins {
    turns: VecDeque<ClaimedTurn>,
    tasks: VecDeque<TaskLease>,
    /// Items that came under the current number of credit or later.
    received: Vec<Item>,
    /// Items that came under the number before.
    received_before: Vec<Item>,
}

impl Wins {
    /// How many turns and tasks wait for a place.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.turns.len(), self.tasks.len())
    }

    /// The turns that wait for a place.
    pub(super) fn turns(&self) -> impl Iterator<Item = &ClaimedTurn> {
        self.turns.iter()
    }

    /// How many items were received under the current number of credit.
    pub(super) fn received(&self) -> usize {
        self.received.len()
    }

    /// Later items come under the next number of credit.
    pub(super) fn next_number(&mut self) {
        self.received_before = std::mem::take(&mut self.received);
    }

    /// Nothing that was received can come back: its numbers were recalled.
    pub(super) fn forget_received(&mut self) {
        self.received_before = Vec::new();
        self.received = Vec::new();
    }

    /// Drops a task that was won and has been adopted since, under a later epoch.
    pub(super) fn forget_task(&mut self, adopted: &TaskName) {
        self.tasks.retain(|lease| lease.fence.task != adopted.task);
    }

    /// Takes out what waits for a place.
    pub(super) fn take_waiting(&mut self) -> (VecDeque<ClaimedTurn>, VecDeque<TaskLease>) {
        (std::mem::take(&mut self.turns), std::mem::take(&mut self.tasks))
    }

    fn is_new(&self, item: &Item) -> bool {
        !self.received.contains(item) && !self.received_before.contains(item)
    }

    fn received_all(&mut self, turns: &[ClaimedTurn], tasks: &[TaskLease]) {
        self.received.extend(turns.iter().map(|turn| Item::Turn(turn.fence.clone())));
        self.received.extend(tasks.iter().map(|task| Item::Task(task.fence.clone())));
    }
}

impl Dispatch {
    /// The session has won these.
    pub(super) fn won(&mut self, turns: Vec<ClaimedTurn>, tasks: Vec<TaskLease>) {
        if let Some(latest) = turns.iter().map(|turn| turn.now).max() {
            tracing::debug!(count = turns.len(), "turns were won");
            self.clock.hear(latest, &*self.session.env);
            self.room.turns_won();
        }
        self.wins.received_all(&turns, &tasks);
        // What has been adopted since, under a later epoch, is not held as it was won.
        let tasks =
            tasks.into_iter().filter(|lease| !self.slots.runs_later(&lease.fence)).collect::<Vec<_>>();
        for turn in turns {
            match self.suspects.lets_begin(turn.record.deaths) {
                true => self.wins.turns.push_back(turn),
                false => self.won_turn(turn),
            }
        }
        for lease in tasks {
            match self.suspects.lets_begin(lease.deaths) {
                true => self.wins.tasks.push_back(lease),
                false => self.won_task(lease),
            }
        }
        self.begin_won();
    }

    /// The store has returned these again, some of which may have been received before.
    pub(super) fn won_again(&mut self, mut turns: Vec<ClaimedTurn>, mut tasks: Vec<TaskLease>) {
        turns.retain(|turn| self.wins.is_new(&Item::Turn(turn.fence.clone())));
        tasks.retain(|task| self.wins.is_new(&Item::Task(task.fence.clone())));
        self.won(turns, tasks);
        self.wins.forget_received();
    }

    /// A server that stops gives back the tasks that no worker has: the end of its session would mark them, and the next
    /// server would wait for their answers.
    pub(super) fn return_waiting_tasks(&mut self) {
        if self.session.executor.runs_code() {
            return;
        }
        for lease in std::mem::take(&mut self.wins.tasks) {
            self.tasks.take(1);
            self.give_task_back(lease.fence, Duration::ZERO, false);
        }
    }

    /// Begins what has a place now.
    pub(super) fn begin_won(&mut self) {
        if self.stopping {
            self.return_waiting_tasks();
        }
        while !self.wins.turns.is_empty() && self.room.for_won_turns(self.load()) > 0 {
            self.wins.turns.pop_front().into_iter().for_each(|turn| self.won_turn(turn));
        }
        while !self.wins.tasks.is_empty() && self.room.for_won_tasks(self.load()) > 0 {
            let Some(lease) = self.wins.tasks.pop_front() else { break };
            self.won_task(lease);
        }
    }

    fn won_task(&mut self, lease: TaskLease) {
        let has_room = self.room.for_won_tasks(self.load()) > 0;
        self.tasks.take(1);
        let rest = activity::rest(&lease, self.session.options.restart_grace);
        if let Some(rest) = rest.filter(|_| self.session.executor.runs_code()) {
            // A worker of a server may still execute it. It takes no place here meanwhile.
            return self.give_task_back(lease.fence, rest, false);
        }
        self.begin_task_or_put_back(lease, has_room);
    }

    pub(super) fn won_turn(&mut self, turn: ClaimedTurn) {
        let has_room = self.room.for_won_turns(self.load()) > 0;
        match self.slots.admit(turn) {
            Admitted::Begin(begin, orphans) => {
                self.answer_all(orphans);
                self.begin_or_put_back(Suspect::Turn(begin), has_room);
            }
            Admitted::Stale(fence) => {
                let (session, item) = (Arc::clone(&self.session), Item::Turn(fence));
                let release = Release { item, delay: Duration::ZERO, trouble: None, failed: false };
                let released = async move { session.give_back(release).await };
                self.steps.push(released.map(|()| Step::WinReleased).boxed());
            }
            Admitted::Waits | Admitted::Known => {}
        }
    }
}
