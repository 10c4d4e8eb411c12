//! Claims that wait in the store: what becomes ready is this host's in the same write, so that a start costs one disk access
//! less than when the host is told of it and asks.
//!
//! They come beside the claims that [`crate::demand`] asks for, and take nothing from them: hints, due times and polls find all
//! that they did not win. Only where turns run in this process: workers elsewhere come and go while they wait.

use std::sync::Arc;

use futures::future::{AbortHandle, Abortable, FutureExt};

use dauer_store::{ClaimedTurn, Refused};

use crate::dispatch::{Dispatch, Step};
use crate::options::{CLAIM_MAX, WAITS_MAX};

/// A claim that waits.
pub(crate) struct Wait {
    /// Which one.
    number: u64,
    /// How many turns it may bring.
    count: usize,
    drop: AbortHandle,
}

/// The claims that wait.
#[derive(Default)]
pub(crate) struct Waits {
    waits: Vec<Wait>,
    numbers: u64,
}

impl Waits {
    /// How many turns they may bring.
    fn count(&self) -> usize {
        self.waits.iter().map(|wait| wait.count).sum()
    }

    fn remove(&mut self, number: u64) -> Option<Wait> {
        let at = self.waits.iter().position(|wait| wait.number == number)?;
        Some(self.waits.swap_remove(at))
    }
}

impl Dispatch {
    /// How many turns may be claimed beside what the waiting claims may bring: one at least where there is room at all, because
    /// those may wait for long.
    pub(crate) fn room_beside_waits(&mut self) -> usize {
        let room = self.room_for_turns();
        room.saturating_sub(self.waits.count()).max(room.min(1))
    }

    /// Has claims wait for what becomes ready, when nothing else is: it would be overtaken. They may take half of the room: the
    /// rest is for what claims find meanwhile.
    pub(crate) fn wait_for_turns(&mut self) {
        let wanted = self.fuses && !self.stopping && self.turn_demand.is_drained();
        if !wanted || self.waits.waits.len() >= WAITS_MAX || !self.session.may_claim() {
            return;
        }
        let share = self.room_for_turns() / 2;
        let count = share.div_ceil(WAITS_MAX).min(CLAIM_MAX);
        while self.waits.waits.len() < WAITS_MAX && count > 0 && self.waits.count() + count <= share {
            self.wait_for(count);
        }
    }

    fn wait_for(&mut self, count: usize) {
        let (drop, dropped) = AbortHandle::new_pair();
        self.waits.numbers += 1;
        let number = self.waits.numbers;
        self.waits.waits.push(Wait { number, count, drop });
        let (session, want) = (Arc::clone(&self.session), self.session.want(count, self.queues.clone()));
        let waits = Abortable::new(async move { session.work.await_turns(want).await }, dropped);
        // One that was dropped has brought nothing: the session's end gives back what it won.
        let step =
            waits.map(move |awaited| Step::AwaitedTurns(number, awaited.unwrap_or_else(|_| Ok(Vec::new()))));
        self.steps.push(step.boxed());
    }

    /// Takes no more.
    pub(crate) fn stop_waiting(&mut self) {
        for wait in self.waits.waits.drain(..) {
            wait.drop.abort();
        }
    }

    pub(crate) fn awaited_turns(&mut self, number: u64, result: Result<Vec<ClaimedTurn>, Refused>) {
        let wait = self.waits.remove(number);
        match result {
            Ok(claimed) => {
                let full = wait.is_some_and(|wait| claimed.len() >= wait.count);
                // There may be more than it could take, and than the others will.
                if full && self.waits.waits.is_empty() {
                    self.turn_demand.hint();
                } else {
                    self.turn_demand.served();
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
