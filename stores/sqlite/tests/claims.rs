//! The lease claims on one file: who may claim, renew, release and commit, and when. The numbers in the names are those
//! of `docs/CLAIMS.md`. Two handles on one file are two hosts; the clock stands still until a test moves it.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::support::build::{detail, host, instance, message, start, step, task};
use crate::support::claims::{Claims, want};
use crate::support::{Folder, clock, everything, options, run};
use dauer_sqlite::{ManualClock, SqliteStore};
use dauer_store::{
    Checkpoint, ClaimedTurn, Clock, Completion, Delivered, DropReason, DumpItem, Host, HubName, Item, Manage,
    Refused, Release, Revision, SessionId, Status, TaskLease, Then, Timestamp, Work,
};

const LEASE: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(1);

/// Two hosts on one file.
struct Two {
    clock: Arc<ManualClock>,
    hubs: [Arc<dyn Manage>; 2],
    stores: [SqliteStore; 2],
    folder: Folder,
}

impl Two {
    fn new() -> Self {
        let (folder, clock) = (Folder::new(), clock());
        let open = || SqliteStore::open(folder.file(), options(&clock)).expect("the file opens");
        let stores = [open(), open()];
        let hubs = [0, 1].map(|at: usize| stores[at].hub(HubName::default()));
        Self { clock, hubs, stores, folder }
    }

    /// The session of the host with that number, on the handle that it says.
    async fn session(&self, handle: usize, number: u128) -> Arc<dyn Work> {
        self.hubs[handle].attach(host(number, LEASE)).await.expect("a new session")
    }

    async fn create(&self, id: &str) {
        self.hubs[0].create(vec![start(id)]).await.remove(0).expect("a new instance");
    }

    /// One number or text of the file, by a connection of the test's own.
    fn column<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        let file = rusqlite::Connection::open(self.folder.file()).expect("a database");
        file.query_row(sql, [], |row| row.get(0)).expect("one row")
    }

    fn change(&self, sql: &str) {
        let file = rusqlite::Connection::open(self.folder.file()).expect("a database");
        file.execute_batch(sql).expect("a change by hand");
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        self.stores.iter().for_each(SqliteStore::close);
    }
}

async fn claim(session: &Arc<dyn Work>) -> Option<ClaimedTurn> {
    session.claim_turns(want(1)).await.expect("a claim").pop()
}

async fn commit(session: &Arc<dyn Work>, checkpoint: Checkpoint) -> Result<Revision, Refused> {
    session.commit_turns(vec![checkpoint.into()]).await.remove(0).map(|committed| committed.revision)
}

async fn give_back(session: &Arc<dyn Work>, item: Item) -> Result<(), Refused> {
    let release = Release { item, delay: Duration::ZERO, trouble: None, failed: false };
    session.release(vec![release]).await.remove(0)
}

fn is_fenced<T: std::fmt::Debug>(result: &Result<T, Refused>) -> bool {
    matches!(result, Err(Refused::Fenced))
}

/// Both at the same moment, on threads of their own.
fn at_once<T: Send>(one: impl FnOnce() -> T + Send, two: impl FnOnce() -> T + Send) -> (T, T) {
    let together = Barrier::new(2);
    std::thread::scope(|threads| {
        let other = threads.spawn(|| {
            together.wait();
            two()
        });
        together.wait();
        let one = one();
        (one, other.join().expect("the other thread"))
    })
}

#[test]
fn lease_a01_a20_of_hosts_that_race_for_an_instance_one_gets_it() {
    let two = Two::new();
    let (one, other) = run(async { (two.session(0, 1).await, two.session(1, 2).await) });
    for round in 0..25 {
        run(two.create(&format!("order{round}")));
        let (first, second) = at_once(|| run(claim(&one)), || run(claim(&other)));
        let (winner, loser, turn) = match (first, second) {
            (Some(turn), None) => (&one, &other, turn),
            (None, Some(turn)) => (&other, &one, turn),
            both => panic!("one of them has it, not {both:?}"),
        };
        run(async {
            assert!(claim(loser).await.is_none(), "it is held");
            assert!(is_fenced(&commit(loser, step(&turn)).await), "only the winner carries it out");
            assert_eq!(commit(winner, step(&turn)).await.unwrap(), Revision(1));
        });
    }
}

#[test]
fn lease_a02_every_modification_adds_one_to_the_revision() {
    let two = Two::new();
    let stored = || two.column::<i64>("SELECT revision FROM instances");
    run(async {
        two.create("order").await;
        assert_eq!(stored(), 0);
        let session = two.session(0, 1).await;
        let turn = claim(&session).await.unwrap();
        session.renew().await.unwrap();
        assert_eq!(stored(), 0, "a claim and a renewal modify no state");
        assert_eq!(commit(&session, step(&turn)).await.unwrap(), Revision(1));
        assert_eq!(stored(), 1);
        two.hubs[1].send(vec![message("order", "event")]).await.remove(0).unwrap();
        let turn = claim(&session).await.unwrap();
        assert_eq!(two.hubs[1].amend(step(&turn)).await.unwrap().revision, Revision(2));
        assert_eq!(stored(), 2, "an operator's change counts like a turn");
    });
}

#[test]
fn lease_a03_a35_of_two_changes_to_the_same_revision_one_is_refused_and_may_try_again() {
    let two = Two::new();
    let session = run(two.session(0, 1));
    for round in 0..25 {
        let id = format!("order{round}");
        run(two.create(&id));
        let seen = run(claim(&session)).unwrap();
        let change = |by: &str| {
            let mut change = step(&seen);
            detail(&mut change, &seen, |details| details.set_custom_status(Some(by.into())));
            change
        };
        let amend = |handle: usize, by: &str| run(two.hubs[handle].amend(change(by)));
        let (first, second) = at_once(|| amend(0, "first"), || amend(1, "second"));
        let (loser, handle) = match (&first, &second) {
            (Ok(_), Err(Refused::Fenced)) => ("second", 1),
            (Err(Refused::Fenced), Ok(_)) => ("first", 0),
            both => panic!("one passes and the other is told, not {both:?}"),
        };
        run(async {
            let found = two.hubs[handle].get(vec![instance(&id)]).await.unwrap().remove(0);
            let (fence, record) = found.unwrap();
            assert_eq!(record.revision, Revision(1), "the loser left nothing behind");
            // Whoever was refused looks again and has another try.
            let seen = ClaimedTurn { fence, record, messages: Vec::new(), ..seen.clone() };
            let mut again = step(&seen);
            detail(&mut again, &seen, |details| details.set_custom_status(Some(loser.into())));
            assert_eq!(two.hubs[handle].amend(again).await.unwrap().revision, Revision(2));
        });
    }
}

#[test]
fn lease_a05_a12_a_claim_names_its_owner_its_end_and_its_version() {
    let two = Two::new();
    run(async {
        two.create("order").await;
        let session = two.session(0, 7).await;
        let turn = claim(&session).await.unwrap();
        let ends = two.clock.now().after(LEASE);
        let owner = "FROM instances AS i JOIN sessions AS s ON s.key = i.holder WHERE i.id = 'order'";
        assert_eq!(two.column::<String>(&format!("SELECT s.host {owner}")), "host 7");
        assert_eq!(two.column::<i64>(&format!("SELECT s.expires_at {owner}")), ends.0);
        assert_eq!(two.column::<u32>(&format!("SELECT i.epoch {owner}")), turn.fence.epoch.0 as u32);

        // The same for whoever looks through the store, from any handle.
        let items = everything(&*two.hubs[1]).await;
        let lease = items.iter().find_map(|item| match item {
            DumpItem::Session(lease) => Some((lease.id, lease.host.as_str(), lease.expires_at)),
            _ => None,
        });
        assert_eq!(lease, Some((SessionId(7), "host 7", ends)));
        let held = items.iter().find_map(|item| match item {
            DumpItem::Instance(dump) => Some((dump.holder, dump.epoch, dump.record.revision)),
            _ => None,
        });
        assert_eq!(held, Some((Some(SessionId(7)), turn.fence.epoch, turn.fence.revision)));
    });
}

#[test]
fn lease_a06_a08_a14_a36_a_lease_blocks_others_until_its_end_and_no_longer() {
    let two = Two::new();
    run(async {
        two.create("order").await;
        let dead = two.session(0, 1).await;
        let lost = claim(&dead).await.unwrap();
        two.clock.advance(LEASE - MOMENT);
        let heir = two.session(1, 2).await;
        assert!(claim(&heir).await.is_none(), "a lease that runs is respected");
        two.clock.advance(MOMENT);
        let taken = claim(&heir).await.expect("nobody holds anything longer than its lease");
        assert!(taken.fence.epoch > lost.fence.epoch, "it has changed hands");
        assert_eq!(taken.record.deaths.workers, 1, "the last holder is taken for dead");
        assert_eq!(commit(&heir, step(&taken)).await.unwrap(), Revision(1));
    });
}

#[test]
fn lease_a13_a_claim_brings_state_and_fence_or_says_why_not() {
    let two = Two::new();
    run(async {
        two.create("order").await;
        let session = two.session(0, 1).await;
        let turn = claim(&session).await.unwrap();
        assert_eq!(turn.record.revision, turn.fence.revision);
        assert_eq!(turn.messages.len(), 1, "its start");
        assert!(claim(&session).await.is_none(), "nothing ready is no failure");

        two.clock.advance(LEASE);
        let Err(Refused::NotExecuted(reason)) = session.claim_turns(want(1)).await else {
            panic!("an expired session was not refused");
        };
        assert!(reason.to_string().contains("renew"), "what to do next: {reason}");
        two.hubs[1].end_session(SessionId(1)).await.unwrap();
        assert!(is_fenced(&session.claim_turns(want(1)).await), "a session that was ended for good");
    });
}

#[test]
fn lease_a15_a22_a_renewal_is_refused_to_all_but_the_living_owner() {
    let two = Two::new();
    run(async {
        let session = two.session(0, 1).await;
        assert!(session.renew().await.is_ok());
        let thief = Host { id: host(2, LEASE).id, ..host(1, LEASE) };
        // On the same handle: between handles the lock of a session's file would refuse it first.
        assert!(is_fenced(&two.hubs[0].attach(thief).await.map(|_| ())), "another owner");
        two.create("order").await;
        assert!(claim(&session).await.is_some(), "who holds something is remembered after its end");
        two.hubs[1].end_session(SessionId(1)).await.unwrap();
        assert!(is_fenced(&session.renew().await), "an owner that is dead by proof");
        let gone = two.session(1, 3).await;
        gone.detach().await.unwrap();
        assert!(is_fenced(&gone.renew().await), "an owner that has left");
    });
}

#[test]
fn lease_a16_only_the_owner_releases_and_only_its_own_claim() {
    let two = Two::new();
    run(async {
        two.create("order").await;
        let (owner, other) = (two.session(0, 1).await, two.session(1, 2).await);
        let turn = claim(&owner).await.unwrap();
        assert!(is_fenced(&give_back(&other, Item::Turn(turn.fence.clone())).await), "another owner");
        let mut early = turn.fence.clone();
        early.epoch = dauer_store::Epoch(early.epoch.0 - 1);
        assert!(is_fenced(&give_back(&owner, Item::Turn(early)).await), "an earlier claim");
        assert!(claim(&other).await.is_none(), "what was refused has released nothing");
        give_back(&owner, Item::Turn(turn.fence)).await.unwrap();
        assert!(claim(&other).await.is_some());
    });
}

#[test]
fn lease_a17_a42_a_claim_brings_what_is_ready_for_it_and_no_more_than_it_asks_for() {
    let two = Two::new();
    run(async {
        for number in 0..20 {
            two.create(&format!("order{number}")).await;
        }
        let mut later = start("later");
        later.start.visible_at = two.clock.now().after(LEASE);
        two.hubs[0].create(vec![later]).await.remove(0).unwrap();
        let (one, other) = (two.session(0, 1).await, two.session(1, 2).await);
        let first = one.claim_turns(want(10)).await.unwrap();
        let second = other.claim_turns(want(usize::MAX)).await.unwrap();
        assert_eq!((first.len(), second.len()), (10, 10), "what one leaves is there for the other");
        let ids =
            |turns: &[ClaimedTurn]| turns.iter().map(|turn| turn.fence.instance.clone()).collect::<Vec<_>>();
        assert!(ids(&first).iter().all(|id| !ids(&second).contains(id)), "nothing is there twice");
        assert!(!ids(&second).contains(&instance("later")), "what is not due is not ready");
    });
}

#[test]
fn lease_a18_a_claim_that_breaks_half_way_has_claimed_nothing() {
    let two = Two::new();
    run(async {
        two.create("first").await;
        two.create("second").await;
        let session = two.session(0, 1).await;
        two.change(
            "CREATE TRIGGER broken BEFORE UPDATE ON instances WHEN new.id = 'second'
             BEGIN SELECT RAISE(FAIL, 'broken by the test'); END",
        );
        let refused = session.claim_turns(want(2)).await;
        assert!(matches!(refused, Err(Refused::NotExecuted(_))), "{refused:?}");
        assert_eq!(two.column::<i64>("SELECT count(*) FROM instances WHERE holder IS NOT NULL"), 0);
        assert_eq!(two.column::<i64>("SELECT max(epoch) FROM instances"), 0);
        two.change("DROP TRIGGER broken");
        assert_eq!(session.claim_turns(want(2)).await.unwrap().len(), 2);
    });
}

#[test]
fn lease_a23_a24_a_renewal_extends_the_lease_and_changes_nothing_else() {
    let two = Two::new();
    run(async {
        two.create("order").await;
        let session = two.session(0, 1).await;
        let turn = claim(&session).await.unwrap();
        let row =
            || -> String { two.column("SELECT epoch || ' ' || revision || ' ' || holder FROM instances") };
        let before = row();
        let other = two.session(1, 2).await;
        for _ in 0..5 {
            two.clock.advance(LEASE - MOMENT);
            assert!(session.renew().await.unwrap().is_empty(), "nothing was lost");
            let ends: i64 = two.column("SELECT expires_at FROM sessions WHERE host = 'host 1'");
            assert_eq!(Timestamp(ends), two.clock.now().after(LEASE), "a whole lease from the renewal on");
            other.renew().await.unwrap();
            assert!(claim(&other).await.is_none(), "what is renewed is held");
        }
        assert_eq!(row(), before);
        assert_eq!(
            commit(&session, step(&turn)).await.unwrap(),
            Revision(1),
            "the fence of the claim still holds"
        );
    });
}

#[test]
fn lease_a25_a_release_clears_the_lease_at_once_and_others_may_claim() {
    let two = Two::new();
    let free = || two.column::<i64>("SELECT count(*) FROM instances WHERE holder IS NULL");
    run(async {
        two.create("order").await;
        let (one, other) = (two.session(0, 1).await, two.session(1, 2).await);
        let turn = claim(&one).await.unwrap();
        assert_eq!(free(), 0);
        give_back(&one, Item::Turn(turn.fence)).await.unwrap();
        assert_eq!(free(), 1, "by a release");
        let turn = claim(&other).await.expect("others may claim");
        commit(&other, step(&turn)).await.unwrap();
        assert_eq!(free(), 1, "by a commit");
        two.hubs[0].send(vec![message("order", "event")]).await.remove(0).unwrap();
        assert!(claim(&one).await.is_some());
        one.detach().await.unwrap();
        assert_eq!(free(), 1, "by leaving");
        assert_eq!(two.column::<i64>("SELECT count(*) FROM sessions WHERE host = 'host 1'"), 0);
        let mut end = step(&claim(&other).await.unwrap());
        (end.record.status, end.then) = (Status::Completed, Then::Keep);
        commit(&other, end).await.unwrap();
        assert_eq!(free(), 1, "by its end, even if its host wanted to keep it (lease-A19)");
    });
}

fn answer(lease: &TaskLease) -> Completion {
    let answer = message(lease.fence.instance.as_str(), "result");
    Completion { fence: lease.fence.clone(), answer }
}

#[test]
fn lease_a37_a_host_that_returns_after_a_takeover_is_refused_in_everything() {
    let two = Two::new();
    run(async {
        two.create("order").await;
        let zombie = two.session(0, 1).await;
        let first = claim(&zombie).await.unwrap();
        let mut with_task = step(&first);
        with_task.tasks = vec![task(&first, "pay")];
        commit(&zombie, with_task).await.unwrap();
        two.hubs[0].send(vec![message("order", "event")]).await.remove(0).unwrap();
        let turn = claim(&zombie).await.unwrap();
        let lease = zombie.claim_activities(want(1)).await.unwrap().remove(0);

        // It hears nothing for a whole lease; another takes over, and has not committed anything yet.
        two.clock.advance(LEASE);
        let heir = two.session(1, 2).await;
        let (taken, taken_lease) =
            (claim(&heir).await.unwrap(), heir.claim_activities(want(1)).await.unwrap().remove(0));
        assert_eq!(taken.fence.revision, turn.fence.revision, "only the epoch tells the two apart");
        assert!(is_fenced(&commit(&zombie, step(&turn)).await), "its commit");
        assert!(is_fenced(&give_back(&zombie, Item::Turn(turn.fence.clone())).await), "its release");
        let late = zombie.complete_activities(vec![answer(&lease)]).await.remove(0).unwrap();
        assert_eq!(late, Delivered::Dropped(DropReason::NotHeld), "its result");
        let lost = zombie.renew().await.unwrap();
        assert_eq!(lost.len(), 2, "it learns what it has lost: {lost:?}");

        assert_eq!(commit(&heir, step(&taken)).await.unwrap(), Revision(2));
        let applied = heir.complete_activities(vec![answer(&taken_lease)]).await.remove(0).unwrap();
        assert_eq!(applied, Delivered::Applied);
        let history = two.hubs[0].read_history(&instance("order"), None, 0, usize::MAX).await.unwrap();
        let owners: Vec<_> = history.batches.iter().map(|batch| batch.owner.as_str()).collect();
        assert_eq!(owners, ["host 1", "host 2"], "before the takeover and after it");
    });
}
