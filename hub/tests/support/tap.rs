//! What hosts ask their sessions for, and answers that are lost because of what they contain.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use dauer_faults::{Answer, Call, Destination, Interceptor};
use dauer_store::{Cause, Credit, Next, Refused, Work};

/// Of all sessions that hosts open.
#[derive(Default)]
pub(crate) struct Tap {
    pub(crate) credits: Mutex<Vec<Credit>>,
    pub(crate) recalls: Mutex<Vec<(u64, u64)>>,
    /// What the last recall returned: turns and tasks.
    pub(crate) recalled: Mutex<(usize, usize)>,
    /// This many answers of `next` that contain a win are lost.
    pub(crate) loses: AtomicUsize,
    /// The credit of a session never becomes less.
    pub(crate) keeps_credit: AtomicBool,
    /// Calls of `next` that were dropped before they returned.
    pub(crate) dropped: AtomicUsize,
}

impl Tap {
    pub(crate) fn last_credit(&self) -> Credit {
        self.credits.lock().unwrap().last().cloned().unwrap_or_default()
    }

    fn loses_this(&self, next: &Next) -> bool {
        let wins = !next.turns.is_empty() || !next.tasks.is_empty();
        wins && self
            .loses
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }

    async fn next(&self, call: Call, to: Destination<'_>) -> Answer {
        let mut pending = Pending(Some(self));
        let answer = to.carry_out(call).await;
        pending.0 = None;
        match answer {
            Answer::Next(Ok(next)) if self.loses_this(&next) => {
                Answer::Next(Err(Refused::Unknown(Cause::new("a lost answer"))))
            }
            answer => answer,
        }
    }
}

/// A call that has not returned.
struct Pending<'t>(Option<&'t Tap>);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|tap| _ = tap.dropped.fetch_add(1, Ordering::Relaxed));
    }
}

#[async_trait]
impl Interceptor for Tap {
    async fn call(&self, call: Call, to: Destination<'_>) -> Answer {
        match call {
            Call::Next { .. } => self.next(call, to).await,
            Call::Recall { first, last } => {
                self.recalls.lock().unwrap().push((first, last));
                let answer = to.carry_out(call).await;
                if let Answer::Recall(Ok(recalled)) = &answer {
                    *self.recalled.lock().unwrap() = (recalled.turns.len(), recalled.tasks.len());
                }
                answer
            }
            call => to.carry_out(call).await,
        }
    }

    fn credit(&self, mut credit: Credit, to: &Arc<dyn Work>) {
        let mut credits = self.credits.lock().unwrap();
        credits.push(credit.clone());
        if self.keeps_credit.load(Ordering::Relaxed) {
            credit.turns.count = credits.iter().map(|credit| credit.turns.count).max().unwrap();
            credit.tasks.count = credits.iter().map(|credit| credit.tasks.count).max().unwrap();
        }
        to.credit(credit);
    }
}
