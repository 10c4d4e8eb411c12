//! Rule 24, the list of sessions: who has attached, and who of them lives.

use dauer_store::{HostId, SessionId, SessionInfo};

use crate::Fixture;
use crate::run::open;
use crate::session::Session;
use crate::world::{LEASE, World};

async fn listed(w: &World<'_>) -> Vec<SessionInfo> {
    w.ok(w.manage().sessions().await, "sessions")
}

/// Ids of the listed sessions, each with whether it lives.
async fn who_lives(w: &World<'_>) -> Vec<(SessionId, bool)> {
    listed(w).await.iter().map(|session| (session.id, session.lives)).collect()
}

/// Sessions are listed from their attachment on, by id, with host and lease, whether they hold something or not. One that
/// has expired or was ended does not live, and one that has detached is not listed.
pub async fn r24a_attached_sessions_are_listed_with_liveness(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.same(&listed(&w).await, &vec![], "a hub without sessions");
    w.start("order").await;
    let (holds, idle, leaves) = (w.session().await, w.session().await, w.session().await);
    holds.turn().await;
    let found = listed(&w).await;
    let ids: Vec<SessionId> = found.iter().map(|session| session.id).collect();
    w.same(&ids, &vec![holds.id(), idle.id(), leaves.id()], "all of them, by id");
    for session in &found {
        // The suite names a host after its session.
        w.same(
            &Some(&session.host),
            &HostId::new(format!("host {}", session.id.0)).ok().as_ref(),
            "the host",
        );
        w.check(session.expires_at >= w.at(LEASE), "the lease runs from the attachment on");
        w.check(session.lives, "a session lives that has attached");
    }
    leaves.detach().await;
    w.same(&who_lives(&w).await, &vec![(holds.id(), true), (idle.id(), true)], "one has detached");

    w.advance(LEASE * 2 / 3).await;
    idle.renew().await;
    w.advance(LEASE * 2 / 3).await;
    w.same(
        &who_lives(&w).await,
        &vec![(holds.id(), false), (idle.id(), true)],
        "one has expired, one was renewed",
    );
    let renewed = listed(&w).await.into_iter().find(|session| session.id == idle.id());
    let moved = renewed.is_some_and(|session| session.expires_at >= w.at(LEASE + LEASE * 2 / 3));
    w.check(moved, "a renewal moves the end of the lease");
    one_that_was_ended_does_not_live(&w, &idle).await;
}

/// It holds something, so that the store has to remember it.
async fn one_that_was_ended_does_not_live(w: &World<'_>, session: &Session) {
    session.turns().await;
    w.ok(w.manage().end_session(session.id()).await, "end_session");
    let living: Vec<_> = who_lives(w).await.into_iter().filter(|(_, lives)| *lives).collect();
    w.same(&living, &vec![], "one was ended");
    w.check(who_lives(w).await.contains(&(session.id(), false)), "it holds the turn until another takes it");
}
