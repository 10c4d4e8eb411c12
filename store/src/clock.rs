//! The store's time. One clock judges all sessions and due times of a store.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use dauer_core::Timestamp;

/// Where a store that has no clock of its own takes its time from.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
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

/// The computer's clock; when that is set back, this one stands still until it has caught up.
#[derive(Debug)]
pub struct SystemClock {
    latest: AtomicI64,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { latest: AtomicI64::new(i64::MIN) }
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
        let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.latest.fetch_max(millis, Ordering::SeqCst).max(millis))
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
    fn the_system_clock_never_goes_backwards() {
        let clock = SystemClock::new();
        let future = clock.now().after(Duration::from_secs(3_600));
        clock.latest.store(future.0, Ordering::SeqCst);
        assert_eq!(clock.now(), future, "an hour ahead of the computer, it waits");
    }
}
