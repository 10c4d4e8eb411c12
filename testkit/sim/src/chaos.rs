//! What happens to hosts, the store and its clock from time to time, until the chaos is over and everything heals.

use std::sync::Arc;
use std::time::Duration;

use dauer_memory::MemoryStore;
use dauer_store::Timestamp;

use crate::executor::{BEGINNING, Executor, Owner};
use crate::faults::{Plan, Swarm};
use crate::hosts::{HOSTS, Hosts};
use crate::kinds::Kind;
use crate::random::Random;

/// The furthest the store's clock jumps ahead in one run.
pub(crate) const STORE_SKEW_MAX: Duration = Duration::from_secs(60);

/// How long the store is slow, or away, at most.
const BAD_TIMES_MAX: Duration = Duration::from_secs(12);

/// How long a host whose lease is over stands still at most: longer than anybody waits before looking for work.
const ZOMBIE_MAX: Duration = Duration::from_secs(8);

/// The furthest a host's clock is wrong, either way, in milliseconds.
const HOST_SKEW_MAX_MS: u64 = 120_000;

/// The one who does it.
pub(crate) struct Chaos {
    pub(crate) swarm: Swarm,
    pub(crate) store: MemoryStore,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) executor: Executor,
    pub(crate) plan: Arc<Plan>,
    pub(crate) pause_max: Duration,
}

impl Chaos {
    /// Does its deeds until its time is over, or everything is done before that.
    pub(crate) async fn run(self, mut random: Random) {
        let end = BEGINNING.after(self.swarm.chaos);
        let deeds = self.swarm.deeds();
        while self.executor.now() < end && !self.plan.is_healed() {
            let next = self.executor.now().after(random.duration(self.swarm.deed_pause));
            self.executor.sleep_until(next.min(end)).await;
            if !deeds.is_empty() && !self.plan.is_healed() {
                let deed = random.pick(&deeds);
                if self.commit(deed, &mut random) {
                    self.plan.hit(deed);
                }
            }
        }
        self.heal();
    }

    /// Nothing goes wrong any more; what was broken stays as it is and must be overcome. An upgrade that was begun is
    /// brought to its end.
    fn heal(&self) {
        self.plan.heal();
        self.hosts.resume_all();
        for place in 0..HOSTS {
            self.hosts.upgrade(place);
        }
        self.executor.trace().note(self.executor.now(), &[9], || "the chaos is over".into());
    }

    /// Does it; false when there is nobody to do it to.
    fn commit(&self, deed: Kind, random: &mut Random) -> bool {
        let place = random.index(HOSTS);
        let Some(owner) = self.hosts.owner(place) else { return false };
        self.executor.trace().note(self.executor.now(), &[4, deed as u64, place as u64], || {
            format!("chaos: {deed} at host {place} ({})", owner.0)
        });
        match deed {
            Kind::Crash => self.executor.kill(owner),
            Kind::Pause => self.pause(owner, random.duration(self.pause_max)),
            Kind::Expire => {
                if let Some(id) = self.hosts.id(place) {
                    self.store.expire_sessions(&id);
                }
                // Long enough for others to take what it holds before it renews: then it comes back and commits.
                self.pause(owner, random.duration(ZOMBIE_MAX));
            }
            Kind::HostClock => {
                let skew_ms =
                    random.below(2 * HOST_SKEW_MAX_MS).cast_signed() - HOST_SKEW_MAX_MS.cast_signed();
                self.hosts.skew(place, skew_ms);
            }
            // Ahead or back. A store whose clock was put back stands still until time has caught up.
            Kind::StoreClock => self.store.skew(random.duration(STORE_SKEW_MAX)),
            Kind::Stop => self.hosts.ask_to_stop(place),
            Kind::Upgrade => return self.hosts.upgrade(place),
            Kind::Slow => self.plan.slow_until(self.soon(random)),
            Kind::Outage => self.plan.out_until(self.soon(random)),
            _ => return false,
        }
        true
    }

    fn soon(&self, random: &mut Random) -> Timestamp {
        self.executor.now().after(random.duration(BAD_TIMES_MAX))
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
