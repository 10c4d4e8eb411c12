//! Rule 12, credit: which session wins what, how much, when, and in which order.

use std::collections::BTreeSet;
use std::time::Duration;

use dauer_store::{Amount, Credit, Filter, Next, Queues, SessionId, Status, Tags, VersionRule};
use futures::future::{Either, select};

use crate::message::{names, only};
use crate::run::open;
use crate::session::{named, tasks, turns};
use crate::world::{LEASE, World};
use crate::{Fixture, Step};

/// A session wins work of the queues that its credit names, by name and version, and leaves the rest to others.
pub async fn r12a_credit_filters_by_queue(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    w.start_with(w.start_in("second", "Orders", |opening| opening.queue.version = Some("2".into()))).await;
    let session = w.session().await;
    let claim = |queues: Queues| session.claim(Credit { queues, ..turns(10) });
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

    let claim = |queues: Queues| session.claim_tasks(Credit { queues, ..tasks(10) });
    w.same(&claim(only("ship")).await.len(), &0, "no task of another activity");
    w.same(&claim(only("pay")).await.len(), &1, "the task of this activity");
}

/// A session wins work with all the tags that its credit names, turns as well as tasks.
pub async fn r12b_credit_filters_by_tags(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let given = |pairs: &[(&str, &str)]| -> Tags {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    };
    let tagged = given(&[("zone", "north"), ("size", "big")]);
    w.start_with(w.start_in("order", "Orders", |opening| opening.tags = tagged)).await;
    let session = w.session().await;
    for other in [given(&[("zone", "south")]), given(&[("zone", "north"), ("colour", "red")])] {
        let won = session.claim(Credit { tags: other, ..turns(10) }).await;
        w.same(&won.len(), &0, "no turn without all these tags");
    }

    let ours = given(&[("zone", "north")]);
    let won = session.claim(Credit { tags: ours.clone(), ..turns(10) }).await;
    w.same(&names(&won), &vec!["order"], "a turn with these tags, and more");
    session.commit(Step::of(&won[0]).tasks([w.task(&won[0], "pay")])).await;
    let others = Credit { tags: given(&[("zone", "south")]), ..tasks(10) };
    w.same(&session.claim_tasks(others).await.len(), &0, "no task without these tags");
    let ours = Credit { tags: ours, ..tasks(10) };
    w.same(&session.claim_tasks(ours).await.len(), &1, "a task with these tags, and more");
}

/// Within a queue what became ready first is won first.
pub async fn r12c_the_oldest_is_won_first(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for id in ["zebra", "mole", "ant"] {
        w.start(id).await;
        w.advance(Duration::from_secs(1)).await;
    }
    let session = w.session().await;
    let mut won = Vec::new();
    for _ in 0..3 {
        won.extend(session.claim(turns(1)).await);
    }
    w.same(&names(&won), &vec!["zebra", "mole", "ant"], "the one that waits longest comes first");
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
        served.extend(session.claim(turns(1)).await);
    }
    w.check(
        names(&served).contains(&"refund"),
        "the short queue is served within four looks, before a long one",
    );
}

/// A look wins no more items than there is credit for, and stops when the bytes are spent; the first item is won whatever
/// its size. Credit for turns wins no tasks.
pub async fn r12e_no_more_is_won_than_there_is_credit(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for id in ["one", "two", "three", "four", "five"] {
        w.start(id).await;
    }
    let session = w.session().await;
    let few = Amount { count: 10, bytes: 1 };
    w.same(&session.claim(turns(2)).await.len(), &2, "there is credit for two");
    let first = session.claim(Credit { turns: few, ..Credit::default() }).await;
    w.same(&first.len(), &1, "the first, whatever its size");
    let rest = session.claim(turns(10)).await;
    w.same(&rest.len(), &2, "the rest is still there");

    for turn in &rest {
        session.commit(Step::of(turn).tasks([w.task(turn, "pay"), w.task(turn, "pay")])).await;
    }
    let sizes = [(tasks(2), 2), (Credit { tasks: few, ..Credit::default() }, 1)];
    for (credit, expected) in sizes {
        w.same(&session.claim_tasks(credit).await.len(), &expected, "tasks are counted like turns");
    }
    w.start("six").await;
    let won = w.ok(session.try_win(turns(10)).await, "next");
    w.same(&(won.turns.len(), won.tasks.len()), &(1, 0), "there is credit for turns");
    let won = w.ok(session.try_win(tasks(10)).await, "next");
    w.same(&(won.turns.len(), won.tasks.len()), &(0, 1), "there is credit for tasks");
}

/// What others hold hides nothing, also from hosts that look at the same time: together they get everything, and
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
    let won = futures::future::join_all(hosts.iter().map(|host| host.claim(turns(6)))).await;
    let won: Vec<_> = won.concat().into_iter().map(|turn| turn.fence.instance).collect();
    let many = won.iter().filter(|id| id.as_str().starts_with("many"));
    w.same(&many.clone().count(), &20, "four looks for six win all twenty");
    w.same(&many.collect::<BTreeSet<_>>().len(), &20, "no two looks win the same");
}

/// A call that waits returns what becomes ready by time alone as soon as it does, and nothing at its end. What is in other
/// queues does not matter.
pub async fn r12g_next_returns_when_something_is_due(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    w.run(|turn| Step::of(turn).timers([w.timer(turn, w.at(LEASE / 2))])).await;
    let (session, other) = (w.session().await, w.session().await);
    other.grant(Credit { queues: only("Refunds"), ..turns(10) });
    session.grant(turns(10));
    w.same(&(session.look().await, other.look().await), &Default::default(), "nothing is due");

    let mut ends = other.waits_for(LEASE / 2);
    let mut waits = session.waits();
    for step in 0..3 {
        session.still_waits(&mut waits, "nothing is due");
        other.still_waits(&mut ends, "nothing is in that queue");
        w.snapshot().await;
        w.advance(if step == 0 { LEASE / 4 } else { Duration::ZERO }).await;
    }
    w.advance(LEASE / 4).await;
    w.same(&names(&session.returned(waits).await.turns), &vec!["order"], "the timer is due");
    w.same(&other.returned(ends).await, &Next::default(), "its time is over");
}

/// What becomes ready while sessions wait is won by one of them, once.
pub async fn r12h_what_becomes_ready_is_won_once(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let (one, two) = (w.session().await, w.session().await);
    one.grant(turns(10));
    two.grant(turns(10));
    let (mut first, mut second) = (one.waits(), two.waits());
    one.still_waits(&mut first, "nothing is ready");
    two.still_waits(&mut second, "nothing is ready");
    w.start("order").await;
    let (won, winner, loser) = match select(first, second).await {
        Either::Left((won, _)) => (won, &one, &two),
        Either::Right((won, _)) => (won, &two, &one),
    };
    let won = w.ok(won, "next").turns;
    w.same(&names(&won), &vec!["order"], "one of them wins it");
    w.same(&loser.look().await.turns, &vec![], "the other one does not");
    winner.commit(Step::of(&won[0])).await;
}

/// Credit for more, for other queues or with other tags ends the wait for what it admits, also for what has become ready by time
/// alone while there was no credit for it.
pub async fn r12i_more_credit_looks_again(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let zone = |zone: &str| -> Tags { [("zone".to_owned(), zone.to_owned())].into() };
    let session = w.session().await;
    for (number, (before, after)) in [
        (turns(0), turns(1)),
        (tasks(1), turns(1)),
        (Credit { queues: only("Refunds"), ..turns(1) }, Credit { queues: only("Orders"), ..turns(1) }),
        (Credit { tags: zone("south"), ..turns(1) }, Credit { tags: zone("north"), ..turns(1) }),
    ]
    .into_iter()
    .enumerate()
    {
        session.grant(before);
        let id = format!("order{number}");
        w.start_with(w.start_in(&id, "Orders", |opening| opening.tags = zone("north"))).await;
        w.same(&session.look().await, &Next::default(), "there is no credit for it");
        let mut waits = session.waits();
        session.still_waits(&mut waits, "there is no credit for it");
        session.grant(after);
        w.same(&names(&session.returned(waits).await.turns), &vec![&*id], "now there is");
    }
    session.take_back();
    for (number, before) in [turns(0), tasks(1)].into_iter().enumerate() {
        let (id, session) = (format!("timed{number}"), w.session().await);
        w.start(&id).await;
        let due = w.at(LEASE / 4 * (number as u32 + 1));
        w.run(|turn| Step::of(turn).timers([w.timer(turn, due)])).await;
        session.grant(turns(1));
        w.same(&session.look().await, &Next::default(), "nothing is due");
        session.grant(before);
        let mut waits = session.waits();
        session.still_waits(&mut waits, "nothing is due");
        w.advance(LEASE / 4).await;
        for _ in 0..3 {
            session.still_waits(&mut waits, "there is no credit for it");
            w.snapshot().await;
        }
        session.grant(turns(1));
        w.same(&names(&session.returned(waits).await.turns), &vec![&*id], "now there is");
        session.take_back();
    }
}

/// What was won and not returned counts against the credit, also against a credit that was set later. What was returned has spent
/// its credit.
pub async fn r12j_unreturned_items_count_against_credit(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let (session, other) = (w.session().await, w.session().await);
    for ids in [["one", "two", "three"], ["four", "five", "six"]] {
        session.grant(turns(2));
        for id in ids {
            w.start(id).await;
        }
        w.check(held(&w, session.id()).await <= 2, "no more is held than there is credit for");
    }
    w.same(&session.look().await.turns.len(), &2, "there is credit for two");
    w.same(&session.look().await.turns, &vec![], "what was returned has spent it");
    w.same(&held(&w, session.id()).await, &2, "what was returned has spent it");
    session.take_back();
    let rest = other.turns().await;
    w.same(&rest.len(), &4, "the others were left");

    session.grant(tasks(2));
    for turn in rest {
        other.commit(Step::of(&turn).tasks([w.task(&turn, "pay")])).await;
    }
    w.same(&session.look().await.tasks.len(), &2, "there is credit for two tasks");
    session.take_back();
    w.same(&other.tasks().await.len(), &2, "the other tasks were left");
}

/// How many instances the session holds.
async fn held(w: &World<'_>, session: SessionId) -> usize {
    w.snapshot().await.instances().filter(|instance| instance.holder == Some(session)).count()
}

/// An ended instance for which a start waits is won by the tags of that start.
pub async fn r12k_an_ended_instance_has_the_tags_of_its_start(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let zone = |zone: &str| -> Tags { [("zone".to_owned(), zone.to_owned())].into() };
    w.start_with(w.start_in("order", "Orders", |opening| opening.tags = zone("north"))).await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    w.deliver(w.start_in("order", "Orders", |opening| opening.tags = zone("south"))).await;
    let session = w.session().await;
    let north = session.claim(Credit { tags: zone("north"), ..turns(10) }).await;
    w.same(&north.len(), &0, "the tags of the run that has ended are not asked");
    let south = session.claim(Credit { tags: zone("south"), ..turns(10) }).await;
    w.same(&names(&south), &vec!["order"], "those of its start are");
}

/// Credit is spent also while no call waits: a start that a commit of the session makes is won in that write, unless older work
/// may be ready. What was won is returned once.
pub async fn r12l_credit_is_spent_while_no_call_waits(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("parent").await;
    let (session, other) = (w.session().await, w.session().await);
    let mut parent = session.turn().await;
    let mut in_the_write = 0;
    // A store that has heard of a write elsewhere looks first, and leaves the start to that look.
    for number in 0..5 {
        session.grant(turns(1));
        let child = format!("child{number}");
        session.commit(Step::of(&parent).messages([w.start_message(&child)]).keep()).await;
        parent = Step::after(&parent);
        let stored = w.snapshot().await;
        let holder = stored.instance(&child).and_then(|child| child.holder);
        in_the_write += usize::from(holder == Some(session.id()));
        w.same(&names(&session.look().await.turns), &vec![&*child], "the next call returns it, and no other");
    }
    w.check(in_the_write > 0, "the session wins a start in the write that makes it");
    other.no_turn("all are won").await;
    let next = session.look().await;
    w.same(&(next.turns.len(), named(&next)), &(0, vec![]), "nothing is returned twice");
}
