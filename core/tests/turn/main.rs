//! The behaviours that the Durable Task SDKs expect of a server, and the semantics that dauer has fixed, as far as
//! they are a matter of the pure core. Each test is a short story with its outcome as text; see `support`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests say what they expect by failing")]

#[path = "../support/mod.rs"]
mod support;

mod actions;
mod amending;
mod assembly;
mod children;
mod continuing;
mod control;
mod endings;
mod entities;
mod events;
mod fusion;
mod limits;
mod random;
mod requests;
mod rewinding;
mod sending;
mod starts;
mod timers;
