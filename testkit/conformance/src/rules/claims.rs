//! Rule 12, claims: who gets what, and in which order.

use std::collections::BTreeSet;
use std::time::Duration;

use dauer_store::{ClaimedTurn, Filter, Queues, Refused, Status, Tags, VersionRule, Want};
use futures::FutureExt as _;

use crate::message::{names, only};
use crate::run::open;
use crate::session::want;
use crate::world::{HOUR, World};
use crate::{Call, Fixture, Step};

/// A claim returns work of the queues it names, by name and version, and leaves the rest to others.
pub async fn r12a_a_claim_filters_by_queue(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    w.start_with(w.start_in("second", "Orders", |record| record.queue.version = Some("2".into()))).await;
    let session = w.session().await;
    let claim = |queues: Queues| session.claim(Want { queues, ..want(10) });
    let versions = |version: &str| {
        let listed = VersionRule::Listed(vec![version.into()]);
        Queues { orchestrations: Filter::from_iter([("Orders".into(), listed)]), ..Queues::default() }
    };

    for (queues, what) in [
        (only("Refunds"), "no turn of another orchestration"),
        (versions("1"), "no turn of another version, nor one without a version"),
        (Queues { orchestrations: Filter::none(), ..Queues::default() }, "no turn where none is wanted"),
    ] {
        w.same(&names(&claim(queues).await), &vec![], what);
    }
    w.same(&names(&claim(versions("2")).await), &vec!["second"], "the turn of this version");
    w.same(
        &names(&claim(only("Orders")).await),
        &vec!["order"],
        "the turn of this orchestration, of any version",
    );

    let claim = |queues: Queues| session.claim_tasks(Want { queues, ..want(10) });
    w.same(&claim(only("ship")).await.len(), &0, "no task of another activity");
    w.same(&claim(only("pay")).await.len(), &1, "the task of this activity");
}

/// A claim returns work that carries all the tags it names, turns as well as tasks.
pub async fn r12b_a_claim_filters_by_tags(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let tags = |pairs: &[(&str, &str)]| -> Tags {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    };
    let tagged = tags(&[("zone", "north"), ("size", "big")]);
    w.start_with(w.start_in("order", "Orders", |record| record.tags = tagged)).await;
    let session = w.session().await;
    for other in [tags(&[("zone", "south")]), tags(&[("zone", "north"), ("colour", "red")])] {
        let turns = session.claim(Want { tags: other, ..want(10) }).await;
        w.same(&turns.len(), &0, "no turn without all these tags");
    }

    let ours = Want { tags: tags(&[("zone", "north")]), ..want(10) };
    let turns = session.claim(ours.clone()).await;
    w.same(&names(&turns), &vec!["order"], "a turn with these tags, and more");
    session.commit(Step::of(&turns[0]).tasks([w.task(&turns[0], "pay")])).await;
    let others = Want { tags: tags(&[("zone", "south")]), ..want(10) };
    w.same(&session.claim_tasks(others).await.len(), &0, "no task without these tags");
    w.same(&session.claim_tasks(ours).await.len(), &1, "a task with these tags, and more");
}

/// Within a queue what became ready first is claimed first.
pub async fn r12c_the_oldest_is_claimed_first(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for id in ["zebra", "mole", "ant"] {
        w.start(id).await;
        w.advance(Duration::from_secs(1)).await;
    }
    let session = w.session().await;
    let mut claimed = Vec::new();
    for _ in 0..3 {
        claimed.extend(session.claim(want(1)).await);
    }
    w.same(&names(&claimed), &vec!["zebra", "mole", "ant"], "the one that waits longest comes first");
}

/// Queues are served in turn: a full one does not starve another.
pub async fn r12d_queues_are_served_in_turn(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for number in 0..20 {
        w.start(&format!("order{number}")).await;
    }
    w.advance(Duration::from_secs(1)).await;
    w.start_with(w.start_in("refund", "Refunds", |_| {})).await;

    let session = w.session().await;
    let mut served = Vec::new();
    for _ in 0..4 {
        served.extend(session.claim(want(1)).await);
    }
    w.check(
        names(&served).contains(&"refund"),
        "the short queue is served within four claims, before a long one",
    );
}

/// A claim returns no more items than it asks for, and stops when the bytes asked for are full; the first item is
/// given whatever its size.
pub async fn r12e_a_claim_takes_no_more_than_it_wants(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for id in ["one", "two", "three", "four", "five"] {
        w.start(id).await;
    }
    let session = w.session().await;
    w.same(&session.claim(want(2)).await.len(), &2, "two were wanted");
    w.same(&session.claim(Want { bytes: 1, ..want(10) }).await.len(), &1, "the first, whatever its size");
    let rest = session.claim(want(10)).await;
    w.same(&rest.len(), &2, "the rest is still there");

    for turn in &rest {
        session.commit(Step::of(turn).tasks([w.task(turn, "pay"), w.task(turn, "pay")])).await;
    }
    let sizes = [(want(2), 2), (Want { bytes: 1, ..want(10) }, 1), (want(10), 1)];
    for (want, expected) in sizes {
        w.same(&session.claim_tasks(want).await.len(), &expected, "tasks are counted like turns");
    }
}

/// What others hold hides nothing, also from hosts that claim at the same time: together they get everything, and
/// no two the same.
pub async fn r12f_what_is_held_hides_nothing(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("held").await;
    let (holder, other) = (w.session().await, w.session().await);
    holder.turn().await;
    w.start("free").await;

    w.check(names(&other.turns().await).contains(&"free"), "the free one is ready, though another is held");

    for number in 0..20 {
        w.start(&format!("many{number}")).await;
    }
    let hosts = [w.session().await, w.session().await, w.session().await, w.session().await];
    for host in &hosts {
        host.renew().await;
    }
    let claims = futures::future::join_all(hosts.iter().map(|host| host.claim(want(6)))).await;
    let claimed: Vec<_> = claims.concat().into_iter().map(|turn| turn.fence.instance).collect();
    let many = claimed.iter().filter(|id| id.as_str().starts_with("many"));
    w.same(&many.clone().count(), &20, "four claims of six take all twenty");
    w.same(&many.collect::<BTreeSet<_>>().len(), &20, "no two claims take the same");
}

/// The time until something becomes due, where a store tells it, is never too long: a host that sleeps so long and
/// claims again misses nothing. What waits in other queues does not matter.
pub async fn r12g_the_next_due_time_is_never_too_late(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    w.run(|turn| Step::of(turn).timers([w.timer(turn, w.at(HOUR))])).await;
    let session = w.session().await;
    // Stores that cannot tell cheaply answer with nothing, and their hosts poll.
    let due = w.ok(session.work().next_due(&Queues::default()).await, "next_due");
    w.check(due.is_none_or(|due| due <= HOUR), "the timer is due within the hour");
    let other = w.ok(session.work().next_due(&only("Refunds")).await, "next_due");
    w.same(&other, &None, "nothing waits in the other queue");
}

/// What becomes ready while a claim waits is won by that claim, or by the next one that asks: once.
pub async fn r12h_what_becomes_ready_goes_to_one_claim(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let session = w.session().await;
    let mut waits = session.work().await_turns(want(10));
    w.same(&names(&told(&w, &mut waits)), &vec![], "nothing has become ready");
    w.start("order").await;
    let mut won = told(&w, &mut waits);
    won.extend(session.turns().await);
    w.same(&names(&won), &vec!["order"], "the one claim or the other, once");
    session.commit(Step::of(&won[0])).await;
}

/// What a claim that waits has been told by now.
fn told(
    w: &World<'_>,
    waits: &mut (impl Future<Output = Result<Vec<ClaimedTurn>, Refused>> + Unpin),
) -> Vec<ClaimedTurn> {
    match waits.now_or_never() {
        None => Vec::new(),
        Some(Ok(turns)) => turns,
        Some(Err(refused)) => panic!("{}: await_turns was refused: {refused}", w.rule),
    }
}

/// A claim of an ended instance for which a start of another name waits, won and never received, comes back to a claim of
/// that start's queue: the code of the run that has ended may be gone.
pub async fn r12j_a_dropped_claim_comes_back_by_its_start(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.ended("order").await;
    w.deliver(w.start_in("order", "Refunds", |_| {})).await;
    let session = w.session().await;
    let refunds = || Want { queues: only("Refunds"), ..want(10) };
    w.dropped(Call::ClaimTurns, session.work().claim_turns(refunds())).await;
    let orders = session.claim(Want { queues: only("Orders"), ..want(10) }).await;
    w.same(&orders.len(), &0, "the queue of the run that has ended does not get it");
    w.same(&names(&session.claim(refunds()).await), &vec!["order"], "the queue of its start does");
}

/// An ended instance for which a start waits is claimed by the tags of that start.
pub async fn r12k_an_ended_instance_has_the_tags_of_its_start(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let zone = |zone: &str| -> Tags { [("zone".to_owned(), zone.to_owned())].into_iter().collect() };
    w.start_with(w.start_in("order", "Orders", |record| record.tags = zone("north"))).await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    w.deliver(w.start_in("order", "Orders", |record| record.tags = zone("south"))).await;
    let session = w.session().await;
    let north = session.claim(Want { tags: zone("north"), ..want(10) }).await;
    w.same(&north.len(), &0, "the tags of the run that has ended are not asked");
    let south = session.claim(Want { tags: zone("south"), ..want(10) }).await;
    w.same(&names(&south), &vec!["order"], "those of its start are");
}
