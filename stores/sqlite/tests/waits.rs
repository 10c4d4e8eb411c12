//! Credit that is spent in the write that makes work ready, and the one wait of a session.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::sync::Arc;
use std::time::Duration;

use dauer_sqlite::SqliteStore;
use dauer_store::{
    Amount, Class, Clock, Create, Credit, HubName, Item, Kind, Lost, Manage, QueueKey, Queues, Tags, Then,
    Until, VersionRule, Work,
};
use futures::FutureExt;

use crate::support::build::{host, instance, message, start, step, task};
use crate::support::claims::{Claims, has_looked, names, waits, want};
use crate::support::{Folder, clock, database, options, run};

const LEASE: Duration = Duration::from_secs(30);

/// A new file, and a session on it. The writer has told all that it says of a file that is new to it: that comes behind the
/// answer to its first write, and before the second.
fn on_a_file(test: impl AsyncFnOnce(&Folder, Arc<dyn Manage>, Arc<dyn Work>)) {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file(), options(&clock())).unwrap();
    let hub = store.hub(HubName::default());
    run(async {
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        session.renew().await.unwrap();
        test(&folder, hub, session).await;
    });
    store.close();
}

fn turns(count: usize) -> Credit {
    want(count).turns(1)
}

#[test]
fn start_and_its_win_are_one_write() {
    on_a_file(async |_, hub, session| {
        has_looked(&*session, turns(2)).await;
        let mut waiting = waits(&*session);
        assert!((&mut waiting).now_or_never().is_none(), "nothing is ready");
        let before = hub.effort().commits;
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        let turn = waiting.await.unwrap().turns.remove(0);
        assert_eq!(hub.effort().commits - before, 1, "one write for both");
        assert_eq!(hub.effort().claims, 0, "and one row");
        assert_eq!((turn.fence.instance.as_str(), turn.messages.len()), ("order", 1));
        assert_eq!(session.next(Until::Once).await.unwrap().turns, [], "it was handed out");
        session.commit_turns(vec![step(&turn).into()]).await.remove(0).unwrap();
    });
}

#[test]
fn what_credit_has_no_room_for_is_won_by_the_next_wait() {
    on_a_file(async |_, hub, session| {
        has_looked(&*session, turns(1)).await;
        hub.create(vec![start("first"), start("second")]).await;
        let mut won = Vec::new();
        for _ in 0..2 {
            let turns_won = waits(&*session).await.unwrap().turns;
            assert_eq!(turns_won.len(), 1, "no more than there is credit for");
            won.extend(turns_won);
            assert!(waits(&*session).now_or_never().is_none(), "the credit is spent");
            session.credit(turns(1));
        }
        assert_eq!(names(&won), ["first", "second"]);
        assert!(waits(&*session).now_or_never().is_none(), "nothing is left");
    });
}

#[test]
fn older_work_is_won_before_a_new_start() {
    on_a_file(async |_, hub, session| {
        hub.create(vec![start("zebra")]).await.remove(0).unwrap();
        // The session has not looked since.
        session.credit(turns(1));
        hub.create(vec![start("ant")]).await.remove(0).unwrap();
        assert_eq!(names(&waits(&*session).await.unwrap().turns), ["zebra"]);
    });
}

#[test]
fn small_start_does_not_come_before_a_large_one() {
    on_a_file(async |_, hub, session| {
        let mut large = start("large");
        large.start.event = crate::support::build::event(&"x".repeat(500));
        has_looked(&*session, Credit { turns: Amount { count: 9, bytes: 100 }, ..turns(9) }).await;
        hub.create(vec![start("first"), large, start("small")]).await;
        for expected in ["first", "large", "small"] {
            assert_eq!(names(&waits(&*session).await.unwrap().turns), [expected]);
        }
    });
}

#[test]
fn new_tasks_are_won_without_another_row() {
    on_a_file(async |folder, hub, session| {
        hub.create(vec![start("zero"), start("one"), start("two")]).await;
        let turns = session.claim_turns(want(3)).await.unwrap();
        let mut rows = Vec::new();
        for (number, turn) in turns.iter().enumerate() {
            if number == 2 {
                assert_eq!(session.claim_activities(want(9)).await.unwrap().len(), 6);
                has_looked(&*session, want(2).tasks(1)).await;
            }
            let mut fan_out = step(turn);
            fan_out.tasks = ["a", "b", "c"].map(|name| task(turn, &format!("{name}{number}"))).into();
            let before = hub.effort().rows;
            session.commit_turns(vec![fan_out.into()]).await.remove(0).unwrap();
            rows.push(hub.effort().rows - before);
        }
        // All make queues of their own; the first one makes the row of the host besides.
        assert_eq!(rows[1], rows[2], "the rows of the tasks say who has them");
        let held = "SELECT count(*) FROM tasks AS t JOIN instances AS i ON i.key = t.instance
            WHERE i.id = 'two' AND t.holder IS NOT NULL AND t.epoch = 1 AND t.place IS NULL";
        let held: i64 = database(folder).query_row(held, [], |row| row.get(0)).unwrap();
        assert_eq!(held, 2, "no more than there is credit for");
        let won = waits(&*session).await.unwrap().tasks;
        let won: Vec<_> = won.iter().map(|lease| &*lease.task.queue.name).collect();
        assert_eq!(won, ["a2", "b2"], "the first of them");
    });
}

#[test]
fn message_for_a_kept_instance_is_named_beside_what_was_won() {
    on_a_file(async |_, hub, session| {
        hub.create(vec![start("kept")]).await.remove(0).unwrap();
        let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
        let mut keep = step(&turn);
        keep.then = Then::Keep;
        session.commit_turns(vec![keep.into()]).await.remove(0).unwrap();
        has_looked(&*session, turns(2)).await;
        // Both calls are there before the writer is asked, which takes all that waits into one transaction; in two they are
        // named one after the other.
        let sent = hub.send(vec![message("kept", "event")]);
        let created = hub.create(vec![start("new")]);
        futures::join!(sent, created);
        let (mut won, mut mail) = (Vec::new(), Vec::new());
        while won.is_empty() || mail.is_empty() {
            let next = waits(&*session).await.unwrap();
            won.extend(next.turns);
            mail.extend(next.mail);
        }
        assert_eq!((names(&won), mail), (vec!["new"], vec![instance("kept")]));
        assert!(waits(&*session).now_or_never().is_none(), "named once for a delivery");
        assert_eq!(session.next(Until::Once).await.unwrap().mail, [instance("kept")], "and by each look");
    });
}

#[test]
fn win_after_a_dropped_wait_comes_with_the_next() {
    on_a_file(async |_, hub, session| {
        has_looked(&*session, turns(2)).await;
        let mut waiting = waits(&*session);
        assert!((&mut waiting).now_or_never().is_none());
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        // Won, and on its way.
        drop(waiting);
        assert_eq!(names(&waits(&*session).await.unwrap().turns), ["order"]);
        // Without credit it takes nothing from others.
        session.credit(turns(0));
        let other = hub.attach(host(2, LEASE)).await.unwrap();
        hub.create(vec![start("later")]).await.remove(0).unwrap();
        assert_eq!(names(&other.claim_turns(want(2)).await.unwrap()), ["later"]);
    });
}

/// The same start with a tag, and for another queue.
fn other_start(id: &str, queue: &str) -> Create {
    let mut create = start(id);
    if let Class::Start(start) = &mut create.start.class {
        start.queue = QueueKey::new(Kind::Orchestration, queue, None);
        start.tags = north();
    }
    create
}

fn north() -> Tags {
    [("zone".to_owned(), "north".to_owned())].into()
}

fn only(queue: &str) -> Queues {
    let names = [(queue.into(), VersionRule::Any)];
    Queues { orchestrations: names.into_iter().collect(), ..Queues::default() }
}

/// What is made in one write goes to the sessions with credit for it, and what none has credit for is left.
#[test]
fn new_instance_goes_to_a_session_with_credit_for_it() {
    on_a_file(async |_, hub, session| {
        let small = Credit { turns: Amount { count: 9, bytes: 1 }, queues: only("Small"), ..turns(9) };
        let credits = [
            Credit { queues: only("Other"), ..turns(9) },
            Credit { tags: north(), queues: only("Tagged"), ..turns(1) },
            small,
        ];
        let mut sessions = Vec::new();
        for (number, credit) in (2..).zip(credits) {
            let session = hub.attach(host(number, LEASE)).await.unwrap();
            has_looked(&*session, credit).await;
            sessions.push(session);
        }
        let mut later = other_start("later", "Other");
        later.start.visible_at = clock().now().after(Duration::from_secs(9));
        let all = vec![
            other_start("other-1", "Other"),
            start("nobody's"),
            other_start("tagged-1", "Tagged"),
            other_start("other-2", "Other"),
            other_start("tagged-2", "Tagged"),
            other_start("small-1", "Small"),
            other_start("small-2", "Small"),
            later,
        ];
        let before = hub.effort();
        assert!(hub.create(all).await.iter().all(Result::is_ok));
        assert_eq!(hub.effort().claims, before.claims, "none was won by a write of its own");
        let expected = [vec!["other-1", "other-2"], vec!["tagged-1"], vec!["small-1"]];
        for (session, expected) in sessions.iter().zip(expected) {
            assert_eq!(names(&waits(&**session).await.unwrap().turns), expected);
            session.credit(turns(0));
        }
        let left = session.claim_turns(want(9)).await.unwrap();
        let mut left = names(&left);
        left.sort_unstable();
        assert_eq!(left, ["nobody's", "small-2", "tagged-2"]);
    });
}

#[test]
fn other_hubs_and_expired_sessions_win_nothing() {
    let folder = Folder::new();
    let clock = clock();
    let store = SqliteStore::open(folder.file(), options(&clock)).unwrap();
    run(async {
        let (hub, elsewhere) = (store.hub(HubName::default()), store.hub(HubName::new("elsewhere").unwrap()));
        // The same session id in both hubs: it is not the same session.
        let (session, stranger) =
            (hub.attach(host(1, LEASE)).await.unwrap(), elsewhere.attach(host(1, LEASE)).await.unwrap());
        has_looked(&*stranger, turns(9)).await;
        has_looked(&*session, turns(9)).await;
        hub.create(vec![start("first")]).await.remove(0).unwrap();
        assert_eq!(names(&waits(&*session).await.unwrap().turns), ["first"]);
        clock.advance(LEASE * 2);
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        assert!(waits(&*session).await.is_err(), "it is to renew first");
        assert_eq!(stranger.renew().await.unwrap(), []);
        assert_eq!(stranger.next(Until::Once).await.unwrap().turns, []);
        let heir = hub.attach(host(3, LEASE)).await.unwrap();
        let mut turns = heir.claim_turns(want(9)).await.unwrap();
        turns.retain(|turn| turn.fence.instance.as_str() == "order");
        assert_eq!(turns.len(), 1);
        assert_eq!((turns[0].fence.epoch.0, turns[0].record.attempts), (1, 0), "no session had it");
    });
    store.close();
}

#[test]
fn wait_ends_with_the_store() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file(), options(&clock())).unwrap();
    run(async {
        let session = store.hub(HubName::default()).attach(host(1, LEASE)).await.unwrap();
        has_looked(&*session, turns(1)).await;
        let mut waiting = waits(&*session);
        assert!((&mut waiting).now_or_never().is_none());
        store.close();
        assert!(waiting.await.is_err(), "the store is closed");
    });
}

#[test]
fn write_of_another_handle_ends_a_wait() {
    let folder = Folder::new();
    let (ours, theirs) = (crate::support::open(&folder), crate::support::open(&folder));
    run(async {
        let session = ours.hub(HubName::default()).attach(host(1, LEASE)).await.unwrap();
        has_looked(&*session, turns(1)).await;
        theirs.hub(HubName::default()).create(vec![start("order")]).await.remove(0).unwrap();
        assert_eq!(names(&waits(&*session).await.unwrap().turns), ["order"]);
    });
}

#[test]
fn task_that_is_lost_in_its_own_write_is_told() {
    let folder = Folder::new();
    let clock = clock();
    let store = SqliteStore::open(folder.file(), options(&clock)).unwrap();
    let hub = store.hub(HubName::default());
    run(async {
        let late = hub.attach(host(1, LEASE)).await.unwrap();
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        let turn = late.claim_turns(want(1)).await.unwrap().remove(0);
        clock.advance(LEASE * 2);
        let other = hub.attach(host(2, LEASE)).await.unwrap();
        has_looked(&*other, want(1).tasks(1)).await;
        let mut checkpoint = step(&turn);
        (checkpoint.tasks, checkpoint.take) = (vec![task(&turn, "pay")], 1);
        let committed = late.commit_turns(vec![checkpoint.into()]).await.remove(0).unwrap();
        let won = other.next(Until::Once).await.unwrap().tasks;
        assert_eq!(won.len(), 1, "the session that took it does not live");
        let told = late.renew().await.unwrap();
        let lost = Lost { item: Item::Task(committed.taken[0].fence.clone()) };
        assert!(told.contains(&lost), "{told:?}");
    });
    store.close();
}
