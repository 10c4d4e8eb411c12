//! The SQLite store keeps every rule of the contract when sessions and clients use different handles on one file.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

dauer_conformance::suite!(crate::support::SqliteFixture::with_handles(2), crate::support::rule);
