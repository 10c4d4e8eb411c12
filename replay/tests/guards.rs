//! Code that cannot be replayed is reported at once, with the line where that can be known.

#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use dauer_proto::event;
use dauer_replay::{Activity, Event, Live, Orchestration, OrchestrationContext, Program, Result, TurnError};
use futures::FutureExt;

use crate::support::{Server, assert_place, first, first_error, raised, registry, started};

const PRICE: Activity<u32, u32> = Activity::new("price");
const GO: Event<u32> = Event::new("go");
const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");

async fn price(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(PRICE, &n).await?)
}

#[test]
fn a_wait_that_is_not_durable_is_reported_at_once() {
    async fn forever(_: OrchestrationContext, _: u32) -> Result<u32> {
        Ok(pending().await)
    }
    async fn channel(_: OrchestrationContext, _: u32) -> Result<u32> {
        let (_sender, receiver) = futures::channel::oneshot::channel::<u32>();
        Ok(receiver.await?)
    }
    async fn abandoned(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        drop(ctx.call(PRICE, &n).start());
        let mut event = ctx.event(GO);
        assert!(futures::poll!(&mut event).is_pending());
        drop(event);
        Ok(pending().await)
    }
    let line = line!() - 6;
    let error = first_error(SHOP, forever, &1);
    assert!(
        matches!(&error, TurnError::NotDurable { instance, after: None } if instance.as_str() == "order-1")
    );
    assert!(error.to_string().contains("instance 'order-1' awaits something that is not durable"), "{error}");
    assert!(matches!(first_error(SHOP, channel, &1), TurnError::NotDurable { after: None, .. }));
    match first_error(SHOP, abandoned, &1) {
        TurnError::NotDurable { after: Some(place), .. } => assert_place(place, line),
        error => panic!("{error}"),
    }
}

/// With tokio's own timer, inside its own runtime: no hang, no waiting.
#[test]
#[allow(clippy::disallowed_methods)] // what users must not do is done here
fn a_tokio_timer_is_reported_at_once() {
    async fn sleeps(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let price = ctx.call(PRICE, &n).await?;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        Ok(price)
    }
    let line = line!() - 4;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let error = runtime.block_on(async {
        let mut server = Server::start(SHOP, sleeps, &1);
        let answer = server.answer_of(0);
        server.try_deliver(vec![answer]).unwrap_err()
    });
    let TurnError::NotDurable { after: Some(place), .. } = error else { panic!("{error}") };
    assert_place(place, line);
}

/// A channel is fine as long as both ends are inside.
#[test]
fn a_channel_inside_is_no_foreigner() {
    async fn relay(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let (sender, receiver) = futures::channel::oneshot::channel();
        let producer = async {
            let price = ctx.call(PRICE, &n).await;
            let _ = sender.send(price);
        };
        let ((), price) = futures::join!(producer, receiver);
        Ok(price??)
    }
    let mut server = Server::start(SHOP, relay, &7);
    server.complete(0);
    assert_eq!(server.output::<u32>(), 7);
}

/// Hands its waker out and waits durably, too.
fn leaks_waker(slot: Arc<Mutex<Option<Waker>>>) -> Program {
    Program::new(SHOP, move |ctx: OrchestrationContext, n: u32| {
        let slot = Arc::clone(&slot);
        async move {
            futures::future::poll_fn(|cx| {
                *slot.lock().unwrap() = Some(cx.waker().clone());
                Poll::Ready(())
            })
            .await;
            Ok(ctx.call(PRICE, &n).await?)
        }
    })
}

#[test]
fn a_wake_between_turns_is_reported() {
    let slot = Arc::default();
    let program = leaks_waker(Arc::clone(&slot));
    let (mut live, _) = Live::start_program(&program, &[], &first("shop", &1)).unwrap();
    slot.lock().unwrap().take().unwrap().wake();
    let error = live.turn(&[event::orchestrator_started(2_000)]).unwrap_err();
    assert!(matches!(error, TurnError::ForeignWake { .. }), "{error}");
    let error = live.turn(&[event::orchestrator_started(3_000)]).unwrap_err();
    assert!(matches!(error, TurnError::Poisoned), "{error}");
}

#[test]
#[allow(clippy::disallowed_methods)] // what users must not do is done here
fn a_wake_by_another_thread_is_reported() {
    async fn threads(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let (sender, mut receiver) = futures::channel::oneshot::channel::<u32>();
        assert!(futures::poll!(&mut receiver).is_pending());
        std::thread::spawn(move || sender.send(1)).join().unwrap().unwrap();
        Ok(ctx.call(PRICE, &n).await? + receiver.await?)
    }
    let error = first_error(SHOP, threads, &1);
    assert!(matches!(error, TurnError::ForeignWake { .. }), "{error}");
}

#[test]
#[allow(clippy::disallowed_methods)] // what users must not do is done here
fn a_context_used_by_another_thread_is_reported_with_its_line() {
    async fn threads(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let other = ctx.clone();
        std::thread::spawn(move || drop(other.call(PRICE, &n).start())).join().unwrap();
        Ok(ctx.call(PRICE, &n).await?)
    }
    let line = line!() - 3;
    match first_error(SHOP, threads, &1) {
        TurnError::ForeignUse { location } => assert_place(location, line),
        error => panic!("{error}"),
    }
}

#[test]
fn waking_oneself_for_ever_is_reported() {
    async fn spins(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let call = ctx.call(PRICE, &n).start();
        futures::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        })
        .await;
        Ok(call.await?)
    }
    let error = first_error(SHOP, spins, &1);
    assert!(matches!(error, TurnError::PollLimit { .. }), "{error}");
    assert!(error.to_string().contains("10000 times for one event, after its durable step at "), "{error}");
}

#[test]
fn waking_oneself_a_few_times_is_fine() {
    async fn yields(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let mut left = 9_000;
        futures::future::poll_fn(|cx| {
            left -= 1;
            cx.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok(ctx.call(PRICE, &n).await?)
    }
    // Nothing durable is waited for while it yields, but it is awake.
    let mut server = Server::start(SHOP, yields, &3);
    server.complete(0);
    assert_eq!(server.output::<u32>(), 3);
}

#[test]
fn a_panic_is_caught_and_poisons() {
    async fn panics(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let price = ctx.call(PRICE, &n).await?;
        assert_eq!(price, 5, "the price is wrong");
        Ok(price)
    }
    let line = line!() - 4;
    let registry = registry(SHOP, panics);
    let (mut live, _) = Live::start(&registry, &[], &first("shop", &1)).unwrap();
    match live.turn(&[event::task_completed(0, 0, Some("1".into()))]) {
        Err(TurnError::Panic { message, after: Some(place), .. }) => {
            assert!(message.contains("the price is wrong"), "{message}");
            assert_place(place, line);
        }
        other => panic!("{other:?}"),
    }
    assert!(!live.is_finished());
    assert!(matches!(live.turn(&[]), Err(TurnError::Poisoned)));
}

/// Also before the first await, and in the drop of what the code leaves behind.
#[test]
fn a_panic_is_caught_wherever_it_is() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("boom");
        }
    }
    #[allow(clippy::manual_async_fn)]
    fn at_once(_: OrchestrationContext, n: u32) -> impl Future<Output = Result<u32>> + Send {
        assert_ne!(n, 1, "at once");
        async { Ok(1) }
    }
    async fn holds(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let _bomb = Bomb;
        Ok(ctx.call(PRICE, &n).await?)
    }
    async fn throws(_: OrchestrationContext, _: u32) -> Result<u32> {
        std::panic::panic_any(Bomb)
    }
    let error = first_error(SHOP, at_once, &1);
    assert!(matches!(&error, TurnError::Panic { message, .. } if message.contains("at once")), "{error}");
    let error = first_error(SHOP, throws, &1);
    assert!(matches!(&error, TurnError::Panic { message, .. } if message.contains("no message")), "{error}");
    let (live, _) = Live::start(&registry(SHOP, holds), &[], &first("shop", &1)).unwrap();
    drop(live);
}

/// A waker of the user's own making that panics when the answer arrives.
#[test]
fn a_panic_of_a_waker_is_caught() {
    struct Bad;
    impl std::task::Wake for Bad {
        fn wake(self: Arc<Self>) {
            panic!("woken");
        }
    }
    async fn polls(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let mut call = ctx.call(PRICE, &n);
        let bad = Waker::from(Arc::new(Bad));
        assert!(call.poll_unpin(&mut std::task::Context::from_waker(&bad)).is_pending());
        Ok(ctx.event(GO).await?)
    }
    let (mut live, _) = Live::start(&registry(SHOP, polls), &[], &first("shop", &1)).unwrap();
    let error = live.turn(&[event::task_completed(0, 0, Some("1".into()))]).unwrap_err();
    assert!(matches!(&error, TurnError::Panic { message, .. } if message == "woken"), "{error}");
}

/// A context that was leaked cannot spoil an end that is answered.
#[test]
fn after_the_end_the_context_is_dead() {
    let slot: Arc<Mutex<Option<OrchestrationContext>>> = Arc::default();
    let leak = Arc::clone(&slot);
    let program = Program::new(SHOP, move |ctx: OrchestrationContext, n: u32| {
        *leak.lock().unwrap() = Some(ctx);
        async move { Ok(n) }
    });
    let (mut live, answer) = Live::start_program(&program, &[], &first("shop", &1)).unwrap();
    assert_eq!(answer.actions.len(), 1);
    let ctx = slot.lock().unwrap().take().unwrap();
    ctx.call(PRICE, &1).start();
    assert_eq!(live.turn(&[raised("go", &1)]).unwrap().actions, []);
}

#[test]
fn polling_what_is_ready_names_the_line() {
    async fn twice(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let mut event = ctx.event(GO);
        (&mut event).await?;
        Ok(event.await? + n)
    }
    let line = line!() - 4;
    let new = [event::orchestrator_started(1), raised("go", &1), started("shop", &1)];
    let error = Live::start(&registry(SHOP, twice), &[], &new).unwrap_err();
    let text = format!("{}:{line}:29: a durable future was polled after it was ready", file!());
    assert!(error.to_string().ends_with(&text), "{error}");
}

/// What a foreign waker does after the orchestration is gone concerns nobody.
#[test]
fn a_waker_outlives_its_orchestration() {
    let slot = Arc::default();
    let (live, _) = Live::start_program(&leaks_waker(Arc::clone(&slot)), &[], &first("shop", &1)).unwrap();
    let waker: Waker = slot.lock().unwrap().take().unwrap();
    drop(live);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            waker.wake();
            sender.send(()).unwrap();
        });
    });
    receiver.recv().unwrap();
}

#[test]
fn a_live_orchestration_moves_between_threads() {
    fn is_send<T: Send>() {}
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send::<Live>();
    is_send_and_sync::<OrchestrationContext>();
    is_send_and_sync::<TurnError>();
    let (mut live, _) = Live::start(&registry(SHOP, price), &[], &first("shop", &1)).unwrap();
    let answer = std::thread::scope(|scope| {
        let turn = move || live.turn(&[event::task_completed(0, 0, Some("4".into()))]);
        scope.spawn(turn).join().unwrap()
    });
    let end = crate::support::end_of(&answer.unwrap().actions[0]).unwrap().result.clone();
    assert_eq!(end.as_deref(), Some("4"));
}

#[test]
fn a_race_against_something_foreign_goes_on_while_the_durable_side_lives() {
    async fn races(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        futures::select_biased! {
            price = ctx.call(PRICE, &n) => Ok(price?),
            never = pending::<u32>().fuse() => Ok(never),
        }
    }
    let mut server = Server::start(SHOP, races, &6);
    server.complete(0);
    assert_eq!(server.output::<u32>(), 6);
}
