//! The combinators of the `futures` crate, as they are, replay identically in any order of completion.
//!
//! Every turn of every case is checked against a replay from scratch; see `support`.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use dauer_core::InstanceId;
use dauer_proto::failure::failure;
use dauer_proto::{HistoryEvent, event};
use dauer_replay::{Activity, CallError, Event, Orchestration, OrchestrationContext, Result};
use futures::future::{join_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, select_biased};
use proptest::prelude::*;

use crate::support::{Dice, Server, raised, results};

const PRICE: Activity<u32, u32> = Activity::new("price");
const NOTE: Event<String> = Event::new("note");
const PRICES: Orchestration<u32, Vec<u32>> = Orchestration::new("prices");
const LOG: Orchestration<u32, Vec<String>> = Orchestration::new("log");

async fn ordered(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
    let prices = join_all((0..n).map(|i| ctx.call(PRICE, &i))).await;
    Ok(prices.into_iter().collect::<Result<_, CallError>>()?)
}

async fn all_or_nothing(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
    Ok(try_join_all((0..n).map(|i| ctx.call(PRICE, &i))).await?)
}

async fn unordered(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
    let mut calls: FuturesUnordered<_> = (0..n).map(|i| ctx.call(PRICE, &i)).collect();
    let mut prices = Vec::new();
    while let Some(price) = calls.next().await {
        prices.push(price?);
    }
    Ok(prices)
}

/// Everything at once: calls that start calls, a timer that is set again, events that are answered by events, calls
/// that are dropped at the end.
async fn mixed(ctx: OrchestrationContext, n: u32) -> Result<Vec<String>> {
    let peer = InstanceId::new("peer")?;
    let mut calls: FuturesUnordered<_> = (0..n).map(|i| ctx.call(PRICE, &i)).collect();
    let mut tick = ctx.sleep(Duration::from_secs(1));
    let mut note = ctx.event(NOTE);
    let mut log = Vec::new();
    while log.len() < 3 * n as usize {
        ctx.set_status(&log.len());
        let entry = select_biased! {
            price = calls.select_next_some() => match price {
                Ok(price) => {
                    if price % 3 == 0 {
                        calls.push(ctx.call(PRICE, &(price + 1)));
                    }
                    format!("price {price}")
                }
                Err(error) => format!("{error}"),
            },
            text = note => {
                note = ctx.event(NOTE);
                ctx.send_event(&peer, NOTE, &"seen".to_owned());
                format!("note {}", text?)
            }
            () = tick => {
                tick = ctx.sleep(Duration::from_secs(5));
                format!("tick {} {}", ctx.now().0, ctx.uuid())
            }
        };
        log.push(entry);
    }
    Ok(log)
}

/// Two calls race again and again; the loser goes on and loses to nobody.
async fn race(ctx: OrchestrationContext, n: u32) -> Result<Vec<String>> {
    let mut log = Vec::new();
    for round in 0..n {
        let mut first = ctx.call(PRICE, &(2 * round));
        let mut second = ctx.call(PRICE, &(2 * round + 1)).start();
        log.push(select_biased! {
            price = first => format!("first {}", price?),
            price = second => format!("second {}", price?),
            () = ctx.sleep(Duration::from_secs(9)).fuse() => "late".to_owned(),
        });
    }
    Ok(log)
}

/// Completes what is open in a random order and in random batches, until the orchestration ends.
fn complete_all(server: &mut Server, dice: &mut Dice, batch_max: usize) {
    while server.end.is_none() {
        let size = 1 + dice.below(batch_max.min(server.open.len()));
        let batch = (0..size).map(|_| any_answer(server, dice)).collect();
        server.deliver(batch);
    }
}

fn any_answer(server: &mut Server, dice: &mut Dice) -> HistoryEvent {
    let id = server.open[dice.below(server.open.len())].id;
    server.answer_of(id)
}

/// What may come in a batch: answers, failures, events, and answers that nobody waits for.
fn anything(server: &mut Server, dice: &mut Dice) -> HistoryEvent {
    let noise = server.open.is_empty() || dice.below(3) == 0;
    if !noise {
        let answer = any_answer(server, dice);
        return match event::answer(&answer) {
            Some(to) if to.kind == event::ScheduledKind::Task && dice.below(6) == 0 => {
                event::task_failed(0, to.id, failure("Down", to.id.to_string()))
            }
            _ => answer,
        };
    }
    let answers: Vec<_> = server.history.iter().filter(|event| event::answer(event).is_some()).collect();
    match dice.below(4) {
        0 if !answers.is_empty() => answers[dice.below(answers.len())].clone(),
        1 => event::task_completed(0, 100_000, Some("1".into())),
        2 => raised("Other", &1),
        _ => raised(["note", "NOTE", "Note"][dice.below(3)], &format!("n{}", server.turns)),
    }
}

#[test]
fn a_thousand_calls_joined_and_unordered() {
    for seed in 0..3 {
        let mut dice = Dice(seed);
        let mut server = Server::start(PRICES, ordered, &1_000);
        assert_eq!(server.open.len(), 1_000);
        complete_all(&mut server, &mut dice, 60);
        assert_eq!(server.output::<Vec<u32>>(), (0..1_000).collect::<Vec<_>>());

        let mut server = Server::start(PRICES, unordered, &1_000);
        complete_all(&mut server, &mut dice, 60);
        assert_eq!(server.output::<Vec<u32>>(), results(&server.history), "not the order of the history");
        assert_ne!(server.output::<Vec<u32>>(), (0..1_000).collect::<Vec<_>>(), "the order was not random");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn join_all_replays_in_any_order(n in 1_u32..80, seed: u64, batch in 1_usize..12) {
        let mut server = Server::start(PRICES, ordered, &n);
        complete_all(&mut server, &mut Dice(seed), batch);
        prop_assert_eq!(server.output::<Vec<u32>>(), (0..n).collect::<Vec<_>>());
    }

    #[test]
    fn try_join_all_replays_in_any_order(n in 1_u32..80, seed: u64, batch in 1_usize..12) {
        let mut server = Server::start(PRICES, all_or_nothing, &n);
        complete_all(&mut server, &mut Dice(seed), batch);
        prop_assert_eq!(server.output::<Vec<u32>>(), (0..n).collect::<Vec<_>>());
    }

    #[test]
    fn unordered_sees_the_order_of_the_history(n in 1_u32..80, seed: u64, batch in 1_usize..12) {
        let mut server = Server::start(PRICES, unordered, &n);
        complete_all(&mut server, &mut Dice(seed), batch);
        prop_assert_eq!(server.output::<Vec<u32>>(), results(&server.history));
    }

    #[test]
    fn select_replays_in_any_order(n in 1_u32..12, seed: u64, batch in 1_usize..8) {
        let mut dice = Dice(seed);
        let mut server = Server::start(LOG, race, &n);
        complete_all(&mut server, &mut dice, batch);
        prop_assert_eq!(server.output::<Vec<String>>().len(), n as usize);
    }

    #[test]
    fn everything_at_once_replays(n in 1_u32..16, seed: u64, batch in 1_usize..8) {
        let mut dice = Dice(seed);
        let mut server = Server::start(LOG, mixed, &n);
        let mut suspended = false;
        while server.end.is_none() {
            let size = 1 + dice.below(batch);
            let mut events: Vec<_> = (0..size).map(|_| anything(&mut server, &mut dice)).collect();
            if dice.below(4) == 0 {
                // Anywhere in the batch, and sometimes twice or for nothing.
                let control = if suspended == (dice.below(5) == 0) {
                    event::execution_suspended(0, None)
                } else {
                    event::execution_resumed(0, None)
                };
                suspended = matches!(control.event_type, Some(dauer_proto::EventType::ExecutionSuspended(_)));
                events.insert(dice.below(events.len() + 1), control);
            }
            server.deliver(events);
        }
        prop_assert_eq!(server.output::<Vec<String>>().len(), 3 * n as usize);
    }
}
