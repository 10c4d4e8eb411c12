//! The rule book of the stores: the bytes of stored values, and the decisions of the store contract.
//!
//! The crate is a library that stores call. It has no I/O, no clock, no runtime, and no trait that a store implements.
//!
//! - [`codec`] writes and reads the bytes of records, messages, tasks, trails and last commits.
//! - [`inbox`] selects the messages of a turn, and those that the end of a run drops.
//! - [`judge`] decides: about deliveries, creations, releases, limits, and the fields of a record that a store sets.
//! - [`session`] says who lives, may act and may claim.

pub mod codec;
pub mod inbox;
pub mod judge;
pub mod session;
