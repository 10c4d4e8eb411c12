//! What the executor of a server notes with the store of an item that the host holds and a worker executes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dauer_core::model::Deaths;
use dauer_core::planted::{self, Bug};
use dauer_store::{Death, Item, Refused, Trial};

use crate::session::Session;

/// An item that the host holds while a worker elsewhere executes it.
#[derive(Clone)]
pub struct Holding {
    session: Arc<Session>,
    item: Item,
    /// Deaths during trials from which on the item is poison.
    poison_from: u32,
    /// How often the lease had run out before.
    lapses: u64,
}

/// Shows the item. A session has nothing to show.
impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("item", &self.item).finish_non_exhaustive()
    }
}

impl Holding {
    pub(crate) fn new(session: &Arc<Session>, item: Item, poison_from: u32) -> Self {
        let lapses = session.lapses.load(Ordering::Relaxed);
        Self { session: Arc::clone(session), item, poison_from, lapses }
    }

    /// Whether the lease has run out since the session got the item, by this host's clock. Another session may have taken it.
    #[must_use]
    pub fn has_lapsed(&self) -> bool {
        self.session.lease_left().is_zero() || self.session.lapses.load(Ordering::Relaxed) != self.lapses
    }

    /// Notes that a worker died with the item, whose deaths before are `known`. Returns the deaths after it when they are
    /// durable; `None` if the session does not hold the item any more.
    pub async fn died(&self, known: Deaths) -> Option<Deaths> {
        if planted::is_on(Bug::DeathForgotten) {
            return Some(known);
        }
        let known = match planted::is_on(Bug::DeathTwice) {
            true => {
                let death = Death { item: self.item.clone(), known };
                self.session.work.died(vec![death]).await.pop().and_then(Result::ok).unwrap_or(known)
            }
            false => known,
        };
        self.until_answered(|| async {
            let death = Death { item: self.item.clone(), known };
            self.session.work.died(vec![death]).await.pop()
        })
        .await
    }

    /// Notes that the item is about to begin alone, or that its trial is over. Returns true when that is durable, and false
    /// if the session does not hold the item any more.
    pub async fn trial(&self, open: bool) -> bool {
        let noted = self.until_answered(|| async {
            let trial = Trial { item: self.item.clone(), open };
            self.session.work.trial(vec![trial]).await.pop()
        });
        noted.await.is_some()
    }

    /// Whether an item with these deaths is taken for what kills its workers.
    #[must_use]
    pub fn is_poison(&self, deaths: Deaths) -> bool {
        let counted = if planted::is_on(Bug::AnyDeathIsPoison) { deaths.workers } else { deaths.trials };
        counted >= self.poison_from
    }

    /// Calls the store until it answers. Returns `None` after a refusal, and when the session is over.
    async fn until_answered<T, F>(&self, call: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Option<Result<T, Refused>>>,
    {
        for attempts in 1.. {
            match call().await {
                Some(Ok(answer)) => return Some(answer),
                // What a store does not answer it leaves unknown; none should.
                None | Some(Err(Refused::NotExecuted(_) | Refused::Unknown(_)))
                    if !self.session.is_over() => {}
                _ => return None,
            }
            let delay = self.session.retry_delay(attempts).min(self.session.options.poll_max);
            self.session.sleep(delay).await;
        }
        None
    }
}
