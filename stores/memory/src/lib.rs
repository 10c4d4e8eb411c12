//! The memory store: the reference for the store contract, and the store of the simulator.
//!
//! A pure state machine (one `state::State` per hub, one file per operation) beneath a thin asynchronous shell that
//! applies faults. Everything is deterministic: the same calls at the same times leave the same dump.
//!
//! - [`MemoryStore`] holds any number of hubs; [`MemoryStore::hub`] opens one.
//! - [`Clock`] is the store's time: [`ManualClock`] for tests and simulation, [`SystemClock`] for real hosts.
//! - [`FaultPlan`] decides for every call whether it fails, is slow or is executed twice.
//! - `Defect` (feature `defects`) breaks one rule of the contract at a time, to test the conformance suite itself.
//!
//! Nothing survives the process: durability is what this store deliberately does not have.

mod defect;
mod fault;
mod hub;
mod session;
mod shell;
mod state;
mod store;

pub use dauer_store::{Clock, ManualClock, SystemClock};
#[cfg(feature = "defects")]
pub use defect::Defect;
pub use fault::{Call, Fault, FaultPlan, HintFault};
pub use hub::MemoryHub;
pub use session::MemorySession;
pub use store::MemoryStore;
