//! The order in which answers come.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

use std::collections::BTreeSet;

use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
use dauer_testhub::TestHub;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

const ECHO: Activity<u32, u32> = Activity::new("echo");
const FAN_OUT: Orchestration<u32, Vec<u32>> = Orchestration::new("fan-out");
const CHILDREN: Orchestration<u32, Vec<u32>> = Orchestration::new("children");
const CHILD: Orchestration<u32, u32> = Orchestration::new("child");

/// The answers, in the order they came.
async fn fan_out(ctx: OrchestrationContext, calls: u32) -> Result<Vec<u32>> {
    let all: FuturesUnordered<_> = (0..calls).map(|n| ctx.call(ECHO, &n)).collect();
    let answers: Vec<_> = all.collect().await;
    Ok(answers.into_iter().collect::<Result<_, _>>()?)
}

async fn children(ctx: OrchestrationContext, calls: u32) -> Result<Vec<u32>> {
    let all: FuturesUnordered<_> = (0..calls).map(|n| ctx.call_orchestration(CHILD, &n)).collect();
    let answers: Vec<_> = all.collect().await;
    Ok(answers.into_iter().collect::<Result<_, _>>()?)
}

async fn child(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(ECHO, &n).await?)
}

fn hub() -> TestHub<'static> {
    TestHub::new().activity(ECHO, Ok).orchestration(CHILD, child)
}

#[test]
fn answers_come_in_the_order_of_the_calls_or_in_reverse() {
    assert_eq!(hub().run(FAN_OUT, fan_out, 4).unwrap(), [0, 1, 2, 3]);
    assert_eq!(hub().complete_in_reverse().run(FAN_OUT, fan_out, 4).unwrap(), [3, 2, 1, 0]);
}

#[test]
fn children_end_in_the_order_of_their_calls_or_in_reverse() {
    assert_eq!(hub().run(CHILDREN, children, 4).unwrap(), [0, 1, 2, 3]);
    assert_eq!(hub().complete_in_reverse().run(CHILDREN, children, 4).unwrap(), [3, 2, 1, 0]);
}

#[test]
fn a_seed_chooses_an_order_always_the_same() {
    let order = |seed| hub().shuffle(seed).run(FAN_OUT, fan_out, 5).unwrap();
    let orders: BTreeSet<_> = (0..100).map(order).collect();
    assert!(orders.len() > 20, "a hundred seeds should find many of the 120 orders, not {}", orders.len());
    for seed in 0..20 {
        assert_eq!(order(seed), order(seed));
        let mut sorted = order(seed);
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
    }
}
