//! One program for all of these tests: each would be built and linked with everything that is tested.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking.

mod begun;
mod claims;
mod claims_schema;
mod clocks;
mod differential;
mod file;
mod foreign;
mod golden;
mod one_handle;
mod support;
mod tags;
mod tail;
mod two_handles;
mod waits;
