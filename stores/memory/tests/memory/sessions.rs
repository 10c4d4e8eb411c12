//! The lives of sessions, and what becomes of what they hold.

use std::time::Duration;

use dauer_store::*;
use futures::executor::block_on;

use crate::support::*;

fn with_task(w: &World, of: &str) {
    w.create(&w.start(of, "Orders"));
    let session = w.session();
    let turn = turn_of(&session, of);
    commit(&session, Checkpoint { tasks: vec![w.task(&turn, "pay")], ..step(&turn) }).unwrap();
    block_on(session.detach()).unwrap();
}

#[test]
fn an_expired_session_that_renews_has_what_nobody_took() {
    let w = World::new();
    with_task(&w, "order");
    w.send(&w.event("order"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let more = Checkpoint { tasks: vec![w.task(&turn, "ship")], take: 1, then: Then::Keep, ..step(&turn) };
    let kept = commit(&session, more).unwrap().taken.remove(0);
    let lease = tasks(&session).remove(0);
    w.clock.advance(LEASE);
    let other = w.session();
    let taken = tasks_of(&other, Want { queues: only("pay"), ..want(9) });
    assert_eq!(taken.len(), 1, "one of them is taken");
    assert_eq!(block_on(session.renew()).unwrap(), [Lost { item: Item::Task(lease.fence.clone()) }]);
    assert_eq!(block_on(session.renew()).unwrap(), [], "told once");

    w.send(&w.event("order"));
    assert!(turns(&other, want(1)).is_empty(), "the turn is held again");
    assert!(tasks(&other).is_empty(), "and so is the other task");
    let scale = block_on(w.hub.scale()).unwrap();
    assert_eq!((scale.ready.len(), scale.held[&Kind::Activity]), (0, 2));
    let fence = Fence { revision: turn.fence.revision.next(), ..turn.fence };
    assert_eq!(
        block_on(session.mail(vec![fence])).remove(0).unwrap().messages.len(),
        1,
        "under the same epoch"
    );
    assert_eq!(complete(&session, w.answer(&kept)), Delivered::Applied);
    assert_eq!(complete(&session, w.answer(&lease)), Delivered::Dropped(DropReason::NotHeld));
}

#[test]
fn a_session_ended_by_proof_never_acts_again() {
    let w = World::new();
    with_task(&w, "order");
    w.send(&w.event("order"));
    let session = w.session_of("dead", 7);
    let (turn, lease) = (turn_of(&session, "order"), tasks(&session).remove(0));
    block_on(w.hub.end_session(SessionId(7))).unwrap();

    fenced(commit(&session, step(&turn)));
    fenced(block_on(session.renew()));
    fenced(try_turns(&session, want(1)));
    fenced(block_on(session.load_history(&turn.fence, 0, 1)));
    fenced(block_on(session.release(vec![release(Item::Turn(turn.fence))])).remove(0));
    assert_eq!(complete(&session, w.answer(&lease)), Delivered::Dropped(DropReason::NotHeld));
    fenced(block_on(w.hub.attach(host_of("dead", 7))).map(|_| ()));

    let heir = w.session();
    assert_eq!(turn_of(&heir, "order").record.deaths.workers, 1);
    assert_eq!(tasks(&heir)[0].deaths.workers, 1);
    let sessions =
        w.dump().into_iter().filter(|item| matches!(item, DumpItem::Session(s) if s.id == SessionId(7)));
    assert_eq!(sessions.count(), 0, "with nothing left it is forgotten");
}

#[test]
fn a_withdrawn_task_goes_with_its_holder() {
    for ending in ["detach", "expiry", "proof", "release"] {
        let w = World::new();
        with_task(&w, "order");
        let session = w.session_of("holder", 7);
        let lease = tasks(&session).remove(0);
        w.send(&w.message("order", Class::Control(Control::Terminate)));
        let other = w.session();
        commit(&other, ended(&turn_of(&other, "order"), Status::Terminated)).unwrap();
        let count = |w: &World| w.dump().iter().filter(|item| matches!(item, DumpItem::Task(_))).count();
        assert!(tasks(&other).is_empty(), "{ending}: nobody runs it again");
        assert_eq!(count(&w), 1, "{ending}: held, so it waits for its answer");
        match ending {
            "detach" => block_on(session.detach()).unwrap(),
            "expiry" => w.clock.advance(LEASE),
            "proof" => block_on(w.hub.end_session(SessionId(7))).unwrap(),
            _ => block_on(session.release(vec![release(Item::Task(lease.fence))])).remove(0).unwrap(),
        }
        assert!(tasks(&w.session()).is_empty(), "{ending}");
        assert_eq!((count(&w), w.dropped(DropReason::Withdrawn)), (0, 1), "{ending}");
    }
}

/// No host answers a task whose holder is dead.
#[test]
fn task_of_a_dead_host_goes_with_its_run() {
    let w = World::new();
    with_task(&w, "order");
    assert_eq!(tasks(&w.session()).len(), 1);
    w.clock.advance(LEASE);
    let other = w.session();
    w.send(&w.message("order", Class::Control(Control::Terminate)));
    commit(&other, ended(&turn_of(&other, "order"), Status::Terminated)).unwrap();
    let left = w.dump().iter().filter(|item| matches!(item, DumpItem::Task(_))).count();
    assert_eq!((left, w.dropped(DropReason::Withdrawn)), (0, 1));
}

#[test]
fn attaching_again_is_the_same_session() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let first = w.session_of("host", 7);
    let turn = turn_of(&first, "order");
    let second = w.session_of("host", 7);
    commit(&second, step(&turn)).unwrap();
    fenced(block_on(w.hub.attach(host_of("thief", 7))).map(|_| ()));
    block_on(second.detach()).unwrap();
    block_on(first.detach()).unwrap();
    fenced(block_on(first.renew()));
}

#[test]
fn a_host_can_be_expired_at_once() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let (dead, living) = (w.session_of("dead", 7), w.session_of("living", 8));
    turn_of(&dead, "order");
    w.store.expire_sessions(&HostId::new("nobody").unwrap());
    assert!(turns(&living, want(1)).is_empty());
    w.store.expire_sessions(&HostId::new("dead").unwrap());
    let turn = turn_of(&living, "order");
    assert_eq!((turn.record.deaths.workers, turn.fence.epoch), (1, Epoch(2)));
}

#[test]
fn a_session_that_expired_long_ago_is_forgotten() {
    let w = World::new();
    let old = w.session_of("old", 7);
    w.clock.advance(LEASE + HOUR);
    w.session();
    block_on(old.renew()).unwrap();
    w.clock.advance(LEASE + HOUR * 24);
    w.session();
    block_on(old.renew()).unwrap();
    w.clock.advance(LEASE + HOUR * 24 + Duration::from_millis(1));
    w.session();
    fenced(block_on(old.renew()));
}

#[test]
fn a_hub_is_deleted_when_no_living_host_works_in_it() {
    let w = World::new();
    let name = HubName::new("tests").unwrap();
    w.create(&w.start("order", "Orders"));
    let (gone, lives) = (w.session(), w.session());
    let Err(Refused::NotExecuted(why)) = block_on(w.store.delete_hub(&name)) else {
        panic!("two hosts work in it")
    };
    assert!(why.to_string().contains("stop it first"), "{why}");
    // One that has ended does not count, one that lives does.
    block_on(w.hub.end_session(gone.session())).unwrap();
    assert!(block_on(w.store.delete_hub(&name)).is_err());
    w.clock.advance(LEASE - Duration::from_millis(1));
    assert!(block_on(w.store.delete_hub(&name)).is_err(), "its lease has not run out");
    w.clock.advance(Duration::from_millis(1));
    block_on(w.store.delete_hub(&name)).unwrap();
    assert!(block_on(w.hub.get(vec![id("order")])).unwrap().remove(0).is_none(), "all of it is gone");
    block_on(w.store.delete_hub(&name)).unwrap();
    assert!(block_on(lives.renew()).is_err(), "and the sessions with it");
}

#[test]
fn an_ended_session_alone_keeps_no_hub() {
    let w = World::new();
    let session = w.session();
    w.create(&w.start("order", "Orders"));
    turn_of(&session, "order");
    block_on(w.hub.end_session(session.session())).unwrap();
    block_on(w.store.delete_hub(&HubName::new("tests").unwrap())).unwrap();
}
