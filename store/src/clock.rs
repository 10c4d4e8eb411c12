//! The store's time. One clock judges all sessions and due times of a store.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dauer_core::Timestamp;

/// Where a store that has no clock of its own takes its time from.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// A time that nobody sets: it has no beginning that means anything, and goes on as time passes. For how long
    /// something takes, where [`Clock::now`] may leap because somebody has put it right.
    fn steady(&self) -> Timestamp {
        self.now()
    }
}

/// A clock that stands still until it is moved: for tests and the simulator.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.0))
    }

    /// Moves the hands to `now`. A store never follows them backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Moves the hands forward, at least to the next millisecond unless `by` is zero.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().after(by));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// The computer's clock, which never goes backwards and never stands still: when the computer's is set back, this one
/// goes on from where it was.
#[derive(Debug)]
pub struct SystemClock {
    began: Instant,
    /// What it last showed, and when that was.
    last: Mutex<Option<(Timestamp, Instant)>>,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { began: Instant::now(), last: Mutex::default() }
    }
}

impl SystemClock {
    /// A clock that never goes backwards from here on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let computer = Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Instant::now();
        // Whole milliseconds of the time that has passed: rounded up, it would run ahead of the computer.
        let passed = last.map_or(0, |(_, before)| at.duration_since(before).as_millis());
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        let flown = last.map_or(computer, |(shown, _)| Timestamp(shown.0.saturating_add(passed)));
        if computer >= flown {
            *last = Some((computer, at));
            return computer;
        }
        // Only where a whole millisecond has passed is it counted, so that many readings lose none.
        if passed > 0 {
            *last = Some((flown, at));
        }
        flown
    }

    fn steady(&self) -> Timestamp {
        Timestamp(i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(Timestamp(5));
        assert_eq!(clock.now(), Timestamp(5));
        clock.advance(Duration::from_micros(1_001));
        assert_eq!(clock.now(), Timestamp(7));
        clock.set(Timestamp(1));
        assert_eq!(clock.now(), Timestamp(1));
    }

    #[test]
    fn the_system_clock_never_goes_backwards_and_never_stands_still() {
        let clock = SystemClock::new();
        let future = clock.now().after(Duration::from_secs(3_600));
        // An hour ahead of the computer, which was set back; that was two seconds ago.
        let before = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        *clock.last.lock().unwrap() = Some((future, before));
        let shown = clock.now();
        let passed = shown.since(future);
        assert!(passed >= Duration::from_secs(2) && passed < Duration::from_secs(600), "{passed:?}");
        assert!(clock.now() >= shown);
    }
}
