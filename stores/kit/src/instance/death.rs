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
