//! Keeping the session alive: one renewal for all that it holds.

use std::sync::Arc;

use futures::future::{Either, select};

use dauer_store::Refused;

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
        let began = session.env.now();
        match session.work.renew().await {
            Ok(lost) => {
                failures = 0;
                session.renewed(began);
                if !lost.is_empty() {
                    tracing::warn!(items = lost.len(), "items were taken over by another host");
                }
            }
            Err(Refused::Fenced) => {
                tracing::warn!("the session has ended; a new one is opened");
                session.end();
                return;
            }
            Err(refused) => {
                failures += 1;
                tracing::warn!(error = %refused, failures, "the session could not be renewed; trying again");
            }
        }
    }
}
