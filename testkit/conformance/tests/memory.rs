//! The memory store keeps every rule of the contract.

mod support;

dauer_conformance::suite!(crate::support::MemoryFixture::with(1, |store| store), dauer_conformance::bounded);
