//! Running a rule: the name it has, and a bound for stores that answer without waiting.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;

/// How often a rule is polled. A store that needs no I/O answers at the first poll, so that even a withheld answer
/// costs a handful; beyond this the rule waits for something that never comes.
pub const POLLS_MAX: usize = 10_000;

/// Runs a rule on a store that needs no runtime: polls it, again and again, up to [`POLLS_MAX`] times.
///
/// # Panics
/// When the rule panics, or is not finished by then.
pub fn bounded(rule: BoxFuture<'_, ()>) {
    let mut rule = pin!(rule);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..POLLS_MAX {
        if let Poll::Ready(()) = rule.as_mut().poll(&mut context) {
            return;
        }
    }
    panic!("the rule is still waiting after {POLLS_MAX} polls: an answer never came");
}

/// The name of the rule that a type name belongs to: the first path segment like `r02b_…`.
///
/// # Panics
/// When there is none, so that a rule cannot be called anything else.
#[must_use]
pub fn rule_name(type_name: &'static str) -> &'static str {
    let is_rule = |segment: &&str| {
        let mut characters = segment.chars();
        characters.next() == Some('r') && characters.next().is_some_and(|c| c.is_ascii_digit())
    };
    match type_name.split("::").find(is_rule) {
        Some(name) => name,
        None => panic!("{type_name} is not inside a function named like r02b_what_it_shows"),
    }
}

/// Opens the world of the rule it is called in, under that rule's own name.
macro_rules! open {
    ($fixture:expr) => {
        $crate::world::World::open($fixture, $crate::run::rule_name(std::any::type_name_of_val(&|| ()))).await
    };
}
pub(crate) use open;
