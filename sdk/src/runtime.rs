//! Time, chance and tasks from tokio.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use dauer_core::Timestamp;
use dauer_store::Env;

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
/// env.sleep_until(env.now()).await;
/// # }
/// ```
pub struct TokioEnv {
    runtime: Handle,
    tasks: Mutex<JoinSet<()>>,
}

impl TokioEnv {
    /// On that runtime.
    #[must_use]
    pub fn new(runtime: Handle) -> Self {
        Self { runtime, tasks: Mutex::new(JoinSet::new()) }
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

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        // A sleep of longer than a year would overflow nothing, but a wake-up once a year costs nothing either.
        let longest = Duration::from_secs(365 * 24 * 60 * 60);
        let duration = at.since(self.now()).min(longest);
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

    fn random(&self) -> u64 {
        // Without entropy the time is all there is; ids stay distinct as long as it moves.
        getrandom::u64().unwrap_or_else(|_| self.now().0.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}
