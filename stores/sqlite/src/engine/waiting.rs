//! Claims that wait for what becomes ready, and win it in the transaction that makes it so.

use std::sync::Arc;

use futures::channel::oneshot;

use dauer_store::{Cause, ClaimedTurn, HubName, Refused, SessionId, Want};

use super::delivery::Delivery;
use super::transaction::Transaction;
use crate::fail::Fail;
use crate::state::Undelivered;

/// What it has come to: turns, or a refusal.
pub(crate) type Awaited = Result<Delivery<ClaimedTurn>, Refused>;

/// One of them.
pub(crate) struct Waiting {
    hub: HubName,
    session: SessionId,
    want: Want,
    undelivered: Arc<Undelivered>,
    /// What the transaction under way has brought.
    brought: Option<Awaited>,
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
        (Self { hub, session, want, undelivered, brought: None, caller }, answer)
    }

    /// Whether nobody waits for it any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.caller.is_canceled()
    }

    /// Wins what the transaction has made ready, if it has. `Err` means that it must be rolled back.
    pub(crate) fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Refused> {
        if self.is_given_up() || !transaction.has_turns(&self.hub) {
            return Ok(());
        }
        let won = transaction
            .scope(&self.hub)
            .and_then(|mut scope| scope.claim_new_turns(self.session, &self.want));
        self.brought = match won {
            Ok(won) if won.items.is_empty() => None,
            Ok(won) => Some(Ok(Delivery::new(won, Arc::clone(&self.undelivered)))),
            Err(Fail::Refused(refused)) => Some(Err(refused)),
            Err(Fail::Broken(refused)) => return Err(refused),
        };
        Ok(())
    }

    /// The transaction happened: answers with what it brought, or goes on waiting.
    pub(crate) fn settle(mut self) -> Option<Self> {
        let Some(mut brought) = self.brought.take() else { return Some(self) };
        if let Ok(delivery) = &mut brought {
            delivery.send_off();
        }
        // A caller who is gone does not need it; what was won comes back by itself.
        let _ = self.caller.send(brought);
        None
    }

    /// It did not happen.
    pub(crate) fn forget(self) -> Self {
        Self { brought: None, ..self }
    }

    /// Nobody knows whether it did: what may have been won waits for the next claim, which looks again.
    pub(crate) fn doubt(mut self, refused: &Refused) -> Option<Self> {
        if let Some(Ok(delivery)) = &mut self.brought {
            delivery.send_off();
            self.brought = Some(Err(refused.clone()));
        }
        self.settle()
    }
}

/// Waits for the answer.
pub(crate) async fn answer_of(answer: oneshot::Receiver<Awaited>) -> Result<Vec<ClaimedTurn>, Refused> {
    let gone = |_| Err(Refused::NotExecuted(Cause::new("the store is closed; open it again")));
    Ok(answer.await.unwrap_or_else(gone)?.receive())
}
