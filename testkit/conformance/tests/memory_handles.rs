//! The memory store keeps every rule of the contract when sessions and clients use different handles on one store.

mod support;

dauer_conformance::suite!(crate::support::MemoryFixture::with(2, |store| store), dauer_conformance::bounded);
