//! One program for all of these tests: each would be built and linked with everything that is tested.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A test fails by panicking.

mod activities;
mod codec;
mod explore;
mod families;
#[cfg(feature = "json")]
mod mistakes;
mod orders;
#[cfg(feature = "json")]
mod parity;
#[cfg(feature = "json")]
mod replay;
mod time;
