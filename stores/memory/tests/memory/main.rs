//! What the memory store does beyond the conformance suite: the decisions that the contract leaves to it, its handles, and
//! its determinism.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed; helpers are not seen as tests")]

mod claims;
mod commits;
mod delivery;
mod dumps;
mod handles;
mod hints;
mod reads;
mod sessions;
mod support;
