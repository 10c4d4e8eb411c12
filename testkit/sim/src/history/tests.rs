//! Histories of one instance that fit one order, and histories that fit none.

use super::*;

const START: MessageId = MessageId([7; 16]);
const OTHER: MessageId = MessageId([8; 16]);
const RUN: ExecutionId = ExecutionId(1);

fn view(revision: u64, status: Status) -> View {
    View { start: START, execution: RUN, revision: Revision(revision), status }
}

/// The instance comes to be, at a revision that the store chooses.
fn founded(revision: u64) -> What {
    What::Founded(view(revision, Status::Pending))
}

fn check(events: &[(u64, u64, What)]) -> bool {
    let events: Vec<Event> = events
        .iter()
        .map(|(began, ended, what)| Event { began: *began, ended: *ended, what: *what })
        .collect();
    Search::new(&events).run().is_ok()
}

fn created(start: MessageId) -> What {
    What::Created(start, Created::New(RUN))
}

fn commit(revision: u64, status: Status) -> What {
    What::Committed(view(revision, status))
}

fn saw(revision: u64, status: Status) -> What {
    What::Saw(Some(view(revision, status)))
}

#[test]
fn a_look_sees_what_was_acknowledged_before_it_began() {
    let begun = [(0, 2, created(START)), (1, 1, founded(0)), (5, 5, commit(1, Status::Running))];
    let with = |looks: &[(u64, u64, What)]| check(&[&begun[..], looks].concat());
    assert!(with(&[(3, 4, saw(0, Status::Pending)), (6, 7, saw(1, Status::Running))]));
    assert!(
        with(&[(3, 7, saw(0, Status::Pending)), (3, 7, saw(1, Status::Running))]),
        "both were true meanwhile"
    );
    assert!(!with(&[(3, 4, What::Saw(None))]), "a start that was acknowledged is seen");
    assert!(!with(&[(6, 7, saw(0, Status::Pending))]), "an old state is never seen again");
    assert!(!with(&[(3, 4, saw(1, Status::Running))]), "nothing is seen before it happens");
    assert!(!with(&[(3, 9, saw(1, Status::Running)), (10, 11, saw(0, Status::Pending))]));
}

#[test]
fn two_starts_have_one_winner() {
    let both = |second| check(&[(0, 5, created(START)), (1, 4, second), (2, 2, founded(0))]);
    assert!(both(What::Existed(Status::Pending)));
    assert!(!both(created(OTHER)));
    assert!(!both(What::Created(OTHER, Created::Repeat(Some(RUN)))), "two winners, one of them told twice");
    assert!(
        check(&[(0, 2, What::Created(START, Created::Repeat(Some(RUN)))), (1, 1, founded(0))]),
        "a request that was delivered twice"
    );
    assert!(!check(&[(0, 1, What::Existed(Status::Pending)), (2, 4, created(START)), (3, 3, founded(0))]));
    assert!(!check(&[(0, 1, created(START))]), "an acknowledged start that had no effect");
}

#[test]
fn messages_and_purges_fit_the_life_of_their_target() {
    let life = [(1, 1, founded(7)), (2, 2, commit(8, Status::Running)), (6, 6, commit(9, Status::Completed))];
    let with = |more: &[(u64, u64, What)]| check(&[&life[..], more].concat());
    let dropped = |reason| What::Sent(Delivered::Dropped(reason));
    assert!(with(&[(3, 4, What::Sent(Delivered::Applied)), (8, 9, dropped(DropReason::Ended))]));
    assert!(!with(&[(3, 4, dropped(DropReason::Ended))]), "it lived");
    assert!(!with(&[(8, 9, What::Sent(Delivered::Applied))]), "it had ended");
    assert!(!with(&[(3, 4, dropped(DropReason::Absent))]), "it was there");
    assert!(with(&[(8, 8, What::Removed), (10, 11, What::Saw(None))]));
    assert!(!with(&[(3, 3, What::Removed)]), "a living instance is not purged");
    assert!(!with(&[(8, 8, What::Removed), (10, 11, saw(9, Status::Completed))]), "no resurrection");
    assert!(with(&[(8, 11, What::Kept), (9, 9, What::Removed)]), "removed by another purge meanwhile");
    assert!(!with(&[(8, 9, What::Kept)]), "an ended instance is removed");
}

#[test]
fn a_purged_id_is_begun_again_at_any_revision() {
    let purged = [(1, 1, founded(0)), (2, 2, commit(1, Status::Completed)), (3, 3, What::Removed)];
    let then = |more: &[(u64, u64, What)]| check(&[&purged[..], more].concat());
    assert!(then(&[(4, 6, created(START)), (5, 5, founded(2)), (7, 7, commit(3, Status::Running))]));
    assert!(!then(&[(5, 5, founded(2)), (7, 7, commit(1, Status::Running))]), "a commit of the purged one");
    assert!(then(&[(4, 5, What::Created(START, Created::Repeat(None)))]), "its start is remembered");
    assert!(!then(&[(4, 5, What::Created(OTHER, Created::Repeat(None)))]), "it never had that start");
    assert!(!then(&[(4, 5, What::Created(START, Created::Repeat(Some(RUN))))]), "that run is gone");
}

#[test]
fn a_start_begins_one_run_of_an_instance() {
    let other = |revision| What::Founded(View { start: OTHER, ..view(revision, Status::Pending) });
    let twice = [(1, 1, founded(0)), (2, 2, commit(1, Status::Completed)), (3, 3, other(2))];
    assert!(check(&twice));
    let again = [(4, 4, commit(3, Status::Completed)), (5, 5, founded(4))];
    assert!(!check(&[&twice[..], &again].concat()), "its first start, which gave way, again");
    let purged = [(4, 4, commit(3, Status::Completed)), (5, 5, What::Removed), (6, 6, founded(4))];
    assert!(check(&[&twice[..], &purged].concat()));
}

#[test]
fn commits_are_neither_lost_nor_doubled() {
    assert!(!check(&[(1, 1, founded(0)), (2, 2, commit(2, Status::Running))]));
    let twice = [(1, 1, founded(0)), (2, 2, commit(1, Status::Running)), (3, 3, commit(1, Status::Running))];
    assert!(!check(&twice));
}

#[test]
fn an_ended_instance_that_a_start_waits_for_is_as_good_as_begun() {
    let ended = [(1, 1, founded(0)), (2, 2, commit(1, Status::Completed))];
    let then = |more: &[(u64, u64, What)]| check(&[&ended[..], more].concat());
    let begun = (3, 3, What::Begun(OTHER));
    let pending = (4, 5, What::Existed(Status::Pending));
    let applied = (4, 5, What::Sent(Delivered::Applied));
    assert!(then(&[begun, (4, 5, What::Kept), (6, 7, saw(1, Status::Completed))]), "it is not purged");
    assert!(!then(&[begun, (4, 4, What::Removed)]), "a start waits for it");
    assert!(then(&[begun, (2, 5, What::Created(OTHER, Created::Replacing(RUN)))]));
    assert!(!then(&[(2, 5, What::Created(OTHER, Created::Replacing(RUN)))]), "it does not wait");
    for answer in [pending, applied] {
        assert!(then(&[begun, answer]), "{answer:?}");
        assert!(!then(&[answer]), "{answer:?}: no start waits");
        let taken = [begun, (4, 4, commit(2, Status::Completed)), (5, 5, What::Taken(OTHER))];
        assert!(then(&taken));
        assert!(!then(&[&taken[..], &[(6, 7, answer.2)]].concat()), "{answer:?}: it waits no longer");
    }
}
