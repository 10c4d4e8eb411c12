//! One program for all of these tests: each would be built and linked with everything that is tested.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking.

mod cancellation;
mod claims;
mod client;
mod codec;
mod combinators;
mod end_to_end;
mod examples;
mod fan_out;
mod file;
mod operators;
mod queries;
mod support;
mod timers;
mod trouble;
mod unknown;
mod versions;
