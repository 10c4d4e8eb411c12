//! The SQLite store keeps every rule of the contract.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

dauer_conformance::suite!(crate::support::SqliteFixture::with_handles(1), crate::support::rule);
