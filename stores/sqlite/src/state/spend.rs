//! Spending credit: items that a transaction makes ready are won in the same transaction.
//!
//! A new instance or task is offered before its row is written, so that its holder is written with it. Everything else that
//! has become ready is won at the end of the transaction, oldest first.
//!
//! Invariant: new work is won before it is written only by a session that has looked at all older work.

use std::collections::BTreeSet;
use std::sync::Arc;

use dauer_store::{ClaimedTurn, HubName, Kind, QueueKey, SessionId, Tags, TaskLease};
use dauer_store_kit::calls::{Desk, Offer};
use dauer_store_kit::instance::{Changes, HeldTask, Instance, TaskWin, Win};

use super::Scope;
use super::gather::What;
use crate::fail::{Fail, Outcome};

/// What one session may win in the transaction, and has won.
pub(crate) struct Bid {
    pub(crate) hub: HubName,
    pub(crate) session: SessionId,
    pub(crate) desk: Arc<Desk>,
    pub(crate) offer: Offer,
    /// Whether the session was found to live.
    may_win: bool,
    /// An item of that kind did not fit. Smaller ones must not come before it.
    closed: BTreeSet<What>,
}

/// What becomes of new work in a bid.
enum Bidding<T> {
    /// It is not for the session.
    Passes,
    /// It does not fit.
    Closes,
    /// The session wins it.
    Wins(T),
}

impl Bid {
    fn of(hub: &HubName, session: SessionId, desk: Arc<Desk>) -> Option<Self> {
        let offer = desk.offer()?;
        Some(Self { hub: hub.clone(), session, desk, offer, may_win: false, closed: BTreeSet::new() })
    }

    fn takes_new(&self, (queue, tags): (&QueueKey, &Tags)) -> bool {
        let open = !self.closed.contains(&What::of(queue.kind));
        open && self.offer.takes_new(queue.kind) && self.offer.is_for(queue, tags)
    }
}

/// The bids of a transaction, taken from the desks of a hub when something in it is ready.
pub(crate) struct Bids {
    /// Whether the transaction spends credit. One that repeats a part of a broken transaction does not, so that the part cannot
    /// fail for what a session wins.
    pub(crate) spends: bool,
    asked: BTreeSet<HubName>,
    list: Vec<Bid>,
}

impl Default for Bids {
    fn default() -> Self {
        Self { spends: true, asked: BTreeSet::new(), list: Vec::new() }
    }
}

impl Bids {
    /// Before a transaction.
    pub(super) fn clear(&mut self) {
        self.asked.clear();
        self.list.clear();
    }

    /// After a transaction: what each session has won in it.
    pub(crate) fn take(&mut self) -> Vec<Bid> {
        self.asked.clear();
        std::mem::take(&mut self.list)
    }
}

impl Scope<'_, '_> {
    fn open_bids(&mut self) {
        let bids = &mut self.group.bids;
        if !bids.spends || bids.asked.contains(self.name) {
            return;
        }
        bids.asked.insert(self.name.clone());
        for (session, desk) in self.group.desks.of_hub(self.name) {
            if !bids.list.iter().any(|bid| Arc::ptr_eq(&bid.desk, &desk)) {
                bids.list.extend(Bid::of(self.name, session, desk));
            }
        }
    }

    /// The bid of a session that looks; nothing without credit. The caller gives it back by [`Self::return_bid`].
    pub(super) fn take_bid(&mut self, session: SessionId, desk: &Arc<Desk>) -> Option<Bid> {
        let list = &mut self.group.bids.list;
        match list.iter().position(|bid| Arc::ptr_eq(&bid.desk, desk)) {
            Some(at) => Some(list.remove(at)),
            None => Bid::of(self.name, session, Arc::clone(desk)),
        }
    }

    pub(super) fn return_bid(&mut self, bid: Bid) {
        self.group.bids.list.push(bid);
    }

    /// The first session that wins new work, with what `check` says of its win, and where its bid is.
    fn bidder<T>(
        &mut self,
        work: (&QueueKey, &Tags),
        check: impl Fn(&Self, &Bid) -> Outcome<Bidding<T>>,
    ) -> Outcome<Option<(usize, T)>> {
        self.open_bids();
        for at in 0..self.group.bids.list.len() {
            let bid = &self.group.bids.list[at];
            if bid.hub != *self.name || !bid.takes_new(work) {
                continue;
            }
            let (session, lives) = (bid.session, bid.may_win);
            match check(self, bid)? {
                Bidding::Passes => {}
                Bidding::Closes => _ = self.group.bids.list[at].closed.insert(What::of(work.0.kind)),
                Bidding::Wins(won) if lives || self.may_win(session)? => {
                    self.group.bids.list[at].may_win = true;
                    return Ok(Some((at, won)));
                }
                Bidding::Wins(_) => {}
            }
        }
        Ok(None)
    }

    /// Whether a session may win. Why not is the answer to its next look.
    fn may_win(&mut self, session: SessionId) -> Outcome<bool> {
        match self.claimer(session) {
            Ok(_) => Ok(true),
            Err(Fail::Refused(_)) => Ok(false),
            Err(broken) => Err(broken),
        }
    }

    /// Gives a new instance, which is not written yet, to a session with credit. Returns where the bid of that session is, and the
    /// turn; the caller writes the instance and [hands it over](Self::hand_over_turn).
    pub(super) fn promise_turn(
        &mut self,
        instance: &mut Instance,
        changes: &mut Changes,
    ) -> Outcome<Option<(usize, ClaimedTurn)>> {
        let context = self.context();
        let work = (&instance.record.queue, &instance.record.tags);
        let won = self.bidder(work, |scope, bid| {
            let win = instance.check_win(bid.session, &bid.offer, context, &scope.facts(None))?;
            Ok(match win {
                Win::Passed => Bidding::Passes,
                Win::Full => Bidding::Closes,
                Win::Wins(winning) => Bidding::Wins(winning),
            })
        })?;
        Ok(won.map(|(at, winning)| (at, instance.win(winning, context, changes))))
    }

    /// The session has a new instance.
    pub(super) fn hand_over_turn(&mut self, at: usize, instance: &Instance, turn: ClaimedTurn) {
        self.group.served_turns.insert(self.view.hub, instance.record.queue.clone());
        if let Some(bid) = self.group.bids.list.get_mut(at) {
            bid.offer.win_turn(turn);
        }
    }

    /// Gives a new task, which is not written yet, to a session with credit, as [`Self::promise_turn`] does.
    pub(super) fn promise_task(&mut self, held: &mut HeldTask) -> Outcome<Option<(usize, TaskLease)>> {
        let work = (&held.task.queue, &held.task.tags);
        let won = self.bidder(work, |scope, bid| {
            Ok(match held.check_win(bid.session, &bid.offer, &scope.facts(None))? {
                TaskWin::Passed => Bidding::Passes,
                TaskWin::Full => Bidding::Closes,
                TaskWin::Wins(take) => Bidding::Wins(take),
            })
        })?;
        let Some((at, take)) = won else { return Ok(None) };
        // A session that took it with its commit, and does not live, loses it in the same write.
        let mut changes = self.changes();
        let lease = held.win(take, self.context(), &mut changes);
        self.report_lost(&mut changes)?;
        self.done_with(changes);
        Ok(Some((at, lease)))
    }

    /// The session has a new task.
    pub(super) fn hand_over_task(&mut self, at: usize, held: &HeldTask, lease: TaskLease) {
        self.group.served_tasks.insert(self.view.hub, held.task.queue.clone());
        if let Some(bid) = self.group.bids.list.get_mut(at) {
            bid.offer.win_task(lease);
        }
    }

    /// Wins the items that the transaction has made ready for the sessions of the hub.
    pub(crate) fn serve(&mut self, kinds: &[Kind]) -> Outcome<()> {
        self.open_bids();
        let mut bids = std::mem::take(&mut self.group.bids.list);
        let of_hub = bids.iter_mut().filter(|bid| bid.hub == *self.name);
        let served = of_hub.into_iter().try_for_each(|bid| self.serve_bid(bid, kinds));
        self.group.bids.list = bids;
        served
    }

    fn serve_bid(&mut self, bid: &mut Bid, kinds: &[Kind]) -> Outcome<()> {
        let may_win = self.may_win(bid.session)?;
        for what in [What::Turn, What::Task] {
            let Some(kind) = kinds.iter().find(|kind| What::of(**kind) == what) else { continue };
            match may_win && bid.offer.has_room(*kind) {
                true => self.win(what, bid.session, &mut bid.offer)?,
                false => bid.offer.leaves(*kind),
            }
        }
        Ok(())
    }
}
