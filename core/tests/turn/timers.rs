//! Behaviours 35 and 36, and the time of a turn.

use std::time::Duration;

use dauer_core::Timestamp;
use dauer_core::limits;
use dauer_core::model::Status;
use dauer_core::send::StartRequest;
use dauer_proto::{EventType, action};

use crate::support::make::*;
use crate::support::{Run, id};

#[test]
fn behaviour_35_a_timer_fires_with_the_time_that_was_asked_for_to_the_nanosecond() {
    let fire_at = dauer_proto::Timestamp { seconds: 5, nanos: 123_456_789 };
    let mut run = Run::running([action::create_timer(1, fire_at)]);
    assert_eq!(run.timers[0].visible_at, Timestamp(5_124), "never early, so rounded up");
    run.at(5_124).turn([]);
    let fired = run.events().into_iter().find_map(|event| match event.event_type {
        Some(EventType::TimerFired(fired)) => Some(fired),
        _ => None,
    });
    assert_eq!(fired.and_then(|fired| fired.fire_at), Some(fire_at));
}

#[test]
fn behaviour_35_a_timer_in_the_past_fires_at_once() {
    let mut run = Run::start("order", None);
    run.at(5_000).turn([timer(1, 10)]);
    run.at(5_000).turn([]).is("OrchestratorStarted @5000\nTimerFired 1 @10\n= Running");
}

#[test]
fn behaviour_35_a_timer_may_be_far_away_but_not_beyond_the_limit() {
    let century = i64::try_from(limits::TIMER_MAX.as_millis()).unwrap();
    let mut run = Run::start("order", None);
    let stalled = run.refused([timer(1, 1_000 + century + 1)]);
    assert!(
        stalled.reason.starts_with("seconds until a timer fires: 3162240000, at most 3162240000"),
        "{stalled}"
    );
    let stalled = run.refused([signal(1, "@counter@a", "add", Some(1_000 + century + 1))]);
    assert!(stalled.reason.starts_with("seconds until an entity operation: "), "{stalled}");
    run.turn([timer(1, 1_000 + century)]);
    assert_eq!(run.timers[0].visible_at.since(Timestamp(1_000)), limits::TIMER_MAX);
    // A limit that a user chose counts in the same way.
    let mut run = Run::start("order", None);
    run.limits.timer = Duration::from_secs(60);
    assert!(run.refused([timer(1, 61_001)]).reason.contains("at most 60"));
    run.turn([timer(1, 61_000)]);
}

/// A lost race does not withdraw a timer: the worker is told and ignores it.
#[test]
fn behaviour_35_a_timer_that_lost_its_race_is_still_delivered() {
    let mut run = Run::running([timer(1, 3_000), task(2, "pay")]);
    run.complete(2, "ok").turn([task(3, "ship")]);
    run.at(3_000).turn([]).is("OrchestratorStarted @3000\nTimerFired 1 @3000\n= Running");
}

#[test]
fn behaviour_35_a_timer_fires_once() {
    let mut run = Run::running([timer(1, 3_000)]);
    let timer = run.timers[0].clone();
    run.at(3_000).deliver(timer.clone());
    // The same message twice, as a transport with redelivery gives it.
    run.inbox.remove(0);
    run.turn([]);
    run.deliver(timer).turn([]).is("dropped NotOpen\n= Running");
}

#[test]
fn behaviour_36_a_scheduled_start_waits_and_its_time_is_not_the_time_of_the_turn() {
    let request = StartRequest { scheduled: Some(Timestamp(9_000)), ..StartRequest::new(id("i"), "order") };
    let mut run = Run::requested(request);
    assert_eq!(run.inbox[0].visible_at, Timestamp(9_000));
    assert_eq!(run.record.times.scheduled, Some(Timestamp(9_000)));
    assert_eq!(run.record.status, Status::Pending);
    run.at(9_250).turn([]).is("OrchestratorStarted @9250\nExecutionStarted#0 order\n= Running");
}

#[test]
fn now_never_goes_back_when_the_clock_does() {
    let mut run = Run::start("order", None);
    run.at(5_000).turn([]);
    run.at(3_000).raise("x", None);
    run.turn([task(1, "pay")])
        .is("OrchestratorStarted @5000\nEventRaised x\nTaskScheduled#1 pay\ntask pay #1\n= Running");
    run.at(6_000).raise("x", None).turn([]).is("OrchestratorStarted @6000\nEventRaised x\n= Running");
}

#[test]
fn now_is_never_before_a_timer_that_is_delivered() {
    let mut run = Run::running([timer(1, 7_000)]);
    let mut early = run.timers.remove(0);
    // A host whose clock is behind: the store says 6000 where the message says 7000.
    early.visible_at = Timestamp(0);
    run.at(6_000).deliver(early).turn([timer(2, 7_500)]).is("OrchestratorStarted @7000
         TimerFired 1 @7000
         TimerCreated#2 @7500
         timer @7500 TimerFired 2 @7500
         = Running");
}

#[test]
fn the_next_run_s_time_does_not_depend_on_the_last_one_s_history() {
    let mut run = Run::start("order", None);
    run.at(5_000).turn([continued(1, "", vec![])]);
    run.at(6_000).turn([]).is("OrchestratorStarted @6000\nExecutionStarted#0 order(\"\")\n= Running");
}
