//! What a session wins, is returned, waits for and recalls.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use std::{future::Future, pin::pin};

use dauer_store::*;

use super::desk::Step;
use super::*;

fn desk() -> (Desk, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000)));
    (Desk::new(Arc::clone(&clock) as Arc<dyn Clock>), clock)
}

fn credit(number: u64, turns: usize, tasks: usize) -> Credit {
    Credit { number, turns: Amount::items(turns), tasks: Amount::items(tasks), ..Credit::default() }
}

fn turn(id: &str) -> ClaimedTurn {
    let instance = InstanceId::new(id).unwrap();
    let execution = ExecutionId(1);
    let record =
        Record::pending(QueueKey::new(Kind::Orchestration, "code", None), execution, MessageId([0; 16]));
    let fence = Fence { instance, execution, revision: Revision(0), epoch: Epoch(1) };
    ClaimedTurn { fence, record, messages: Vec::new(), more: false, history: None, now: Timestamp(1) }
}

/// Wins a turn by a write that is durable.
fn win(desk: &Desk, id: &str) {
    let mut offer = desk.offer().unwrap();
    offer.win_turn(turn(id));
    desk.settle(offer.into_won());
}

fn names(next: &Next) -> Vec<&str> {
    next.turns.iter().map(|turn| turn.fence.instance.as_str()).collect()
}

fn returned(step: Step) -> Next {
    match step {
        Step::Return(next) => next,
        other => panic!("it should return something: {other:?}"),
    }
}

/// Carries out the first look, so that nothing is unseen.
fn settled(desk: &Desk) {
    let Step::Look(look) = desk.step(false) else { panic!("a new session looks") };
    assert!(look.mail);
    desk.looked(Looked::default());
}

#[test]
fn unreturned_turns_count_against_credit() {
    let (desk, _) = desk();
    desk.credit(credit(1, 2, 0));
    win(&desk, "a");
    assert_eq!(desk.offer().unwrap().count(Kind::Orchestration), 1);
    win(&desk, "b");
    assert!(desk.offer().is_none(), "the credit is spent");
    desk.credit(credit(1, 3, 0));
    assert_eq!(desk.offer().unwrap().count(Kind::Orchestration), 1, "credit replaces credit");
    assert_eq!(names(&returned(desk.step(false))), ["a", "b"]);
    assert_eq!(desk.offer().unwrap().count(Kind::Orchestration), 1, "what was returned has spent its credit");
    desk.credit(credit(1, 3, 0));
    assert_eq!(desk.offer().unwrap().count(Kind::Orchestration), 3, "the host has room for more");
}

#[test]
fn work_left_for_lack_of_room_is_looked_for_when_there_is_room() {
    let (desk, _) = desk();
    desk.credit(credit(1, 1, 0));
    settled(&desk);
    let mut offer = desk.offer().unwrap();
    offer.win_turn(turn("a"));
    assert!(offer.turn_room().is_none());
    offer.leaves(Kind::Orchestration);
    desk.settle(offer.into_won());
    assert_eq!(names(&returned(desk.step(false))), ["a"]);
    assert!(matches!(desk.step(false), Step::Wait(None)), "the credit is spent");
    desk.credit(credit(1, 1, 0));
    assert!(matches!(desk.step(false), Step::Look(Look { mail: false })), "there is room");
    desk.looked(Looked::default());
    assert!(matches!(desk.step(false), Step::Wait(None)));
    desk.unseen(Kind::Activity);
    assert!(matches!(desk.step(false), Step::Wait(None)), "there is no credit for tasks");
    desk.credit(credit(1, 1, 1));
    assert!(matches!(desk.step(false), Step::Look(_)));
}

#[test]
fn other_queues_look_again_and_the_same_do_not() {
    let (desk, _) = desk();
    desk.credit(credit(1, 1, 1));
    settled(&desk);
    desk.credit(credit(2, 9, 9));
    assert!(matches!(desk.step(false), Step::Wait(None)), "nothing was left");
    let queues = Queues { activities: Filter::none(), ..Queues::default() };
    desk.credit(Credit { queues, ..credit(3, 9, 9) });
    assert!(matches!(desk.step(false), Step::Look(_)));
}

#[test]
fn looks_for_other_reasons_do_not_delay_what_is_due() {
    let (desk, _) = desk();
    desk.credit(credit(1, 1, 1));
    let due = Some(Duration::from_millis(10));
    for _ in 0..20 {
        desk.unseen_all();
        assert!(matches!(desk.step(false), Step::Look(_)));
        desk.looked(Looked { mail: Vec::new(), due });
    }
    assert!(matches!(desk.step(false), Step::Wait(wait) if wait == due), "nothing was due before");
}

#[test]
fn look_without_room_leaves_its_side_to_be_looked_at() {
    let (desk, clock) = desk();
    desk.credit(credit(1, 1, 0));
    settled(&desk);
    desk.due(Duration::from_secs(5));
    desk.credit(credit(1, 0, 0));
    clock.advance(Duration::from_secs(5));
    assert!(matches!(desk.step(false), Step::Look(_)), "something is due");
    assert!(desk.offer().is_none());
    desk.looked(Looked::default());
    assert!(matches!(desk.step(false), Step::Wait(None)));
    desk.credit(credit(1, 1, 0));
    assert!(matches!(desk.step(false), Step::Look(_)), "what was due is still there");
}

#[test]
fn credit_taken_back_during_a_look_looks_again() {
    let (desk, _) = desk();
    desk.credit(credit(1, 1, 0));
    assert!(matches!(desk.step(false), Step::Look(_)), "a new session looks");
    desk.credit(credit(1, 0, 0));
    assert!(desk.offer().is_none(), "the look wins nothing");
    desk.looked(Looked::default());
    assert!(matches!(desk.step(false), Step::Wait(None)));
    desk.credit(credit(1, 1, 0));
    assert!(matches!(desk.step(false), Step::Look(_)), "older work may be ready");
}

#[test]
fn recall_names_what_two_numbers_won_and_ends_them() {
    let (desk, _) = desk();
    desk.credit(credit(1, 9, 9));
    win(&desk, "old");
    desk.credit(credit(2, 9, 9));
    win(&desk, "a");
    desk.credit(credit(3, 9, 9));
    win(&desk, "b");
    let recalled = desk.recall(2, 3);
    let fences = [turn("a").fence, turn("b").fence].map(Item::Turn);
    assert_eq!(recalled, fences);
    assert_eq!(desk.recall(2, 3), fences, "the same again");
    assert!(desk.offer().is_none(), "the numbers win nothing");
    desk.credit(credit(3, 9, 9));
    assert!(desk.offer().is_none(), "nor when they are named again");
    desk.credit(credit(4, 9, 9));
    win(&desk, "c");
    assert_eq!(names(&returned(desk.step(false))), ["c"], "what was recalled is not returned twice");
}

#[test]
fn wins_of_numbers_that_no_recall_names_are_forgotten() {
    let (desk, _) = desk();
    for number in 1..=9 {
        desk.credit(Credit { first: number - 1, ..credit(number, 9, 9) });
        win(&desk, &format!("of-{number}"));
    }
    let fences = [turn("of-8").fence, turn("of-9").fence].map(Item::Turn);
    assert_eq!(desk.recall(0, 9), fences);
}

#[test]
fn write_without_a_known_outcome_fails_the_next_call_once() {
    let (desk, _) = desk();
    desk.credit(credit(1, 9, 9));
    settled(&desk);
    let mut offer = desk.offer().unwrap();
    offer.win_turn(turn("a"));
    desk.doubt(&offer.into_won(), Refused::Unknown(Cause::new("power")));
    assert!(matches!(desk.step(false), Step::Fail(Refused::Unknown(_))));
    assert_eq!(desk.recall(0, 1), [Item::Turn(turn("a").fence)], "the store says whether it is held");
    assert!(!matches!(desk.step(false), Step::Fail(_)));
}

#[test]
fn due_time_is_waited_for_and_looked_at() {
    let (desk, clock) = desk();
    desk.credit(credit(1, 9, 9));
    settled(&desk);
    desk.due(Duration::from_secs(5));
    desk.due(Duration::from_secs(9));
    let Step::Wait(Some(wait)) = desk.step(false) else { panic!("something is due") };
    assert_eq!(wait, Duration::from_secs(5));
    clock.advance(Duration::from_secs(5));
    assert!(matches!(desk.step(false), Step::Look(Look { mail: true })));
    desk.looked(Looked { due: Some(Duration::from_secs(4)), ..Looked::default() });
    assert!(matches!(desk.step(false), Step::Wait(Some(wait)) if wait == Duration::from_secs(4)));
}

#[test]
fn due_time_that_never_comes_is_looked_at_ever_more_rarely() {
    let (desk, clock) = desk();
    desk.credit(credit(1, 9, 9));
    let tick = Duration::from_millis(1);
    let mut looks = 0;
    for _ in 0..1_000 {
        match desk.step(false) {
            Step::Look(_) => {
                looks += 1;
                desk.looked(Looked { due: Some(tick), ..Looked::default() });
            }
            Step::Wait(Some(_)) => clock.advance(tick),
            other => panic!("{other:?}"),
        }
    }
    assert!((9..=20).contains(&looks), "{looks} looks in a second");
}

#[test]
fn mail_is_named_once_for_each_delivery() {
    let (desk, _) = desk();
    settled(&desk);
    let id = InstanceId::new("a").unwrap();
    desk.mail([id.clone(), id.clone()]);
    assert_eq!(returned(desk.step(false)).mail, [id]);
    assert!(matches!(desk.step(false), Step::Wait(None)));
}

/// A monotonic clock that stands still.
struct Still;

impl Env for Still {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
    fn steady(&self) -> Steady {
        Steady(0)
    }
    fn sleep_until(&self, _: Steady) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
    fn spawn(&self, _: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) {}
    fn random(&self) -> u64 {
        0
    }
}

#[test]
fn dropped_wait_loses_nothing_and_a_win_ends_the_next() {
    let (desk, _) = desk();
    desk.credit(credit(1, 9, 9));
    let look = |_: Look| async { Ok(Looked::default()) };
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut waits = pin!(next(&desk, Until::At(&Still, Steady(1)), look));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        win(&desk, "a");
    }
    let mut waits = pin!(next(&desk, Until::At(&Still, Steady(1)), look));
    let Poll::Ready(Ok(found)) = waits.as_mut().poll(&mut context) else { panic!("something was won") };
    assert_eq!(names(&found), ["a"]);
    let mut waits = pin!(next(&desk, Until::At(&Still, Steady(1)), look));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    win(&desk, "b");
    assert!(waits.as_mut().poll(&mut context).is_ready());
}

#[test]
fn call_that_waits_for_nothing_looks_once_for_everything() {
    let (desk, _) = desk();
    desk.credit(credit(1, 9, 9));
    win(&desk, "a");
    let looks = std::cell::Cell::new(0);
    let look = |look: Look| {
        assert!(look.mail);
        looks.set(looks.get() + 1);
        win(&desk, "b");
        std::future::ready(Ok(Looked::default()))
    };
    for until in [Until::Once, Until::At(&Still, Steady(0))] {
        looks.set(0);
        let mut once = pin!(next(&desk, until, look));
        let Poll::Ready(Ok(found)) = once.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it does not wait")
        };
        assert_eq!(names(&found).last(), Some(&"b"));
        assert_eq!(looks.get(), 1);
    }
}

#[test]
fn refused_look_is_made_again_by_the_next_call() {
    let (desk, _) = desk();
    desk.credit(credit(1, 9, 9));
    let mut context = Context::from_waker(Waker::noop());
    let refuses = |_: Look| async { Err(Refused::NotExecuted(Cause::new("busy"))) };
    let mut refused = pin!(next(&desk, Until::At(&Still, Steady(1)), refuses));
    assert!(matches!(refused.as_mut().poll(&mut context), Poll::Ready(Err(Refused::NotExecuted(_)))));
    assert!(matches!(desk.step(false), Step::Look(Look { mail: true })));
}

#[test]
fn dropped_look_is_made_again() {
    let (desk, _) = desk();
    desk.credit(credit(1, 9, 9));
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut drops = pin!(next(&desk, Until::At(&Still, Steady(1)), |_| std::future::pending()));
        assert!(drops.as_mut().poll(&mut context).is_pending());
    }
    assert!(matches!(desk.step(false), Step::Look(Look { mail: true })));
}

#[test]
fn new_work_waits_for_older_work_that_was_not_looked_at() {
    let (desk, _) = desk();
    desk.credit(credit(1, 9, 9));
    let takes_new = || desk.offer().unwrap().takes_new(Kind::Entity);
    assert!(!takes_new(), "no look has been made");
    assert!(matches!(desk.step(false), Step::Look(_)));
    assert!(!takes_new(), "the look has not ended");
    desk.looked(Looked::default());
    assert!(takes_new());
    desk.unseen(Kind::Activity);
    assert!(takes_new(), "only tasks were not looked at");
    desk.unseen(Kind::Orchestration);
    assert!(!takes_new());
}

#[test]
fn session_that_attaches_again_keeps_its_desk() {
    let desks = Desks::new(Arc::new(ManualClock::new(Timestamp(1_000))));
    let (hub, other) = (HubName::default(), HubName::new("other").unwrap());
    let first = desks.open(hub.clone(), SessionId(1));
    first.credit(credit(1, 1, 0));
    win(&first, "a");
    let again = desks.open(hub.clone(), SessionId(1));
    assert!(Arc::ptr_eq(&first, &again));
    let elsewhere = desks.open(other, SessionId(1));
    assert!(!Arc::ptr_eq(&first, &elsewhere), "another hub");
    drop(first);
    assert_eq!(desks.of_hub(&hub).len(), 1);
    drop(again);
    assert!(desks.of_hub(&hub).is_empty(), "a session that is dropped leaves");
}
