//! Rule 14, limits: what the store says it takes it takes, and more is refused by name.

use std::iter::repeat_n;
use std::time::Duration;

use dauer_proto::event;
use dauer_store::{Encoded, Limit, Message, Refused, Reuse};

use crate::run::open;
use crate::world::World;
use crate::{Fixture, Step};

/// Beyond each of its limits the store refuses with `TooLarge`, naming the limit, and nothing changes; at the limit
/// it does not.
pub async fn r14a_beyond_a_limit_is_refused_by_name(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let limits = w.manage().limits();
    let before = w.snapshot().await;

    let bytes = usize::try_from(limits.message_bytes).expect("a message fits into memory");
    let large = Message { event: event_of(bytes + 1), ..w.event_to("order") };
    refused(&w, w.try_send(large).await, limits.message_bytes);
    let large = Message { event: event_of(bytes + 1), ..w.start_message("large") };
    refused(&w, w.create(large, Reuse::default()).await, limits.message_bytes);
    let beyond = limits.delay + Duration::from_secs(3600);
    let late = Message { visible_at: w.at(beyond), ..w.event_to("order") };
    let result = w.try_send(late).await;
    w.check(matches!(result, Err(Refused::TooLarge(_))), "a message too far ahead is too large");
    w.same(&w.snapshot().await, &before, "what is refused changes nothing");

    let largest = Message { event: event_of(bytes), ..w.event_to("order") };
    w.deliver(largest).await;
    let session = w.session().await;
    let turn = session.turn().await;
    let count = usize::try_from(limits.checkpoint_items).expect("a checkpoint fits into memory") + 1;
    // Tasks, timers and messages count together, and no one of them alone is too many.
    let (tasks, timers) = (count / 2, count / 4);
    let many = Step::of(&turn)
        .tasks(repeat_n(w.task(&turn, "pay"), tasks))
        .timers(repeat_n(w.timer(&turn, w.began), timers))
        .messages(repeat_n(w.event_to("order"), count - tasks - timers));
    let found = refused(&w, session.try_commit(many).await, limits.checkpoint_items);
    w.same(&found, &(limits.checkpoint_items + 1), "every task, timer and message is counted once");
    // The largest messages there may be, one more than fit. They share their bytes, so that this costs nothing here.
    let count = limits.checkpoint_bytes / limits.message_bytes + 1;
    let largest = Message { event: event_of(bytes), ..w.event_to("order") };
    let heavy = Step::of(&turn).messages((0..count).map(|_| largest.clone()));
    refused(&w, session.try_commit(heavy).await, limits.checkpoint_bytes);
    session.commit(Step::of(&turn)).await;
}

/// An amendment that names an applied message is told that there is nothing left to do, however large it is.
pub async fn r14b_a_repeat_is_told_before_a_limit(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let applied = w.event_to("order");
    w.deliver(applied.clone()).await;
    w.run(Step::of).await;
    let turn = w.unclaimed("order", vec![applied]).await;
    let bytes = usize::try_from(w.manage().limits().message_bytes).expect("a message fits into memory");
    let large = Message { event: event_of(bytes + 1), ..w.event_to("order") };
    let amended = w.manage().amend(Step::of(&turn).messages([large]).into()).await;
    w.check(matches!(amended, Err(Refused::Repeat)), &format!("it was applied before: {amended:?}"));
}

/// An event whose encoding has exactly so many bytes.
fn event_of(bytes: usize) -> Encoded {
    let sized = |input: usize| Encoded::new(&event::event_raised(0, "large", Some("x".repeat(input))));
    // The length of the input is itself encoded, in a few bytes more the longer it is: one correction is exact.
    let mut input = bytes - sized(bytes).len().saturating_sub(bytes).min(bytes);
    while sized(input).len() > bytes {
        input -= 1;
    }
    sized(input)
}

/// Checks that the store refused what is beyond that limit, and gives what the store found.
#[track_caller]
fn refused<T>(w: &World<'_>, result: Result<T, Refused>, limit: u64) -> u64 {
    let Err(Refused::TooLarge(Limit { name, found, allowed })) = result else {
        panic!("{}: beyond {limit} should be too large", w.rule);
    };
    w.check(!name.is_empty(), "the limit has a name");
    w.same(&allowed, &limit, "the limit is the one the store told");
    w.check(found > limit, "the store tells how much it was");
    found
}
