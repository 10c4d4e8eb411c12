//! What a claim won, on its way to the caller. When the caller is gone, it waits for the session's next claim.

use std::sync::Arc;

use crate::state::{Undelivered, Won};

/// An answer that finds its way back when nobody takes it.
pub(crate) struct Delivery<T> {
    won: Won<T>,
    undelivered: Arc<Undelivered>,
    /// Whether the claim happened, or may have, and nobody has received it.
    under_way: bool,
}

impl<T> Delivery<T> {
    pub(crate) fn new(won: Won<T>, undelivered: Arc<Undelivered>) -> Self {
        Self { won, undelivered, under_way: false }
    }

    /// The claim is in the file: from now on its items are the caller's, or wait for the next claim.
    pub(crate) fn send_off(&mut self) {
        self.under_way = true;
        self.undelivered.remove(self.won.session, self.won.parcels.iter().copied());
    }

    /// The caller has it.
    pub(crate) fn receive(mut self) -> Vec<T> {
        self.under_way = false;
        std::mem::take(&mut self.won.items)
    }
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        if self.under_way {
            self.undelivered.add(self.won.session, self.won.parcels.drain(..));
        }
    }
}
