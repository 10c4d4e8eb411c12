//! Hints: which changes a listener learns of.

use dauer_store::*;
use futures::{FutureExt, StreamExt};

use crate::support::*;

/// Everything that waits for a listener.
fn heard(changes: &mut Changes) -> Vec<Hint> {
    let mut heard = Vec::new();
    while let Some(Some(hint)) = changes.next().now_or_never() {
        heard.push(hint);
    }
    heard
}

#[test]
fn a_turn_that_changes_nothing_that_is_shown_is_not_told() {
    let w = World::new();
    w.running("order");
    let session = w.session();
    let mut changes = w.hub.changes();
    for (custom_status, expected) in [(None, 0), (Some("packed"), 1), (Some("packed"), 0), (Some("sent"), 1)]
    {
        w.send(&w.event("order"));
        let turn = turn_of(&session, "order");
        let mut record = turn.record.clone();
        record.details.set_custom_status(custom_status.map(Into::into));
        let mut next = step(&turn);
        next.record.details = Some(record.details);
        commit(&session, next).unwrap();
        let changed = Hint::Status(id("order"), Status::Running);
        let told = heard(&mut changes).into_iter().filter(|hint| *hint == changed).count();
        assert_eq!(told, expected, "{custom_status:?}");
    }
}

#[test]
fn the_end_of_a_session_is_told_once_and_not_before_it_ends() {
    let w = World::new();
    w.session_of("dead", 7);
    let mut changes = w.hub.changes();
    turns(&w.session(), want(1));
    assert_eq!(heard(&mut changes), [], "it lives");
    w.clock.advance(LEASE);
    let living = w.session();
    turns(&living, want(1));
    assert!(heard(&mut changes).contains(&Hint::SessionEnded(SessionId(7))), "its time is over");
    turns(&living, want(1));
    assert_eq!(heard(&mut changes), [], "it has been told");
}
