//! The model of the store contract: a store written from `dauer_store::rules`, with plain maps, one lock, and a full scan for
//! every question. It shares no code with the stores that it judges.
//!
//! ```text
//! store     hubs by name, the clock, the lock; wakes calls of `next` after each change
//! hub       the client's half: locks, asks the state, unlocks
//! session   the host's half, with its credit and the items that `next` has not returned
//! state/    the rules, one file for each subject
//! fault     a fault for one call
//! mistake   deliberate mistakes, with the feature `mistakes`
//! ```

mod fault;
mod hub;
mod mistake;
mod session;
mod state;
mod store;

pub use fault::{Call, Fault, Struck};
#[cfg(feature = "mistakes")]
pub use mistake::Mistake;
pub use store::Model;
