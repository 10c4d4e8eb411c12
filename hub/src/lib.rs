//! The running hub.
//!
//! A [`Host`] claims turns and activities from a store, has an [`Executor`] run them, and commits. The data flows
//! through these files: `turns` claims and commits, `turn` takes one turn (load, begin, execute, finish),
//! `activities` runs tasks, `renewal` keeps the session alive, `cache` remembers what the next turn needs.
//!
//! Nothing here knows a runtime: time, chance and concurrency come through [`dauer_store::Env`].

mod activities;
mod backoff;
mod cache;
mod client;
mod demand;
mod executor;
mod host;
mod options;
mod renewal;
mod session;
mod turn;
mod turns;
mod watch;

pub use client::{Client, ClientError};
pub use executor::{Executor, Live, Past, TurnDone, TurnWork};
pub use host::Host;
pub use options::{HostOptions, TroublePolicy};
