//! Builds hubs by hand: one instance at a time, commit by commit, as an engine without mistakes would have left them.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

mod hub;
mod instance;

pub(crate) use hub::{World, healthy, stranger};
pub(crate) use instance::{
    Build, EPOCH, at, child_start, execution, host, id, name, pay, session, start_message,
};
