//! Threads, groups and hints: how calls get to the file and back.
//!
//! One thread writes: it joins everything that waits into one transaction and answers after its commit. Another reads.
//! Callers wait on futures; nothing here needs a runtime.

mod delivery;
mod effort;
mod hints;
mod job;
mod reader;
#[cfg(test)]
mod tests;
mod transaction;
mod waiting;
mod watch;
mod writer;

pub(crate) use delivery::Delivery;
pub(crate) use effort::Tally;
pub(crate) use hints::{Ear, Listeners};
pub(crate) use job::{answers_of, batch_job};
pub(crate) use reader::{Read, Reader};
pub(crate) use waiting::{Waiting, answer_of};
pub(crate) use watch::Watch;
pub(crate) use writer::{LOOK_WATCHED, Order, Writer};
