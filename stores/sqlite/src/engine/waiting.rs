//! Claims that wait for what becomes ready, and win it in the transaction that makes it so.

use std::sync::Arc;

use futures::channel::oneshot;

use dauer_store::{Cause, ClaimedTurn, HubName, Refused, SessionId, Want};

use super::delivery::Delivery;
use crate::state::{Offer, Undelivered};

/// What it has come to: turns, or a refusal.
pub(crate) type Awaited = Result<Delivery<ClaimedTurn>, Refused>;

/// One of them.
pub(crate) struct Waiting {
    /// What it asks for; with the transaction while one is under way.
    offer: Option<Offer>,
    undelivered: Arc<Undelivered>,
    caller: oneshot::Sender<Awaited>,
}

impl Waiting {
    /// A claim of a session, and where its answer comes.
    pub(crate) fn new(
        hub: HubName,
        session: SessionId,
        want: Want,
        undelivered: Arc<Undelivered>,
    ) -> (Self, oneshot::Receiver<Awaited>) {
        let (caller, answer) = oneshot::channel();
        (Self { offer: Some(Offer::new(hub, session, want)), undelivered, caller }, answer)
    }

    /// Whether nobody waits for it any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.caller.is_canceled()
    }

    /// What it asks for, for the transaction that begins.
    pub(crate) fn lend(&mut self) -> Option<Offer> {
        self.offer.take()
    }

    /// The same again, after the transaction, with what that has brought.
    pub(crate) fn give_back(&mut self, offer: Offer) {
        self.offer = Some(offer);
    }

    /// The transaction happened: answers with what it brought, or goes on waiting.
    pub(crate) fn settle(mut self) -> Option<Self> {
        match self.brought() {
            Ok(None) => return Some(self),
            Ok(Some(delivery)) => self.answer(Ok(delivery)),
            Err(refused) => self.answer(Err(refused)),
        }
        None
    }

    /// It did not happen.
    pub(crate) fn forget(mut self) -> Self {
        // What was won was nobody's.
        let _ = self.offer.as_mut().map(Offer::take_won);
        self
    }

    /// Nobody knows whether it did: what may have been won waits for the next claim, which looks again.
    pub(crate) fn doubt(mut self, refused: &Refused) -> Option<Self> {
        match self.brought() {
            Ok(None) => return Some(self),
            // Dropped here, after it was sent off.
            Ok(Some(_)) => self.answer(Err(refused.clone())),
            Err(refused) => self.answer(Err(refused)),
        }
        None
    }

    /// What a transaction has brought that is in the file, or may be: from now on it is the caller's, or waits for the next
    /// claim.
    fn brought(&mut self) -> Result<Option<Delivery<ClaimedTurn>>, Refused> {
        let Some(offer) = &mut self.offer else { return Ok(None) };
        let Some(won) = offer.take_won()? else { return Ok(None) };
        let mut delivery = Delivery::new(won, Arc::clone(&self.undelivered));
        delivery.send_off();
        Ok(Some(delivery))
    }

    fn answer(self, answer: Awaited) {
        // A caller who is gone does not need it; what was won comes back by itself.
        let _ = self.caller.send(answer);
    }
}

/// Waits for the answer.
pub(crate) async fn answer_of(answer: oneshot::Receiver<Awaited>) -> Result<Vec<ClaimedTurn>, Refused> {
    let gone = |_| Err(Refused::NotExecuted(Cause::new("the store is closed; open it again")));
    Ok(answer.await.unwrap_or_else(gone)?.receive())
}
