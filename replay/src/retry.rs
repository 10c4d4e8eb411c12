//! Trying again what failed: the policy, and the attempts of one call.
//!
//! Everything that a retry decides on is in the history (failures and times), so a replay decides the same. Between two
//! attempts there is a timer, and every attempt is a call of its own with its own id: the history shows them all.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use dauer_core::Timestamp;
use dauer_proto::ActionType;
use serde::de::DeserializeOwned;

use crate::call::Task;
use crate::error::CallError;
use crate::failure::Failure;
use crate::state::{Outcome, Shared};

/// How a pause grows unless something else is said: it doubles.
const FACTOR: f64 = 2.0;

/// Says of a failure whether it is worth another attempt.
type RetryIf = dyn Fn(&Failure) -> bool + Send + Sync;

/// When and how often a failed call is tried again.
///
/// A failure that says of itself that trying again cannot help ([`Error::fatal`](crate::Error::fatal), or an activity of
/// another language that failed so) is never tried again, whatever the policy says.
///
/// ```
/// use std::time::Duration;
/// use dauer_replay::RetryPolicy;
///
/// // Five attempts, after pauses of 1, 2, 4 and 5 seconds, but none that would begin after a minute.
/// let policy = RetryPolicy::exponential(5, Duration::from_secs(1))
///     .interval_max(Duration::from_secs(5))
///     .total(Duration::from_secs(60))
///     .retry_if(|failure| failure.kind != "OutOfStock");
/// # let _ = policy;
/// ```
#[derive(Clone)]
#[must_use]
pub struct RetryPolicy {
    attempts: u32,
    first: Duration,
    factor: f64,
    interval_max: Option<Duration>,
    total: Option<Duration>,
    retry_if: Option<Arc<RetryIf>>,
}

impl RetryPolicy {
    /// So many attempts in all, with the same pause between any two. The first attempt counts; 0 is the same as 1.
    pub fn fixed(attempts: u32, interval: Duration) -> Self {
        let (interval_max, total, retry_if) = (None, None, None);
        Self { attempts, first: interval, factor: 1.0, interval_max, total, retry_if }
    }

    /// So many attempts in all, with pauses that double. The first attempt counts; 0 is the same as 1.
    pub fn exponential(attempts: u32, first: Duration) -> Self {
        Self { factor: FACTOR, ..Self::fixed(attempts, first) }
    }

    /// How much longer each pause is than the one before. Less than 1, or not a number, is the same as 1.
    pub fn factor(mut self, factor: f64) -> Self {
        self.factor = factor.max(1.0);
        self
    }

    /// No pause is longer than this.
    pub fn interval_max(mut self, longest: Duration) -> Self {
        self.interval_max = Some(longest);
        self
    }

    /// No attempt begins later than so long after the first one began.
    pub fn total(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// Only failures for which this says `true` are tried again. It is part of the orchestration: it must say the same in
    /// every replay.
    pub fn retry_if(mut self, retry_if: impl Fn(&Failure) -> bool + Send + Sync + 'static) -> Self {
        self.retry_if = Some(Arc::new(retry_if));
        self
    }

    /// The pause after the given attempt, counted from 1.
    fn pause(&self, attempt: u32) -> Duration {
        // Step by step: a product is the same on every machine, a power need not be.
        let mut millis = self.first.as_secs_f64() * 1_000.0;
        let longest = self.interval_max.unwrap_or(Duration::MAX).as_secs_f64() * 1_000.0;
        for _ in 1..attempt {
            millis *= self.factor;
            if millis >= longest {
                break;
            }
        }
        // Casting a float cuts it off at the ends: a pause too long to count is the longest there is.
        Duration::from_millis(millis.min(longest) as u64)
    }

    /// How long to wait before the next attempt, if there is to be one.
    fn next(&self, failure: &Failure, attempt: u32, spent: Duration) -> Option<Duration> {
        if attempt >= self.attempts || !failure.retryable {
            return None;
        }
        let pause = self.pause(attempt);
        let late = self.total.is_some_and(|total| spent.saturating_add(pause) > total);
        let wanted = self.retry_if.as_ref().is_none_or(|retry_if| retry_if(failure));
        (wanted && !late).then_some(pause)
    }
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPolicy")
            .field("attempts", &self.attempts)
            .field("first", &self.first)
            .field("factor", &self.factor)
            .field("interval_max", &self.interval_max)
            .field("total", &self.total)
            .field("retry_if", &self.retry_if.is_some())
            .finish()
    }
}

/// What is kept for the attempts that follow the first.
#[derive(Debug)]
struct Again {
    policy: RetryPolicy,
    /// What is asked for, once it has been asked for.
    action: Option<ActionType>,
    began: Timestamp,
    attempt: u32,
    /// Whether the current task is the timer between two attempts.
    pausing: bool,
}

/// A call and its further attempts, if it may have some.
#[derive(Debug)]
pub(crate) struct Attempts {
    current: Task,
    again: Option<Box<Again>>,
}

impl Attempts {
    pub(crate) fn new(task: Task) -> Self {
        Self { current: task, again: None }
    }

    /// The call itself, as long as nothing has been asked for.
    pub(crate) fn first(&mut self) -> &mut Task {
        &mut self.current
    }

    pub(crate) fn retry(&mut self, policy: RetryPolicy) {
        let began = Timestamp::default();
        self.again = Some(Box::new(Again { policy, action: None, began, attempt: 1, pausing: false }));
    }

    pub(crate) fn schedule(&mut self) {
        if let Some(again) = &mut self.again
            && let Some(action) = self.current.action()
        {
            again.action.get_or_insert_with(|| action.clone());
            again.began = self.current.now();
        }
        self.current.schedule();
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Outcome> {
        self.schedule();
        loop {
            let outcome = ready!(self.current.poll(cx));
            let Some(next) = self.after(&outcome) else { return Poll::Ready(outcome) };
            self.current = next;
        }
    }

    /// What follows on the outcome of the current task, if it is not the last.
    fn after(&mut self, outcome: &Outcome) -> Option<Task> {
        let again = self.again.as_mut()?;
        let action = again.action.as_ref()?;
        if again.pausing {
            again.pausing = false;
            again.attempt += 1;
            return Some(self.current.another(action.clone()));
        }
        let failure = Failure::from(outcome.as_ref().err()?.clone());
        let now = self.current.now();
        let pause = again.policy.next(&failure, again.attempt, now.since(again.began))?;
        again.pausing = true;
        Some(self.current.timer(now.after(pause)))
    }

    pub(crate) fn poll_decoded<O: DeserializeOwned>(
        &mut self,
        cx: &Context<'_>,
    ) -> Poll<Result<O, CallError>> {
        Poll::Ready(match ready!(self.poll(cx)) {
            Err(failure) => Err(CallError::Failed(failure.into())),
            Ok(text) => {
                self.shared().payloads.decode(text.as_deref()).map_err(|source| CallError::Undecodable {
                    what: format!(
                        "the result of task #{} ({})",
                        self.current.id().unwrap_or_default(),
                        self.current.place()
                    ),
                    expected: type_name::<O>(),
                    source,
                })
            }
        })
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(self.current.shared())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.current.is_done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pauses(policy: &RetryPolicy) -> Vec<u64> {
        (1..6).map(|attempt| policy.pause(attempt).as_millis() as u64).collect()
    }

    #[test]
    fn pauses_stay_or_grow_up_to_the_longest() {
        assert_eq!(pauses(&RetryPolicy::fixed(9, SECOND)), [1_000; 5]);
        assert_eq!(pauses(&RetryPolicy::exponential(9, SECOND)), [1_000, 2_000, 4_000, 8_000, 16_000]);
        let policy =
            RetryPolicy::exponential(9, SECOND).factor(3.0).interval_max(Duration::from_millis(4_500));
        assert_eq!(pauses(&policy), [1_000, 3_000, 4_500, 4_500, 4_500]);
    }

    #[test]
    fn what_makes_no_sense_is_taken_for_the_nearest_that_does() {
        for factor in [0.5, -1.0, f64::NAN] {
            assert_eq!(pauses(&RetryPolicy::exponential(9, SECOND).factor(factor)), [1_000; 5], "{factor}");
        }
        let endless = RetryPolicy::exponential(9, Duration::MAX).factor(f64::INFINITY);
        assert_eq!(endless.pause(5), Duration::from_millis(u64::MAX));
        let none = RetryPolicy::fixed(0, SECOND);
        assert_eq!(none.next(&Failure::new("E", "e"), 1, Duration::ZERO), None);
    }

    #[test]
    fn attempts_time_and_the_failure_itself_end_it() {
        let failure = Failure::new("Down", "no answer");
        let policy = RetryPolicy::fixed(3, SECOND).total(Duration::from_secs(5));
        let next = |attempt, spent| policy.next(&failure, attempt, Duration::from_secs(spent));
        assert_eq!((next(1, 0), next(2, 0), next(3, 0)), (Some(SECOND), Some(SECOND), None));
        assert_eq!((next(1, 4), next(1, 5)), (Some(SECOND), None), "it would begin too late");
        let fatal = Failure { retryable: false, ..failure.clone() };
        assert_eq!(policy.next(&fatal, 1, Duration::ZERO), None);
        let picky = policy.clone().retry_if(|failure| failure.kind == "Busy");
        assert_eq!(picky.next(&failure, 1, Duration::ZERO), None);
        assert_eq!(picky.next(&Failure::new("Busy", ""), 1, Duration::ZERO), Some(SECOND));
    }
}
