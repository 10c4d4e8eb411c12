//! Claiming turns: first what an earlier claim won and nobody received, then what is due.

use rusqlite::params;

use dauer_store::{ClaimedTurn, Kind, Refused, SessionId, Timestamp, Want};

use super::gather::{Take, tags_match};
use super::inbox::TurnBatch;
use super::instance::Instance;
use super::undelivered::Parcel;
use super::{Scope, What};
use crate::fail::{Fail, Outcome};

/// Items that a claim makes room for before it has them.
const ROOM_MAX: usize = 128;

/// What a claim has won.
#[derive(Debug)]
pub(crate) struct Won<T> {
    pub(crate) session: i64,
    pub(crate) items: Vec<T>,
    /// The keys of the items, to remember them by until they are received.
    pub(crate) parcels: Vec<Parcel>,
    pub(super) bytes: usize,
}

impl<T> Won<T> {
    /// Nothing yet, with room for what is wanted: items are large, and a list that grows moves them.
    pub(super) fn nothing(session: i64, want: &Want) -> Self {
        let room = want.count.min(ROOM_MAX);
        Self { session, items: Vec::with_capacity(room), parcels: Vec::with_capacity(room), bytes: 0 }
    }
}

impl Won<ClaimedTurn> {
    /// The turn of an instance that was taken, with its messages.
    pub(super) fn push(&mut self, instance: &Instance, batch: TurnBatch, now: Timestamp) {
        let TurnBatch { messages, bytes, more } = batch;
        self.bytes = self.bytes.saturating_add(bytes);
        self.parcels.push((What::Turn, instance.key, instance.epoch.0));
        let (fence, record) = (instance.fence(), instance.record.clone());
        self.items.push(ClaimedTurn { fence, record, messages, more, history: None, now });
    }
}

impl Scope<'_, '_> {
    /// Wins turns for a session.
    pub(crate) fn claim_turns(&mut self, session: SessionId, want: &Want) -> Outcome<Won<ClaimedTurn>> {
        let session = self.claimer(session)?;
        self.touch()?;
        self.relay()?;
        self.sweep()?;
        let mut won = Won::nothing(session, want);
        for (key, epoch) in self.group.undelivered.of(session, What::Turn) {
            let Some(instance) = self.undelivered_turn(session, key, epoch)? else { continue };
            if self.is_offered_in(want, &instance)?
                && let Take::Full = self.win_turn(want, instance, &mut won)?
            {
                return Ok(won);
            }
        }
        self.win_due(want, &mut won)?;
        Ok(won)
    }

    /// Wins what is due and nobody's.
    pub(super) fn win_due(&mut self, want: &Want, won: &mut Won<ClaimedTurn>) -> Outcome<()> {
        self.gather(want, What::Turn, |scope, due| {
            let Some(instance) = readable(scope.fetch_due(due))?.flatten() else { return Ok(Take::Passed) };
            let free = match instance.holder {
                None => true,
                Some(session) => session != won.session && !scope.lives(session)?,
            };
            if free { scope.win_turn(want, instance, won) } else { Ok(Take::Passed) }
        })
    }

    /// Whether the turn of any instance is due, whoever may want it.
    pub(super) fn has_due_turns(&self) -> Outcome<bool> {
        let mut find = self.db.prepare_cached(
            "SELECT 1 FROM instances WHERE offered = ?1 AND place IS NOT NULL AND place <= ?2 LIMIT 1",
        )?;
        for (queue, _) in self.queues()?.into_iter().filter(|(_, queue)| queue.kind != Kind::Activity) {
            if find.exists(params![queue, self.now.0])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An instance that an earlier claim of the session won, if it is still so. Else nobody waits for it any more.
    fn undelivered_turn(&mut self, session: i64, key: i64, epoch: u64) -> Outcome<Option<Box<Instance>>> {
        let instance = readable(self.fetch_at(key))?.flatten();
        let mine = instance.filter(|i| i.epoch.0 == epoch && i.holder == Some(session) && !i.has_committed());
        if mine.is_none() {
            self.group.stale.push((session, (What::Turn, key, epoch)));
        }
        Ok(mine.filter(|_| !self.group.won_again.contains(&(What::Turn, key))))
    }

    /// Whether an instance is offered in one of the wanted queues.
    fn is_offered_in(&self, want: &Want, instance: &Instance) -> Outcome<bool> {
        let opening = readable(self.opening_of(instance))?.flatten();
        Ok(want.queues.admits(opening.as_ref().map_or(&instance.record.queue, |next| &next.queue)))
    }

    /// Takes one instance, if it is ready, wanted, and small enough for what is left of the claim's bytes.
    fn win_turn(
        &mut self,
        want: &Want,
        mut instance: Box<Instance>,
        won: &mut Won<ClaimedTurn>,
    ) -> Outcome<Take> {
        if won.items.len() >= want.count {
            return Ok(Take::Full);
        }
        let opening = readable(self.opening_of(&instance))?.flatten();
        if !tags_match(want, opening.as_ref().map_or(&instance.record.tags, |next| &next.tags)) {
            return Ok(Take::Passed);
        }
        let left = want.bytes.saturating_sub(won.bytes);
        let batch = match readable(self.batch_within(&mut instance, left, won.items.is_empty()))? {
            Some(Ok(batch)) => batch,
            Some(Err(take)) => return Ok(take),
            None => return Ok(Take::Passed),
        };
        self.take_over(won.session, &mut instance)?;
        won.push(&instance, batch, self.now);
        self.put_back(instance);
        Ok(Take::Taken)
    }

    /// The messages of its next turn, if they fit; or what the claim does instead.
    fn batch_within(
        &mut self,
        instance: &mut Instance,
        left: usize,
        first: bool,
    ) -> Outcome<Result<TurnBatch, Take>> {
        self.know_inbox(instance)?;
        if let Some(batch) = self.turn_batch(instance, left, first)? {
            return Ok(Ok(batch));
        }
        let ready = self.turn_batch(instance, usize::MAX, true)?.is_some();
        Ok(Err(if ready { Take::Full } else { Take::Passed }))
    }

    /// Makes the session the holder. The epoch grows unless the session holds the instance already, by a claim whose answer it
    /// never received: what it still sends for an earlier claim must not pass for this one. The attempts grow when the last
    /// holder died before it committed under its epoch.
    fn take_over(&mut self, session: i64, instance: &mut Instance) -> Outcome<()> {
        let continues = instance.is_held_by(session);
        let from_dead = instance.holder.is_some() && !continues;
        if from_dead {
            self.take_from_holder(instance)?;
            let died_in_turn = u32::from(!instance.has_committed());
            instance.record.attempts = instance.record.attempts.saturating_add(died_in_turn);
        }
        if !continues {
            instance.epoch = instance.epoch.next();
        }
        instance.holder = Some(session);
        self.group.effort.claims += 1;
        self.group.won_again.insert((What::Turn, instance.key));
        if from_dead { self.store_all(instance) } else { self.store_hold(instance) }
    }
}

/// What was read, if it could be: one damaged item must not keep a claim from all others. Whoever asks for that item
/// itself is told.
pub(super) fn readable<T>(read: Outcome<T>) -> Outcome<Option<T>> {
    match read {
        Err(Fail::Broken(Refused::Corrupt(_))) => Ok(None),
        other => other.map(Some),
    }
}
