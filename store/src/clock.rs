//! The clock of a store (rule 15). One clock judges all sessions and due times.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dauer_core::Timestamp;

/// The clock of a store whose storage has none.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// Monotonic time, from an arbitrary epoch. Use it to measure durations: [`Clock::now`] may jump when the system clock is
    /// adjusted.
    fn steady(&self) -> Timestamp {
        self.now()
    }
}

/// A clock that changes only by [`set`](Self::set) and [`advance`](Self::advance), for tests and the simulator.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.0))
    }

    /// Sets the clock to `now`. The time of a store does not go backwards with it.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    /// Moves the clock forward by `by`, rounded up to whole milliseconds.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().after(by));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// The system clock, without steps backwards. When the system clock is set back, this clock continues from its last reading
/// with monotonic time.
#[derive(Debug)]
pub struct SystemClock {
    began: Instant,
    /// The last reading, and its monotonic time.
    last: Mutex<Option<(Timestamp, Instant)>>,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { began: Instant::now(), last: Mutex::default() }
    }
}

impl SystemClock {
    /// A clock that never goes backwards from its first reading on.
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
        // Rounded down: rounded up, this clock would run ahead of the system clock.
        let passed = last.map_or(0, |(_, before)| at.duration_since(before).as_millis());
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        let flown = last.map_or(computer, |(shown, _)| Timestamp(shown.0.saturating_add(passed)));
        if computer >= flown {
            *last = Some((computer, at));
            return computer;
        }
        // The reference moves only by whole milliseconds, so that frequent readings lose no time.
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
    fn manual_clock_moves_only_when_set() {
        let clock = ManualClock::new(Timestamp(5));
        assert_eq!(clock.now(), Timestamp(5));
        clock.advance(Duration::from_micros(1_001));
        assert_eq!(clock.now(), Timestamp(7));
        clock.set(Timestamp(1));
        assert_eq!(clock.now(), Timestamp(1));
    }

    #[test]
    fn system_clock_set_back_goes_on_monotonically() {
        let clock = SystemClock::new();
        let future = clock.now().after(Duration::from_secs(3_600));
        // The last reading was two seconds ago. Since then the system clock was set back by an hour.
        let before = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        *clock.last.lock().unwrap() = Some((future, before));
        let shown = clock.now();
        let passed = shown.since(future);
        assert!(passed >= Duration::from_secs(2) && passed < Duration::from_secs(600), "{passed:?}");
        assert!(clock.now() >= shown);
    }
}
