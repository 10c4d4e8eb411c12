//! The seam to time, chance and concurrency. Hubs and stores use nothing else, so that a whole hub can run on one
//! thread, in virtual time, from one seed.

use futures::future::BoxFuture;

use dauer_core::Timestamp;

/// Where time, chance and tasks come from. One per host: what it spawns belongs to that host and dies with it.
pub trait Env: Send + Sync + 'static {
    /// The time, by this host's clock. Decides nothing durable: stores judge by their own clock.
    fn now(&self) -> Timestamp;

    /// Ready at that time, or at once when it has passed.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()>;

    /// Runs something beside the caller until it ends or the host does.
    fn spawn(&self, work: BoxFuture<'static, ()>);

    /// Whether all that is spawned shares one thread with the caller. Then what is over at once may as well run where it is
    /// begun: nothing else could have run meanwhile.
    fn is_single_threaded(&self) -> bool {
        false
    }

    /// 64 random bits.
    fn random(&self) -> u64;
}
