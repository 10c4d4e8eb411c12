//! The SQLite store keeps every rule of the contract when client and sessions are in three processes on one file.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

mod remote;
mod support;

use std::time::Duration;

use dauer_conformance::{Fixture, Hub};
use dauer_store::HubName;
use support::build::{host, start, step};
use support::claims::{Claims, want};

dauer_conformance::suite!(crate::remote::RemoteFixture::new(), crate::support::rule);

#[test]
fn a_helper_process_has_sessions() {
    if remote::serve_if_helper() {
        return;
    }
    let fixture = remote::RemoteFixture::new();
    support::run(async {
        let name = HubName::default();
        let hub = Hub { manage: fixture.store().hub(name.clone()), name };
        hub.manage.create(vec![start("order")]).await.remove(0).unwrap();
        let one = fixture.session(&hub, host(1, Duration::from_secs(60))).await;
        let two = fixture.session(&hub, host(2, Duration::from_secs(60))).await;
        let turn = one.claim_turns(want(1)).await.unwrap().remove(0);
        assert!(two.claim_turns(want(1)).await.unwrap().is_empty(), "another process has it");
        assert!(two.commit_turns(vec![step(&turn).into()]).await[0].is_err(), "another process has it");
        assert!(one.commit_turns(vec![step(&turn).into()]).await[0].is_ok());
    });
}
