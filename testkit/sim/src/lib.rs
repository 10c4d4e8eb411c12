//! The simulator.
//!
//! Runs the real hub (`dauer_hub::Host` and `Client`, the SDK's executor, the replay): three hosts on a memory store
//! with faults, on one thread, in virtual time, from one seed. The same seed gives the same run, to the last poll.
//!
//! 1. [`executor`]: tasks that belong to hosts, an order that comes from the seed, time that jumps;
//! 2. [`kinds`]: every fault there is; [`faults`]: which of them a seed has; `chaos` does the larger ones, `wire` and
//!    `line` kill hosts between two calls and have requests and messages arrive once more;
//! 3. [`program`]: random orchestrations as data, `interpret` runs them on the SDK's replay and `foreign` as another
//!    SDK would, `model` knows what may come out;
//! 4. `hosts`, `code`, `clients`, `cases`, `operator`: those who take part; `journal`: every commit, whoever heard of
//!    it; `history`: every call of a client and its answer;
//! 5. `churn`: a second hub whose instances come and go, `rivals`: its clients, `errand`: what they start;
//! 6. `killers`: a world of its own, whose code kills its process; `apart`: another ([`Config::apart`]): servers whose remote
//!    workers have lives of their own;
//! 7. [`run()`]: all of it, until everything has finished; `check`: outcomes, auditor, replay; `history`:
//!    linearizability; `liveness`: L1 to L4; [`coverage`]: whether everything was tested at all.
//!
//! ```
//! let outcome = dauer_sim::run(7, &dauer_sim::Config::default());
//! assert!(outcome.violations.is_empty(), "{outcome}");
//! ```

mod again;
mod apart;
pub mod batch;
mod cases;
mod chaos;
mod check;
mod churn;
mod clients;
mod code;
mod config;
pub mod coverage;
mod elsewhere;
mod env;
mod errand;
pub mod executor;
pub mod faults;
mod foreign;
mod history;
mod hosts;
#[cfg(feature = "planted")]
pub mod hunt;
mod interpret;
mod journal;
pub mod killers;
pub mod kinds;
mod line;
mod liveness;
mod lookout;
mod model;
mod operator;
mod outcome;
pub mod program;
pub mod random;
mod rivals;
mod run;
mod shrink;
mod stores;
pub mod table;
mod trace;
mod wire;
#[cfg(feature = "planted")]
mod wrong;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use config::Config;
pub use env::SimEnv;
pub use hosts::HOSTS;
pub use interpret::Seen;
pub use outcome::{Churned, Killed, Outcome, Statistics};
pub use run::run;
pub use shrink::{Shrunk, shrink};
pub use trace::Trace;

/// A panic while a lock was held is a failed run; what it left is still worth looking at.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
