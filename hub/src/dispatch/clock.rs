//! The store's time between its answers.
//!
//! Invariant: the time told last never goes back.

use std::time::Duration;

use dauer_core::Timestamp;
use dauer_store::{Env, Steady};

use crate::options::TIME_CARRIED_MAX;

/// The latest time of the store, and the reading of this host's monotonic clock when it came.
#[derive(Default)]
pub(super) struct StoreClock(Option<(Timestamp, Steady)>);

impl StoreClock {
    /// The store has answered with that time.
    pub(super) fn hear(&mut self, told: Timestamp, env: &dyn Env) {
        if self.0.is_none_or(|(latest, _)| latest <= told) {
            self.0 = Some((told, env.steady()));
        }
    }

    /// The store's last time, carried on by this host's monotonic clock; `None` after [`TIME_CARRIED_MAX`]. The result is
    /// rather behind than ahead: clocks that are read in whole milliseconds measure up to one too many.
    pub(super) fn now(&self, env: &dyn Env) -> Option<Timestamp> {
        let (told, heard_at) = self.0?;
        let since = env.steady().since(heard_at);
        let carried = since.saturating_sub(Duration::from_millis(1));
        (since <= TIME_CARRIED_MAX).then(|| told.after(carried))
    }
}
