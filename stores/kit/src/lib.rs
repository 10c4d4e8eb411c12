//! The rule book of the stores: the bytes of stored values, and the decisions of the store contract.
//!
//! The crate is a library that stores call. It has no I/O, no clock, no runtime, and no trait that a store implements.
//!
//! - [`codec`] writes and reads the bytes of records, messages, tasks, trails and last commits.

pub mod codec;
