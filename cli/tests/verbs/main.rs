//! The verbs on a store, as a user runs them: the built command against files in which real orchestrations ran.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

mod bad_input;
mod get;
mod help;
mod hubs;
mod list;
mod output;
mod purge;
mod restart;
mod retry;
mod send;
mod start;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod unknown;
mod watch;
mod world;
