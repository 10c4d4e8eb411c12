//! A second hub on the same store, with hosts and clients of its own, whose instances come and go: they are purged by id and
//! by query, removed by retention, started again by equal starts, replaced while they live. Now and then the whole hub goes,
//! and comes again under its name.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_audit::{Evidence, Snapshot, collect};
use dauer_hub::{HostOptions, retention};
use dauer_store::{Env, HubName, InstanceId, Refused, Store, Timestamp};
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{BoxFuture, join};

use crate::chaos::Chaos;
use crate::check::Check;
use crate::env::SimEnv;
use crate::errand::Tickets;
use crate::executor::{Executor, Owner};
use crate::faults::{Plan, Swarm};
use crate::hosts::{self, HOSTS, Hosts, Registries};
use crate::interpret::Effects;
use crate::liveness;
use crate::outcome::{Churned, Statistics};
use crate::random::Random;
use crate::rivals::{LATE_AFTER, Rivals};
use crate::run::network;
use crate::stores::Stores;
use crate::unpoisoned;
use crate::wire::Wire;

/// The seeds that have such a hub: those with this remainder by [`ONE_IN`]. By number, so that what was found before there
/// were such seeds is still found where it was.
const REMAINDER: u64 = 1;
const ONE_IN: u64 = 2;

/// The name of the hub.
const NAME: &str = "churn";

/// How many hosts it has, of the places that there are.
const CHURN_HOSTS: usize = 2;

/// Its hosts have numbers from here on, far from those of the first hub.
const FIRST_OWNER: u32 = 500;

/// The longest that a season takes when nothing fails.
pub(crate) const SEASON_MAX: Duration = Duration::from_secs(120).saturating_add(LATE_AFTER);

/// The time between two attempts to delete a hub: its hosts may have died, and their leases run.
const DELETE_EVERY: Duration = Duration::from_secs(1);

/// The shortest and the longest time that retention keeps what has ended, in milliseconds.
const KEEP_MS: (u64, u64) = (1, 4_000);

/// Whether a seed has such a hub.
pub(crate) fn is_churning(seed: u64) -> bool {
    seed % ONE_IN == REMAINDER
}

/// All that the hub needs.
pub(crate) struct Churn {
    pub(crate) seed: u64,
    pub(crate) executor: Executor,
    pub(crate) stores: Stores,
    pub(crate) plan: Arc<Plan>,
    pub(crate) swarm: Swarm,
    pub(crate) registries: Registries,
    pub(crate) effects: Effects,
    pub(crate) without_revision: bool,
    pub(crate) seasons: Mutex<Vec<Arc<Season>>>,
    pub(crate) deleted: AtomicU64,
}

/// One life of the hub.
pub(crate) struct Season {
    rivals: Rivals,
    hosts: Arc<Hosts>,
    tickets: Arc<Tickets>,
    /// What the hub held before it was deleted.
    left: Mutex<Option<Snapshot>>,
}

impl Churn {
    /// How many lives the hub has.
    pub(crate) fn lives(&self) -> u32 {
        if Random::stream(self.seed, 30).chance(3_000) { 2 } else { 1 }
    }

    /// Lets the hub live.
    pub(crate) async fn run(&self) {
        let lives = self.lives();
        for number in 1..=lives {
            let mut random = Random::stream(self.seed, 31 + u64::from(number));
            let season = self.open(number, &mut random);
            unpoisoned(&self.seasons).push(Arc::clone(&season));
            self.live(&season, &mut random).await;
            if number < lives {
                self.delete(&season).await;
            }
        }
    }

    fn open(&self, number: u32, random: &mut Random) -> Arc<Season> {
        let Ok(name) = HubName::new(NAME) else {
            unreachable!("short, not empty, without control characters")
        };
        let of_hub = (&self.stores, name);
        let network = network(of_hub, &self.plan, &self.executor, (self.without_revision, true));
        let options: HostOptions = hosts::draw_options(random);
        let lease = options.lease;
        let tickets = Arc::<Tickets>::default();
        let code = (self.registries.clone(), Arc::clone(&self.effects), Arc::clone(&tickets));
        let owners = FIRST_OWNER + number * 1_000;
        let hosts =
            Arc::new(Hosts::new(Arc::clone(&network), self.seed, options, code, false).numbered_from(owners));
        for place in 0..CHURN_HOSTS {
            self.executor.spawn(Owner::OUTSIDE, Arc::clone(&hosts).supervise(place).boxed());
        }
        let chaos = Chaos {
            swarm: self.swarm.clone(),
            store: self.stores.raw.clone(),
            hosts: Arc::clone(&hosts),
            executor: self.executor.clone(),
            plan: Arc::clone(&self.plan),
            pause_max: lease * 3,
        };
        if !self.plan.is_healed() {
            self.executor.spawn(Owner::OUTSIDE, chaos.run(Random::new(random.bits())).boxed());
        }
        let env = Arc::new(SimEnv::new(self.executor.clone(), Owner::OUTSIDE, Random::new(random.bits())));
        let rivals = Rivals {
            hub: Wire::new(Arc::clone(&network), Owner::OUTSIDE).hub(),
            network,
            executor: self.executor.clone(),
            env,
            tickets: Arc::clone(&tickets),
            last: Mutex::default(),
            promised: Mutex::default(),
            counts: Default::default(),
        };
        Arc::new(Season { rivals, hosts, tickets, left: Mutex::default() })
    }

    async fn live(&self, season: &Season, random: &mut Random) {
        let count = random.between(1, 2);
        let ids: Vec<InstanceId> =
            (0..count).filter_map(|number| InstanceId::new(format!("c{number}")).ok()).collect();
        let (stop, stopped) = oneshot::channel::<()>();
        let sweeping: BoxFuture<'_, ()> = if random.chance(4_000) {
            let keep = Duration::from_millis(random.between(KEEP_MS.0, KEEP_MS.1));
            let (hub, env) = (Arc::clone(&season.rivals.hub), Arc::clone(&season.rivals.env));
            retention::run(hub, env as Arc<dyn Env>, keep, stopped.map(|_| ())).boxed()
        } else {
            async {}.boxed()
        };
        let working = async {
            season.rivals.run(&ids, &season.hosts, random).await;
            drop(stop);
        };
        join(working, sweeping).await;
    }

    /// Deletes the hub when its hosts have left.
    async fn delete(&self, season: &Season) {
        season.hosts.close();
        let Ok(name) = HubName::new(NAME) else { return };
        let network = &season.rivals.network;
        let store = Wire::new(Arc::clone(network), Owner::OUTSIDE).store(Arc::clone(&self.stores.disturbed));
        loop {
            if season.is_gone() && self.delete_once(season, &*store, &name).await {
                self.deleted.fetch_add(1, Ordering::Relaxed);
                return self.check_deleted(season, &*store, &name).await;
            }
            self.executor.sleep_until(self.executor.now().after(DELETE_EVERY)).await;
        }
    }

    /// Whether the hub was deleted. An attempt of unknown outcome may have deleted it: what there was before it counts, and
    /// nothing that is on its way to the hub arrives after it.
    async fn delete_once(&self, season: &Season, store: &dyn Store, name: &HubName) -> bool {
        let deleted = &season.rivals.network.deleted;
        if !deleted.load(Ordering::Relaxed) {
            *unpoisoned(&season.left) = self.look(season);
        }
        deleted.store(true, Ordering::Relaxed);
        match store.delete_hub(name).await {
            Ok(()) => true,
            Err(Refused::Unknown(_)) => false,
            Err(_) => {
                // Unless an earlier attempt has deleted it.
                let there = self.stores.raw.has_hub(name).now_or_never().and_then(Result::ok);
                deleted.store(there == Some(false), Ordering::Relaxed);
                false
            }
        }
    }

    /// A hub that was deleted is not there.
    async fn check_deleted(&self, season: &Season, store: &dyn Store, name: &HubName) {
        let there = store.has_hub(name).await.is_ok_and(|there| there);
        let listed = store.hubs().await.is_ok_and(|hubs| hubs.contains(name));
        if there || listed {
            let text = format!("the hub was deleted, and is there ({there}) or listed ({listed})");
            unpoisoned(&season.rivals.network.stalled).push(text);
        }
    }

    fn look(&self, season: &Season) -> Option<Snapshot> {
        collect(&*season.rivals.network.raw).now_or_never()?.ok()
    }

    /// All hosts are asked to leave.
    pub(crate) fn close(&self) {
        unpoisoned(&self.seasons).iter().for_each(|season| season.hosts.close());
    }

    /// Whether no host is left.
    pub(crate) fn is_gone(&self) -> bool {
        unpoisoned(&self.seasons).iter().all(|season| season.is_gone())
    }

    /// What the clients of all seasons did.
    pub(crate) fn churned(&self) -> Churned {
        let mut churned =
            Churned { hubs_deleted: self.deleted.load(Ordering::Relaxed), ..Churned::default() };
        for season in unpoisoned(&self.seasons).iter() {
            season.rivals.counts.add_to(&mut churned);
            churned.removed += season.rivals.network.journal.removed();
        }
        churned
    }

    /// What is wrong with what is left, and with what happened on the way there.
    pub(crate) fn check(
        &self,
        (done, healed): (bool, Timestamp),
        statistics: &mut Statistics,
        violations: &mut Vec<String>,
    ) {
        let seasons = unpoisoned(&self.seasons).clone();
        let count = seasons.len();
        for (number, season) in seasons.iter().enumerate() {
            let last = number + 1 == count;
            let left = unpoisoned(&season.left).take();
            // Taken before the call that deleted the hub: a purge that was on its way may have come first.
            let is_older = left.is_some();
            let Some(snapshot) = left.or_else(|| if last { self.look(season) } else { None }) else {
                violations.push("the hub that comes and goes could not be dumped".into());
                continue;
            };
            let mut found = Vec::new();
            let code = (&self.registries, &self.effects);
            season.check((&snapshot, is_older), code, (done || !last, healed), (statistics, &mut found));
            violations.extend(found.into_iter().map(|violation| format!("{NAME}: {violation}")));
        }
    }
}

impl Season {
    fn is_gone(&self) -> bool {
        (0..HOSTS).all(|place| self.hosts.owner(place).is_none())
    }

    fn check(
        &self,
        (snapshot, is_older): (&Snapshot, bool),
        (registries, effects): (&Registries, &Effects),
        (done, healed): (bool, Timestamp),
        (statistics, violations): (&mut Statistics, &mut Vec<String>),
    ) {
        let network = &self.rivals.network;
        if !done {
            violations.extend(liveness::waits(snapshot).into_iter().map(|line| format!("waiting: {line}")));
        }
        violations.append(&mut unpoisoned(&self.hosts.refused));
        violations.append(&mut unpoisoned(&network.stalled));
        violations.extend(self.rivals.broken_promises());
        violations.extend(network.journal.ends().iter().filter_map(|end| self.tickets.check(end)));
        network.journal.check_end(snapshot, is_older);
        let replaced = network.journal.replaced();
        let (commits, mut found) = network.journal.close();
        violations.append(&mut found);
        let (checked, found) = network.history.check();
        statistics.client_calls += checked;
        violations.extend(found);
        let mut check = Check { snapshot, registry: &registries.modern, effects, statistics, violations };
        check.audit(&Evidence { client: None, commits: Some(&commits) });
        if done {
            check.replay(healed);
            check.replay_replaced(&replaced);
            violations.extend(liveness::left_over(snapshot));
        }
    }
}
