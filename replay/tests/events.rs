//! Events: first come first served, whoever is dropped.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::task::Poll;

use dauer_proto::{EventType, HistoryEvent, OrchestrationStatus};
use dauer_replay::{CallError, Event, Orchestration, OrchestrationContext, Result};
use futures::future::{Either, join, join_all, select};
use futures::{FutureExt, select_biased};
use proptest::prelude::*;

use crate::support::{Server, raised};

const GO: Event<u32> = Event::new("Go");
const STOP: Event<()> = Event::new("stop");
const SHOP: Orchestration<u32, Vec<u32>> = Orchestration::new("shop");

#[test]
fn two_waiters_are_served_in_line() {
    async fn pair(ctx: OrchestrationContext, _: u32) -> Result<Vec<u32>> {
        let (first, second) = (ctx.event(GO), ctx.event(GO));
        // The line is formed by the first poll: the second one stands in front.
        let (second, first) = join(second, first).await;
        Ok(vec![first?, second?])
    }
    let mut server = Server::start(SHOP, pair, &0);
    server.deliver(vec![raised("go", &1)]);
    server.deliver(vec![raised("GO", &2)]);
    assert_eq!(server.output::<Vec<u32>>(), [2, 1]);
}

#[test]
fn early_events_are_kept_in_order() {
    async fn late(ctx: OrchestrationContext, _: u32) -> Result<Vec<u32>> {
        ctx.event(STOP).await?;
        let all = join_all((0..3).map(|_| ctx.event(GO))).await;
        Ok(all.into_iter().collect::<Result<_, CallError>>()?)
    }
    let mut server = Server::start(SHOP, late, &0);
    server.deliver(vec![raised("go", &1), raised("other", &9), raised("gO", &2)]);
    server.deliver(vec![raised("stop", &()), raised("go", &3)]);
    assert_eq!(server.output::<Vec<u32>>(), [1, 2, 3]);
}

#[test]
fn a_dropped_waiter_leaves_the_line() {
    async fn drops(ctx: OrchestrationContext, _: u32) -> Result<Vec<u32>> {
        let mut first = ctx.event(GO);
        let mut second = ctx.event(GO);
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        Ok(vec![second.await?])
    }
    let mut server = Server::start(SHOP, drops, &0);
    server.deliver(vec![raised("go", &1)]);
    assert_eq!(server.output::<Vec<u32>>(), [1]);
}

/// The event is given to the first waiter, which is dropped before it looks: the next one must be woken.
#[test]
fn an_event_given_to_a_dropped_waiter_goes_to_the_next() {
    async fn drops(ctx: OrchestrationContext, _: u32) -> Result<Vec<u32>> {
        let mut first = ctx.event(GO);
        assert!(futures::poll!(&mut first).is_pending());
        let keeper = async {
            ctx.event(STOP).await?;
            drop(first);
            Ok::<_, CallError>(())
        };
        let (second, stopped) = join(ctx.event(GO), keeper).await;
        stopped?;
        Ok(vec![second?])
    }
    let mut server = Server::start(SHOP, drops, &0);
    server.deliver(vec![raised("go", &1)]);
    assert!(server.end.is_none());
    server.deliver(vec![raised("stop", &())]);
    assert_eq!(server.output::<Vec<u32>>(), [1]);
}

/// Nobody else waits: the events return to their places.
#[test]
fn events_given_to_dropped_waiters_return_to_their_places() {
    async fn drops(ctx: OrchestrationContext, _: u32) -> Result<Vec<u32>> {
        let (mut first, mut second) = (ctx.event(GO), ctx.event(GO));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        ctx.event(STOP).await?;
        drop(second);
        drop(first);
        Ok(vec![ctx.event(GO).await?, ctx.event(GO).await?, ctx.event(GO).await?])
    }
    let mut server = Server::start(SHOP, drops, &0);
    server.deliver(vec![raised("go", &1), raised("go", &2), raised("go", &3), raised("stop", &())]);
    assert_eq!(server.output::<Vec<u32>>(), [1, 2, 3]);
}

/// A loop that makes its wait anew each time, as people write it.
#[test]
fn a_loop_of_selects_loses_no_event() {
    async fn collect(ctx: OrchestrationContext, _: u32) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        loop {
            select_biased! {
                go = ctx.event(GO) => all.push(go?),
                stop = ctx.event(STOP).fuse() => { stop?; break; }
            }
        }
        Ok(all)
    }
    let mut server = Server::start(SHOP, collect, &0);
    server.deliver(vec![raised("go", &1), raised("go", &2)]);
    server.deliver(vec![raised("go", &3)]);
    server.deliver(vec![raised("go", &4), raised("stop", &()), raised("go", &5)]);
    assert_eq!(server.output::<Vec<u32>>(), [1, 2, 3, 4]);
}

#[test]
fn data_of_another_type_is_an_error_the_code_can_handle() {
    async fn reads(ctx: OrchestrationContext, _: u32) -> Result<Vec<u32>> {
        match select(ctx.event(GO), ctx.event(STOP)).await {
            Either::Left((Err(error @ CallError::Undecodable { .. }), _)) => {
                assert!(error.to_string().starts_with("the data of event 'go' ("), "{error}");
                Ok(vec![7])
            }
            _ => Ok(vec![]),
        }
    }
    let mut server = Server::start(SHOP, reads, &0);
    server.deliver(vec![raised("go", &"text")]);
    assert_eq!(server.output::<Vec<u32>>(), [7]);
}

/// One step of a script: wait for events in some way, then let something go.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
enum Step {
    /// Get in line.
    Queue,
    /// Leave the line, whether an event has been given or not.
    Leave(usize),
    /// Read what the one in line gets.
    Read(usize),
}

/// Plays a script, one step for every event of another name, and hands what it read to the next execution.
async fn scripted(
    ctx: OrchestrationContext,
    (steps, mut read): (Vec<Step>, Vec<u32>),
) -> Result<ControlFlow<(), (Vec<Step>, Vec<u32>)>> {
    let mut line = Vec::new();
    for step in steps {
        ctx.event(STOP).await?;
        match step {
            Step::Queue => {
                let mut event = ctx.event(GO);
                match futures::poll!(&mut event) {
                    Poll::Ready(number) => read.push(number?),
                    Poll::Pending => line.push(event),
                }
            }
            Step::Leave(at) if !line.is_empty() => drop(line.swap_remove(at % line.len())),
            Step::Read(at) if !line.is_empty() => {
                let at = at % line.len();
                if let Poll::Ready(number) = futures::poll!(&mut line[at]) {
                    read.push(number?);
                    drop(line.swap_remove(at));
                }
            }
            Step::Leave(_) | Step::Read(_) => {}
        }
    }
    Ok(ControlFlow::Continue((Vec::new(), read)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Queue),
        1 => (0_usize..8).prop_map(Step::Leave),
        1 => (0_usize..8).prop_map(Step::Read),
    ]
}

/// Fewer events than futures in line, or nobody would ever wait.
fn raises() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(0_u32), 2 => Just(1), 1 => Just(2)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever waits, leaves and reads: every event is read once or carried over once, the rest in order.
    #[test]
    fn no_event_is_lost_or_read_twice(
        script in prop::collection::vec((step(), raises()), 1..40),
    ) {
        const SCRIPT: Orchestration<(Vec<Step>, Vec<u32>), ()> = Orchestration::new("script");
        let steps: Vec<_> = script.iter().map(|(step, _)| *step).collect();
        let mut server = Server::start(SCRIPT, scripted, &(steps, vec![]));
        let mut count = 0;
        for (_, raises) in &script {
            let mut batch: Vec<_> = (count..count + raises).map(|number| raised("go", &number)).collect();
            count += raises;
            batch.push(raised("stop", &()));
            server.deliver(batch);
        }
        let end = server.end.unwrap();
        prop_assert_eq!(end.orchestration_status(), OrchestrationStatus::ContinuedAsNew);
        let (_, mut all): (Vec<Step>, Vec<u32>) = serde_json::from_str(end.result.as_deref().unwrap()).unwrap();
        let carried: Vec<u32> = end.carryover_events.iter().map(number).collect();
        prop_assert!(carried.is_sorted(), "carried over out of order: {:?}", carried);
        all.extend(carried);
        all.sort_unstable();
        prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
    }
}

fn number(event: &HistoryEvent) -> u32 {
    match &event.event_type {
        Some(EventType::EventRaised(raised)) => {
            serde_json::from_str(raised.input.as_deref().unwrap()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}
