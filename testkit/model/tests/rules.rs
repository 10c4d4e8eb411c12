//! The model keeps every rule of the contract.

mod support;

dauer_conformance::suite!(crate::support::ModelFixture::with(|model| model), dauer_conformance::bounded);
