//! Activity tasks: won like turns, answered by a message to the instance (rules 8, 9, 10 and 19).

use dauer_store::{
    Deaths, DropReason, Epoch, ExecutionId, Item, MessageId, Refused, Release, SessionId, Task, TaskFence,
    TaskLease, Timestamp,
};

use crate::calls::Offer;
use crate::instance::death::outlives_hold;
use crate::instance::{Changes, Context, Facts};
use crate::judge;
use crate::session::End;

/// An open task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTask {
    /// The task.
    pub task: Task,
    /// Grows when the task changes hands.
    pub epoch: Epoch,
    /// The session that holds it.
    pub holder: Option<SessionId>,
    /// Failed attempts.
    pub attempts: u32,
    /// Deaths of the processes that held it.
    pub deaths: Deaths,
    /// When the session of a server that held it ended.
    pub mark: Option<Timestamp>,
    /// A trial of the task is open. Then a session holds it.
    pub trial: bool,
    /// Since when it waits.
    pub ready_at: Timestamp,
    /// The task is not won before this time.
    pub not_before: Timestamp,
    /// It only waits for its holder to answer or die.
    pub withdrawn: bool,
}

/// Whether a session wins a task.
#[derive(Debug)]
pub enum TaskWin {
    /// The task is not for this session.
    Passed,
    /// There is no room for the task.
    Full,
    /// The session wins it.
    Wins(TakeTask),
}

/// A task that [`HeldTask::check_win`] gives to a session.
#[derive(Debug)]
pub struct TakeTask {
    session: SessionId,
    /// The end of the session that held it.
    left_by: Option<End>,
}

/// The reason under which a task counts that goes with its holder.
pub const WITHDRAWN: DropReason = DropReason::Withdrawn;

/// What an answer to a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completing {
    /// The session does not hold the task under that epoch.
    Dropped(DropReason),
    /// The task is gone, and its answer has no effect.
    Withdrawn,
    /// The task is gone, and its answer is delivered.
    Answers,
}

impl Completing {
    /// Why the answer has no effect.
    #[must_use]
    pub fn dropped(self) -> Option<DropReason> {
        match self {
            Self::Dropped(reason) => Some(reason),
            Self::Withdrawn => Some(WITHDRAWN),
            Self::Answers => None,
        }
    }
}

impl HeldTask {
    /// A task that no session has held.
    #[must_use]
    pub fn new(task: Task, ready_at: Timestamp) -> Self {
        let not_before = Timestamp::default();
        let (epoch, holder) = (Epoch::default(), None);
        let (deaths, mark, trial) = (Deaths::default(), None, false);
        Self { task, epoch, holder, attempts: 0, deaths, mark, trial, ready_at, not_before, withdrawn: false }
    }

    /// What its answer must carry.
    #[must_use]
    pub fn fence(&self) -> TaskFence {
        TaskFence { task: self.task.id, instance: self.task.instance.clone(), epoch: self.epoch }
    }

    /// The task as it is handed out.
    #[must_use]
    pub fn lease(&self, now: Timestamp) -> TaskLease {
        let Self { attempts, deaths, mark, .. } = *self;
        TaskLease { fence: self.fence(), task: self.task.clone(), attempts, deaths, mark, now }
    }

    /// Whether the session holds it under that epoch.
    #[must_use]
    pub fn is_held_by(&self, session: SessionId, epoch: Epoch) -> bool {
        self.epoch == epoch && self.holder == Some(session)
    }

    /// From when a session may win it, if none that lives holds it. A withdrawn task is not run again.
    #[must_use]
    pub fn offered_at(&self) -> Option<Timestamp> {
        (!self.withdrawn).then(|| self.ready_at.max(self.not_before))
    }

    /// From when any session may win it; none while a living session holds it.
    pub fn free_at<F: Facts>(&self, facts: &F) -> Result<Option<Timestamp>, F::Error> {
        let held = self.holder.map_or(Ok(false), |holder| facts.lives(holder))?;
        Ok(self.offered_at().filter(|_| !held))
    }

    /// Whether the session wins the task.
    pub fn check_win<F: Facts>(
        &self,
        session: SessionId,
        offer: &Offer,
        facts: &F,
    ) -> Result<TaskWin, F::Error> {
        let (held, left_by) = match self.holder {
            None => (false, None),
            Some(holder) if holder == session => (true, None),
            Some(holder) => {
                let end = facts.fate(holder)?.end();
                (end.is_none(), end)
            }
        };
        if held || self.withdrawn || !offer.is_for(&self.task.queue, &self.task.tags) {
            return Ok(TaskWin::Passed);
        }
        if !offer.fits(self.task.event.len()) {
            return Ok(TaskWin::Full);
        }
        Ok(TaskWin::Wins(TakeTask { session, left_by }))
    }

    /// Makes the session the holder, under a higher epoch. The deaths grow when the last holder has ended.
    pub fn win(&mut self, take: TakeTask, context: Context<'_>, changes: &mut Changes) -> TaskLease {
        let TakeTask { session, left_by } = take;
        let trial = self.trial;
        self.take_from_holder(changes);
        self.hold(session);
        if let Some(end) = left_by {
            self.deaths = judge::death_of_holder(self.deaths, end.runs_code, trial);
            self.note(end);
        }
        self.lease(context.now)
    }

    /// Makes the session the holder of a task that no session holds. A trial under the last epoch is over.
    pub(super) fn hold(&mut self, session: SessionId) {
        self.epoch = self.epoch.next();
        (self.holder, self.trial) = (Some(session), outlives_hold(self.trial));
    }

    /// Takes the task from its holder, which learns of it.
    pub(super) fn take_from_holder(&mut self, changes: &mut Changes) {
        let item = Item::Task(self.fence());
        changes.lost.extend(self.holder.take().map(|holder| (holder, item)));
    }

    /// Whether the session may give the task back under that epoch.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if it does not hold the task.
    pub fn check_release(&self, session: SessionId, fence: &TaskFence) -> Result<(), Refused> {
        self.check_held(session, fence)
    }

    pub(super) fn check_held(&self, session: SessionId, fence: &TaskFence) -> Result<(), Refused> {
        if self.is_held_by(session, fence.epoch) { Ok(()) } else { Err(Refused::Fenced) }
    }

    /// Gives the task back. Returns whether the task stays: a withdrawn one goes with its holder.
    #[must_use]
    pub fn release(&mut self, release: &Release, context: Context<'_>) -> bool {
        self.not_before = judge::not_before(release.delay, context.now);
        self.attempts = self.attempts.saturating_add(u32::from(release.failed));
        (self.holder, self.trial) = (None, outlives_hold(self.trial));
        self.outlives_holder()
    }

    /// The holder detaches. Returns whether the task stays.
    #[must_use]
    pub fn let_go(&mut self, end: End) -> bool {
        (self.holder, self.trial) = (None, outlives_hold(self.trial));
        self.note(end);
        self.outlives_holder()
    }

    /// Marks the task of a server that has ended: a worker may still execute it.
    fn note(&mut self, end: End) {
        if !end.runs_code {
            self.mark = self.mark.max(Some(end.at));
        }
    }

    /// Whether the task stays when the time of its holder is over: a withdrawn one goes with its holder.
    #[must_use]
    pub fn outlives_holder(&self) -> bool {
        !self.withdrawn
    }

    /// The task as the session gets it back by a recall: under that epoch. Also one that was withdrawn meanwhile: it goes only
    /// when its holder answers it, gives it back, or ends.
    #[must_use]
    pub fn recalled(&self, session: SessionId, fence: &TaskFence, now: Timestamp) -> Option<TaskLease> {
        self.is_held_by(session, fence.epoch).then(|| self.lease(now))
    }

    /// Whether it is a task of that run.
    pub(super) fn is_of(&self, run: ExecutionId) -> bool {
        self.task.execution == run
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.task.id
    }
}

/// What the answer of `session`, which is none if it may not act, does to a task.
#[must_use]
pub fn check_complete(task: Option<&HeldTask>, session: Option<SessionId>, fence: &TaskFence) -> Completing {
    let holds = |task: &&HeldTask| session.is_some_and(|session| task.is_held_by(session, fence.epoch));
    match task.filter(holds) {
        None => Completing::Dropped(DropReason::NotHeld),
        Some(task) if task.withdrawn => Completing::Withdrawn,
        Some(_) => Completing::Answers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::testing::*;
    use std::time::Duration;

    #[test]
    fn task_of_a_dead_holder_counts_a_death_and_is_reported_lost() {
        let mut held = task(1);
        held.hold(ONE);
        let facts = Known::default();
        assert!(matches!(held.check_win(TWO, &offer(), &facts), Ok(TaskWin::Passed)), "its holder lives");
        facts.dead.set(Some(ONE));
        let Ok(TaskWin::Wins(take)) = held.check_win(TWO, &offer(), &facts) else { panic!("it is free") };
        let mut changes = Changes::default();
        let fence = held.fence();
        let lease = held.win(take, context(), &mut changes);
        assert_eq!((lease.deaths.workers, lease.mark, lease.fence.epoch), (1, None, Epoch(2)));
        assert_eq!(changes.lost, [(ONE, Item::Task(fence))]);
        assert!(matches!(held.check_win(TWO, &offer(), &facts), Ok(TaskWin::Passed)), "the session holds it");
    }

    #[test]
    fn end_of_a_server_marks_the_task_and_a_release_does_not() {
        let mut held = task(1);
        held.hold(ONE);
        let facts = Known::default();
        facts.dead.set(Some(ONE));
        facts.is_server.set(true);
        let Ok(TaskWin::Wins(take)) = held.check_win(TWO, &offer(), &facts) else { panic!("it is free") };
        let lease = held.win(take, context(), &mut Changes::default());
        assert_eq!((lease.deaths.workers, lease.deaths.servers, lease.mark), (0, 1, Some(NOW)));
        let release =
            Release { item: Item::Task(held.fence()), delay: Duration::ZERO, trouble: None, failed: false };
        assert!(held.release(&release, context()));
        assert!(held.let_go(End { runs_code: false, at: NOW.before(Duration::from_secs(1)) }));
        assert_eq!(held.mark, Some(NOW), "an earlier end moves no mark");
        assert!(held.let_go(End { runs_code: false, at: NOW.after(Duration::from_secs(1)) }));
        assert_eq!(held.mark, Some(NOW.after(Duration::from_secs(1))));
    }

    #[test]
    fn answer_counts_only_from_the_holder_under_its_epoch() {
        let mut held = task(1);
        held.hold(ONE);
        let fence = held.fence();
        let not_held = Completing::Dropped(DropReason::NotHeld);
        assert_eq!(check_complete(None, Some(ONE), &fence), not_held);
        assert_eq!(check_complete(Some(&held), Some(TWO), &fence), not_held);
        assert_eq!(check_complete(Some(&held), None, &fence), not_held);
        let stale = TaskFence { epoch: Epoch(0), ..fence.clone() };
        assert_eq!(check_complete(Some(&held), Some(ONE), &stale), not_held);
        assert_eq!(check_complete(Some(&held), Some(ONE), &fence), Completing::Answers);
        held.withdrawn = true;
        assert_eq!(check_complete(Some(&held), Some(ONE), &fence), Completing::Withdrawn);
    }

    #[test]
    fn released_task_rests_and_a_withdrawn_one_goes() {
        let mut held = task(1);
        held.hold(ONE);
        let release = Release {
            item: Item::Task(held.fence()),
            delay: Duration::from_millis(5),
            trouble: None,
            failed: true,
        };
        assert!(held.check_release(TWO, &held.fence()).is_err());
        assert!(held.check_release(ONE, &held.fence()).is_ok());
        assert!(held.release(&release, context()));
        assert_eq!((held.holder, held.attempts, held.offered_at()), (None, 1, Some(Timestamp(NOW.0 + 5))));
        held.withdrawn = true;
        assert_eq!(held.offered_at(), None);
        assert!(!held.let_go(End { runs_code: true, at: NOW }));
    }
}
