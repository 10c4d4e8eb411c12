//! What only the inside can tell: a live orchestration keeps nothing of what is over.

use std::time::Duration;

use dauer_proto::time;
use futures::FutureExt;
use futures::select_biased;

use super::*;
use crate::{Activity, Error, Event, Orchestration};

const PRICE: Activity<u32, u32> = Activity::new("price");
const GO: Event<u32> = Event::new("go");
const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");

/// In each round: one call awaited, one dropped, a race between a timer and an event.
async fn rounds(ctx: OrchestrationContext, n: u32) -> Result<u32, Error> {
    let mut sum = 0;
    for round in 0..n {
        sum += ctx.call(PRICE, &round).await?;
        drop(ctx.call(PRICE, &round).start());
        select_biased! {
            go = ctx.event(GO) => sum += go?,
            () = ctx.sleep(Duration::from_secs(1)).fuse() => {}
        }
    }
    Ok(sum)
}

fn size(live: &Live) -> usize {
    match &live.phase {
        Phase::Active(run) => run.shared.lock().size() + run.held.len(),
        _ => 0,
    }
}

#[test]
fn a_live_orchestration_does_not_grow_with_its_history() {
    let start = event::start("shop", "order-1", "a".repeat(32));
    let start = dauer_proto::ExecutionStartedEvent { input: Some("2000".into()), ..start };
    let new = [event::orchestrator_started(1), event::execution_started(1, start)];
    let (mut live, answer) = Live::start_program(&Program::new(SHOP, rounds), &[], &new).unwrap();
    let mut id = answer.actions[0].id;
    // Waiting for one call: the open task and its waker.
    assert_eq!(size(&live), 2);
    for round in 0..2_000 {
        let waiting = live.turn(&[event::task_completed(0, id, Some("1".into()))]).unwrap();
        assert_eq!(waiting.actions.iter().map(|action| action.id).collect::<Vec<_>>(), [id + 1, id + 2]);
        // The timer with its waker, and the wait for the event; nothing of the dropped call.
        assert_eq!(size(&live), 3, "round {round}");
        // The event wins; then come the answer to the dropped call, and the timer that lost.
        let go = event::event_raised(0, "go", Some("1".into()));
        let late = event::task_completed(0, id + 1, Some("1".into()));
        let fired = event::timer_fired(0, id + 2, time::from_millis(1));
        let answer = live.turn(&[go, late, fired]).unwrap();
        id = answer.actions[0].id;
        assert_eq!(size(&live), if round < 1_999 { 2 } else { 0 }, "round {round}");
    }
    assert!(live.is_finished());
}

/// Not even the future: dropping it frees what the code holds.
#[test]
fn an_error_drops_the_code_at_once() {
    let held = Arc::new(());
    let program = Program::new(SHOP, {
        let held = Arc::clone(&held);
        move |ctx: OrchestrationContext, n: u32| {
            let held = Arc::clone(&held);
            async move {
                let price = ctx.call(PRICE, &n).await?;
                std::future::pending::<()>().await;
                drop(held);
                Ok(price)
            }
        }
    });
    let start = event::start("shop", "order-1", "a".repeat(32));
    let start = dauer_proto::ExecutionStartedEvent { input: Some("1".into()), ..start };
    let (mut live, _) = Live::start_program(&program, &[], &[event::execution_started(1, start)]).unwrap();
    assert_eq!(Arc::strong_count(&held), 3);
    let error = live.turn(&[event::task_completed(0, 0, Some("1".into()))]).unwrap_err();
    assert!(matches!(error, TurnError::NotDurable { .. }), "{error}");
    assert_eq!(Arc::strong_count(&held), 2);
}

/// What is held back while it is suspended is what it will be given, and nothing else.
#[test]
fn a_suspended_orchestration_holds_back_only_what_is_for_its_code() {
    let start = event::start("shop", "order-1", "a".repeat(32));
    let start = dauer_proto::ExecutionStartedEvent { input: Some("1".into()), ..start };
    let new = [event::execution_started(1, start), event::execution_suspended(1, None)];
    let (mut live, _) = Live::start_program(&Program::new(SHOP, rounds), &[], &new).unwrap();
    let before = size(&live);
    let noise = || event::new(1, -1, EventType::GenericEvent(Default::default()));
    live.turn(&[event::orchestrator_started(2), noise(), noise()]).unwrap();
    assert_eq!(size(&live), before);
    live.turn(&[event::event_raised(2, "go", Some("1".into()))]).unwrap();
    assert_eq!(size(&live), before + 1);
}
