//! A hub behind a server, over gRPC: the same clients and workers as for a store in this process.
//!
//! - `server` is where it is and who asks, `wire` the connections and how a call is made and made again;
//! - `failures` says what the server's codes mean, `record` what its answers do;
//! - `client`, `find` and `waits` are what a client does;
//! - `worker` is the loop of a worker, `turns` runs orchestrations, `activities` activities, and `answers` brings back what
//!   they come to, many at once by way of `courier`;
//! - `store` stands where a store would be, and says that there is none.

mod activities;
mod answers;
mod client;
mod courier;
mod executing;
mod failures;
mod find;
mod inspection;
mod live;
mod record;
mod retention;
mod server;
mod store;
mod turns;
mod waits;
mod wire;
mod worker;

pub(crate) use client::RemoteClient;
pub use server::{Server, connect};
pub(crate) use store::NoStore;
pub(crate) use wire::Wire;
pub(crate) use worker::{Parts, run};
