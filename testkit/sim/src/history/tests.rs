//! Histories of one instance that fit one order, and histories that fit none.

use super::*;

const START: MessageId = MessageId([7; 16]);
const OTHER: MessageId = MessageId([8; 16]);
const RUN: ExecutionId = ExecutionId(1);

fn view(revision: u64, status: Status) -> View {
    View { start: None, execution: RUN, revision: Revision(revision), status, opening: None }
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
    let begun = [(0, 1, created(START)), (4, 4, commit(1, Status::Running))];
    let with = |looks: &[(u64, u64, What)]| check(&[&begun[..], looks].concat());
    assert!(with(&[(2, 3, saw(0, Status::Pending)), (5, 6, saw(1, Status::Running))]));
    assert!(
        with(&[(2, 6, saw(0, Status::Pending)), (2, 6, saw(1, Status::Running))]),
        "both were true meanwhile"
    );
    assert!(!with(&[(2, 3, What::Saw(None))]), "a start that was acknowledged is seen");
    assert!(!with(&[(5, 6, saw(0, Status::Pending))]), "an old state is never seen again");
    assert!(!with(&[(2, 3, saw(1, Status::Running))]), "nothing is seen before it happens");
    assert!(!with(&[(2, 9, saw(1, Status::Running)), (10, 11, saw(0, Status::Pending))]));
}

#[test]
fn two_starts_have_one_winner() {
    let both = |second| check(&[(0, 5, created(START)), (1, 4, second)]);
    assert!(both(What::Existed(Status::Pending)));
    assert!(!both(created(OTHER)));
    assert!(!both(What::Created(OTHER, Created::Repeat(RUN))), "two winners, one of them told twice");
    assert!(
        check(&[(0, 1, What::Created(START, Created::Repeat(RUN)))]),
        "a request that was delivered twice"
    );
    assert!(!check(&[(0, 1, What::Existed(Status::Pending)), (2, 3, created(START))]));
}

#[test]
fn what_nobody_knows_may_have_happened_at_any_time_or_never() {
    let perhaps = (0, u64::MAX, What::CreatedPerhaps(START, RUN));
    assert!(check(&[perhaps, (2, 3, What::Saw(None))]));
    assert!(check(&[perhaps, (2, 3, What::Saw(None)), (4, 5, saw(0, Status::Pending))]));
    assert!(!check(&[perhaps, (2, 3, saw(0, Status::Pending)), (4, 5, What::Saw(None))]));
}

#[test]
fn messages_and_purges_fit_the_life_of_their_target() {
    let life =
        [(0, 1, created(START)), (2, 2, commit(1, Status::Running)), (6, 6, commit(2, Status::Completed))];
    let with = |more: &[(u64, u64, What)]| check(&[&life[..], more].concat());
    let dropped = |reason| What::Sent(Delivered::Dropped(reason));
    assert!(with(&[(3, 4, What::Sent(Delivered::Applied)), (8, 9, dropped(DropReason::Ended))]));
    assert!(!with(&[(3, 4, dropped(DropReason::Ended))]), "it lived");
    assert!(!with(&[(8, 9, What::Sent(Delivered::Applied))]), "it had ended");
    assert!(!with(&[(3, 4, dropped(DropReason::Absent))]), "it was there");
    assert!(with(&[(8, 9, What::Purged(true)), (10, 11, What::Saw(None))]));
    assert!(!with(&[(3, 4, What::Purged(true))]), "what lives is not purged");
    assert!(!with(&[(8, 9, What::Purged(true)), (10, 11, saw(2, Status::Completed))]), "no resurrection");
    assert!(with(&[(8, u64::MAX, What::PurgedPerhaps), (10, 11, saw(2, Status::Completed))]));
}

#[test]
fn commits_are_neither_lost_nor_doubled() {
    assert!(!check(&[(0, 1, created(START)), (2, 2, commit(2, Status::Running))]));
    let twice =
        [(0, 1, created(START)), (2, 2, commit(1, Status::Running)), (3, 3, commit(1, Status::Running))];
    assert!(!check(&twice));
}

#[test]
fn an_ended_instance_that_a_start_waits_for_is_as_good_as_begun() {
    let ended = [(0, 1, created(START)), (2, 2, commit(1, Status::Completed))];
    let then = |more: &[(u64, u64, What)]| check(&[&ended[..], more].concat());
    let begun = (3, 3, What::Begun(OTHER, RUN));
    let pending = (4, 5, What::Existed(Status::Pending));
    let applied = (4, 5, What::Sent(Delivered::Applied));
    assert!(
        then(&[begun, (4, 5, What::Purged(false)), (6, 7, saw(1, Status::Completed))]),
        "it is not purged"
    );
    for answer in [pending, applied] {
        assert!(then(&[begun, answer]), "{answer:?}");
        assert!(!then(&[answer]), "{answer:?}: no start waits");
        assert!(
            !then(&[(3, 3, What::Begun(START, RUN)), answer]),
            "{answer:?}: its own start again is dropped"
        );
        let taken = [begun, (4, 4, commit(2, Status::Completed)), (5, 5, What::Taken(OTHER))];
        assert!(then(&taken));
        assert!(!then(&[&taken[..], &[(6, 7, answer.2)]].concat()), "{answer:?}: it waits no longer");
    }
}
