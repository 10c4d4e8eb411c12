//! Winning: a session becomes the holder, by a look or in the write that makes an instance ready (rules 8, 9 and 12).

use dauer_store::{ClaimedTurn, Fence, Item, SessionId};

use crate::calls::Offer;
use crate::inbox::{Room, TurnBatch};
use crate::instance::death::outlives_hold;
use crate::instance::{Changes, Context, Dirty, Facts, Head, Instance};
use crate::judge;
use crate::session::End;

/// Whether a session wins an instance.
#[derive(Debug)]
pub enum Win {
    /// The instance is not for this session.
    Passed,
    /// There is no room for its turn.
    Full,
    /// The session wins it.
    Wins(Winning),
}

/// A turn that [`Instance::check_win`] gives to a session.
#[derive(Debug)]
pub struct Winning {
    session: SessionId,
    /// The end of the session that held it.
    left_by: Option<End>,
    batch: TurnBatch,
}

impl Instance {
    /// Whether a session wins the instance: no living session holds it, and its next turn is ready, for the session, and small
    /// enough for what is left of the credit.
    pub fn check_win<F: Facts>(
        &self,
        session: SessionId,
        offer: &Offer,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Win, F::Error> {
        let (held, left_by) = match self.head.holder {
            None => (false, None),
            Some(holder) if holder == session => (true, None),
            Some(holder) => {
                let end = facts.fate(holder)?.end();
                (end.is_none(), end)
            }
        };
        let due = self.offered_at().is_some_and(|at| at <= context.now);
        if held || !due {
            return Ok(Win::Passed);
        }
        let next = self.offered_as(facts)?;
        if !offer.is_for(&next.queue, &next.tags) {
            return Ok(Win::Passed);
        }
        let Some(room) = offer.turn_room() else { return Ok(Win::Full) };
        if let Some(batch) = self.next_turn(room, context, facts)? {
            return Ok(Win::Wins(Winning { session, left_by, batch }));
        }
        // The least that makes a turn: of a long inbox no more is read.
        let any = Room { bytes: 0, whatever_size: true };
        let ready = self.next_turn(any, context, facts)?.is_some();
        Ok(if ready { Win::Full } else { Win::Passed })
    }

    /// Makes the session the holder, under a higher epoch. The deaths grow when the last holder ended before it committed under
    /// its epoch.
    pub fn win(&mut self, winning: Winning, context: Context<'_>, changes: &mut Changes) -> ClaimedTurn {
        let Winning { session, left_by, batch } = winning;
        if let Some(end) = left_by.filter(|_| !self.has_committed()) {
            let Head { record, trial, .. } = &mut self.head;
            record.deaths = judge::death_of_holder(record.deaths, end.runs_code, *trial);
            changes.dirty.add(Dirty::RECORD);
        }
        self.take_from_holder(changes);
        self.head.epoch = self.head.epoch.next();
        self.head.holder = Some(session);
        changes.dirty.add(Dirty::HOLDER);
        self.claimed(batch, context)
    }

    /// Takes the instance from its holder, which learns of it. A trial is over.
    pub(super) fn take_from_holder(&mut self, changes: &mut Changes) {
        let item = Item::Turn(self.fence());
        self.head.trial = outlives_hold(self.head.trial);
        if let Some(holder) = self.head.holder.take() {
            changes.lost.push((holder, item));
            changes.dirty.add(Dirty::HOLDER);
        }
    }

    /// The turn as the session gets it back by a recall: the session still holds it under that epoch, and has not committed.
    pub fn recalled<F: Facts>(
        &self,
        session: SessionId,
        fence: &Fence,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Option<ClaimedTurn>, F::Error> {
        let held = self.head.holder == Some(session) && self.head.epoch == fence.epoch;
        if !held || self.has_committed() || planted!(Defect::RecallForgets) {
            return Ok(None);
        }
        let batch = self.mail(context, facts)?;
        Ok(Some(self.claimed(batch, context)))
    }

    fn claimed(&self, batch: TurnBatch, context: Context<'_>) -> ClaimedTurn {
        let TurnBatch { messages, more, .. } = batch;
        let record = self.head.record.clone();
        ClaimedTurn { fence: self.fence(), record, messages, more, history: None, now: context.now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::testing::*;
    use dauer_store::{Epoch, Status};

    fn wins(instance: &Instance, session: SessionId, facts: &Known) -> Winning {
        match instance.check_win(session, &offer(), context(), facts) {
            Ok(Win::Wins(winning)) => winning,
            other => panic!("{session:?} should win: {other:?}"),
        }
    }

    #[test]
    fn holder_that_dies_before_its_commit_counts_a_death() {
        let facts = Known::default();
        let mut instance = started();
        let mut changes = Changes::default();
        let first = instance.win(wins(&instance, ONE, &facts), context(), &mut changes);
        assert_eq!((first.record.attempts, first.fence.epoch, first.messages.len()), (0, Epoch(1), 1));
        assert!(changes.dirty.has(Dirty::HOLDER) && changes.lost.is_empty());
        assert!(matches!(instance.check_win(TWO, &offer(), context(), &facts), Ok(Win::Passed)), "held");
        facts.dead.set(Some(ONE));
        let second = instance.win(wins(&instance, TWO, &facts), context(), &mut changes);
        assert_eq!(
            (second.record.deaths.workers, second.record.attempts, second.fence.epoch),
            (1, 0, Epoch(2))
        );
        assert_eq!(changes.lost, [(ONE, Item::Turn(first.fence))]);
    }

    #[test]
    fn large_turn_is_full_and_an_empty_inbox_is_passed() {
        let facts = Known::default();
        let instance = started();
        let mut small = offer_of(5, 1);
        assert!(matches!(instance.check_win(ONE, &small, context(), &facts), Ok(Win::Wins(_))), "the first");
        let Ok(Win::Wins(winning)) = instance.check_win(ONE, &small, context(), &facts) else { panic!() };
        small.win_turn(instance.clone().win(winning, context(), &mut Changes::default()));
        assert!(matches!(instance.check_win(ONE, &small, context(), &facts), Ok(Win::Full)));
        let nothing = Instance::new(instance.id().clone(), record(), Epoch(0));
        assert!(matches!(nothing.check_win(ONE, &offer(), context(), &facts), Ok(Win::Passed)));
    }

    #[test]
    fn recall_returns_what_is_held_and_uncommitted() {
        let facts = Known::default();
        let mut instance = started();
        let turn = instance.win(wins(&instance, ONE, &facts), context(), &mut Changes::default());
        let recalled = |of: &Instance, session| of.recalled(session, &turn.fence, context(), &facts).unwrap();
        assert_eq!(recalled(&instance, ONE), Some(turn.clone()));
        assert_eq!(recalled(&instance, TWO), None);
        instance.head.last = Some(crate::instance::LastCommit {
            execution: turn.fence.execution,
            revision: turn.fence.revision,
            epoch: turn.fence.epoch,
            by: Some(ONE),
            amendment: None,
            taken: Vec::new(),
        });
        assert_eq!(recalled(&instance, ONE), None, "it has committed");
    }

    #[test]
    fn ended_instance_is_offered_as_the_start_that_waits() {
        let facts = Known::default();
        let mut instance = started();
        instance.head.record.status = Status::Completed;
        let queue = instance.offered_as(&facts).unwrap().queue.clone();
        assert_eq!(&*queue.name, "next", "the run of the start that waits");
    }
}
