//! Faults do what they say, and lose nothing that the contract protects.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_memory::{Call, Fault, FaultPlan, HintFault};
use dauer_store::*;
use futures::executor::block_on;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, poll};

use crate::support::*;

/// Faults for the next calls of one kind, and for the next hints.
#[derive(Default)]
struct Plan {
    calls: Mutex<VecDeque<(Call, Fault)>>,
    hints: Mutex<VecDeque<HintFault>>,
}

impl FaultPlan for Plan {
    fn next(&self, call: Call) -> Fault {
        let mut calls = self.calls.lock().unwrap();
        if calls.front().is_some_and(|(planned, _)| *planned == call) {
            return calls.pop_front().unwrap().1;
        }
        Fault::None
    }

    fn hint(&self, _hint: &Hint) -> HintFault {
        self.hints.lock().unwrap().pop_front().unwrap_or_default()
    }
}

fn plan(w: &World, call: Call, fault: Fault) {
    let plan = Plan::default();
    plan.calls.lock().unwrap().push_back((call, fault));
    w.store.set_faults(Arc::new(plan));
}

fn creates(w: &World) -> Vec<Create> {
    ["a", "b"].map(|id| Create::new(w.start(id, "Orders"), Reuse::default())).into()
}

const LONG: Duration = Duration::from_secs(1);

/// Every call fails.
struct Down;

impl FaultPlan for Down {
    fn next(&self, _call: Call) -> Fault {
        Fault::FailBefore
    }
}

/// An environment in which every sleep is over at once, and written down.
#[derive(Default)]
struct Sleepless(Mutex<Vec<Steady>>);

impl Env for Sleepless {
    fn now(&self) -> Timestamp {
        BEGIN
    }

    fn steady(&self) -> Steady {
        Steady(0)
    }

    fn sleep_until(&self, at: Steady) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(at);
        std::future::ready(()).boxed()
    }

    fn spawn(&self, _work: BoxFuture<'static, ()>) {
        unreachable!("the store runs nothing beside its callers")
    }

    fn random(&self) -> u64 {
        unreachable!("the store leaves nothing to chance")
    }
}

#[test]
fn a_call_that_was_not_executed_changed_nothing() {
    for (fault, unknown) in
        [(Fault::FailBefore, false), (Fault::DelayAndFailBefore(LONG), false), (Fault::LoseRequest, true)]
    {
        let w = World::new();
        plan(&w, Call::Create, fault);
        let answers = block_on(w.hub.create(creates(&w)));
        assert_eq!(answers.len(), 2, "every element has its answer");
        for answer in answers {
            let expected = if unknown {
                matches!(answer, Err(Refused::Unknown(_)))
            } else {
                matches!(answer, Err(Refused::NotExecuted(_)))
            };
            assert!(expected, "{fault:?}: {answer:?}");
        }
        assert_eq!(block_on(w.hub.get(vec![id("a"), id("b")])).unwrap(), [None, None], "{fault:?}");
    }
}

#[test]
fn a_call_whose_answer_was_lost_happened_once() {
    for fault in [Fault::ExecuteAndFail, Fault::ExecuteDelayAndFail(LONG)] {
        let w = World::new();
        let batch = creates(&w);
        plan(&w, Call::Create, fault);
        let answers = block_on(w.hub.create(batch.clone()));
        assert!(answers.iter().all(|answer| matches!(answer, Err(Refused::Unknown(_)))), "{answers:?}");
        let again = block_on(w.hub.create(batch));
        assert!(again.iter().all(|answer| matches!(answer, Ok(Created::Repeat(_)))), "{again:?}");
    }
}

#[test]
fn a_dropped_call_happened_or_not_as_the_fault_says() {
    for (fault, happens) in [(Fault::DelayBefore(LONG), false), (Fault::DelayAfter(LONG), true)] {
        let w = World::new();
        let message = w.start("order", "Orders");
        plan(&w, Call::Send, fault);
        block_on(async {
            let mut send = w.hub.send(vec![message.clone()]);
            assert!(poll!(&mut send).is_pending());
        });
        let there = block_on(w.hub.get(vec![id("order")])).unwrap()[0].is_some();
        assert_eq!(there, happens, "{fault:?}");
    }
}

#[test]
fn a_slow_call_is_answered_in_the_end() {
    for fault in [Fault::DelayBefore(LONG), Fault::DelayAfter(LONG)] {
        let w = World::new();
        plan(&w, Call::Send, fault);
        assert_eq!(w.send(&w.start("order", "Orders")), Delivered::Applied, "{fault:?}");
    }
}

#[test]
fn a_slow_call_sleeps_in_the_environment_it_was_given() {
    let w = World::new();
    let env = Arc::new(Sleepless::default());
    w.store.set_env(env.clone());
    plan(&w, Call::Send, Fault::DelayBefore(LONG));
    let answers = w.hub.send(vec![w.start("order", "Orders")]).now_or_never();
    assert!(
        answers.is_some(),
        "the environment is in no hurry to wait, and the store waits for nothing else"
    );
    assert_eq!(*env.0.lock().unwrap(), [Steady(0).after(LONG)]);
}

#[test]
fn nothing_goes_wrong_once_the_faults_are_cleared() {
    let w = World::new();
    w.store.set_faults(Arc::new(Down));
    assert!(matches!(block_on(w.hub.scale()), Err(Refused::NotExecuted(_))));
    w.store.clear_faults();
    assert_eq!(block_on(w.hub.scale()).unwrap(), Scale::default());
}

#[test]
fn calls_executed_twice_have_the_effect_of_one() {
    let w = World::new();
    plan(&w, Call::Create, Fault::Duplicate);
    let answers = block_on(w.hub.create(creates(&w)));
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Created::Repeat(_)))), "{answers:?}");

    let session = w.session();
    plan(&w, Call::ClaimTurns, Fault::Duplicate);
    let turn = turns(&session, want(1)).remove(0);
    assert_eq!(turn.fence.instance, id("a"));
    plan(&w, Call::CommitTurns, Fault::Duplicate);
    let committed =
        commit(&session, Checkpoint { tasks: vec![w.task(&turn, "pay")], ..step(&turn) }).unwrap();
    assert_eq!(committed.revision, Revision(1));
    plan(&w, Call::ClaimActivities, Fault::Duplicate);
    let leases = tasks(&session);
    assert_eq!(leases.len(), 1);
    plan(&w, Call::CompleteActivities, Fault::Duplicate);
    assert_eq!(complete(&session, w.answer(&leases[0])), Delivered::Dropped(DropReason::NotHeld));
    assert_eq!(w.dumped("a").inbox.len(), 1, "answered once");
}

#[test]
fn a_claim_whose_answer_was_lost_is_repeated_by_the_next() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    plan(&w, Call::ClaimTurns, Fault::ExecuteAndFail);
    assert!(block_on(session.claim_turns(want(1))).is_err());
    let turn = turn_of(&session, "order");
    assert_eq!((turn.fence.epoch, turn.record.attempts), (Epoch(1), 0));
}

#[test]
fn a_renewal_whose_answer_was_lost_loses_no_report() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    turn_of(&session, "order");
    w.clock.advance(LEASE);
    turn_of(&w.session(), "order");
    plan(&w, Call::Renew, Fault::ExecuteAndFail);
    assert!(block_on(session.renew()).is_err());
    assert_eq!(block_on(session.renew()).unwrap().len(), 1);
}

#[test]
fn hints_are_lost_doubled_and_swapped_as_planned() {
    let w = World::new();
    let plan = Arc::new(Plan::default());
    w.store.set_faults(plan.clone());
    let mut changes = w.hub.changes();
    let mut heard = |w: &World, faults: &[HintFault], id: &str| {
        plan.hints.lock().unwrap().extend(faults.iter().copied());
        w.create(&w.start(id, "Orders"));
        let mut heard = Vec::new();
        while let Some(Some(hint)) = changes.next().now_or_never() {
            heard.push(hint);
        }
        heard
    };
    let (status, ready) = (|name| Hint::Status(id(name), Status::Pending), Hint::Ready(Kind::Orchestration));
    use HintFault::{Drop, Duplicate, None, Reorder};
    assert_eq!(heard(&w, &[None, None], "a"), [status("a"), ready.clone()]);
    assert_eq!(heard(&w, &[Drop, Duplicate], "b"), [ready.clone(), ready.clone()]);
    assert_eq!(heard(&w, &[Reorder, None], "c"), [ready.clone(), status("c")]);
    assert_eq!(heard(&w, &[Drop, Reorder], "d"), []);
    assert_eq!(heard(&w, &[None, None], "e"), [status("e"), ready.clone(), ready]);
}

/// A plan is asked for each hint that is sent, so that the same listeners and the same plan hear the same.
#[test]
fn a_hint_for_nobody_has_no_fate() {
    let w = World::new();
    let plan = Arc::new(Plan::default());
    plan.hints.lock().unwrap().extend([HintFault::Reorder, HintFault::Reorder]);
    w.store.set_faults(plan.clone());
    w.create(&w.start("order", "Orders"));
    assert_eq!(plan.hints.lock().unwrap().len(), 2, "nobody listened, so the plan was not asked");
}

#[test]
fn a_listener_that_does_not_listen_costs_a_bounded_amount() {
    let w = World::new();
    let changes = w.hub.changes();
    for number in 0..2_000 {
        w.create(&w.start(&format!("order{number}"), "Orders"));
    }
    drop(w.hub);
    let waiting = block_on(changes.ready_chunks(10_000).next()).unwrap().len();
    assert!((1_000..1_100).contains(&waiting), "{waiting} hints were kept");
}

#[test]
fn the_stores_clock_is_skewed_and_never_goes_back() {
    let w = World::new();
    w.create(&Message { visible_at: BEGIN.after(HOUR), ..w.start("order", "Orders") });
    let session = w.session();
    assert!(turns(&session, want(1)).is_empty());
    w.store.skew(HOUR);
    let turn = turn_of(&w.session(), "order");
    assert_eq!(turn.now, BEGIN.after(HOUR));
    w.store.skew(Duration::ZERO);
    w.clock.set(Timestamp(0));
    assert_eq!(w.store.now(), BEGIN.after(HOUR));
}
