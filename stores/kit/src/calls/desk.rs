//! One session of a handle: its credit, what it has won and not received, and what it is to look for.
//!
//! Invariants:
//! - What was won stays here until [`Desk::take`] hands it out or a recall names it. A caller that goes away loses nothing.
//! - An offer has room for no more than the credit minus what was won and not taken.
//! - Numbers up to the last recalled one win nothing.
//! - A look is wanted whenever work may be ready that the credit has room for, and that no write has offered.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dauer_store::{Amount, Clock, Credit, InstanceId, Item, Kind, Next, Refused, Timestamp};

use super::offer::{Left, Offer, Won, task_bytes, turn_bytes};

/// Looks in a row that found nothing although something was due: beyond it the store's clock does not move as the host's
/// does, and the next look waits for [`DUE_PAUSE`] at least. More than other sessions that were quicker explain.
const DUE_TRUSTED: u32 = 8;

/// See [`DUE_TRUSTED`]. Long enough to cost nothing, short enough that nothing due is missed for long.
const DUE_PAUSE: Duration = Duration::from_millis(100);

/// One session of a handle.
pub struct Desk {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

/// What a look is for, beside the work that there is credit for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Also for messages to all that the session holds.
    pub mail: bool,
}

/// What a look has found, beside what it has won.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    /// Held instances with messages, where the look was for them.
    pub mail: Vec<InstanceId>,
    /// How long until the first item that the credit is for, or the first message to a held instance, becomes ready by time alone.
    pub due: Option<Duration>,
}

/// What a call of `next` does now.
#[derive(Debug)]
pub(super) enum Step {
    Return(Next),
    Fail(Refused),
    Look(Look),
    /// Nothing until this much time has passed, or the desk wakes its waiter.
    Wait(Option<Duration>),
}

#[derive(Default)]
struct State {
    credit: Credit,
    /// Numbers up to this one win nothing.
    recalled: Option<u64>,
    won: Next,
    bytes: (usize, usize),
    /// Which items were won, and with which number: those that may still be recalled.
    known: Vec<(u64, Item)>,
    named: BTreeSet<InstanceId>,
    unseen: Left,
    unseen_mail: bool,
    /// A look has begun and not ended.
    looking: bool,
    /// By the steady clock: when something becomes ready by time alone.
    due: Option<Timestamp>,
    /// The look that has begun is for what was due when it began.
    for_due: bool,
    fruitless: u32,
    /// Why no one knows what the session has won.
    doubt: Option<Refused>,
    /// Something has changed since the call that waits last looked at the state.
    changed: bool,
    waker: Option<Waker>,
}

impl Desk {
    /// The desk of a new session, without credit. It looks first: work may have been there before it.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = State { unseen: Left::BOTH, unseen_mail: true, ..State::default() };
        Self { clock, state: Mutex::new(state) }
    }

    /// A panic while the lock was held leaves lists whose entries are whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state. Wakes the call that waits if `change` returns true.
    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        // Outside the lock: the waiter may run at once.
        self.alter(change).into_iter().for_each(Waker::wake);
    }

    /// Changes the state. Returns the waker of the call that waits if `change` returns true.
    fn alter(&self, change: impl FnOnce(&mut State) -> bool) -> Option<Waker> {
        let mut state = self.state();
        let wakes = change(&mut state);
        state.changed |= wakes;
        if wakes { state.waker.take() } else { None }
    }

    /// Replaces the credit. Credit of a recalled number is no credit.
    pub fn credit(&self, credit: Credit) {
        self.change(|state| {
            if state.recalled.is_some_and(|recalled| credit.number <= recalled) {
                return false;
            }
            if credit.first > state.credit.first {
                state.known.retain(|(number, _)| *number >= credit.first);
            }
            if (&credit.queues, &credit.tags) != (&state.credit.queues, &state.credit.tags) {
                state.unseen = Left::BOTH;
            }
            state.credit = credit;
            state.wants_look()
        });
    }

    /// What the session may win now; nothing without credit. A look that finds no room for a side has not looked at it, and what
    /// is due there is not waited for any more: the side is looked at when there is room.
    #[must_use]
    pub fn offer(&self) -> Option<Offer> {
        let mut state = self.state();
        let (turns, tasks) = state.rooms();
        if state.looking {
            state.unseen.turns |= turns.count == 0;
            state.unseen.tasks |= tasks.count == 0;
        }
        let unseen = if state.looking { Left::BOTH } else { state.unseen };
        (turns.count > 0 || tasks.count > 0)
            .then(|| Offer::new(&state.credit, (turns, tasks), (&state.won, unseen)))
    }

    /// What was won is the session's: the write that won it is durable.
    pub fn settle(&self, won: Won) {
        self.book(won).into_iter().for_each(Waker::wake);
    }

    /// The same for a caller that holds a lock, so that no other write spends the same credit: it lets go of the lock before it
    /// wakes the returned waker.
    #[must_use]
    pub fn book(&self, won: Won) -> Option<Waker> {
        self.alter(|state| {
            state.remember(&won);
            let Won { turns, tasks, left, .. } = won;
            state.unseen.join(left);
            if turns.is_empty() && tasks.is_empty() {
                return state.wants_look();
            }
            state.bytes.0 =
                turns.iter().fold(state.bytes.0, |sum, turn| sum.saturating_add(turn_bytes(turn)));
            state.bytes.1 =
                tasks.iter().fold(state.bytes.1, |sum, task| sum.saturating_add(task_bytes(task)));
            state.won.turns.extend(turns);
            state.won.tasks.extend(tasks);
            true
        })
    }

    /// No one knows whether the write that won this is durable: the next call of `next` says so, and the host recalls.
    pub fn doubt(&self, won: &Won, refused: Refused) {
        self.change(|state| {
            state.remember(won);
            state.unseen = Left::BOTH;
            let may_have_won = !won.turns.is_empty() || !won.tasks.is_empty();
            if may_have_won {
                state.doubt = Some(refused);
            }
            may_have_won
        });
    }

    /// Messages have become visible for instances that the session holds.
    pub fn mail(&self, instances: impl IntoIterator<Item = InstanceId>) {
        self.change(|state| {
            let before = state.named.len();
            state.named.extend(instances);
            state.named.len() > before
        });
    }

    /// Work of that kind is ready and was not offered.
    pub fn unseen(&self, kind: Kind) {
        self.change(|state| {
            state.unseen.add(kind);
            state.wants_look()
        });
    }

    /// Anything may have changed: another handle has written, or something was missed.
    pub fn unseen_all(&self) {
        self.change(|state| {
            (state.unseen, state.unseen_mail) = (Left::BOTH, true);
            true
        });
    }

    /// Something becomes ready by time alone after `after`.
    pub fn due(&self, after: Duration) {
        let at = self.clock.steady().after(after);
        self.change(|state| {
            let earlier = state.due.is_none_or(|due| at < due);
            state.due = if earlier { Some(at) } else { state.due };
            earlier
        });
    }

    /// Refuses all numbers up to `last`, and returns the items that were won with numbers from `first` on. The store returns
    /// those of them that the session still holds. What was won and not taken is among them.
    #[must_use]
    pub fn recall(&self, first: u64, last: u64) -> Vec<Item> {
        let mut state = self.state();
        state.recalled = state.recalled.max(Some(last));
        if state.credit.number <= last {
            (state.credit.turns, state.credit.tasks) = (Amount::default(), Amount::default());
        }
        state.doubt = None;
        // Numbers that are not recalled have won nothing yet, unless the host skips some.
        let known = &state.known;
        let is_later = |item: &Item| known.iter().any(|(number, known)| *number > last && known == item);
        let turns: Vec<bool> =
            state.won.turns.iter().map(|turn| is_later(&Item::Turn(turn.fence.clone()))).collect();
        let tasks: Vec<bool> =
            state.won.tasks.iter().map(|task| is_later(&Item::Task(task.fence.clone()))).collect();
        let (mut turns, mut tasks) = (turns.into_iter(), tasks.into_iter());
        state.won.turns.retain(|_| turns.next().unwrap_or(false));
        state.won.tasks.retain(|_| tasks.next().unwrap_or(false));
        state.count_bytes();
        let named = state.known.iter().filter(|(number, _)| (first..=last).contains(number));
        named.map(|(_, item)| item.clone()).collect()
    }

    /// What the call does now. `at_end` when it is to return whatever there is.
    pub(super) fn step(&self, at_end: bool) -> Step {
        let mut state = self.state();
        state.changed = false;
        if let Some(refused) = state.doubt.take() {
            return Step::Fail(refused);
        }
        if at_end || state.has_something() {
            return Step::Return(state.take());
        }
        let now = self.clock.steady();
        let wait = state.due.map(|due| due.since(now));
        if state.wants_look() || wait.is_some_and(|wait| wait.is_zero()) {
            return Step::Look(state.begin_look(false, now));
        }
        Step::Wait(wait)
    }

    /// Begins a look for everything.
    pub(super) fn last_look(&self) -> Look {
        let now = self.clock.steady();
        self.state().begin_look(true, now)
    }

    /// Ends a look.
    pub(super) fn looked(&self, looked: Looked) {
        let now = self.clock.steady();
        let mut state = self.state();
        let Looked { mail, due } = looked;
        state.looking = false;
        state.named.extend(mail);
        if state.has_something() || due.is_none() {
            state.fruitless = 0;
        } else if state.for_due {
            state.fruitless = state.fruitless.saturating_add(1);
        }
        let least = if state.fruitless > DUE_TRUSTED { DUE_PAUSE } else { Duration::ZERO };
        let due = due.map(|due| now.after(due.max(least)));
        state.due = state.due.into_iter().chain(due).min();
    }

    /// A look was refused or dropped, or its outcome is unknown: what it was for is looked for again.
    pub(super) fn look_failed(&self, look: Look) {
        let mut state = self.state();
        state.looking = false;
        state.unseen = Left::BOTH;
        state.unseen_mail |= look.mail;
    }

    /// Ready when something has changed since the last [`step`](Self::step).
    pub(super) fn poll_change(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.changed {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl State {
    /// What is left of the credit: turns and tasks.
    fn rooms(&self) -> (Amount, Amount) {
        let room = |credit: Amount, count: usize, bytes: usize| Amount {
            count: credit.count.saturating_sub(count),
            bytes: credit.bytes.saturating_sub(bytes),
        };
        (
            room(self.credit.turns, self.won.turns.len(), self.bytes.0),
            room(self.credit.tasks, self.won.tasks.len(), self.bytes.1),
        )
    }

    fn remember(&mut self, won: &Won) {
        let turns = won.turns.iter().map(|turn| Item::Turn(turn.fence.clone()));
        let tasks = won.tasks.iter().map(|task| Item::Task(task.fence.clone()));
        self.known.extend(turns.chain(tasks).map(|item| (won.number, item)));
    }

    fn has_something(&self) -> bool {
        !self.won.turns.is_empty() || !self.won.tasks.is_empty() || !self.named.is_empty()
    }

    fn wants_look(&self) -> bool {
        let (turns, tasks) = self.rooms();
        self.unseen.turns && turns.count > 0 || self.unseen.tasks && tasks.count > 0 || self.unseen_mail
    }

    fn begin_look(&mut self, all: bool, now: Timestamp) -> Look {
        let (turns, tasks) = self.rooms();
        self.looking = true;
        // Work that becomes ready from now on is reported again. A side without room stays to be looked at.
        self.unseen.turns &= turns.count == 0;
        self.unseen.tasks &= tasks.count == 0;
        let due = self.due.take();
        self.for_due = due.is_some_and(|due| due <= now);
        Look { mail: std::mem::take(&mut self.unseen_mail) || all || due.is_some() }
    }

    fn take(&mut self) -> Next {
        // The host has what it takes: it knows how much room that leaves. Until it says so, the same room is not spent twice.
        let Credit { turns, tasks, .. } = &mut self.credit;
        turns.count = turns.count.saturating_sub(self.won.turns.len());
        tasks.count = tasks.count.saturating_sub(self.won.tasks.len());
        self.bytes = (0, 0);
        let mail = std::mem::take(&mut self.named).into_iter().collect();
        Next { mail, ..std::mem::take(&mut self.won) }
    }

    fn count_bytes(&mut self) {
        self.bytes.0 = self.won.turns.iter().map(turn_bytes).sum();
        self.bytes.1 = self.won.tasks.iter().map(task_bytes).sum();
    }
}
