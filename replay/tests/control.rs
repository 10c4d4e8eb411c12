//! Suspend, resume, terminate, continue as new, and the end.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use dauer_proto::{ActionType, HistoryEvent, OrchestrationStatus, event};
use dauer_replay::{
    Activity, Answer, Awaited, Event, Live, Orchestration, OrchestrationContext, Program, Registry, Result,
    TurnError,
};

use crate::support::{Server, activities, end_of, first, raised, registry, started};

const PRICE: Activity<u32, u32> = Activity::new("price");
const SHIP: Activity<u32, u32> = Activity::new("ship");
const GO: Event<u32> = Event::new("go");
const SHOP: Orchestration<u32, Vec<u32>> = Orchestration::new("shop");

async fn two_calls(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
    ctx.set_status("pricing");
    let price = ctx.call(PRICE, &n).await?;
    ctx.set_status("shipping");
    let ship = ctx.call(SHIP, &(price + 1)).await?;
    Ok(vec![price, ship])
}

fn suspended() -> HistoryEvent {
    event::execution_suspended(0, Some("lunch".into()))
}

fn resumed() -> HistoryEvent {
    event::execution_resumed(0, None)
}

fn only_end(answer: &Answer) -> (OrchestrationStatus, Option<String>) {
    let [action] = answer.actions.as_slice() else { panic!("not one action: {answer:?}") };
    let end = end_of(action).unwrap();
    (end.orchestration_status(), end.result.clone())
}

#[test]
fn while_suspended_nothing_runs_and_nothing_is_lost() {
    let mut server = Server::start(SHOP, two_calls, &1);
    assert_eq!(server.deliver(vec![suspended()]).actions, []);
    let answer = server.complete(0);
    assert_eq!(answer.actions, []);
    assert_eq!(answer.custom_status.as_deref(), Some("\"pricing\""));
    assert_eq!(server.deliver(vec![raised("go", &1)]).actions, []);
    let answer = server.deliver(vec![resumed()]);
    assert_eq!(activities(&answer), [(1, "ship".into())]);
    assert_eq!(answer.custom_status.as_deref(), Some("\"shipping\""));
    server.complete(1);
    assert_eq!(server.output::<Vec<u32>>(), [1, 2]);
}

/// What came before the suspend in the same batch counts; what came after it waits.
#[test]
fn a_suspend_takes_effect_where_it_stands() {
    let mut server = Server::start(SHOP, two_calls, &1);
    let done = server.answer_of(0);
    let answer = server.deliver(vec![done, suspended()]);
    assert_eq!(activities(&answer), [(1, "ship".into())]);
    assert_eq!(server.complete(1).actions, []);
    assert_eq!(server.deliver(vec![suspended()]).actions, []);
    server.deliver(vec![resumed()]);
    assert_eq!(server.output::<Vec<u32>>(), [1, 2]);
}

#[test]
fn resumed_events_come_in_their_order() {
    async fn three(ctx: OrchestrationContext, _: u32) -> Result<Vec<u32>> {
        Ok(vec![ctx.event(GO).await?, ctx.event(GO).await?, ctx.event(GO).await?])
    }
    let mut server = Server::start(SHOP, three, &1);
    server.deliver(vec![suspended(), raised("go", &1), raised("go", &2)]);
    server.deliver(vec![resumed(), raised("go", &3)]);
    assert_eq!(server.output::<Vec<u32>>(), [1, 2, 3]);
}

/// Suspended before it began: the code begins when it is resumed.
#[test]
fn a_start_can_be_held_back() {
    let mut server = Server::new(registry(SHOP, two_calls));
    let answer = server.deliver(vec![suspended(), started("shop", &1)]);
    assert_eq!(answer, Answer::default());
    assert_eq!(activities(&server.deliver(vec![resumed()])), [(0, "price".into())]);
}

#[test]
fn a_termination_is_answered_without_running_code() {
    let mut server = Server::start(SHOP, two_calls, &1);
    let done = server.answer_of(0);
    // The answer before it would make the code go on.
    let answer = server.deliver(vec![done, event::execution_terminated(0, Some("\"why\"".into()), false)]);
    assert_eq!(only_end(&answer), (OrchestrationStatus::Terminated, Some("\"why\"".into())));
    assert_eq!(answer.actions[0].id, 1);
    assert_eq!(live_answer(&mut server, vec![raised("go", &1)]), Answer::default());
}

/// Also the end has a number: the one after all that the code has asked for.
#[test]
fn an_end_takes_the_next_id() {
    async fn at_once(_: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
        Ok(vec![n])
    }
    let program = Program::new(SHOP, at_once);
    let (_, answer) = Live::start_program(&program, &[], &first("shop", &1)).unwrap();
    assert_eq!(answer.actions[0].id, 0);

    let mut server = Server::start(SHOP, two_calls, &1);
    server.complete(0);
    let before = server.history.clone();
    let answer = server.complete(1);
    assert_eq!(answer.actions[0].id, 2);

    // A termination takes the same, whether the code is there or only its history.
    let stop = event::execution_terminated(0, None, false);
    let (_, answer) = Live::start(&Registry::new(), &before, std::slice::from_ref(&stop)).unwrap();
    assert_eq!(answer.actions[0].id, 2);
    let mut begun = first("shop", &1);
    begun.push(stop);
    let (_, answer) = Live::start(&Registry::new(), &[], &begun).unwrap();
    assert_eq!(answer.actions[0].id, 0);
}

#[test]
fn a_termination_passes_a_suspend() {
    let mut server = Server::start(SHOP, two_calls, &1);
    server.deliver(vec![suspended()]);
    let answer = server.deliver(vec![event::execution_terminated(0, None, true)]);
    assert_eq!(only_end(&answer), (OrchestrationStatus::Terminated, None));
}

#[test]
fn a_termination_needs_no_code() {
    let terminated = event::execution_terminated(0, Some("1".into()), false);
    let mut new = first("nobody knows", &1);
    new.push(terminated.clone());
    let (mut live, answer) = Live::start(&Registry::new(), &[], &new).unwrap();
    assert_eq!(only_end(&answer), (OrchestrationStatus::Terminated, Some("1".into())));
    assert!(live.is_finished());
    assert_eq!(live.turn(&[raised("go", &1)]).unwrap(), Answer::default());

    async fn changed(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
        Ok(vec![ctx.call(SHIP, &n).await?])
    }
    let changed = registry(SHOP, changed);
    let server = Server::start(SHOP, two_calls, &1);
    let mismatch = Live::start(&changed, &server.history, &[]);
    assert!(matches!(mismatch, Err(TurnError::Mismatch { .. })));
    let (_, answer) = Live::start(&changed, &server.history, &[terminated]).unwrap();
    assert_eq!(only_end(&answer).0, OrchestrationStatus::Terminated);
    assert_eq!(answer.actions[0].id, 1, "the id after those that the history has");
}

async fn rounds(ctx: OrchestrationContext, n: u32) -> Result<ControlFlow<Vec<u32>, u32>> {
    let go = ctx.event(GO).await?;
    Ok(if n < 10 { ControlFlow::Continue(n + go) } else { ControlFlow::Break(vec![n, go]) })
}

#[test]
fn continue_as_new_carries_unread_events_over_in_order() {
    let mut server = Server::start(SHOP, rounds, &1);
    let unread = [raised("other", &1), raised("GO", &8), raised("Another", &2), raised("go", &9)];
    let mut batch = vec![unread[0].clone(), raised("Go", &5)];
    // The code ends with the event above; what follows in the same batch is unread, too.
    batch.extend_from_slice(&unread[1..]);
    let answer = server.deliver(batch);
    assert_eq!(only_end(&answer), (OrchestrationStatus::ContinuedAsNew, Some("6".into())));
    assert_eq!(end_of(&answer.actions[0]).unwrap().carryover_events, unread);
}

#[test]
fn a_looping_orchestration_ends_with_break() {
    let mut server = Server::start(SHOP, rounds, &10);
    server.deliver(vec![raised("go", &5), raised("go", &6)]);
    assert_eq!(server.output::<Vec<u32>>(), [10, 5]);
    assert_eq!(server.end.unwrap().carryover_events, [], "only continue-as-new carries over");
}

/// An event that was given to a future nobody polled again is unread.
#[test]
fn an_event_given_but_not_read_is_carried_over() {
    async fn ignores(ctx: OrchestrationContext, n: u32) -> Result<ControlFlow<Vec<u32>, u32>> {
        let mut go = ctx.event(GO);
        assert!(futures::poll!(&mut go).is_pending());
        ctx.call(PRICE, &n).await?;
        Ok(ControlFlow::Continue(n))
    }
    let mut server = Server::start(SHOP, ignores, &1);
    server.deliver(vec![raised("go", &5)]);
    let answer = server.complete(0);
    assert_eq!(end_of(&answer.actions[0]).unwrap().carryover_events, [raised("go", &5)]);
}

/// Also when the future is never dropped.
#[test]
fn an_event_given_to_a_leaked_future_is_carried_over() {
    async fn leaks(ctx: OrchestrationContext, n: u32) -> Result<ControlFlow<Vec<u32>, u32>> {
        let mut go = ctx.event(GO);
        assert!(futures::poll!(&mut go).is_pending());
        std::mem::forget(go);
        ctx.call(PRICE, &n).await?;
        Ok(ControlFlow::Continue(n))
    }
    let mut server = Server::start(SHOP, leaks, &1);
    server.deliver(vec![raised("go", &5), raised("go", &6)]);
    let answer = server.complete(0);
    assert_eq!(end_of(&answer.actions[0]).unwrap().carryover_events, [raised("go", &5), raised("go", &6)]);
}

#[test]
fn actions_nobody_awaits_are_in_the_last_answer() {
    async fn leaves(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
        ctx.call(SHIP, &n).start();
        ctx.send_event(ctx.instance(), GO, &n);
        ctx.call(PRICE, &n).tag("a", "b").start();
        Ok(vec![])
    }
    let server = Server::start(SHOP, leaves, &1);
    assert_eq!(server.open.iter().map(|action| action.id).collect::<Vec<_>>(), [0, 2]);
    let Some(ActionType::ScheduleTask(task)) = &server.open[1].orchestrator_action_type else { panic!() };
    assert_eq!(task.tags, [("a".to_owned(), "b".to_owned())].into());
    assert_eq!(server.output::<Vec<u32>>(), [] as [u32; 0]);
}

#[test]
fn after_the_end_everything_is_ignored() {
    let mut server = Server::start(SHOP, two_calls, &1);
    server.complete(0);
    server.complete(1);
    let rest = vec![
        suspended(),
        raised("go", &1),
        event::task_completed(0, 1, Some("9".into())),
        resumed(),
        event::timer_fired(0, 77, dauer_proto::time::from_millis(1)),
    ];
    assert_eq!(live_answer(&mut server, rest).actions, []);
}

/// The replay of an ended history repeats the end, so here only the live side is asked.
fn live_answer(server: &mut Server, events: Vec<HistoryEvent>) -> Answer {
    server.live.as_mut().unwrap().turn(&events).unwrap()
}

#[test]
fn events_before_the_start_are_kept() {
    let mut server = Server::new(registry(SHOP, rounds));
    server.deliver(vec![raised("go", &5), started("shop", &10)]);
    assert_eq!(server.output::<Vec<u32>>(), [10, 5]);
}

#[test]
fn unknown_kinds_and_repeated_starts_are_ignored() {
    let mut server = Server::start(SHOP, two_calls, &1);
    let unknown = HistoryEvent { event_type: None, ..event::orchestrator_started(0) };
    let noise = event::new(0, -1, dauer_proto::EventType::GenericEvent(Default::default()));
    let done = server.answer_of(0);
    let answer = server.deliver(vec![unknown, started("shop", &1), noise, done.clone(), done]);
    assert_eq!(activities(&answer), [(1, "ship".into())]);
}

/// Tasks by their ids, then events; each with its own line.
#[test]
fn between_two_turns_it_says_what_it_waits_for_and_where() {
    async fn waits(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
        let first = line!() + 1;
        let event = ctx.event(GO);
        let call = ctx.call(PRICE, &n);
        let (event, price) = futures::future::join(event, call).await;
        Ok(vec![first, event?, price?])
    }
    let registry = registry(SHOP, waits);
    let (mut live, _) = Live::start(&registry, &[], &first("shop", &1)).unwrap();
    let waits: Vec<_> = live.awaits().into_iter().map(|wait| (wait.what, wait.location.line())).collect();
    let [(Awaited::Task(0), call), (Awaited::Event(name), event)] = waits.as_slice() else {
        panic!("{waits:?}")
    };
    assert_eq!((name.as_str(), *call), ("go", event + 1));
    live.turn(&[event::task_completed(0, 0, Some("7".into()))]).unwrap();
    assert_eq!(live.awaits().len(), 1);
    let answer = live.turn(&[raised("go", &8)]).unwrap();
    assert_eq!(only_end(&answer).1, Some(format!("[{event},8,7]")));
    assert_eq!(live.awaits(), []);
}
