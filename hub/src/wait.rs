//! The claim that waits in the store: what becomes ready is this host's in the same write, so that a start costs one disk
//! access less than when the host is told of it and asks.
//!
//! It comes beside the claims that [`crate::demand`] asks for, and takes nothing from them: hints, due times and polls find all
//! that it did not win. Only where turns run in this process: workers elsewhere come and go while it waits.

use std::sync::Arc;

use futures::future::{AbortHandle, Abortable, FutureExt};

use dauer_store::{ClaimedTurn, Refused};

use crate::dispatch::{Dispatch, Step};
use crate::options::CLAIM_MAX;

/// A claim that waits.
pub(crate) struct Wait {
    /// How many turns it may bring.
    count: usize,
    drop: AbortHandle,
}

impl Dispatch {
    /// How many turns may be claimed beside what the waiting claim may bring: one at least where there is room at all, because
    /// that one may wait for long.
    pub(crate) fn room_beside_wait(&mut self) -> usize {
        let awaited = self.wait.as_ref().map_or(0, |wait| wait.count);
        let room = self.room_for_turns();
        room.saturating_sub(awaited).max(room.min(1))
    }

    /// Has a claim wait for what becomes ready, when nothing is. It may take half of the room: the rest is for what claims
    /// find meanwhile.
    pub(crate) fn wait_for_turns(&mut self, free: usize) {
        let count = (free / 2).min(CLAIM_MAX);
        let wanted = self.fuses && !self.stopping && self.turn_demand.rests();
        if !wanted || count == 0 || self.wait.is_some() || !self.session.may_claim() {
            return;
        }
        let (drop, dropped) = AbortHandle::new_pair();
        self.wait = Some(Wait { count, drop });
        let (session, want) = (Arc::clone(&self.session), self.session.want(count, self.queues.clone()));
        let waits = Abortable::new(async move { session.work.await_turns(want).await }, dropped);
        // One that was dropped has brought nothing: the session's end gives back what it won.
        let step = waits.map(|awaited| Step::AwaitedTurns(awaited.unwrap_or_else(|_| Ok(Vec::new()))));
        self.steps.push(step.boxed());
    }

    /// Takes no more.
    pub(crate) fn stop_waiting(&mut self) {
        if let Some(wait) = self.wait.take() {
            wait.drop.abort();
        }
    }

    pub(crate) fn awaited_turns(&mut self, result: Result<Vec<ClaimedTurn>, Refused>) {
        let wait = self.wait.take();
        match result {
            Ok(claimed) => {
                match wait {
                    // There may be more than it could take.
                    Some(wait) if claimed.len() >= wait.count => self.turn_demand.hint(),
                    _ => self.turn_demand.served(),
                }
                for claimed in claimed {
                    self.hear(claimed.now);
                    self.claimed_turn(claimed);
                }
            }
            Err(Refused::Fenced) => self.session.end(),
            // A claim that asks finds what this one may have won, or what is wrong.
            Err(_) => self.turn_demand.doubt(),
        }
    }
}
