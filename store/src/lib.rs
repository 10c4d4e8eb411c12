//! The store contract.
//!
//! A [`Store`] contains task hubs and opens them by name. [`Manage`] is the half of a hub that clients need, [`Work`] the
//! half that a host needs; no function of theirs takes a hub's name. The rules are in [`rules`]; the conformance suite
//! `dauer-conformance` has a test for each of them.

mod by_id;
mod clock;
mod cursor;
pub mod env;
mod inspect;
mod manage;
mod refused;
pub mod rules;
mod store;
mod work;

pub use by_id::ById;
pub use clock::{Clock, ManualClock, SystemClock};
pub use cursor::Cursor;
pub use env::{Env, Steady};
pub use inspect::{Holder, INSPECTED_MAX, Inspection, OpenTask, SessionInfo, Waiting, WaitingClass};
pub use manage::{
    Create, Created, Dump, DumpItem, Effort, Floor, Host, HubDump, IdPage, InstanceDump, List, Manage, Order,
    Page, Purge, Purged, Query, Reuse, Scale, SessionDump, StoreLimits, TaskDump,
};
pub use refused::{Cause, Limit, Refused};
pub use store::Store;
pub use work::{
    Amount, Changes, ClaimedTurn, Committed, Credit, Death, Delivered, Hint, Item, Lost, Mail, Next,
    Recalled, Release, Slice, TaskLease, TaskName, Trial, Until, Work,
};

pub use dauer_core::model::*;
pub use dauer_core::{
    Epoch, ExecutionId, HostId, HubKey, HubName, InstanceId, MessageId, Revision, SessionId, Timestamp,
};
