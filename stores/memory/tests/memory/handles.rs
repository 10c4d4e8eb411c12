//! Several handles on one store, as several processes would have them.

use std::sync::Arc;

use dauer_store::*;
use futures::FutureExt as _;
use futures::executor::block_on;

use crate::support::*;

fn session_on(w: &World, handle: &dauer_memory::MemoryStore, number: u128) -> Arc<dyn Work> {
    let hub = handle.hub(HubName::new("tests").unwrap());
    let session = block_on(hub.attach(host_of(&format!("host{number}"), number))).unwrap();
    session.credit(want(9).credit(next_number(), true));
    assert_eq!(block_on(session.next(Until::Once)).unwrap(), Next::default(), "{}", w.store.now().0);
    session
}

#[test]
fn write_of_one_handle_is_found_by_a_wait_of_another() {
    let w = World::new();
    let session = session_on(&w, &w.store.handle(), 900);
    let env = StillEnv;
    let mut wait = session.next(Until::At(&env, Steady(i64::MAX)));
    assert!((&mut wait).now_or_never().is_none());
    w.create(&w.start("order", "Orders"));
    let inspected = block_on(w.hub.inspect(vec![id("order")])).unwrap().remove(0).unwrap();
    assert!(inspected.holder.is_none(), "the write is of another handle");
    let next = wait.now_or_never().expect("it looks").unwrap();
    assert_eq!(names(&next.turns), ["order"]);
}

#[test]
fn handle_that_is_dropped_leaves_its_sessions_to_expire() {
    let w = World::new();
    let handle = w.store.handle();
    let gone = session_on(&w, &handle, 900);
    w.create(&w.start("order", "Orders"));
    assert_eq!(names(&block_on(gone.next(Until::Once)).unwrap().turns), ["order"]);
    drop((gone, handle));
    assert!(turns(&w.session(), want(1)).is_empty());
    w.clock.advance(LEASE);
    assert_eq!(turn_of(&w.session(), "order").record.deaths.workers, 1);
}
