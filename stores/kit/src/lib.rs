//! The rule book of the stores: the bytes of stored values, and the decisions of the store contract.
//!
//! The crate is a library that stores call. It has no I/O, no clock, no runtime, and no trait that a store implements.
//!
//! - [`calls`] keeps what each session may win and has won, and waits for it.
//! - [`codec`] writes and reads the bytes of records, messages, tasks, trails and last commits.
//! - [`hints`] keeps hints for listeners.
//! - [`inbox`] selects the messages of a turn, and those that the end of a run drops.
//! - [`instance`] checks and applies all that can happen to one instance.
//! - [`judge`] decides: about deliveries, creations, releases, limits, and the fields of a record that a store sets.
//! - [`partition`] is a set of instances in memory, with its indexes.
//! - [`session`] says who lives, may act and may claim.

#[macro_use]
pub mod planted;

pub mod calls;
pub mod codec;
mod few;
pub mod hints;
pub mod inbox;
pub mod instance;
pub mod judge;
pub mod partition;
pub mod session;
