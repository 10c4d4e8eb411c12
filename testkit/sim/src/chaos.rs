//! What happens to hosts from time to time, until the chaos is over and everything heals.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dauer_memory::MemoryStore;

use crate::executor::{BEGINNING, Executor, Owner};
use crate::faults::{Deed, Plan, Swarm};
use crate::hosts::{HOSTS, Hosts};
use crate::random::Random;

/// The furthest the store's clock jumps ahead in one run.
pub(crate) const STORE_SKEW_MAX: Duration = Duration::from_secs(60);

/// The one who does it.
pub(crate) struct Chaos {
    pub(crate) swarm: Swarm,
    pub(crate) store: MemoryStore,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) executor: Executor,
    pub(crate) plan: Arc<Plan>,
    pub(crate) pause_max: Duration,
    pub(crate) expired: Arc<AtomicU64>,
}

impl Chaos {
    /// Does its deeds until its time is over, or everything is done before that.
    pub(crate) async fn run(self, mut random: Random) {
        let end = BEGINNING.after(self.swarm.chaos);
        while self.executor.now() < end && !self.plan.is_healed() {
            let next = self.executor.now().after(random.duration(self.swarm.deed_pause));
            self.executor.sleep_until(next.min(end)).await;
            if !self.swarm.deeds.is_empty() && !self.plan.is_healed() {
                let deed = random.pick(&self.swarm.deeds);
                self.commit(deed, &mut random);
            }
        }
        self.heal();
    }

    /// Nothing goes wrong any more; what was broken stays as it is and must be overcome.
    fn heal(&self) {
        self.plan.heal();
        self.hosts.resume_all();
        self.executor.trace().note(self.executor.now(), &[9], || "the chaos is over".into());
    }

    fn commit(&self, deed: Deed, random: &mut Random) {
        let place = random.index(HOSTS);
        let Some(owner) = self.hosts.owner(place) else { return };
        self.executor.trace().note(self.executor.now(), &[4, deed as u64, place as u64], || {
            format!("chaos: {deed:?} at host {place} ({})", owner.0)
        });
        match deed {
            Deed::Crash => self.executor.kill(owner),
            Deed::Pause => self.pause(owner, random.duration(self.pause_max)),
            Deed::Expire => {
                if let Some(id) = self.hosts.id(place) {
                    self.store.expire_sessions(&id);
                    self.expired.fetch_add(1, Ordering::Relaxed);
                }
            }
            Deed::Skew => {
                let skew_ms = i64::try_from(random.below(240_000)).unwrap_or_default() - 120_000;
                self.hosts.skew(place, skew_ms);
            }
            Deed::StoreSkew => self.jump(random),
            Deed::Stop => self.hosts.ask_to_stop(place),
        }
    }

    /// Ahead or back. A store whose clock was put back stands still until time has caught up.
    fn jump(&self, random: &mut Random) {
        self.store.skew(random.duration(STORE_SKEW_MAX));
    }

    fn pause(&self, owner: Owner, duration: Duration) {
        self.executor.stop(owner);
        let executor = self.executor.clone();
        let wake = async move {
            executor.sleep_until(executor.now().after(duration)).await;
            executor.resume(owner);
        };
        self.executor.spawn(Owner::OUTSIDE, Box::pin(wake));
    }
}
