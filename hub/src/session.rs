//! What the loops of one session share.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::channel::mpsc::UnboundedSender;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Shared};

use dauer_store::{Env, Lost, Manage, Refused, Release, Steady, Work};

use crate::executor::Executor;
use crate::inspect::Inspection;
use crate::options::{HostOptions, LEAP_SHARE};

/// A signal that may be waited for by many.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// What the loop of a session learns from beside it.
pub(crate) enum News {
    /// The session was renewed, and has lost these.
    Renewed(Vec<Lost>),
    /// The session is over.
    Over,
    /// An operator asks what the session holds.
    Inspect(oneshot::Sender<Inspection>),
}

/// Both clocks of a host, read at the same moment.
#[derive(Clone, Copy)]
pub(crate) struct Instant {
    at: Steady,
    /// The wall clock minus the monotonic one, in milliseconds. Changes only when the wall clock is set.
    ahead: i64,
}

impl Instant {
    pub(crate) fn of(env: &dyn Env) -> Self {
        let at = env.steady();
        Self { at, ahead: env.now().0.saturating_sub(at.0) }
    }
}

/// When a session was last renewed, shared by the loops of the session. Its two values are read one by one: a mixture of
/// two renewals can at worst cause one more renewal.
pub(crate) struct Renewed {
    at: AtomicI64,
    ahead: AtomicI64,
}

impl Renewed {
    pub(crate) fn new(instant: Instant) -> Self {
        Self { at: AtomicI64::new(instant.at.0), ahead: AtomicI64::new(instant.ahead) }
    }

    fn set(&self, instant: Instant) {
        self.at.store(instant.at.0, Ordering::Relaxed);
        self.ahead.store(instant.ahead, Ordering::Relaxed);
    }

    fn at(&self) -> Steady {
        Steady(self.at.load(Ordering::Relaxed))
    }

    fn ahead(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed)
    }
}

/// One session's surroundings.
pub(crate) struct Session {
    pub(crate) hub: Arc<dyn Manage>,
    pub(crate) work: Arc<dyn Work>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) options: HostOptions,
    /// The build id of this process, once it is known.
    pub(crate) build: Arc<OnceLock<Arc<str>>>,
    /// When the session was last known to be alive.
    pub(crate) renewed: Renewed,
    /// How often a renewal came after the lease had run out: another session may have taken items meanwhile.
    pub(crate) lapses: AtomicU64,
    /// Set when the store says that the session is over: nothing it holds is worth finishing.
    pub(crate) over: AtomicBool,
    /// To the loop.
    pub(crate) news: UnboundedSender<News>,
}

impl Session {
    /// The build id of this process, if it is known.
    pub(crate) fn build(&self) -> Option<Arc<str>> {
        self.build.get().cloned()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.tell(News::Over);
    }

    pub(crate) fn tell(&self, news: News) {
        // Nobody listens when the loop has ended: then there is nothing left to do.
        let _ = self.news.unbounded_send(news);
    }

    /// Renews the session and all it holds; whether that succeeded.
    pub(crate) async fn renew(&self) -> bool {
        let began = Instant::of(&*self.env);
        match self.work.renew().await {
            Ok(lost) => {
                if self.lease_left().is_zero() {
                    self.lapses.fetch_add(1, Ordering::Relaxed);
                }
                self.renewed.set(began);
                tracing::info!("the session was renewed");
                if !lost.is_empty() {
                    tracing::warn!(items = lost.len(), "items were taken over by another host");
                }
                self.tell(News::Renewed(lost));
                true
            }
            Err(Refused::Fenced) => {
                tracing::warn!("the session has ended; a new one is opened");
                self.end();
                false
            }
            Err(refused) => {
                tracing::warn!(error = %refused, "the session could not be renewed; trying again");
                false
            }
        }
    }

    /// How long the lease still runs by this host's monotonic clock.
    pub(crate) fn lease_left(&self) -> Duration {
        self.options.lease.saturating_sub(self.env.steady().since(self.renewed.at()))
    }

    /// Whether the wall clock was set since the last renewal, by an amount that matters to the lease.
    pub(crate) fn wall_clock_leapt(&self) -> bool {
        let moved = Instant::of(&*self.env).ahead.abs_diff(self.renewed.ahead());
        Duration::from_millis(moved) >= self.options.lease / LEAP_SHARE
    }

    pub(crate) fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.env.sleep(duration)
    }

    /// Gives an item back. As long as the session lives, whatever it holds is renewed with it, so this is tried until
    /// the store has answered, or the session is over.
    pub(crate) async fn give_back(&self, release: Release) {
        for attempts in 1.. {
            let result = self.work.release(vec![release.clone()]).await.pop();
            let again = matches!(result, Some(Err(Refused::NotExecuted(_) | Refused::Unknown(_))));
            if !again || self.is_over() {
                return;
            }
            self.sleep(self.retry_delay(attempts).min(self.options.poll_max)).await;
        }
    }

    /// The rest of a turn that has stalled `attempts` times in the same way.
    pub(crate) fn stalled_delay(&self, attempts: u32) -> Duration {
        let options = &self.options;
        let max = options.stalled_delay_max;
        crate::backoff::delay(options.retry_delay_min, max, attempts, self.env.random())
    }

    /// How long to wait before asking again after so many fruitless tries.
    pub(crate) fn retry_delay(&self, attempts: u32) -> Duration {
        let options = &self.options;
        crate::backoff::delay(options.retry_delay_min, options.retry_delay_max, attempts, self.env.random())
    }
}
