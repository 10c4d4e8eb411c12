//! One program for all of these tests: each would be built and linked with everything that is tested.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking.

mod at_once;
mod at_rest;
mod cancel;
mod claims;
mod clocks;
mod control;
mod fusion;
mod host;
mod intake;
mod operators;
mod retention;
mod support;
mod suspects;
mod waits;
