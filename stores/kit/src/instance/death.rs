//! Deaths of workers that the holder reports, and trials (rule 9).
//!
//! A trial belongs to the hold under which it was opened. It ends with that hold, with a commit, and with a death during it.

use dauer_store::{Deaths, Fence, Refused, SessionId, TaskFence};

use crate::instance::{Changes, Dirty, HeldTask, Instance};
use crate::judge;

/// Whether an open trial goes on after a hold or a commit: never.
pub(super) fn outlives_hold(trial: bool) -> bool {
    trial && planted!(Defect::TrialOutlivesHold)
}

/// A death that [`Instance::check_died`] or [`HeldTask::check_died`] has allowed: the deaths after it.
#[derive(Debug)]
pub struct Dying {
    deaths: Deaths,
    /// It was counted before.
    repeat: bool,
}

impl Dying {
    fn of(deaths: Deaths, known: Deaths, trial: bool) -> Result<Self, Refused> {
        let next = judge::reported_death(deaths, known, trial)?;
        Ok(Self { deaths: next, repeat: next == deaths })
    }
}

/// The begin or end of a trial that [`Instance::check_trial`] or [`HeldTask::check_trial`] has allowed.
#[derive(Debug)]
pub struct Trying {
    open: bool,
}

impl Instance {
    /// Whether the session holds the turn of that fence, and has not committed it.
    fn check_turn(&self, session: SessionId, fence: &Fence) -> Result<(), Refused> {
        self.check_holder(session, fence)?;
        if self.has_committed() { Err(Refused::Fenced) } else { Ok(()) }
    }

    /// Whether the session may report that a worker died with the turn.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold the turn, has committed it, or knows other deaths.
    pub fn check_died(&self, session: SessionId, fence: &Fence, known: Deaths) -> Result<Dying, Refused> {
        self.check_turn(session, fence)?;
        Dying::of(self.head.record.deaths, known, self.head.trial)
    }

    /// Counts the death of a worker. Returns the deaths after it.
    pub fn died(&mut self, dying: &Dying, changes: &mut Changes) -> Deaths {
        if !dying.repeat {
            self.head.record.deaths = dying.deaths;
            self.head.trial = false;
            changes.dirty.add(Dirty::RECORD);
        }
        dying.deaths
    }

    /// Whether the session may open or close a trial of the turn.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold the turn, or has committed it.
    pub fn check_trial(&self, session: SessionId, fence: &Fence, open: bool) -> Result<Trying, Refused> {
        self.check_turn(session, fence)?;
        Ok(Trying { open })
    }

    /// Opens or closes a trial.
    pub fn note_trial(&mut self, trying: &Trying, changes: &mut Changes) {
        if self.head.trial != trying.open {
            self.head.trial = trying.open;
            changes.dirty.add(Dirty::RECORD);
        }
    }
}

impl HeldTask {
    /// Whether the session may report that a worker died with the task.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold the task under that epoch, or knows other deaths.
    pub fn check_died(&self, session: SessionId, fence: &TaskFence, known: Deaths) -> Result<Dying, Refused> {
        self.check_held(session, fence)?;
        Dying::of(self.deaths, known, self.trial)
    }

    /// Counts the death of a worker. Returns the deaths after it.
    pub fn died(&mut self, dying: &Dying) -> Deaths {
        if !dying.repeat {
            (self.deaths, self.trial) = (dying.deaths, false);
        }
        dying.deaths
    }

    /// Whether the session may open or close a trial of the task.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold the task under that epoch.
    pub fn check_trial(&self, session: SessionId, fence: &TaskFence, open: bool) -> Result<Trying, Refused> {
        self.check_held(session, fence)?;
        Ok(Trying { open })
    }

    /// Opens or closes a trial.
    pub fn note_trial(&mut self, trying: &Trying) {
        self.trial = trying.open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Win;
    use crate::instance::testing::*;
    use dauer_store::{Item, Release};
    use std::time::Duration;

    fn deaths(workers: u32, trials: u32) -> Deaths {
        Deaths { workers, servers: 0, trials }
    }

    fn opened(mut instance: Instance) -> Instance {
        let trying = instance.check_trial(ONE, &instance.fence(), true).unwrap();
        instance.note_trial(&trying, &mut Changes::default());
        assert!(instance.trial);
        instance
    }

    fn won_by(instance: &mut Instance, session: SessionId, facts: &Known) -> Deaths {
        let Ok(Win::Wins(winning)) = instance.check_win(session, &offer(), context(), facts) else {
            panic!("it is ready")
        };
        instance.win(winning, context(), &mut Changes::default()).record.deaths
    }

    #[test]
    fn reported_death_leaves_the_turn_with_its_holder() {
        let mut instance = opened(held_by(ONE));
        let fence = instance.fence();
        assert!(instance.check_died(TWO, &fence, deaths(0, 0)).is_err(), "another session");
        assert!(instance.check_died(ONE, &fence, deaths(1, 0)).is_err(), "other deaths");
        for expected in [Dirty::RECORD, Dirty::default()] {
            let dying = instance.check_died(ONE, &fence, deaths(0, 0)).unwrap();
            let mut changes = Changes::default();
            assert_eq!(instance.died(&dying, &mut changes), deaths(1, 1), "the first, and a repeat");
            assert_eq!(changes.dirty, expected);
            assert!(changes.lost.is_empty());
        }
        assert_eq!((instance.holder, instance.trial, instance.fence()), (Some(ONE), false, fence));
    }

    #[test]
    fn committed_turn_has_neither_death_nor_trial() {
        let mut instance = held_by(ONE);
        let fence = instance.fence();
        instance.head.last = Some(crate::instance::LastCommit {
            execution: fence.execution,
            revision: fence.revision,
            epoch: fence.epoch,
            by: Some(ONE),
            amendment: None,
            taken: Vec::new(),
        });
        assert!(matches!(instance.check_died(ONE, &fence, deaths(0, 0)), Err(Refused::Fenced)));
        assert!(matches!(instance.check_trial(ONE, &fence, true), Err(Refused::Fenced)));
    }

    #[test]
    fn takeover_during_a_trial_counts_a_death_of_a_worker_only() {
        for (is_server, expected) in
            [(false, deaths(1, 1)), (true, Deaths { workers: 0, servers: 1, trials: 0 })]
        {
            let facts = Known::default();
            facts.dead.set(Some(ONE));
            facts.is_server.set(is_server);
            let mut instance = opened(held_by(ONE));
            assert_eq!(won_by(&mut instance, TWO, &facts), expected);
            assert!(!instance.trial, "the hold has ended");
            let mut held = task(1);
            held.hold(ONE);
            held.trial = true;
            let Ok(crate::instance::TaskWin::Wins(take)) = held.check_win(TWO, &offer(), &facts) else {
                panic!("it is free")
            };
            assert_eq!(held.win(take, context(), &mut Changes::default()).deaths, expected);
            assert!(!held.trial, "the hold has ended");
        }
    }

    #[test]
    fn release_and_detach_end_a_trial_without_a_death() {
        let release = |item| Release { item, delay: Duration::ZERO, trouble: None, failed: false };
        let mut instance = opened(held_by(ONE));
        let fence = instance.fence();
        let release_turn = release(Item::Turn(fence.clone()));
        let known = (context(), &Known::default());
        let Ok(releasing) = instance.check_release(ONE, &fence, &release_turn, known);
        instance.release(releasing.unwrap(), &mut Changes::default());
        assert!(!instance.trial);
        let mut instance = opened(held_by(ONE));
        instance.let_go(&mut Changes::default());
        assert!(!instance.trial);
        assert_eq!(instance.record.deaths, deaths(0, 0));
        let mut held = task(1);
        held.hold(ONE);
        let trying = held.check_trial(ONE, &held.fence(), true).unwrap();
        held.note_trial(&trying);
        assert!(held.check_trial(TWO, &held.fence(), false).is_err(), "another session");
        assert!(held.trial);
        assert!(held.release(&release(Item::Task(held.fence())), context()), "the task stays");
        assert!(!held.trial, "the task was given back");
    }
}
