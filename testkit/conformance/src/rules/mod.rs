//! The rules, one file for each number of the contract. They are listed in `list.rs`, which makes them tests.

pub mod atomic;
pub mod attached;
pub mod attempts;
pub mod batches;
pub mod create;
pub mod credit;
pub mod delivery;
pub mod elsewhere;
pub mod end_of_run;
pub mod fence;
pub mod formats;
pub mod fusion;
pub mod identity;
pub mod inspect;
pub mod isolation;
pub mod limits;
pub mod once;
pub mod order;
pub mod outcome;
pub mod purge;
pub mod readiness;
pub mod reads;
pub mod scale;
pub mod sessions;
pub mod time;
pub mod trials;
