//! Telling tasks that nobody wants their answers any more.
//!
//! | why | how this host knows |
//! |---|---|
//! | the lease of one task is lost | a renewal tells |
//! | the session is over | a renewal is refused, or a claim |
//! | the run has ended by a turn that was taken here | the commit |
//! | the run has ended by another host's turn | a hint with the record, or a look at the record |
//! | the host stops | it was told to |
//!
//! Records are looked at after each renewal, at half the lease, which bounds how long it takes whatever hints are
//! lost; and sooner when a hint says that something may have ended. Tasks of instances that this host has in its hands
//! are left out then: their end is this host's own commit.

use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;

use dauer_core::cancel::CancelReason;
use dauer_core::model::{Record, Status};
use dauer_core::{ExecutionId, InstanceId};
use dauer_store::{ClaimedTurn, Hint, Item};

use super::{Dispatch, Step};
use crate::inspect::{HeldPhase, HeldTurn, Inspection};
use crate::options::{CANCEL_LOOK_PAUSE, LOOK_IDS_MAX, LOOK_SHARE};
use crate::session::{News, Session};

/// A run that is over, and why nobody wants the answers of its tasks.
pub(super) type Found = (InstanceId, ExecutionId, CancelReason);

/// Which records are to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Wanted {
    #[default]
    None,
    /// Those of instances that others have.
    OfOthers,
    All,
}

/// Whether to look at records: one look at a time, with a rest after it.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    wanted: Wanted,
    busy: bool,
}

impl Lookout {
    fn want(&mut self, wanted: Wanted) {
        self.wanted = self.wanted.max(wanted);
    }

    /// What to look at now.
    fn begin(&mut self) -> Wanted {
        if self.busy { Wanted::None } else { std::mem::take(&mut self.wanted) }
    }

    pub(super) fn rested(&mut self) {
        self.busy = false;
    }
}

/// Why the answers of a run's tasks are not wanted, given the current run of the instance and how that stands; `None`
/// while they are.
fn reason(run: ExecutionId, current: Option<(ExecutionId, Status)>) -> Option<CancelReason> {
    match current {
        Some((execution, status)) if execution == run && !status.is_ended() => None,
        Some((execution, Status::Terminated)) if execution == run => Some(CancelReason::Terminated),
        _ => Some(CancelReason::Ended),
    }
}

impl Dispatch {
    pub(super) fn heard_of(&mut self, news: News) {
        match news {
            News::Renewed(lost) => {
                for lost in lost {
                    if let Item::Task(fence) = lost.item {
                        self.slots.cancel_task(&fence, CancelReason::LeaseLost);
                    }
                }
                self.lookout.want(Wanted::All);
            }
            // The loop sees it by itself; this has woken it.
            News::Over => {}
            News::Inspect(answer) => {
                // The operator may have given up.
                let _ = answer.send(self.inspection());
            }
        }
    }

    /// What the session holds, with what was won and has no place yet.
    fn inspection(&self) -> Inspection {
        let session = self.session.work.session();
        let waiting = self.wins.turns();
        let turning = |turn: &ClaimedTurn| HeldTurn { fence: turn.fence.clone(), phase: HeldPhase::Turning };
        let mut turns = self.slots.turns();
        turns.extend(waiting.filter(|turn| !self.slots.is_held(&turn.fence.instance)).map(turning));
        turns.sort_by(|one, other| one.fence.instance.cmp(&other.fence.instance));
        Inspection { session, turns, tasks: self.load().tasks + self.load().waiting.1 }
    }

    /// A hint tells that something may have ended. Only a run's own last record is proof of it.
    pub(super) fn hinted(&mut self, hint: &Hint) {
        match hint {
            Hint::Ended(instance, record) => self.ended(instance, record),
            Hint::Status(instance, status) if status.is_ended() && self.slots.runs_for_others(instance) => {
                self.lookout.want(Wanted::OfOthers);
            }
            Hint::Elsewhere => self.lookout.want(Wanted::OfOthers),
            // The next call tells whether the session is over or only late.
            Hint::Status(..) | Hint::SessionEnded(_) => {}
        }
    }

    /// A run is known to have ended so. What runs for another run is not concerned: hints may be late.
    fn ended(&mut self, instance: &InstanceId, record: &Record) {
        if let Some(reason) = reason(record.execution, Some((record.execution, record.status))) {
            self.slots.cancel_run(instance, record.execution, reason);
        }
    }

    /// A commit of this host has made this of an instance whose run was `before`.
    pub(super) fn settled(&mut self, instance: &InstanceId, before: ExecutionId, now: (ExecutionId, Status)) {
        if let Some(reason) = reason(before, Some(now)) {
            self.slots.cancel_run(instance, before, reason);
        }
    }

    pub(super) fn cancel_all(&self, reason: CancelReason) {
        for (instance, runs) in self.slots.served() {
            runs.into_iter().for_each(|run| self.slots.cancel_run(&instance, run, reason));
        }
    }

    pub(super) fn look_if_wanted(&mut self) {
        let wanted = self.lookout.begin();
        if wanted == Wanted::None {
            return;
        }
        let mut served = self.slots.served();
        if wanted == Wanted::OfOthers {
            served.retain(|(instance, _)| self.slots.runs_for_others(instance));
        }
        if !served.is_empty() {
            self.lookout.busy = true;
            self.steps.push(look(Arc::clone(&self.session), served).boxed());
        }
    }

    pub(super) fn looked(&mut self, found: Vec<Found>, took: Duration) {
        for (instance, run, reason) in found {
            self.slots.cancel_run(&instance, run, reason);
        }
        let rest = CANCEL_LOOK_PAUSE.max(took * LOOK_SHARE);
        self.steps.push(self.session.sleep(rest).map(|()| Step::Rested).boxed());
    }
}

/// Looks which of these runs are over. Their tasks began before the look: a run that is not the current one now will
/// never be again.
async fn look(session: Arc<Session>, served: Vec<(InstanceId, Vec<ExecutionId>)>) -> Step {
    let began = session.env.steady();
    let mut over = Vec::new();
    for part in served.chunks(LOOK_IDS_MAX) {
        let ids = part.iter().map(|(instance, _)| instance.clone()).collect();
        // A store that cannot answer now is asked again after the next renewal.
        let Ok(records) = session.hub.get(ids).await else { break };
        for ((instance, runs), found) in part.iter().zip(records) {
            let current = found.map(|(_, record)| (record.execution, record.status));
            let reasons =
                runs.iter().filter_map(|run| Some((instance.clone(), *run, reason(*run, current)?)));
            over.extend(reasons);
        }
    }
    Step::Looked(over, session.env.steady().since(began))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_is_current_and_has_not_ended_is_wanted() {
        let (run, other) = (ExecutionId(1), ExecutionId(2));
        for status in [Status::Pending, Status::Running, Status::Suspended] {
            assert_eq!(reason(run, Some((run, status))), None);
            assert_eq!(reason(run, Some((other, status))), Some(CancelReason::Ended), "another has begun");
        }
        for (status, told) in [
            (Status::Terminated, CancelReason::Terminated),
            (Status::Completed, CancelReason::Ended),
            (Status::Failed, CancelReason::Ended),
            (Status::Canceled, CancelReason::Ended),
        ] {
            assert_eq!(reason(run, Some((run, status))), Some(told));
            assert_eq!(reason(run, Some((other, status))), Some(CancelReason::Ended));
        }
        assert_eq!(reason(run, None), Some(CancelReason::Ended), "it was purged");
    }

    #[test]
    fn one_look_at_a_time_answers_all_that_was_asked_before_it() {
        let mut lookout = Lookout::default();
        assert_eq!(lookout.begin(), Wanted::None);
        lookout.want(Wanted::All);
        lookout.want(Wanted::OfOthers);
        assert_eq!((lookout.begin(), lookout.begin()), (Wanted::All, Wanted::None));
        lookout.busy = true;
        lookout.want(Wanted::OfOthers);
        assert_eq!(lookout.begin(), Wanted::None);
        lookout.rested();
        assert_eq!((lookout.begin(), lookout.begin()), (Wanted::OfOthers, Wanted::None));
    }
}
