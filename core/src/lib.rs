//! The pure heart of dauer.
//!
//! Everything here is a function of its arguments: no clock, no randomness, no I/O, no runtime (`clippy.toml` beside
//! this crate refuses them). Read it in this order:
//!
//! 1. [`ids`]: who is meant: instances, executions, messages, points in time;
//! 2. [`model`]: what is stored: messages, records, tasks, checkpoints;
//! 3. [`send`]: how a client's call becomes a message;
//! 4. [`turn`]: how history, inbox and a worker's actions become one checkpoint;
//! 5. [`workitem`]: what a worker is sent, and how its answer is put together;
//! 6. [`cancel`]: how it learns that nobody wants its answer any more.

pub mod cancel;
pub mod identity;
pub mod ids;
pub mod ledger;
pub mod limits;
pub mod model;
pub mod planted;
pub mod send;
pub mod turn;
pub mod workitem;

pub use ids::{
    Epoch, ExecutionId, HostId, HubKey, HubName, InstanceId, MessageId, Revision, SessionId, Timestamp,
};
