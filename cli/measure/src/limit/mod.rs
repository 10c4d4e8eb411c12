//! The limit: what the disk and SQLite give when the rows of the benchmark are written by a bare loop.
//!
//! The rows are those of one real orchestration, read from a store (`sample`). The `plan` is what the store writes in
//! each phase of an orchestration. The `schedule` is the order and the transactions in which the store did so, read from
//! the file of the run. `bare` writes all that once more into a file of the same tables, with the same settings,
//! and the index of `tags` as far behind as the store does. `compare` says whether both did the same work: a limit that writes
//! less than the store would be no limit, and one that writes more would flatter it.

mod bare;
mod compare;
mod plan;
mod sample;
mod schedule;
mod tags;

pub(super) use bare::write;
pub(super) use compare::{Comparison, DIFFERENCE_MAX, Effort};
pub(super) use sample::Sample;
pub(super) use schedule::Schedule;
