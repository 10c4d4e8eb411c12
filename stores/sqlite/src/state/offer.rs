//! Claims that wait, while a transaction is under way: what it makes ready is offered to them.
//!
//! A new instance is offered before its row is written, so that who holds it is written with it. What else has become ready is
//! offered at the end, from the file.

use dauer_store::{ClaimedTurn, HubName, Kind, Message, Refused, SessionId, Want};

use super::claim::Won;
use super::gather::tags_match;
use super::inbox::TurnBatch;
use super::instance::Instance;
use super::{Scope, What};
use crate::fail::{Fail, Outcome};

/// One of them.
pub(crate) struct Offer {
    hub: HubName,
    session: SessionId,
    want: Want,
    /// What it has won in the transaction under way.
    won: Option<Won<ClaimedTurn>>,
    /// Why it wins nothing.
    refused: Option<Refused>,
}

impl Offer {
    pub(crate) fn new(hub: HubName, session: SessionId, want: Want) -> Self {
        Self { hub, session, want, won: None, refused: None }
    }

    pub(crate) fn hub(&self) -> &HubName {
        &self.hub
    }

    /// What it has won, if anything, or why it wins nothing; from now on it begins anew.
    pub(crate) fn take_won(&mut self) -> Result<Option<Won<ClaimedTurn>>, Refused> {
        let won = self.won.take().filter(|won| !won.items.is_empty());
        self.refused.take().map_or(Ok(won), Err)
    }

    /// Whether it takes an instance, for a turn that begins with this message.
    fn wants(&self, instance: &Instance, message: &Message) -> bool {
        let record = &instance.record;
        let (count, bytes) = self.won.as_ref().map_or((0, 0), |won| (won.items.len(), won.bytes));
        let fits = count == 0 || message.event.len() <= self.want.bytes.saturating_sub(bytes);
        let matches = || self.want.queues.admits(&record.queue) && tags_match(&self.want, &record.tags);
        count < self.want.count && fits && matches()
    }
}

impl Scope<'_, '_> {
    /// Gives a new instance, which is not written yet, to the first claim that waits for such; answers which of them. The
    /// caller writes it and hands it over.
    pub(super) fn promise(&mut self, instance: &mut Instance, message: &Message) -> Outcome<Option<usize>> {
        let ready = instance.ready_at.is_some_and(|ready_at| ready_at <= self.now);
        let waits = |offer: &Offer| offer.hub == *self.name && offer.wants(instance, message);
        let Some(at) = self.group.offers.iter().position(waits).filter(|_| ready) else { return Ok(None) };
        let session = match self.claimer(self.group.offers[at].session) {
            Ok(session) => session,
            // It is told when the transaction is over, and whoever may claim finds the instance in the file.
            Err(Fail::Refused(_)) => return Ok(None),
            Err(broken) => return Err(broken),
        };
        instance.epoch = instance.epoch.next();
        instance.holder = Some(session);
        Ok(Some(at))
    }

    /// Hands over what was promised, with the message that its turn begins with.
    pub(super) fn hand_over(&mut self, at: usize, instance: &Instance, message: Message) {
        self.group.won_again.insert((What::Turn, instance.key));
        let (hub, now) = (self.view.hub, self.now);
        let (Some(offer), Some(session)) = (self.group.offers.get_mut(at), instance.holder) else { return };
        let won = offer.won.get_or_insert_with(|| Won::nothing(session, &offer.want));
        won.push(
            instance,
            TurnBatch { bytes: message.event.len(), messages: vec![message], more: false },
            now,
        );
        self.group.served_turns.insert(hub, instance.record.queue.clone());
    }

    /// Wins for a claim that waits what else the transaction has made ready. Where it leaves none, nobody need be told that
    /// there are some.
    pub(crate) fn serve(&mut self, offer: &mut Offer) -> Outcome<()> {
        let session = match self.claimer(offer.session) {
            Ok(session) => session,
            Err(Fail::Refused(refused)) => {
                offer.refused = Some(refused);
                return Ok(());
            }
            Err(broken) => return Err(broken),
        };
        let won = offer.won.get_or_insert_with(|| Won::nothing(session, &offer.want));
        self.win_due(&offer.want, won)?;
        if !won.items.is_empty() && !self.has_due_turns()? {
            let name = self.name;
            self.group.ready.retain(|(hub, kind)| hub != name || *kind == Kind::Activity);
        }
        Ok(())
    }
}
