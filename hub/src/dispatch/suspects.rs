//! Suspects: turns and tasks with which workers have died. They run beside fewer and fewer others, so that the next death
//! blames fewer of them, and in the end alone: a *trial*. Only a death in a trial counts against its item.
//!
//! Everything here is about code that runs in this process. An executor whose workers are elsewhere has no suspects here.
//!
//! Invariants:
//! - For every `j`, at most `max(1, slots >> j)` suspects with `j` deaths or more have a place, beside trials and those that have
//!   run for [`SUSPECT_YOUNG`].
//! - A suspect waits here for a place of its own in the process only while the release of another is not durable. All
//!   others either run, or are given back.
//! - While a trial is in progress nothing begins but its item, and the session has no credit. The trial is open in the store
//!   from before its item begins until after its code has ended, or has run for the quiet time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use dauer_core::model::{Deaths, TaskFence};
use dauer_core::planted::{self, Bug};
use dauer_core::{Epoch, MessageId};
use dauer_store::{Cause, Item, Refused, Steady, TaskLease, Trial};

use super::hold::{Begin, Ticket};
use super::{Dispatch, Step, activity, turn};
use crate::backoff;
use crate::options::{SUSPECT_DELAY_MAX, SUSPECT_DELAY_MIN, SUSPECT_SETTLE, SUSPECT_YOUNG, TRIAL_REST};
use crate::session::Session;

/// A turn or task that has not begun.
pub(super) enum Suspect {
    Turn(Box<Begin>),
    Task(Box<TaskLease>),
}

/// One turn or task that this host holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Turn(Ticket),
    Task(MessageId, Epoch),
}

impl Key {
    fn of_task(fence: &TaskFence) -> Self {
        Self::Task(fence.task, fence.epoch)
    }
}

impl Suspect {
    fn key(&self) -> Key {
        match self {
            Self::Turn(begin) => Key::Turn(begin.ticket),
            Self::Task(lease) => Key::of_task(&lease.fence),
        }
    }

    fn item(&self) -> Item {
        match self {
            Self::Turn(begin) => Item::Turn(begin.claimed.fence.clone()),
            Self::Task(lease) => Item::Task(lease.fence.clone()),
        }
    }

    /// Deaths of workers in its trials.
    fn trials(&self) -> u32 {
        match self {
            Self::Turn(begin) => begin.claimed.record.deaths.trials,
            Self::Task(lease) => lease.deaths.trials,
        }
    }

    /// Deaths of workers with it.
    fn deaths(&self) -> u32 {
        match self {
            Self::Turn(begin) => begin.claimed.record.deaths.workers,
            Self::Task(lease) => lease.deaths.workers,
        }
    }
}

/// The suspects that have a place: they are about to begin, or have begun less than [`SUSPECT_YOUNG`] ago.
struct Places {
    /// How many have that many deaths, or more for the last.
    counts: [usize; usize::BITS as usize],
    deaths: BTreeMap<Key, usize>,
    /// By the time of their place. Some of them have ended.
    ages: VecDeque<(Steady, Key)>,
}

impl Default for Places {
    fn default() -> Self {
        Self { counts: [0; usize::BITS as usize], deaths: BTreeMap::new(), ages: VecDeque::new() }
    }
}

impl Places {
    /// Takes a place, if there is one.
    fn take(&mut self, key: Key, deaths: u32, slots: usize, now: Steady) -> bool {
        while let Some((at, key)) = self.ages.front().copied()
            && now.since(at) >= SUSPECT_YOUNG
        {
            self.ages.pop_front();
            self.leave(key);
        }
        let most = self.class(deaths);
        let mut beside = 0;
        for (j, count) in self.counts.iter().enumerate().skip(1).rev() {
            beside += count;
            if j <= most && beside >= (slots >> j).max(1) {
                return false;
            }
        }
        self.add(key, deaths, now);
        true
    }

    /// Takes a place, whether there is one or not.
    fn add(&mut self, key: Key, deaths: u32, now: Steady) {
        let deaths = self.class(deaths);
        self.counts[deaths] += 1;
        self.deaths.insert(key, deaths);
        self.ages.push_back((now, key));
    }

    fn class(&self, deaths: u32) -> usize {
        usize::try_from(deaths).unwrap_or(usize::MAX).min(self.counts.len() - 1)
    }

    /// The suspect has ended, has run for long, or is given back.
    fn leave(&mut self, key: Key) {
        if let Some(deaths) = self.deaths.remove(&key) {
            self.counts[deaths] -= 1;
        }
    }
}

/// How far a trial is.
enum Phase {
    /// Nothing begins, until `until` at least and until all that has no place is given back.
    Quiet { suspect: Suspect, until: Steady },
    /// The store is to note that the trial is open.
    Opening { suspect: Suspect },
    /// The item runs: until then the trial is open, unless its code ends earlier.
    Runs { key: Key, item: Item, until: Steady },
    /// The code has ended.
    Over { item: Item },
    /// The store is to note that the trial is over.
    Closing,
}

/// The trial of one item.
struct Trying {
    phase: Phase,
    /// When its quiet began.
    since: Steady,
}

pub(super) struct Suspects {
    /// Whether user code runs in this process.
    is_on: bool,
    /// For how long nothing else begins before the item of a trial, and after it.
    quiet: Duration,
    places: Places,
    /// They have a place, and wait until the store has all that have none.
    ready: Vec<Suspect>,
    /// Releases that are not durable yet, of items that have not begun.
    leaving: usize,
    trying: Option<Trying>,
    /// The next trial may not begin before.
    rests_until: Steady,
    /// The next trial of an item may not begin before, if its last trial has ended a process: that may have been this one. Drawn
    /// at random, so that the trials of two hosts in one process do not stay side by side.
    repeats_from: Steady,
    /// When anything last began in this session, or the session did.
    began_at: Steady,
    /// When a suspect was last given a place.
    placed_at: Steady,
    /// How many suspects have come since one last began.
    met: usize,
    /// Until then nothing is won, because one of several suspects has just begun.
    settles_at: Steady,
}

impl Suspects {
    pub(super) fn new(is_on: bool, quiet: Duration, now: Steady, random: u64) -> Self {
        let spread = u64::try_from((2 * quiet).as_millis()).unwrap_or(u64::MAX - 1);
        let spread = Duration::from_millis(random % (spread + 1));
        Self {
            is_on,
            quiet,
            places: Places::default(),
            ready: Vec::new(),
            leaving: 0,
            trying: None,
            rests_until: now,
            repeats_from: now.after(quiet * TRIAL_REST + spread),
            began_at: now,
            placed_at: now,
            met: 0,
            settles_at: now,
        }
    }

    /// Whether nothing may begin, because of a trial.
    pub(super) fn is_closed(&self) -> bool {
        self.trying.is_some() && !planted::is_on(Bug::TrialBesideOthers)
    }

    /// Whether an item with these deaths is treated like any other now: it may begin, and may wait here for room. Suspects may not
    /// wait: the next death would count for them, too.
    pub(super) fn lets_begin(&self, deaths: Deaths) -> bool {
        !self.is_closed() && (deaths.workers == 0 || !self.is_on)
    }

    /// Whether the session may win nothing: because of a trial; for as long as a write takes, because suspects wait for the
    /// release of others, of which there would be more and more; or because one of several has just begun, and would take along
    /// what is won meanwhile if it kills at once.
    pub(super) fn is_full(&self, now: Steady) -> bool {
        self.is_closed() || self.leaving > 0 && !self.ready.is_empty() || now < self.settles_at
    }

    /// Something begins.
    pub(super) fn begins(&mut self, now: Steady) {
        self.began_at = now;
    }

    /// An item that had not begun is given back for good.
    pub(super) fn left(&mut self) {
        self.leaving = self.leaving.saturating_sub(1);
    }

    /// The code of a turn has ended.
    pub(super) fn turn_ended(&mut self, ticket: Ticket) {
        self.ended(Key::Turn(ticket));
    }

    /// The code of a task has ended.
    pub(super) fn task_ended(&mut self, fence: &TaskFence) {
        self.ended(Key::of_task(fence));
    }

    fn ended(&mut self, key: Key) {
        self.places.leave(key);
        if let Some(Trying { phase, .. }) = &mut self.trying
            && let Phase::Runs { key: of, item, .. } = phase
            && *of == key
        {
            *phase = Phase::Over { item: item.clone() };
        }
    }

    /// A trial that began at `since` is over. The next one begins so much later that trials take a quarter of the time.
    fn rest_after(&mut self, since: Steady, now: Steady) {
        // Without what the store took to answer.
        let took = now.since(since).min(2 * self.quiet);
        self.rests_until = now.after(took * TRIAL_REST);
    }

    /// For how long a suspect without a place is given back: about as long as there has been none. So the delay doubles from one
    /// time to the next, and needs no memory of the item.
    fn delay(&self, now: Steady, random: u64) -> Duration {
        let waited = now.since(self.placed_at).clamp(SUSPECT_DELAY_MIN, SUSPECT_DELAY_MAX);
        backoff::delay(waited, waited, 1, random)
    }

    /// The same for one that is to have a trial, and cannot have it now.
    fn trial_delay(&self, now: Steady, until: Steady, random: u64) -> Duration {
        let rest = match self.trying {
            Some(_) => SUSPECT_DELAY_MAX,
            None => until.since(now).clamp(SUSPECT_DELAY_MIN, SUSPECT_DELAY_MAX),
        };
        backoff::delay(rest, rest, 1, random)
    }
}

/// Whether an item with that many deaths runs alone.
fn is_alone(deaths: u32, slots: usize) -> bool {
    slots.checked_shr(deaths).unwrap_or_default() <= 1
}

/// The deaths that count towards the maximum: those that no other item can have caused.
pub(super) fn counted(deaths: Deaths) -> u32 {
    if planted::is_on(Bug::PlainDeathsCount) { deaths.workers } else { deaths.trials }
}

impl Dispatch {
    /// Whether the turn or task has to be treated with care. One that is known to kill is not executed at all.
    fn is_suspect(&self, suspect: &Suspect) -> bool {
        let session = &self.session;
        self.suspects.is_on
            && suspect.deaths() > 0
            && match suspect {
                Suspect::Turn(begin) => turn::poison(session, &begin.claimed.record).is_none(),
                Suspect::Task(lease) => activity::worn_out(session, lease).is_none(),
            }
    }

    /// Begins a turn or task that this host has just won or taken, now or with the other suspects; or gives it back.
    pub(super) fn begin_or_put_back(&mut self, suspect: Suspect, has_room: bool) {
        if !self.is_suspect(&suspect) {
            return match self.suspects.is_closed() {
                true => self.put_back(suspect, Duration::ZERO),
                false => self.begin_now(suspect),
            };
        }
        let (now, random) = (self.session.env.steady(), self.session.env.random());
        let (slots, deaths) = (self.room.slots(), suspect.deaths());
        let suspects = &mut self.suspects;
        suspects.met = suspects.met.saturating_add(1);
        if self.stopping {
            self.put_back(suspect, Duration::ZERO);
        } else if is_alone(deaths, slots) {
            let until = match suspect.trials() {
                0 => suspects.rests_until,
                _ => suspects.rests_until.max(suspects.repeats_from),
            };
            if suspects.trying.is_some() || now < until {
                let delay = suspects.trial_delay(now, until, random);
                self.put_back(suspect, delay);
            } else {
                self.be_quiet_for(suspect);
            }
        } else if !suspects.is_closed() && has_room && suspects.places.take(suspect.key(), deaths, slots, now)
        {
            suspects.placed_at = now;
            suspects.ready.push(suspect);
        } else {
            let delay = suspects.delay(now, random);
            self.put_back(suspect, delay);
        }
    }

    /// The same for a task.
    pub(super) fn begin_task_or_put_back(&mut self, lease: TaskLease, has_room: bool) {
        match self.suspects.lets_begin(lease.deaths) {
            true => self.begin_task(lease),
            false => self.begin_or_put_back(Suspect::Task(Box::new(lease)), has_room),
        }
    }

    fn begin_now(&mut self, suspect: Suspect) {
        match suspect {
            Suspect::Turn(begin) => self.begin(*begin),
            Suspect::Task(lease) => self.begin_task(*lease),
        }
    }

    /// Gives an item back that has not begun, without blame, if it is still this host's. Until that is durable, no suspect begins.
    fn put_back(&mut self, suspect: Suspect, delay: Duration) {
        let released = match suspect {
            Suspect::Turn(begin) if !self.is_current(&begin) => return self.answer_all(begin.completions),
            Suspect::Turn(begin) => {
                let Begin { ticket, claimed, completions, entry } = *begin;
                let instance = claimed.fence.instance.clone();
                self.answer_all(completions);
                let released = self.releasing(ticket, claimed.fence, delay, None);
                entry.into_iter().for_each(|entry| self.cache.put(instance.clone(), entry));
                released
            }
            Suspect::Task(lease) => self.giving_task_back(lease.fence, delay, false),
        };
        self.suspects.leaving += 1;
        self.steps.push(released.map(|step| Step::Left(Box::new(step))).boxed());
    }

    /// Begins the suspects that have a place, once all others are back in the store.
    pub(super) fn begin_suspects(&mut self) {
        if self.suspects.ready.is_empty()
            || self.suspects.leaving > 0 && !planted::is_on(Bug::SurplusStays) && !self.stopping
        {
            return;
        }
        if std::mem::take(&mut self.suspects.met) > 1 && !planted::is_on(Bug::SurplusStays) {
            let settled = self.session.env.steady().after(SUSPECT_SETTLE);
            self.suspects.settles_at = settled;
            self.look_again_at(settled);
        }
        for suspect in std::mem::take(&mut self.suspects.ready) {
            if !self.stopping && self.is_held(&suspect) {
                self.begin_now(suspect);
            } else {
                self.suspects.places.leave(suspect.key());
                self.put_back(suspect, Duration::ZERO);
            }
        }
    }

    /// Whether a turn is still this host's.
    fn is_held(&self, suspect: &Suspect) -> bool {
        match suspect {
            Suspect::Turn(begin) => self.is_current(begin),
            // The store says so when it is answered.
            Suspect::Task(_) => true,
        }
    }

    fn is_current(&self, begin: &Begin) -> bool {
        self.slots.is_current(&begin.claimed.fence.instance, begin.ticket)
    }

    /// Begins the quiet before a trial: all that has not begun goes back.
    fn be_quiet_for(&mut self, suspect: Suspect) {
        let now = self.session.env.steady();
        let until = match planted::is_on(Bug::TrialBesideOthers) {
            true => now,
            false => self.suspects.began_at.after(self.suspects.quiet).max(now),
        };
        tracing::warn!(item = ?suspect.item(), deaths = suspect.deaths(), "an item is about to run alone");
        self.suspects.trying = Some(Trying { phase: Phase::Quiet { suspect, until }, since: now });
        self.look_again_at(until);
        if !self.suspects.is_closed() {
            return;
        }
        for ready in std::mem::take(&mut self.suspects.ready) {
            self.suspects.places.leave(ready.key());
            self.put_back(ready, Duration::ZERO);
        }
        let (turns, tasks) = self.wins.take_waiting();
        turns.into_iter().for_each(|turn| self.won_turn(turn));
        for lease in tasks {
            self.tasks.take(1);
            self.put_back(Suspect::Task(Box::new(lease)), Duration::ZERO);
        }
    }

    /// Has the loop come round at that time.
    fn look_again_at(&mut self, at: Steady) {
        self.steps.push(self.session.env.sleep_until(at).map(|()| Step::LookAgain).boxed());
    }

    /// Goes on with the trial, if it does not wait for anything.
    pub(super) fn go_on_with_trial(&mut self) {
        let Some(Trying { phase, since }) = self.suspects.trying.take() else { return };
        let now = self.session.env.steady();
        let phase = match phase {
            Phase::Quiet { suspect, .. } if self.stopping => return self.put_back(suspect, Duration::ZERO),
            Phase::Quiet { suspect, until } if now >= until && self.suspects.leaving == 0 => {
                self.steps.push(self.noting(suspect.item(), true));
                Phase::Opening { suspect }
            }
            Phase::Runs { item, until, .. } if now >= until => self.closing(item),
            Phase::Over { item } => self.closing(item),
            phase => phase,
        };
        self.suspects.trying = Some(Trying { phase, since });
    }

    fn closing(&self, item: Item) -> Phase {
        self.steps.push(self.noting(item, false));
        Phase::Closing
    }

    /// Has the store note that a trial is open, or that it is over.
    fn noting(&self, item: Item, open: bool) -> BoxFuture<'static, Step> {
        let session = Arc::clone(&self.session);
        async move {
            match note(&session, Trial { item, open }).await {
                Ok(()) if open => Step::TrialOpened(true),
                Err(refused) if open => {
                    tracing::info!(error = %refused, "the item of a trial is not held any more");
                    Step::TrialOpened(false)
                }
                // Refused where the item has left the session, with its commit for example: that has closed the trial.
                Ok(()) | Err(_) => Step::TrialClosed,
            }
        }
        .boxed()
    }

    /// The store has noted that the trial is open, or the item is not held any more.
    pub(super) fn trial_opened(&mut self, open: bool) {
        let Some(Trying { phase: Phase::Opening { suspect }, since }) = self.suspects.trying.take() else {
            return;
        };
        let now = self.session.env.steady();
        if !open || self.stopping || !self.is_held(&suspect) {
            self.suspects.rest_after(since, now);
            return self.put_back(suspect, Duration::ZERO);
        }
        let (key, item, until) = (suspect.key(), suspect.item(), now.after(self.suspects.quiet));
        self.suspects.places.add(key, suspect.deaths(), now);
        self.suspects.trying = Some(Trying { phase: Phase::Runs { key, item, until }, since });
        self.look_again_at(until);
        self.begin_now(suspect);
    }

    /// The store has noted that the trial is over.
    pub(super) fn trial_closed(&mut self) {
        if let Some(Trying { since, .. }) = self.suspects.trying.take() {
            self.suspects.rest_after(since, self.session.env.steady());
        }
    }
}

/// Notes it until the store has answered, or the session is over.
async fn note(session: &Session, trial: Trial) -> Result<(), Refused> {
    let mut attempts = 0;
    loop {
        let result = session.work.trial(vec![trial.clone()]).await.pop();
        // What a store does not answer it leaves unknown; none should.
        match result.unwrap_or_else(|| Err(Refused::Unknown(Cause::new("the store gave no answer")))) {
            Err(Refused::NotExecuted(_) | Refused::Unknown(_)) if !session.is_over() => {}
            result => return result,
        }
        attempts += 1;
        session.sleep(session.retry_delay(attempts).min(session.options.poll_max)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    /// How many of a thousand more items with these deaths get one of the places of `slots`.
    fn placed(places: &mut Places, from: u64, (deaths, slots): (u32, usize), at: Steady) -> usize {
        (from..from + 1_000).filter(|ticket| places.take(Key::Turn(*ticket), deaths, slots, at)).count()
    }

    #[test]
    fn each_death_halves_how_many_run_beside_each_other() {
        for (deaths, most) in [(1, 256), (2, 128), (8, 2), (9, 1), (40, 1), (1_000, 1)] {
            assert_eq!(placed(&mut Places::default(), 0, (deaths, 512), Steady(0)), most, "{deaths} deaths");
        }
    }

    #[test]
    fn items_with_more_deaths_count_among_those_with_fewer() {
        let mut places = Places::default();
        assert_eq!(placed(&mut places, 0, (3, 64), Steady(0)), 8);
        assert_eq!(placed(&mut places, 1_000, (1, 64), Steady(0)), 24, "32 have one death or more");
        assert_eq!(placed(&mut places, 2_000, (2, 64), Steady(0)), 0, "the places of one death are taken");
        places.leave(Key::Turn(1_000));
        assert_eq!(placed(&mut places, 3_000, (2, 64), Steady(0)), 1);
        places.leave(Key::Turn(7_000));
        assert_eq!(placed(&mut places, 4_000, (2, 64), Steady(0)), 0, "what has no place gives none up");
    }

    #[test]
    fn items_that_have_run_for_a_minute_leave_the_limit() {
        let mut places = Places::default();
        assert_eq!(placed(&mut places, 0, (1, 8), Steady(0)), 4);
        assert_eq!(placed(&mut places, 1_000, (1, 8), Steady(MINUTE - 1)), 0);
        assert_eq!(placed(&mut places, 2_000, (1, 8), Steady(MINUTE)), 4);
        places.leave(Key::Turn(0));
        assert_eq!(placed(&mut places, 3_000, (1, 8), Steady(MINUTE)), 0, "it had left before");
    }

    #[test]
    fn item_runs_alone_once_its_deaths_leave_one_slot() {
        for (slots, deaths) in [(512, 9), (513, 9), (511, 8), (2, 1), (1, 1), (3, 1), (usize::MAX, 63)] {
            assert!(is_alone(deaths, slots), "{slots} slots, {deaths} deaths");
            assert!(deaths == 1 || !is_alone(deaths - 1, slots), "{slots} slots, {deaths} deaths");
        }
        assert!(is_alone(1_000, usize::MAX));
    }

    #[test]
    fn delay_without_a_place_doubles_up_to_its_maximum() {
        let suspects = Suspects::new(true, Duration::from_secs(15), Steady(0), 0);
        for (at, full) in [(0, 1_000), (3_000, 3_000), (20_000, 20_000), (900_000, 30_000)] {
            for random in [0, 9, u64::MAX] {
                let millis = suspects.delay(Steady(at), random).as_millis();
                assert!((full / 2..=full).contains(&millis), "{millis} ms of {full}");
            }
        }
    }
}
