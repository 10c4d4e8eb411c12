//! Claiming turns: first what an earlier claim won and nobody received, then what is due.

use dauer_store::{ClaimedTurn, InstanceId, Item, QueueKey, Refused, SessionId, Want};

use super::gather::Take;
use super::{Held, State};
use crate::defect::Defect;

/// What a claim has won, to be handed out in the moment it answers.
pub(crate) struct WonTurns {
    number: u64,
    turns: Vec<ClaimedTurn>,
    bytes: usize,
}

impl State {
    /// Wins turns for a session. They stay won until they are handed out, or the session ends.
    pub(crate) fn win_turns(&mut self, session: SessionId, want: &Want) -> Result<WonTurns, Refused> {
        let mut won = self.begin_to_win(session)?;
        for id in self.undelivered_turns(session, want) {
            if let Take::Full = self.win_turn(session, want, &id, &mut won) {
                return Ok(won);
            }
        }
        self.gather(
            want,
            |state| &mut state.ready_turns,
            |state, queue, id| {
                if !state.may_win(session, queue, id) {
                    return Take::Passed;
                }
                state.win_turn(session, want, id, &mut won)
            },
        );
        Ok(won)
    }

    /// Wins turns that no session has.
    pub(crate) fn win_new_turns(&mut self, session: SessionId, want: &Want) -> Result<WonTurns, Refused> {
        let mut won = self.begin_to_win(session)?;
        self.gather(
            want,
            |state| &mut state.ready_turns,
            |state, queue, id| {
                if !state.may_win(session, queue, id) {
                    return Take::Passed;
                }
                state.win_turn(session, want, id, &mut won)
            },
        );
        Ok(won)
    }

    /// What every claim begins with.
    fn begin_to_win(&mut self, session: SessionId) -> Result<WonTurns, Refused> {
        self.claiming(session)?;
        self.pristine = false;
        self.relay();
        self.sweep();
        Ok(WonTurns { number: self.next_sequence(), turns: Vec::new(), bytes: 0 })
    }

    /// Hands out what a claim won and still has: another claim of the same session may have returned it since.
    pub(crate) fn hand_out_turns(&mut self, session: SessionId, won: WonTurns) -> Vec<ClaimedTurn> {
        let mut turns = won.turns;
        turns.retain(|turn| {
            let id = &turn.fence.instance;
            let Some(instance) = self.instances.get_mut(id) else { return false };
            let mine = instance.holder == Some(Held { session, won_by: Some(won.number) });
            if mine {
                instance.holder = Some(Held::by(session));
            }
            mine || self.broken(Defect::ForgetDroppedClaim)
        });
        turns
    }

    /// The same for a claim that has waited.
    pub(crate) fn hand_out_awaited(&mut self, session: SessionId, won: WonTurns) -> Vec<ClaimedTurn> {
        if self.broken(Defect::WaitHandsOutTwice) { won.turns } else { self.hand_out_turns(session, won) }
    }

    /// What earlier claims of the session won without ever answering, as far as this claim may have it.
    fn undelivered_turns(&self, session: SessionId, want: &Want) -> Vec<InstanceId> {
        let held = self.sessions.get(&session).into_iter().flat_map(|s| s.turns.iter());
        let undelivered = held.filter(|id| {
            self.instances.get(*id).is_some_and(|instance| {
                let won =
                    instance.holder.is_some_and(|held| held.session == session && held.won_by.is_some());
                let old = self.broken(Defect::UndeliveredKeepsOldQueue);
                let queue = if old { &instance.record.queue } else { instance.offered_queue(self.moment) };
                won && want.queues.admits(queue)
            })
        });
        undelivered.cloned().collect()
    }

    /// Whether the session may take an instance that the index offers.
    fn may_win(&self, session: SessionId, queue: &QueueKey, id: &InstanceId) -> bool {
        if self.broken(Defect::EmptyWhenAnyHeld) && self.others_hold_of(session, queue) {
            return false;
        }
        self.instances.get(id).is_some_and(|instance| {
            let own = instance.holder.is_some_and(|held| held.session == session);
            if own { self.broken(Defect::ClaimTakesKept) } else { self.may_be_taken(instance) }
        })
    }

    fn others_hold_of(&self, session: SessionId, queue: &QueueKey) -> bool {
        let others = self.sessions.iter().filter(|(id, _)| **id != session && self.is_live(**id));
        let mut held = others.flat_map(|(_, other)| other.turns.iter());
        held.any(|id| self.instances.get(id).is_some_and(|instance| instance.record.queue == *queue))
    }

    /// Takes one instance, if it is ready, wanted, and small enough for what is left of the claim's bytes.
    fn win_turn(&mut self, session: SessionId, want: &Want, id: &InstanceId, won: &mut WonTurns) -> Take {
        if self.is_full(want, won.turns.len()) {
            return Take::Full;
        }
        let moment = self.moment;
        let Some(instance) = self.instances.get(id) else { return Take::Passed };
        if !self.tags_match(want, instance.offered_tags(moment)) {
            return Take::Passed;
        }
        let first = won.turns.is_empty();
        let left = want.bytes.saturating_sub(won.bytes);
        let left = if self.broken(Defect::BytesIgnored) { usize::MAX } else { left };
        let Some(batch) = instance.turn_batch(moment, left, first) else {
            let ready = instance.turn_batch(moment, usize::MAX, true).is_some();
            return if ready { Take::Full } else { Take::Passed };
        };
        let won_by = (!self.broken(Defect::ForgetDroppedClaim)).then_some(won.number);
        self.take_over(session, id, Held { session, won_by });
        let now = self.shown_now();
        let Some(instance) = self.instances.get(id) else { return Take::Passed };
        won.bytes = won.bytes.saturating_add(batch.bytes);
        won.turns.push(ClaimedTurn {
            fence: instance.fence(id),
            record: instance.record.clone(),
            messages: batch.messages,
            more: batch.more,
            history: None,
            now,
        });
        Take::Taken
    }

    /// Makes the session the holder. The epoch grows unless the session holds the instance already, by a claim whose answer it
    /// never received: what it still sends for an earlier claim must not pass for this one. The attempts grow when the last
    /// holder died before it committed under its epoch.
    fn take_over(&mut self, session: SessionId, id: &InstanceId, holder: Held) {
        let Some(instance) = self.instances.get(id) else { return };
        let from_dead = instance.holder.is_some_and(|held| held.session != session);
        let continues = instance.holder.is_some_and(|held| held.session == session);
        let reclaims = instance.holder.is_none() && instance.last_holder == Some(session);
        let proven = instance.holder.is_some_and(|held| self.is_proven_dead(held.session));
        let began = !instance.has_committed() || self.broken(Defect::KeptCountsAttempt);
        if from_dead {
            self.take_from_holder(id);
        }
        let keeps_epoch = from_dead && self.broken(Defect::TakeoverKeepsEpoch)
            || reclaims && self.broken(Defect::ReclaimKeepsEpoch);
        let uncounted = if proven { Defect::EndSessionUncounted } else { Defect::TakeoverUncounted };
        let counts = from_dead && began && !self.broken(uncounted);
        let Some(instance) = self.instances.get_mut(id) else { return };
        if !continues && !keeps_epoch {
            instance.epoch = instance.epoch.next();
        }
        if counts {
            instance.record.attempts = instance.record.attempts.saturating_add(1);
        }
        instance.last_holder = Some(session);
        instance.holder = Some(holder);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.turns.insert(id.clone());
        }
        self.reindex_turn(id);
    }

    /// Whether someone vouched for the death of a session's host.
    pub(super) fn is_proven_dead(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.life.ended)
    }

    /// Takes an instance from whoever holds it; a host that had received it is told at its next renewal.
    pub(super) fn take_from_holder(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        let Some(held) = instance.holder.take() else { return };
        let fence = instance.fence(id);
        if let Some(session) = self.sessions.get_mut(&held.session) {
            session.turns.remove(id);
            if held.won_by.is_none() {
                session.lost.push(Item::Turn(fence));
            }
        }
        self.forget_if_gone(held.session);
        self.reindex_turn(id);
    }
}
