//! Keeping the session alive: one renewal for all that it holds.

use std::sync::Arc;

use futures::future::{Either, select};

use crate::session::{Session, Stop};

/// Renews at half the lease until the session is over, or the host has stopped.
pub(crate) async fn run(session: Arc<Session>, stopped: Stop) {
    let half = session.options.lease / 2;
    let mut failures = 0;
    loop {
        let wait = if failures == 0 { half } else { session.retry_delay(failures).min(half) };
        if let Either::Right(_) = select(session.sleep(wait), stopped.clone()).await {
            return;
        }
        failures = if session.renew().await { 0 } else { failures + 1 };
        if session.is_over() {
            return;
        }
    }
}
