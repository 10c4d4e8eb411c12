//! The running hub.
//!
//! A [`Host`] claims turns and activities from a store, has an [`Executor`] run them, and commits. One loop per session
//! does that (`dispatch`), over what it has in its hands (`slots`):
//!
//! - `turns` begins turns and decides whether the instance is kept, `turn` takes one (load, begin, execute, finish);
//! - `commit` sends checkpoints in batches until the store has said what became of each;
//! - `activities` runs tasks; a result goes into the next turn of an instance that the host keeps, in that turn's own
//!   commit, or to the inbox of any other;
//! - `cancel` tells tasks that nobody wants their answers any more;
//! - `demand` says when to claim, `renewal` keeps the session alive, `cache` remembers what the next turn needs;
//! - `client` starts, sends and waits, `watch` wakes its waits, `find` queries and purges, `history` reads histories,
//!   `control` suspends, resumes, ends and replaces, `operate` rewinds and restarts.
//!
//! Nothing here knows a runtime: time, chance and concurrency come through [`dauer_store::Env`].

mod activities;
mod backoff;
mod cache;
mod cancel;
mod causes;
mod client;
mod commit;
mod control;
mod demand;
mod dispatch;
mod executor;
mod find;
mod history;
mod hold;
mod host;
mod inspect;
mod mail;
mod operate;
mod options;
mod remote;
mod renewal;
pub mod retention;
mod session;
mod slots;
mod turn;
mod turns;
mod wait;
mod watch;

pub use causes::with_causes;
pub use client::{Client, ClientError, Unusable};
pub use executor::{
    ActivityDone, ActivityEnd, ActivityWork, Attempt, Capacity, Executor, Live, Past, Receipt, TurnDone,
    TurnWork, Unfinished,
};
pub use history::HistoryReader;
pub use host::Host;
pub use inspect::{HeldPhase, HeldTurn, Inspection, Inspector};
pub use options::{HostOptions, TroublePolicy};
pub use remote::RemoteError;
