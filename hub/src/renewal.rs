//! Keeping the session alive: one renewal for all that it holds.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, FutureExt, select};

use crate::options::LEAP_LOOKS;
use crate::session::{Session, Stop};

/// Renews at half the lease, and when the wall clock leaps, until the session is over or the host has stopped.
pub(crate) async fn run(session: Arc<Session>, stopped: Stop) {
    let half = session.options.lease / 2;
    let mut failures = 0;
    loop {
        let wait = match failures {
            0 => until_due(&session, half).boxed(),
            // Not by the leap that was seen already: a store that is away would be asked without a pause.
            _ => session.sleep(session.retry_delay(failures).min(half)),
        };
        if let Either::Right(_) = select(wait, stopped.clone()).await {
            return;
        }
        failures = if session.renew().await { 0 } else { failures + 1 };
        if session.is_over() {
            return;
        }
    }
}

/// Ready after `pause`, or when the wall clock has leapt. Stores on this machine read the same wall clock: the lease may have
/// run out by it, and another host could take the session's items.
async fn until_due(session: &Session, pause: Duration) {
    let until = session.env.steady().after(pause);
    while session.env.steady() < until && !session.wall_clock_leapt() {
        let look = session.env.steady().after(pause / LEAP_LOOKS);
        session.env.sleep_until(look.min(until)).await;
    }
}
