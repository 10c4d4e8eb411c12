//! The memory store: one partition of the store kit for each hub, each behind a lock.
//!
//! The rules are in `dauer_store_kit::partition`. Here is what is around them: hubs by name, the clock, the sessions of a
//! handle, and the waking of those who wait. Everything is deterministic: the same calls at the same times leave the same dump.
//!
//! - [`MemoryStore`] contains any number of hubs; [`MemoryStore::hub`] opens one.
//! - [`MemoryStore::handle`] is another handle on the same store, as another process would have one.
//! - [`Clock`] is the store's time: [`ManualClock`] for tests and simulation, [`SystemClock`] for real hosts.
//! - `Defect` (feature `planted`) is a mistake of the kit that a store may be told to make.
//!
//! Nothing survives the process.

mod hub;
mod session;
mod store;

pub use dauer_store::{Clock, ManualClock, SystemClock};
#[cfg(feature = "planted")]
pub use dauer_store_kit::planted::Defect;
pub use hub::MemoryHub;
pub use session::MemorySession;
pub use store::MemoryStore;
