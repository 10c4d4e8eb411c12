//! Looks of a session: for ready work that it has credit for, for mail, and for what becomes ready next.

use std::sync::Arc;

use rusqlite::params;

use dauer_store::{InstanceId, Kind, Queues, SessionId, Timestamp};
use dauer_store_kit::calls::{Desk, Look, Offer};

use super::gather::What;
use super::{Scope, View};
use crate::fail::Outcome;
use crate::life::Lives;

/// What a look has found, beside what it has won.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Held instances with messages, where the look was for them.
    pub(crate) mail: Vec<InstanceId>,
    /// When the first item that there is credit for, or the first message to a held instance, becomes ready by time alone.
    pub(crate) due: Option<Timestamp>,
}

impl Scope<'_, '_> {
    /// Looks once. What it wins is in the bid of the session.
    pub(crate) fn look(&mut self, session: SessionId, desk: &Arc<Desk>, look: Look) -> Outcome<Found> {
        let key = self.claimer(session)?;
        self.touch()?;
        self.relay()?;
        self.sweep()?;
        let mut found = Found::default();
        if let Some(mut bid) = self.take_bid(session, desk) {
            for (what, kind) in [(What::Turn, Kind::Orchestration), (What::Task, Kind::Activity)] {
                if bid.offer.has_room(kind) {
                    self.win(what, session, &mut bid.offer)?;
                }
            }
            found.due = self.next_due(bid.offer.queues())?;
            self.return_bid(bid);
        }
        self.look_for_mail(key, look, &mut found)?;
        Ok(found)
    }
}

impl View<'_> {
    /// What a look finds that wins nothing; `None` when there may be something to win or to write.
    pub(crate) fn peek(
        &self,
        session: SessionId,
        offer: Option<&Offer>,
        (look, lives): (Look, &Lives),
    ) -> Outcome<Option<Found>> {
        if self.has_due(offer)? || self.has_unsent()? || self.has_expired()? || self.has_dead(lives)? {
            return Ok(None);
        }
        let session = self.acting(session)?;
        session.life.may_claim(self.now)?;
        let mut found = Found::default();
        if let Some(offer) = offer {
            found.due = self.next_due(offer.queues())?;
        }
        self.look_for_mail(session.key, look, &mut found)?;
        Ok(Some(found))
    }

    fn look_for_mail(&self, session: i64, look: Look, found: &mut Found) -> Outcome<()> {
        if look.mail {
            let (mail, next) = self.waiting_mail(session)?;
            found.mail = mail;
            found.due = found.due.into_iter().chain(next).min();
        }
        Ok(())
    }

    /// Whether loaded instances have messages to deliver.
    fn has_unsent(&self) -> Outcome<bool> {
        let mut unsent = self.db.prepare_cached("SELECT 1 FROM outbox WHERE hub = ?1 LIMIT 1")?;
        Ok(unsent.exists([self.hub])?)
    }

    /// Whether a session has expired whose items are not on offer.
    fn has_expired(&self) -> Outcome<bool> {
        let mut expired = self.db.prepare_cached(
            "SELECT 1 FROM sessions WHERE hub = ?1 AND lapsed = 0 AND expires_at <= ?2 LIMIT 1",
        )?;
        Ok(expired.exists(params![self.hub, self.now.0])?)
    }

    /// Whether the host of a session is dead by proof; looked at from time to time only.
    fn has_dead(&self, lives: &Lives) -> Outcome<bool> {
        if !lives.is_time_for_claim(self.now) {
            return Ok(false);
        }
        let dead = self.sessions()?.iter().any(|session| !session.life.ended && lives.is_dead(session.id));
        if dead {
            // The transaction that follows ends it.
            lives.look_at_claim();
        }
        Ok(dead)
    }

    /// Whether something is ready in the queues that there is credit for.
    fn has_due(&self, offer: Option<&Offer>) -> Outcome<bool> {
        let Some(offer) = offer else { return Ok(false) };
        for (key, queue) in self.queues()? {
            if !offer.has_room(queue.kind) || !offer.queues().admits(&queue) {
                continue;
            }
            let mut find = self.db.prepare_cached(match What::of(queue.kind) {
                What::Task => {
                    "SELECT 1 FROM tasks WHERE queue = ?1 AND place IS NOT NULL AND place <= ?2 LIMIT 1"
                }
                What::Turn => {
                    "SELECT 1 FROM instances WHERE offered = ?1 AND place IS NOT NULL AND place <= ?2 LIMIT 1"
                }
            })?;
            if find.exists(params![key, self.now.0])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// When something that sleeps in these queues is ready. The end of a session makes nothing ready: it may be
    /// renewed.
    fn next_due(&self, queues: &Queues) -> Outcome<Option<Timestamp>> {
        let mut earliest: Option<i64> = None;
        for (key, queue) in self.queues()? {
            if !queues.admits(&queue) {
                continue;
            }
            let mut next = self.db.prepare_cached(match What::of(queue.kind) {
                What::Task => {
                    "SELECT min(place) FROM tasks WHERE queue = ?1 AND place IS NOT NULL AND place > ?2"
                }
                What::Turn => {
                    "SELECT min(place) FROM instances WHERE offered = ?1 AND place IS NOT NULL AND place > ?2"
                }
            })?;
            let found: Option<i64> = next.query_row(params![key, self.now.0], |row| row.get(0))?;
            earliest = earliest.into_iter().chain(found).min();
        }
        Ok(earliest.map(Timestamp))
    }
}
