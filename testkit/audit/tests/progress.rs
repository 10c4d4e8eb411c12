//! Two dumps of a real store: what a living session holds without a commit is found, and nothing else is.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its hub has failed")]

use std::sync::Arc;
use std::time::Duration;

use dauer_audit::{Incomparable, LEASES_APART, Progress, Snapshot, collect, progress};
use dauer_core::model::Over;
use dauer_core::send::{self, Caller, StartRequest};
use dauer_core::{ExecutionId, HostId, HubName, InstanceId, SessionId, Timestamp};
use dauer_memory::{Clock, ManualClock, MemoryHub, MemoryStore};
use dauer_store::{Amount, Create, Credit, Host, Manage, Reuse, Until, Work};
use futures::executor::block_on;

const LEASE: Duration = Duration::from_secs(10);

struct World {
    clock: Arc<ManualClock>,
    hub: Arc<MemoryHub>,
    work: Arc<dyn Work>,
}

/// One instance that is ready, and a session that holds nothing.
fn world() -> World {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000)));
    let hub = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>).hub(HubName::default());
    let host =
        Host { id: HostId::new("host").unwrap(), session: SessionId(1), lease: LEASE, runs_code: true };
    let work = block_on(hub.attach(host)).unwrap();
    let request = StartRequest::new(InstanceId::new("order").unwrap(), "ship");
    let caller = Caller { request: 1, repeatable: true, now: clock.now() };
    let start = send::start(request, ExecutionId(1), caller, Over::Refuse).unwrap();
    block_on(hub.create(vec![Create::new(start, Reuse::default())])).remove(0).unwrap();
    World { clock, hub, work }
}

impl World {
    fn claim(&self) -> usize {
        self.work.credit(Credit { turns: Amount::items(10), ..Credit::default() });
        let turns = block_on(self.work.next(Until::Once)).unwrap().turns;
        self.work.credit(Credit::default());
        turns.len()
    }

    fn dump(&self) -> Snapshot {
        block_on(collect(&*self.hub)).unwrap()
    }

    fn pass(&self, leases: u32) {
        self.clock.advance(LEASE * leases);
    }

    /// Two dumps, with something done between them.
    fn compare(&self, between: impl FnOnce(&Self)) -> Progress {
        let first = self.dump();
        self.pass(LEASES_APART);
        between(self);
        progress(&first, &self.dump(), LEASE).unwrap()
    }
}

fn names(standstills: &[dauer_audit::Standstill]) -> Vec<&str> {
    standstills.iter().map(|standstill| standstill.instance.as_str()).collect()
}

#[test]
fn turn_held_by_a_renewed_session_is_suspicious() {
    let world = world();
    assert_eq!(world.claim(), 1);
    let found = world.compare(|world| drop(block_on(world.work.renew()).unwrap()));
    assert_eq!((names(&found.suspicious), found.unclaimed.len(), found.checked), (vec!["order"], 0, 1));
    let standstill = &found.suspicious[0];
    assert_eq!(standstill.holder, Some((SessionId(1), HostId::new("host").unwrap())));
    assert!(standstill.ready_for >= LEASE * LEASES_APART, "{standstill}");
    assert!(standstill.to_string().contains("restart the host"), "{standstill}");
}

#[test]
fn turn_held_by_a_dead_session_is_not_suspicious() {
    let world = world();
    assert_eq!(world.claim(), 1);
    let found = world.compare(|_| {});
    assert_eq!((found.suspicious, found.unclaimed, found.checked), (vec![], vec![], 1));
}

#[test]
fn turn_claimed_again_in_between_is_not_suspicious() {
    let world = world();
    assert_eq!(world.claim(), 1);
    let found = world.compare(|world| {
        block_on(world.work.renew()).unwrap();
        block_on(world.work.detach()).unwrap();
        let host =
            Host { id: HostId::new("other").unwrap(), session: SessionId(2), lease: LEASE, runs_code: true };
        let other = World { work: block_on(world.hub.attach(host)).unwrap(), ..self::world() };
        assert_eq!(other.claim(), 1);
    });
    assert_eq!((found.suspicious, found.unclaimed, found.checked), (vec![], vec![], 1));
}

#[test]
fn turn_that_no_session_claims_is_a_note() {
    let found = world().compare(|world| drop(block_on(world.work.renew()).unwrap()));
    assert_eq!((found.suspicious.len(), names(&found.unclaimed)), (0, vec!["order"]));
    assert!(found.unclaimed[0].to_string().contains("start a worker that has 'ship'"));
}

#[test]
fn turn_that_is_not_due_is_not_checked() {
    let world = world();
    let mut first = world.dump();
    let mut second = world.dump();
    second.now = first.now.after(LEASE * LEASES_APART);
    let far = second.now.after(LEASE);
    for snapshot in [&mut first, &mut second] {
        snapshot.instances.values_mut().for_each(|dump| dump.ready_at = Some(far));
    }
    assert_eq!(progress(&first, &second, LEASE), Ok(Progress::default()));
}

#[test]
fn dumps_less_than_two_leases_apart_are_refused() {
    let world = world();
    let first = world.dump();
    world.pass(LEASES_APART - 1);
    let second = world.dump();
    let (apart, needed) = (LEASE, LEASE * LEASES_APART);
    assert_eq!(progress(&first, &second, LEASE), Err(Incomparable::TooClose { apart, needed }));
    assert_eq!(progress(&second, &first, LEASE), Err(Incomparable::WrongOrder));
}
