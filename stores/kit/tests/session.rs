//! The life of a session (rule 8).

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::time::Duration;

use dauer_store::{Host, HostId, Refused, SessionId, Timestamp};
use dauer_store_kit::session::{EXPIRED_AGE_MAX, End, Fate, LEASE_UNKNOWN, Life};

const LEASE: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(1);
const BEGIN: Timestamp = Timestamp(1_000);

fn host(name: &str) -> Host {
    Host { id: HostId::new(name).unwrap(), session: SessionId(1), lease: LEASE, runs_code: true }
}

#[test]
fn expired_session_acts_but_renews_before_it_claims() {
    let mut life = Life::begin(&host("a"), BEGIN);
    let end = BEGIN.after(LEASE);
    assert!(life.lives(end.before(MOMENT)) && life.may_claim(end.before(MOMENT)).is_ok());
    assert!(!life.lives(end) && life.lapses(end) && !life.lapses(end.before(MOMENT)));
    assert!(life.may_act().is_ok());
    assert!(matches!(life.may_claim(end), Err(Refused::NotExecuted(_))));
    assert!(life.renew(end), "its items may be on offer");
    assert!(!life.renew(end), "they no longer are");
    assert!(life.may_claim(end).is_ok());
    life.lapsed = true;
    assert!(!life.lapses(end.after(LEASE)), "it has lapsed before");
    assert!(life.renew(end) && !life.lapsed);
}

#[test]
fn ended_session_neither_acts_nor_attaches_again() {
    let mut life = Life::begin(&host("a"), BEGIN);
    life.end(BEGIN.after(MOMENT));
    assert_eq!(life.expires_at, BEGIN.after(MOMENT));
    assert!(!life.lives(BEGIN));
    assert!(matches!(life.may_act(), Err(Refused::Fenced)));
    assert!(matches!(life.may_claim(BEGIN), Err(Refused::Fenced)));
    assert!(matches!(life.attach(&host("a"), BEGIN), Err(Refused::Fenced)));
    life.end(BEGIN.after(LEASE));
    assert_eq!(life.expires_at, BEGIN.after(MOMENT), "the end is not moved");
}

#[test]
fn fate_of_a_session_names_its_end_and_kind() {
    let mut life = Life::begin(&Host { runs_code: false, ..host("a") }, BEGIN);
    let expires = life.expires_at;
    assert_eq!(life.fate(BEGIN), Fate::Lives);
    assert_eq!(life.fate(expires).end(), Some(End { runs_code: false, at: expires }));
    life.end(BEGIN.after(MOMENT));
    assert_eq!(life.fate(expires).end(), Some(End { runs_code: false, at: BEGIN.after(MOMENT) }));
}

#[test]
fn attaching_again_renews_for_the_same_host_only() {
    let mut life = Life::loaded(HostId::new("a").unwrap(), BEGIN, true);
    assert_eq!(life.lease, LEASE_UNKNOWN);
    assert!(matches!(life.attach(&host("b"), BEGIN), Err(Refused::Fenced)));
    let longer = Host { lease: 2 * LEASE, ..host("a") };
    assert!(life.attach(&longer, BEGIN.before(MOMENT)).is_ok_and(|expired| !expired));
    assert_eq!((life.lease, life.expires_at), (2 * LEASE, BEGIN.before(MOMENT).after(2 * LEASE)));
}

#[test]
fn session_is_old_a_day_after_it_expired() {
    let life = Life::begin(&host("a"), BEGIN);
    let last = life.expires_at.after(EXPIRED_AGE_MAX);
    assert!(!life.is_old(last) && life.is_old(last.after(MOMENT)));
}
