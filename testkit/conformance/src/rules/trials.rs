//! Rule 9, deaths that a server reports, and trials: a death of an item that began alone says that the item is the killer.

use dauer_store::{Deaths, Item, TaskFence};

use crate::message::task_name;
use crate::run::open;
use crate::session::GiveBack;
use crate::world::{PAST_LEASE, World};
use crate::{Fixture, Session, Step};

/// A turn and a task of one instance that a session has won.
async fn both(session: &Session) -> [Item; 2] {
    [session.turn().await.item(), session.task().await.item()]
}

/// An instance for which a message waits, with a task.
async fn ready(w: &World<'_>) {
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
}

/// Whether a trial of the turn is open, and of the task, as a dump shows it.
async fn open_trials(w: &World<'_>) -> (bool, bool) {
    let stored = w.snapshot().await;
    let turn = stored.instance("order").is_some_and(|order| order.trial);
    (turn, stored.tasks().any(|task| task.trial))
}

/// The deaths of the turn and of the task that a session wins.
async fn won_deaths(session: &Session) -> (Deaths, Deaths) {
    (session.turn().await.record.deaths, session.task().await.deaths)
}

fn deaths(workers: u32, trials: u32) -> Deaths {
    Deaths { workers, servers: 0, trials }
}

/// A death that the holder reports grows the deaths by one, once. The session holds the item as before. Nothing grows by a
/// report of a session that does not hold the item, or that knows other deaths, or of a turn that is committed.
pub async fn r09j_a_reported_death_counts_once(fixture: &dyn Fixture) {
    let w = open!(fixture);
    ready(&w).await;
    let (server, other) = (w.server().await, w.server().await);
    for item in both(&server).await {
        let first = server.died(&item, deaths(0, 0)).await;
        w.same(&w.ok(first, "died"), &deaths(1, 0), "a worker has died with it");
        let again = server.died(&item, deaths(0, 0)).await;
        w.same(&w.ok(again, "died"), &deaths(1, 0), "the same report again");
        w.fenced(other.died(&item, deaths(1, 0)).await, "the report of a session that does not hold it");
        let second = server.died(&item, deaths(1, 0)).await;
        w.same(&w.ok(second, "died"), &deaths(2, 0), "a second worker has died with it");
        w.fenced(server.died(&item, deaths(0, 0)).await, "a report that came before the last");
        let servers = Deaths { servers: 1, ..deaths(2, 0) };
        w.fenced(server.died(&item, servers).await, "a report with other deaths of servers");
        server.release_item(item).await;
    }
    w.same(&won_deaths(&server).await, &(deaths(2, 0), deaths(2, 0)), "the deaths are in the store");

    w.start("kept").await;
    let turn = server.turn().await;
    server.commit(Step::of(&turn).keep()).await;
    w.fenced(server.died(&turn.item(), deaths(0, 0)).await, "a report of a turn that is committed");
    let kept = Step::after(&turn).item();
    w.fenced(server.died(&kept, deaths(0, 0)).await, "a report of an instance that is only kept");
}

/// The death of a worker while a trial is open counts as one of a trial too, and ends the trial: by expiry, by proof, or by a
/// report. Other deaths do not.
pub async fn r09k_a_death_during_a_trial_counts_apart(fixture: &dyn Fixture) {
    let w = open!(fixture);
    ready(&w).await;
    let mut session = w.session().await;
    let mut items = both(&session).await;
    let mut trials = 0;
    for (workers, (opens, closes, proof)) in
        (1..).zip([(true, false, false), (false, false, false), (true, true, false), (true, false, true)])
    {
        for item in items.iter().filter(|_| opens) {
            session.trial(item, true).await;
            if closes {
                session.trial(item, false).await;
            }
        }
        let id = session.id();
        w.kill(session).await;
        if proof {
            w.ok(w.manage().end_session(id).await, "end_session");
        }
        w.advance(PAST_LEASE).await;
        trials += u32::from(opens && !closes);
        session = w.session().await;
        let (turn, lease) = (session.turn().await, session.task().await);
        let expected = deaths(workers, trials);
        w.same(
            &(turn.record.deaths, lease.deaths),
            &(expected, expected),
            "deaths, and those during a trial",
        );
        items = [turn.item(), lease.item()];
    }
    session.detach().await;
    let server = w.server().await;
    for item in both(&server).await {
        server.trial(&item, true).await;
        let first = w.ok(server.died(&item, deaths(4, 2)).await, "died");
        w.same(&first, &deaths(5, 3), "a worker has died during a trial");
        let again = w.ok(server.died(&item, deaths(4, 2)).await, "died");
        w.same(&again, &deaths(5, 3), "the same report again");
        let second = w.ok(server.died(&item, deaths(5, 3)).await, "died");
        w.same(&second, &deaths(6, 3), "the death has ended the trial");
    }
}

/// A trial ends with the hold under which it was opened, and with a commit. The end of a server does not count as a death
/// during a trial.
pub async fn r09l_a_trial_ends_with_its_hold(fixture: &dyn Fixture) {
    let w = open!(fixture);
    ready(&w).await;
    let session = w.session().await;
    for item in tried(&session).await {
        session.release_item(item).await;
    }
    w.same(&open_trials(&w).await, &(false, false), "the items were given back");
    tried(&session).await;
    session.detach().await;
    w.same(&open_trials(&w).await, &(false, false), "the session has detached");

    let server = w.server().await;
    tried(&server).await;
    w.kill(server).await;
    w.advance(PAST_LEASE).await;
    let session = w.session().await;
    let (turn, lease) = (session.turn().await, session.task().await);
    w.same(&(turn.record.deaths.trials, lease.deaths.trials), &(0, 0), "a server has ended");
    w.same(&open_trials(&w).await, &(false, false), "the server has ended");

    for item in [turn.item(), lease.item()] {
        session.trial(&item, true).await;
    }
    session.commit(Step::of(&turn).keep()).await;
    let server = w.server().await;
    server.adopt(&task_name(&lease)).await;
    w.same(&open_trials(&w).await, &(false, false), "turn committed, task adopted");
}

/// Wins turn and task, and opens a trial of both.
async fn tried(session: &Session) -> [Item; 2] {
    let items = both(session).await;
    for item in &items {
        session.trial(item, true).await;
    }
    items
}

/// Only the holder opens and closes a trial, under its fence, and before it commits the turn. A dump shows open trials.
pub async fn r09m_only_the_holder_opens_a_trial(fixture: &dyn Fixture) {
    let w = open!(fixture);
    ready(&w).await;
    let (session, other) = (w.session().await, w.session().await);
    let (turn, lease) = (session.turn().await, session.task().await);
    let mut later = turn.fence.clone();
    later.epoch = later.epoch.next();
    let later_task = TaskFence { epoch: lease.fence.epoch.next(), ..lease.fence.clone() };
    for item in [turn.item(), lease.item()] {
        w.fenced(other.try_trial(&item, true).await, "a trial of another session");
    }
    for item in [Item::Turn(later), Item::Task(later_task)] {
        w.fenced(session.try_trial(&item, true).await, "a trial under another epoch");
    }
    w.same(&open_trials(&w).await, &(false, false), "no trial was opened");
    for _ in 0..2 {
        session.trial(&turn.item(), true).await;
        session.trial(&lease.item(), true).await;
        w.same(&open_trials(&w).await, &(true, true), "the holder has opened both");
    }
    let committed = session.commit(Step::of(&turn).keep()).await;
    let kept = Step::continued(&turn, &committed).item();
    w.fenced(session.try_trial(&kept, true).await, "a trial of an instance that is only kept");
}
