//! Rule 15, time: one clock, the store's, that goes on and is written into what happens.

use std::time::Duration;

use dauer_store::{MessageId, Status, Times};

use crate::run::open;
use crate::{Fixture, Step};

/// The time that claims and commits answer with goes on with the store's clock, and is the time that is recorded.
pub async fn r15a_the_stores_clock_goes_on(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let minute = Duration::from_secs(60);
    w.start("order").await;
    w.advance(minute).await;
    let session = w.session().await;
    let turn = session.turn().await;
    w.check(turn.now >= w.at(minute), "a claim tells the store's time");
    let inspected = w.inspect("order").await.map(|seen| seen.now);
    w.check(inspected >= Some(w.at(minute)), "an inspection tells the store's time");
    w.check(turn.record.times.created < w.at(minute), "the record tells when the instance was created");

    w.advance(minute).await;
    let committed = session.commit(Step::of(&turn).ended(Status::Completed)).await;
    w.check(committed.now >= w.at(minute * 2), "a commit tells the store's time");
    let stored = w.snapshot().await;
    let order = stored.instance("order").expect("it has run");
    w.same(&order.record.times.created, &turn.record.times.created, "the time of creation stays");
    w.same(&order.record.times.updated, &committed.now, "the time of the last change is that of the commit");
    w.same(&order.record.times.completed, &Some(committed.now), "the time of the end is that of the commit");
    w.same(&order.history[0].at, &committed.now, "the history has the time of the commit");

    w.advance(minute).await;
    let later = Step::of(&Step::after(&turn)).ended(Status::Completed);
    let amended = w.ok(w.manage().amend(later.into()).await, "amend");
    let stored = w.snapshot().await;
    let times = stored.instance("order").map(|order| order.record.times.clone()).expect("it has ended");
    w.same(&times.updated, &amended.now, "a later commit is a change");
    w.same(&times.completed, &Some(committed.now), "a later commit to the same run does not move its end");

    let timeless = Step::of(&Step::after(&Step::after(&turn))).ended(Status::Completed);
    let timeless = timeless.record(|record| record.times = Times::default());
    w.ok(w.manage().amend(timeless.into()).await, "amend");
    let stored = w.snapshot().await;
    let created = stored.instance("order").map(|order| order.record.times.created);
    w.same(&created, &Some(times.created), "a commit that names no time of creation does not move it");

    let adopted = Step::of(&Step::after(&Step::after(&Step::after(&turn)))).ended(Status::Completed);
    let adopted = adopted.record(|record| {
        record.start = MessageId([7; 16]);
        record.times = times.clone();
    });
    w.ok(w.manage().amend(adopted.into()).await, "amend");
    let stored = w.snapshot().await;
    let created = stored.instance("order").map(|order| order.record.times.created);
    w.same(&created, &Some(times.created), "a run that goes on under another start was created when it was");
}
