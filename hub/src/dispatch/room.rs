//! How much this host may have in progress, and how much of it is granted to the store as credit.
//!
//! Invariants:
//! - No more turns and tasks are granted than there are free places for, beside those that wait for a place here.
//! - A grant stays the same while more than half of a limit is free: the store need not be told of every item.
//! - Where results are fused, no more turns are granted than there is room for tasks, except after [`TASK_ROOM_PATIENCE`].

use std::time::Duration;

use dauer_core::model::{Filter, Queues};
use dauer_store::Steady;

use crate::executor::{Capacity, Executor};
use crate::options::{CLAIMED_SHARE, HostOptions, TASK_ROOM_PATIENCE};

/// What is in progress here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Load {
    /// Turns that run or are being committed.
    pub(super) turns: usize,
    /// Those of them that were won, not begun by a result or by mail.
    pub(super) won: usize,
    /// Tasks that run, or have results that the store does not have yet.
    pub(super) tasks: usize,
    /// Won turns and tasks that wait for a place.
    pub(super) waiting: (usize, usize),
}

/// How many turns and tasks the store may win for this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Grant {
    pub(super) turns: usize,
    pub(super) tasks: usize,
}

/// How long turns wait for room for their tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Fresh,
    Waits(Steady),
    /// Turns are granted whatever room there is, until one is won.
    Over,
}

pub(super) struct Room {
    turns_max: usize,
    tasks_max: usize,
    fuses: bool,
    /// What the executor said when it was last asked, and the load at that time; `None` to ask again.
    asked_at: Option<Load>,
    queues: Queues,
    capacity: Capacity,
    patience: Patience,
    has_timer: bool,
}

impl Room {
    pub(super) fn new(options: &HostOptions, executor: &dyn Executor) -> Self {
        Self {
            turns_max: options.turns_max,
            tasks_max: options.activities_max,
            fuses: executor.fuses(),
            asked_at: None,
            queues: executor.queues(),
            capacity: executor.capacity(),
            patience: Patience::Fresh,
            has_timer: false,
        }
    }

    /// What the executor can run.
    pub(super) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// The executor can run something else now.
    pub(super) fn executor_changed(&mut self) {
        self.asked_at = None;
    }

    /// Asks the executor what it can run, where that may have changed. Returns whether other queues are served. An executor that
    /// fuses says so itself; one whose workers are elsewhere has other queues and room with every item that they get.
    pub(super) fn refresh(&mut self, executor: &dyn Executor, load: Load) -> bool {
        if self.asked_at.is_some_and(|at| self.fuses || at == load) {
            return false;
        }
        self.asked_at = Some(load);
        self.capacity = executor.capacity();
        let queues = executor.queues();
        let changed = queues != self.queues;
        self.queues = queues;
        changed
    }

    /// How many turns and tasks run at once at most.
    pub(super) fn slots(&self) -> usize {
        let turns = self.turns_max.min(self.capacity.turns);
        turns.saturating_add(self.tasks_max.min(self.capacity.activities))
    }

    /// How many won turns may begin. Turns that results began count too: what was begun is finished first. But they may not
    /// take all the room, or instances that never come to rest would keep all others out.
    pub(super) fn for_won_turns(&self, load: Load) -> usize {
        free_turns(self.turns_max, load)
    }

    /// How many won tasks may begin.
    pub(super) fn for_won_tasks(&self, load: Load) -> usize {
        self.tasks_max.saturating_sub(load.tasks)
    }

    /// How many tasks a turn may take.
    pub(super) fn for_tasks(&self, load: Load) -> usize {
        self.tasks_max.min(self.capacity.activities).saturating_sub(load.tasks + load.waiting.1)
    }

    /// What is granted now; and when to look again whether there is room for tasks.
    ///
    /// Where results are fused no more is begun than there is room for tasks: an instance whose task cannot be taken
    /// has to be let go, and costs twice as much. Activities that take long hold that up for a moment only.
    pub(super) fn grant(&mut self, load: Load, now: impl Fn() -> Steady) -> (Grant, Option<Steady>) {
        let (turns_max, tasks_max) =
            (self.turns_max.min(self.capacity.turns), self.tasks_max.min(self.capacity.activities));
        let mut turns = level(free_turns(turns_max, load).saturating_sub(load.waiting.0), turns_max);
        let mut tasks = level(self.for_tasks(load), tasks_max);
        let mut timer = None;
        if self.fuses && self.tasks_max > 0 {
            if tasks > 0 {
                self.patience = Patience::Fresh;
            } else if turns > 0 && self.patience == Patience::Fresh {
                let until = now().after(TASK_ROOM_PATIENCE);
                self.patience = Patience::Waits(until);
                timer = (!std::mem::replace(&mut self.has_timer, true)).then_some(until);
            }
            turns = if self.patience == Patience::Over { turns } else { turns.min(tasks) };
        }
        if is_none(&self.queues.orchestrations) && is_none(&self.queues.entities) {
            turns = 0;
        }
        if is_none(&self.queues.activities) {
            tasks = 0;
        }
        (Grant { turns, tasks }, timer)
    }

    /// The timer of [`Self::grant`] has ended. Returns the next one.
    pub(super) fn look_again(&mut self, now: Steady) -> Option<Steady> {
        self.has_timer = false;
        let Patience::Waits(until) = self.patience else { return None };
        if until.since(now) > Duration::ZERO {
            self.has_timer = true;
            return Some(until);
        }
        self.patience = Patience::Over;
        None
    }

    /// Turns were won: the next ones wait for room for their tasks again.
    pub(super) fn turns_won(&mut self) {
        if self.patience == Patience::Over {
            self.patience = Patience::Fresh;
        }
    }
}

fn free_turns(most: usize, load: Load) -> usize {
    let share = most.div_ceil(CLAIMED_SHARE);
    most.saturating_sub(load.turns).max(share.saturating_sub(load.won))
}

/// Half of the limit as long as that is free, then what is free.
fn level(free: usize, most: usize) -> usize {
    free.min(most.div_ceil(2))
}

fn is_none(filter: &Filter) -> bool {
    matches!(filter, Filter::Names(names) if names.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{ActivityEnd, ActivityWork, TurnDone, TurnWork, Unfinished};
    use async_trait::async_trait;

    /// What is asked of it is all that it says.
    struct Says {
        fuses: bool,
        queues: Queues,
        capacity: Capacity,
    }

    #[async_trait]
    impl Executor for Says {
        fn queues(&self) -> Queues {
            self.queues.clone()
        }
        fn capacity(&self) -> Capacity {
            self.capacity
        }
        fn fuses(&self) -> bool {
            self.fuses
        }
        async fn turn(&self, _: TurnWork) -> Result<TurnDone, Unfinished> {
            unreachable!("nothing runs here")
        }
        async fn activity(&self, _: ActivityWork) -> ActivityEnd {
            unreachable!("nothing runs here")
        }
    }

    fn says(fuses: bool) -> Says {
        Says { fuses, queues: Queues::default(), capacity: Capacity::UNBOUNDED }
    }

    fn room(says: &Says, turns_max: usize, activities_max: usize) -> Room {
        Room::new(&HostOptions { turns_max, activities_max, ..HostOptions::default() }, says)
    }

    fn load(turns: usize, won: usize, tasks: usize) -> Load {
        Load { turns, won, tasks, waiting: (0, 0) }
    }

    fn granted(room: &mut Room, load: Load) -> (usize, usize) {
        let (grant, _) = room.grant(load, || Steady(0));
        (grant.turns, grant.tasks)
    }

    #[test]
    fn grant_stays_while_half_is_free_and_follows_then() {
        let mut room = room(&says(false), 8, 4);
        for (turns, tasks, expected) in
            [(0, 0, (4, 2)), (4, 2, (4, 2)), (5, 3, (3, 1)), (8, 4, (1, 0)), (9, 5, (1, 0))]
        {
            assert_eq!(granted(&mut room, load(turns, 0, tasks)), expected, "{turns} turns, {tasks} tasks");
        }
        assert_eq!(granted(&mut room, load(8, 1, 4)), (0, 0), "the share of won turns is in use");
        let waiting = Load { waiting: (5, 3), ..load(0, 0, 0) };
        assert_eq!(granted(&mut room, waiting), (3, 1), "what waits here counts");
    }

    #[test]
    fn executor_without_queues_or_capacity_gets_no_grant() {
        let queues =
            |turns, tasks| Queues { orchestrations: turns, entities: Filter::none(), activities: tasks };
        let nothing = Says { queues: queues(Filter::none(), Filter::none()), ..says(false) };
        assert_eq!(granted(&mut room(&nothing, 8, 8), Load::default()), (0, 0));
        let tasks = Says { queues: queues(Filter::none(), Filter::All), ..says(false) };
        assert_eq!(granted(&mut room(&tasks, 8, 8), Load::default()), (0, 4));
        let full = Says { capacity: Capacity { turns: 0, activities: 0 }, ..says(false) };
        assert_eq!(granted(&mut room(&full, 8, 8), Load::default()), (0, 0));
    }

    #[test]
    fn executor_is_asked_again_when_it_or_its_load_changed() {
        let mut says = says(false);
        let mut room = room(&says, 8, 8);
        assert!(!room.refresh(&says, load(0, 0, 0)), "the same queues as before");
        says.queues.entities = Filter::none();
        assert!(!room.refresh(&says, load(0, 0, 0)), "nothing has changed here");
        assert!(room.refresh(&says, load(1, 1, 0)));
        says.queues.entities = Filter::All;
        room.executor_changed();
        assert!(room.refresh(&says, load(1, 1, 0)));
    }

    #[test]
    fn turns_wait_a_moment_for_room_for_their_tasks() {
        let mut room = room(&says(true), 8, 4);
        let full = load(0, 0, 4);
        let patience = Steady(0).after(TASK_ROOM_PATIENCE);
        assert_eq!(room.grant(full, || Steady(0)), (Grant::default(), Some(patience)));
        assert_eq!(room.grant(full, || Steady(1)), (Grant::default(), None), "one timer at a time");
        // There was room meanwhile: the patience begins again, under the same timer.
        assert_eq!(granted(&mut room, load(0, 0, 3)), (1, 1));
        assert_eq!(room.grant(full, || Steady(5)), (Grant::default(), None));
        let later = Steady(5).after(TASK_ROOM_PATIENCE);
        assert_eq!(room.look_again(patience), Some(later));
        assert_eq!(room.look_again(later), None);
        assert_eq!(granted(&mut room, full), (4, 0), "the patience is over");
        room.turns_won();
        assert_eq!(granted(&mut room, full), (0, 0), "until a turn was won");
    }
}
