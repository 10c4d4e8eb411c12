//! What the loops of one session share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, Shared};

use dauer_core::Timestamp;
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
    /// When the session was last known to be alive, in milliseconds of this host's clock.
    pub(crate) renewed_at: AtomicI64,
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

    /// The session was opened or renewed by a call that began at that time.
    pub(crate) fn renewed(&self, at: Timestamp) {
        self.renewed_at.store(at.0, Ordering::Relaxed);
    }

    /// Whether the lease still runs by this host's clock. A host that cannot renew takes no more work: it would only
    /// be taken away again.
    pub(crate) fn may_claim(&self) -> bool {
        let renewed_at = Timestamp(self.renewed_at.load(Ordering::Relaxed));
        self.env.now().since(renewed_at) < self.options.lease
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
