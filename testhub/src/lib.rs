//! **TestHub**: orchestrations in unit tests, with virtual time and without a runtime, a store or a wait.
//!
//! 1. [`TestHub`]: set it up with the answers of activities ([`Script`]) and the plans of the test, run an orchestration,
//!    ask what was called ([`Called`]), when, and what the history is;
//! 2. [`TestHub::complete_in_reverse`] and [`TestHub::shuffle`]: other orders in which the same things can happen;
//! 3. [`TestHub::fail_every_call`] and [`TestHub::crash_after_every_checkpoint`]: the same test with something going wrong at
//!    every step ([`Case`], [`Injected`]);
//! 4. `TestHub::replay`, with the feature `json`: exported histories against the code of today;
//! 5. [`TestError`]: what went wrong, in which line.
//!
//! Everything here is a function of its arguments. The turns are those of `dauer-core` and `dauer-replay`, as in every
//! hub; what is written here is the part of a store, for one run, in memory.

mod activity;
mod agenda;
mod error;
mod explore;
mod hub;
mod instance;
mod readable;
#[cfg(feature = "json")]
mod replay;
mod script;
mod setup;
mod text;
mod world;

pub use activity::Called;
pub use error::{Blocked, BlockedOn, TestError};
pub use explore::{Case, Injected};
pub use hub::TestHub;
pub use script::Script;
