//! The store conformance suite: every rule of the contract (`dauer_store::rules`) as a test, for every store.
//!
//! A store brings a [`Fixture`] and one line in its tests:
//!
//! ```text
//! dauer_conformance::suite!(MyFixture::new(), dauer_conformance::bounded);
//! ```
//!
//! which becomes one `#[test]` for each rule. The second argument runs a rule: [`bounded`] for a store that answers
//! without I/O, a function around a runtime for others. There are no capability flags: a store passes all rules or
//! is not finished. `dauer-model` tests the suite itself: a store with any one deliberate mistake fails exactly the rule
//! it breaks.

// A suite fails by panicking, as tests do.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod fixture;
mod hands;
mod list;
pub mod lockstep;
mod message;
pub mod rules;
mod run;
mod session;
mod snapshot;
mod step;
mod world;

pub use fixture::{Call, Fault, FaultPlan, Fixture, Hub};
pub use list::{RULES, Rule};
pub use run::{POLLS_MAX, bounded, rule_name};
pub use session::{GiveBack, Session, Waits, tasks, turns};
pub use snapshot::Snapshot;
pub use step::Step;
pub use world::{HOUR, LEASE, PAST_LEASE, World, instance};
