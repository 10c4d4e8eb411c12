//! The SQLite store: one file, any number of processes and handles, every acknowledged write durable.
//!
//! - [`SqliteStore::open`] opens or creates a file; [`SqliteStore::hub`] opens one of its hubs.
//! - All writes of a handle go through one thread, which joins what waits into one transaction (group commit) and
//!   answers after it is durable. Between processes a fair gate decides who writes next.
//! - Reads go through a second thread with its own connection and see every acknowledged write.
//! - [`Clock`] is the file's time. It never goes backwards, in any process.
//!
//! The map: `engine` is threads, groups and hints; `state` is the contract in SQL, one file per operation; `wire` has
//! the row formats; `open`, `schema` and `migrate` make and check the file; `gate` stands between processes; `life` tells
//! which of them are dead.

#[doc(hidden)]
pub mod bare;
mod engine;
mod fail;
mod gate;
mod hub;
mod life;
mod migrate;
mod open;
mod options;
mod schema;
mod session;
mod shell;
mod state;
mod store;
mod touched;
mod wire;

pub use dauer_store::{Clock, ManualClock, SystemClock};
pub use options::{Durability, Memory, OpenError, Options};
pub use store::SqliteStore;
