//! Threads, groups and hints: how calls get to the file and back.
//!
//! One thread writes: it joins everything that waits into one transaction and answers after its commit. Another reads.
//! Callers wait on futures; nothing here needs a runtime.

mod effort;
mod hints;
mod job;
mod look;
mod reader;
#[cfg(test)]
mod tests;
mod time;
mod told;
mod transaction;
#[cfg(test)]
mod turn_cost;
mod watch;
mod writer;

pub(crate) use effort::Tally;
pub(crate) use hints::Listeners;
pub(crate) use job::{Answers, Job, answers_of, batch_job};
pub(crate) use look::look_job;
pub(crate) use reader::{Read, Reader};
pub(crate) use time::FileTime;
pub(crate) use watch::Watch;
pub(crate) use writer::{LOOK_WATCHED, Order, Writer};
