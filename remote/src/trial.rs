//! A trial: one item begins on a worker on which nothing else begins for a while, before it and after it. What kills its worker
//! at once is found by that, whatever else had been running beside it.
//!
//! ```text
//! reserved ── quiet ──▶ noted in the store ──▶ begins ── quiet ──▶ over, noted in the store
//! ```

use std::time::Duration;

use dauer_store::Steady;

use crate::state::StreamId;

/// How many times as long as it took a worker rests from trials: they take a quarter of its time at most.
pub(crate) const REST_SHARE: u32 = 3;

/// One trial, which has its worker to itself. It is ended by [`State::end_trial`](crate::state::State::end_trial).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trial {
    stream: StreamId,
    reserved_at: Steady,
    quiet_from: Steady,
    is_noted: bool,
    ends: Option<Steady>,
    /// Longer trials count as this long: the rest is the wait for a store or a worker.
    longest: Duration,
}

impl Trial {
    /// A trial on a worker on which something began last at `last_begun`.
    pub(crate) fn reserve(stream: StreamId, now: Steady, (last_begun, quiet): (Steady, Duration)) -> Self {
        let (quiet_from, longest) = (last_begun.after(quiet), 2 * quiet);
        Self { stream, reserved_at: now, quiet_from, is_noted: false, ends: None, longest }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    pub(crate) fn is_quiet(&self, now: Steady) -> bool {
        now >= self.quiet_from
    }

    /// From when the item may begin.
    pub(crate) fn quiet_from(&self) -> Steady {
        self.quiet_from
    }

    /// The store knows that the item is about to begin.
    pub(crate) fn noted(&mut self) {
        self.is_noted = true;
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.is_noted
    }

    /// The item begins. When it begins again, because it is sent once more, the quiet begins again.
    pub(crate) fn begins(&mut self, now: Steady, quiet: Duration) {
        self.ends = Some(now.after(quiet));
    }

    /// The item may run beside others now: nothing that ends its worker counts as a death in this trial any more.
    pub(crate) fn ends_at(&mut self, now: Steady) {
        self.ends = Some(now);
    }

    /// When it has run alone for long enough; none before it begins.
    pub(crate) fn ends(&self) -> Option<Steady> {
        self.ends
    }

    pub(crate) fn is_over(&self, now: Steady) -> bool {
        self.ends.is_some_and(|ends| now >= ends)
    }

    /// Until when workers rest from trials, if this one ends now.
    pub(crate) fn rest_until(&self, now: Steady) -> Steady {
        now.after(now.since(self.reserved_at).min(self.longest).saturating_mul(REST_SHARE))
    }
}
