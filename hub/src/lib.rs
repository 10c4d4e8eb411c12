//! The running hub.
//!
//! A [`Host`] takes turns and activities from a store, has an [`Executor`] run them, and commits. One loop per session
//! does that: `dispatch`, whose head names its parts. `renewal` keeps the session alive.
//!
//! - `client` starts, sends and waits, `watch` wakes its waits, `find` queries and purges, `history` reads histories,
//!   `control` suspends, resumes, ends and replaces, `operate` retries, rewinds and restarts.
//! - `mend` retries what another build has stalled.
//!
//! Nothing here knows a runtime: time, chance and concurrency come through [`dauer_store::Env`].

mod backoff;
mod causes;
mod client;
mod control;
mod dispatch;
mod executor;
mod find;
mod history;
mod holding;
mod host;
mod inspect;
mod mend;
mod operate;
mod options;
mod remote;
mod renewal;
pub mod retention;
mod session;
mod watch;

pub use causes::with_causes;
pub use client::{Client, ClientError, Unusable};
pub use executor::{
    ActivityDone, ActivityEnd, ActivityWork, Adopted, Adoption, Attempt, Capacity, Executor, Live, Past,
    Receipt, TurnDone, TurnWork, Unfinished,
};
pub use history::HistoryReader;
pub use holding::Holding;
pub use host::Host;
pub use inspect::{HeldPhase, HeldTurn, Inspection, Inspector};
pub use mend::mend;
pub use options::{HostOptions, TroublePolicy};
pub use remote::RemoteError;
