//! The server: the Durable Task protocol over gRPC, on any store of dauer.
//!
//! [`Server`] opens its ports, then its store, and serves any number of hubs. Workers of any language connect to a hub by a
//! stream of work items; from the first of them on a host claims work for them.
//!
//! - `gate` decides who comes in and to which hub, `auth` knows the tokens;
//! - `hubs` are the hubs in use, `hub` is one of them, with its client, its workers and its host;
//! - `service` is the protocol, `answers` a shorter way for dauer's own workers, `manage` the management service for its clients;
//! - `calls` is what each call does, `status` what refusals are on the wire;
//! - `layer` and `incoming` bound what one caller can use;
//! - `http` is the side for operators, `metrics` its figures;
//! - `server` is its life, `transport` its ports, `options` are all settings.

mod answers;
mod auth;
mod calls;
mod error;
mod gate;
mod http;
mod hub;
mod hubs;
mod incoming;
mod layer;
mod manage;
mod metrics;
mod options;
mod server;
mod service;
mod status;
mod transport;

pub use auth::{Tokens, TokensError};
pub use error::ServerError;
pub use options::{GRPC_PORT, Limits, ServerOptions, Source, Tls};
pub use server::Server;
