//! Time, chance and tasks from tokio.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::{BoxFuture, FutureExt};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinSet;
use tokio::time::Instant;

use dauer_core::Timestamp;
use dauer_store::{Env, Steady};

/// The surroundings of one host on a tokio runtime: its clock, its sleeps, its tasks. What it spawned ends when it is dropped.
/// For hosts of one's own; workers make theirs themselves.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use dauer::TokioEnv;
/// use dauer::lower::store::Env;
///
/// let env = TokioEnv::new(tokio::runtime::Handle::current());
/// env.sleep_until(env.steady()).await;
/// # }
/// ```
pub struct TokioEnv {
    runtime: Handle,
    /// The epoch of its monotonic clock. tokio's, so that a paused runtime pauses it too.
    began: Instant,
    tasks: Mutex<JoinSet<()>>,
    chance: Mutex<Chance>,
}

/// Random numbers that were fetched from the system and not given out yet. Each start takes two, and asking the system for every
/// one of them costs as much as a small turn.
#[derive(Default)]
struct Chance {
    numbers: Vec<u64>,
}

/// How many are fetched at once.
const CHANCE_FETCHED: usize = 64;

impl Chance {
    /// The next one; `None` when the system has none to give.
    fn next(&mut self) -> Option<u64> {
        if self.numbers.is_empty() {
            let mut bytes = [0; 8 * CHANCE_FETCHED];
            getrandom::fill(&mut bytes).ok()?;
            let (numbers, _) = bytes.as_chunks::<8>();
            self.numbers.extend(numbers.iter().map(|number| u64::from_ne_bytes(*number)));
        }
        self.numbers.pop()
    }
}

impl TokioEnv {
    /// On that runtime.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self { runtime, began: Instant::now(), tasks: Mutex::new(JoinSet::new()), chance: Mutex::default() }
    }

    /// Ends everything that is still running on behalf of the host.
    pub fn stop(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

impl Env for TokioEnv {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Steady {
        Steady(i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep_until(&self, at: Steady) -> BoxFuture<'static, ()> {
        // A sleep of longer than a year would overflow nothing, but a wake-up once a year costs nothing either.
        let longest = Duration::from_secs(365 * 24 * 60 * 60);
        let duration = at.since(self.steady()).min(longest);
        let _entered = self.runtime.enter();
        // Without a budget: thousands of waits in one task would be woken again and again, a hundred of them at a time
        // getting their turn.
        tokio::task::unconstrained(tokio::time::sleep(duration)).boxed()
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Finished ones are forgotten here, so that the set holds only what is running.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(work, &self.runtime);
    }

    fn is_single_threaded(&self) -> bool {
        self.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
    }

    fn random(&self) -> u64 {
        let next = self.chance.lock().unwrap_or_else(PoisonError::into_inner).next();
        // Without entropy the time is all there is; ids stay distinct as long as it moves.
        next.unwrap_or_else(|| self.now().0.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_random_number_is_given_out_twice() {
        let mut chance = Chance::default();
        let count = 3 * CHANCE_FETCHED;
        let numbers: std::collections::BTreeSet<u64> = (0..count).filter_map(|_| chance.next()).collect();
        assert_eq!(numbers.len(), count);
        let bits = |number: fn(&u64) -> u32| numbers.iter().map(number).sum::<u32>();
        // Half of the bits, give or take what chance allows: ten times the deviation that is to be expected.
        let ones = bits(|number| number.count_ones());
        assert!(ones.abs_diff(32 * u32::try_from(count).unwrap()) < 600, "{ones}");
    }
}
