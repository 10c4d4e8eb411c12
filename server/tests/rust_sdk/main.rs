//! The Rust SDK over gRPC, against a server in this process: `dauer::connect` gives what `dauer::open` gives.

#![allow(clippy::unwrap_used)] // A test that cannot go on has failed.

mod alike;
mod client;
mod code;
mod management;
mod operators;
mod support;
mod trouble;
mod worker;
