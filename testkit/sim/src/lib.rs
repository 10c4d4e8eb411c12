//! The simulator.
//!
//! Runs the real hub (`dauer_hub::Host` and `Client`, the SDK's executor, the replay): three hosts on a memory store
//! with faults, on one thread, in virtual time, from one seed. The same seed gives the same run, to the last poll.
//!
//! 1. [`executor`]: tasks that belong to hosts, an order that comes from the seed, time that jumps;
//! 2. [`faults`]: which faults a seed has; `chaos` does the larger ones, `wire` kills hosts between two calls;
//! 3. [`program`]: random orchestrations as data, `interpret` runs them, `model` knows what may come out;
//! 4. `hosts`, `clients`: those who take part; `journal`: every commit, whoever heard of it;
//! 5. [`run()`]: all of it, until everything has finished; `check`: outcomes, auditor, replay.
//!
//! ```
//! let outcome = dauer_sim::run(7, &dauer_sim::Config::default());
//! assert!(outcome.violations.is_empty(), "{outcome}");
//! ```

mod chaos;
mod check;
mod clients;
mod env;
pub mod executor;
pub mod faults;
mod hosts;
mod interpret;
mod journal;
mod model;
mod outcome;
pub mod program;
pub mod random;
mod run;
mod trace;
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use env::SimEnv;
pub use interpret::Seen;
pub use outcome::{Outcome, Statistics};
pub use run::{Config, run};
pub use trace::Trace;

/// A panic while a lock was held is a failed run; what it left is still worth looking at.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
