//! One program for all of these tests: each would be built and linked with everything that is tested.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking.

mod calls;
mod combinators;
mod control;
mod events;
mod guards;
mod mismatch;
mod payloads;
mod registry;
mod retries;
mod support;
