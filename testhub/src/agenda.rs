//! What is to be done, when, and in which order.

use std::collections::BTreeMap;

use dauer_core::model::Message;
use dauer_core::{ExecutionId, InstanceId, Timestamp};

use crate::activity::{Outcome, Outstanding};

/// In which order things happen that could happen in any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Order {
    /// As they became possible. What is there is looked at before more is brought about.
    #[default]
    Scheduled,
    /// The latest first.
    Reverse,
    /// By chance, the same for the same seed.
    Shuffled(u64),
}

/// Something to do.
pub(crate) enum Work {
    /// A turn of an instance that has messages.
    Turn(InstanceId),
    /// Carry out an activity.
    Task(Box<Outstanding>),
    /// Hand over what came of an activity that took its time.
    Answer(Box<Outstanding>, Outcome),
    /// Hand over a timer, or another message whose time comes later.
    Timer(Message),
    /// The next thing that the test has planned. They come in the order they were planned for.
    Planned,
}

/// The work of a run.
pub(crate) struct Agenda {
    ready: Vec<Work>,
    /// By time, and by when it was put there.
    later: BTreeMap<(Timestamp, u64), Work>,
    added: u64,
    order: Order,
    dice: u64,
}

impl Agenda {
    pub(crate) fn new(order: Order) -> Self {
        let dice = if let Order::Shuffled(seed) = order { seed } else { 0 };
        Self { ready: Vec::new(), later: BTreeMap::new(), added: 0, order, dice }
    }

    pub(crate) fn now(&mut self, work: Work) {
        self.ready.push(work);
    }

    pub(crate) fn later(&mut self, at: Timestamp, work: Work) {
        self.later.insert((at, self.added), work);
        self.added += 1;
    }

    /// A turn of that instance, unless one is due already.
    pub(crate) fn turn(&mut self, instance: &InstanceId) {
        let known = self.ready.iter().any(|work| matches!(work, Work::Turn(other) if other == instance));
        if !known {
            self.ready.push(Work::Turn(instance.clone()));
        }
    }

    /// Takes the next thing that can be done now.
    pub(crate) fn pick(&mut self) -> Option<Work> {
        let last = self.ready.len().checked_sub(1)?;
        let index = match self.order {
            Order::Scheduled => self.ready.iter().position(|work| matches!(work, Work::Turn(_))).unwrap_or(0),
            Order::Reverse => last,
            Order::Shuffled(_) => self.roll(last + 1),
        };
        Some(self.ready.remove(index))
    }

    /// Goes to the next moment at which there is something to do, if there is one.
    pub(crate) fn advance(&mut self) -> Option<Timestamp> {
        let (&(moment, _), _) = self.later.first_key_value()?;
        while let Some(entry) = self.later.first_entry()
            && entry.key().0 == moment
        {
            self.ready.push(entry.remove());
        }
        Some(moment)
    }

    /// The activities that are not answered.
    pub(crate) fn outstanding(&mut self) -> impl Iterator<Item = &mut Work> {
        let unanswered = |work: &&mut Work| matches!(work, Work::Task(_) | Work::Answer(..));
        self.ready.iter_mut().chain(self.later.values_mut()).filter(unanswered)
    }

    /// A run is over: its timers do not fire any more.
    pub(crate) fn forget_timers(&mut self, instance: &InstanceId, execution: ExecutionId) {
        let of_run = |work: &Work| match work {
            Work::Timer(timer) => timer.to == *instance && timer.execution == Some(execution),
            _ => false,
        };
        self.ready.retain(|work| !of_run(work));
        self.later.retain(|_, work| !of_run(work));
    }

    /// A run was terminated: what nobody has begun is not begun any more.
    pub(crate) fn withdraw(&mut self, instance: &InstanceId, execution: ExecutionId) {
        self.ready.retain(|work| match work {
            Work::Task(call) => call.task.instance != *instance || call.task.execution != execution,
            _ => true,
        });
    }

    /// A number below `limit`, by splitmix64.
    fn roll(&mut self, limit: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // Below a usize, so that it is one.
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}
