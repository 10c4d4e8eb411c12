//! Runs the programs of tests that cargo has built, several at a time: `cargo test` runs them one after the other, and many of
//! them wait most of the time.

mod programs;
mod run;

pub use programs::{Program, programs};
pub use run::{Limits, Outcome, run_all};
