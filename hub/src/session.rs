//! What the loops of one session share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, Shared};

use dauer_core::model::Tags;
use dauer_store::{Env, Want, Work};

use crate::executor::Executor;
use crate::options::HostOptions;

/// A signal that may be waited for by many.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// One session's surroundings.
pub(crate) struct Session {
    pub(crate) work: Arc<dyn Work>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) options: HostOptions,
    /// Set when the store says that the session is over: nothing it holds is worth finishing.
    pub(crate) over: AtomicBool,
}

impl Session {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.env.sleep_until(self.env.now().after(duration))
    }

    /// A claim of at most so many items that this host can execute.
    pub(crate) fn want(&self, count: usize) -> Want {
        let (bytes, queues) = (self.options.claim_bytes_max, self.executor.queues());
        Want { count, bytes, queues, tags: Tags::new(), deadline: None }
    }

    /// How long to wait before asking again after so many fruitless tries.
    pub(crate) fn retry_delay(&self, attempts: u32) -> Duration {
        let options = &self.options;
        crate::backoff::delay(options.retry_delay_min, options.retry_delay_max, attempts, self.env.random())
    }
}
