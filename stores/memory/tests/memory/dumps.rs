//! Dumps: the same calls leave the same, and what is loaded is what was dumped.

use std::sync::Arc;

use dauer_memory::{MemoryHub, MemoryStore};
use dauer_store::*;
use futures::executor::block_on;

use crate::support::*;

/// A little of everything: instances in all states, held and free, tasks, timers, memory, sessions, drops.
fn busy() -> World {
    let w = World::new();
    for number in 0..250 {
        w.create(&w.start(&format!("order{number}"), if number % 3 == 0 { "Orders" } else { "Refunds" }));
    }
    w.send(&w.event("@counter@a"));
    w.send(&w.event("nobody"));
    let (one, two) = (w.session(), w.session());
    for (at, turn) in turns(&one, want(200)).iter().enumerate() {
        let checkpoint = match at % 5 {
            0 => ended(turn, Status::Completed),
            1 => Checkpoint { then: Then::Keep, ..step(turn) },
            2 => Checkpoint { tasks: vec![w.task(turn, "pay"), w.task(turn, "ship")], take: 1, ..step(turn) },
            3 => {
                let visible_at = BEGIN.after(HOUR);
                let timer = Message { visible_at, ..w.event(turn.fence.instance.as_str()) };
                Checkpoint { timers: vec![timer], messages: vec![w.event("order1")], ..step(turn) }
            }
            _ => continue,
        };
        commit(&one, checkpoint).unwrap();
    }
    for turn in turns(&two, want(20)) {
        let failed = Release { delay: HOUR, failed: true, ..release(Item::Turn(turn.fence)) };
        block_on(two.release(vec![failed])).remove(0).unwrap();
    }
    w.clock.advance(LEASE / 2);
    block_on(two.renew()).unwrap();
    turns(&two, want(7));
    w
}

#[test]
fn the_same_calls_leave_the_same_dump() {
    let (one, two) = (busy().dump(), busy().dump());
    assert_eq!(one, two);
    let instances = one.iter().filter(|item| matches!(item, DumpItem::Instance(_))).count();
    let tasks = one.iter().filter(|item| matches!(item, DumpItem::Task(_))).count();
    assert_eq!((instances, tasks), (251, 80));
    let parts = block_on(busy().hub.dump(None)).unwrap();
    assert!(parts.next.is_some(), "it comes in parts");
}

fn copy_of(w: &World, items: &[DumpItem], part: usize) -> Arc<MemoryHub> {
    let store = MemoryStore::new(w.clock.clone());
    let hub = store.hub(HubName::new("copy").unwrap());
    for items in items.chunks(part) {
        block_on(hub.load(items.to_vec())).unwrap();
    }
    hub
}

#[test]
fn what_is_loaded_is_what_was_dumped_in_any_parts_and_order() {
    let w = busy();
    let items = w.dump();
    let copy = copy_of(&w, &items, 40);
    assert_eq!(dump_of(&copy), items);
    let scale = |hub: &MemoryHub| block_on(hub.scale()).unwrap();
    assert_eq!(scale(&copy), scale(&w.hub), "a session has each of its items once");
    let backwards: Vec<DumpItem> = items.iter().rev().cloned().collect();
    let twice = [backwards.clone(), backwards].concat();
    assert_eq!(dump_of(&copy_of(&w, &twice, 40)), items, "the same part again changes nothing");
}

#[test]
fn a_loaded_hub_goes_on_as_the_first_would() {
    let w = busy();
    let copy = copy_of(&w, &w.dump(), usize::MAX);
    let claim = |hub: &MemoryHub| {
        let session = block_on(hub.attach(host_of("heir", 1_000_000))).unwrap();
        let mut turns: Vec<_> =
            turns(&session, want(1_000)).into_iter().map(|t| (t.fence, t.messages)).collect();
        turns.sort_by(|a, b| a.0.instance.cmp(&b.0.instance));
        turns
    };
    w.clock.advance(HOUR);
    let (theirs, ours) = (claim(&w.hub), claim(&copy));
    assert!(theirs.len() > 100, "there is much to do: {}", theirs.len());
    assert_eq!(theirs, ours);
}

#[test]
fn only_an_empty_hub_is_loaded() {
    let w = World::new();
    let items = w.dump();
    w.create(&w.start("order", "Orders"));
    let refused = block_on(w.hub.load(items));
    assert!(matches!(refused, Err(Refused::NotExecuted(_))), "{refused:?}");
}

/// Its clock was ahead of the clock of the store it is loaded into: what has happened must not lie in the future.
#[test]
fn a_loaded_hub_waits_until_the_clock_has_caught_up() {
    let w = World::new();
    let copy = copy_of(&w, &[DumpItem::Now(BEGIN.after(HOUR))], 1);
    let now = || dump_of(&copy)[0].clone();
    w.clock.advance(HOUR / 2);
    assert_eq!(now(), DumpItem::Now(BEGIN.after(HOUR)), "it stands still");
    w.clock.advance(HOUR);
    assert_eq!(now(), DumpItem::Now(BEGIN.after(HOUR * 3 / 2)), "it goes on with the clock");
}

#[test]
fn what_a_loaded_instance_had_still_to_send_is_delivered() {
    let w = World::new();
    w.running("order");
    w.running("other");
    let message = w.event("other");
    let items: Vec<DumpItem> = w
        .dump()
        .into_iter()
        .map(|item| match item {
            DumpItem::Instance(mut dump) if dump.id == id("order") => {
                dump.outbox.push(message.clone());
                DumpItem::Instance(dump)
            }
            item => item,
        })
        .collect();
    let copy = copy_of(&w, &items, 1);
    assert_eq!(dump_of(&copy), items, "it is there until somebody claims");
    let session = block_on(copy.attach(host_of("heir", 9))).unwrap();
    assert_eq!(ids(&turn_of(&session, "other").messages), [message.id]);
}
