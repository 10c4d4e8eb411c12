//! Claims that wait in the store: what becomes ready is theirs in the write that makes it so.

use std::sync::Arc;
use std::time::Duration;

use dauer_sqlite::SqliteStore;
use dauer_store::{
    Changes, Class, Create, DumpItem, Hint, HubName, Kind, Manage, QueueKey, Queues, Then, Timestamp,
    VersionRule, Want, Work,
};
use futures::{FutureExt, StreamExt};

use crate::support::build::{host, instance, message, start, step, want};
use crate::support::{Folder, clock, options, run};

const LEASE: Duration = Duration::from_secs(30);

/// A new file, and a session on it. The writer has told all that it says of a file that is new to it: that comes behind the
/// answer to its first write, and before the second.
fn on_a_file(test: impl AsyncFnOnce(Arc<dyn Manage>, Arc<dyn Work>)) {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file(), options(&clock())).unwrap();
    let hub = store.hub(HubName::default());
    run(async {
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        session.renew().await.unwrap();
        test(hub, session).await;
    });
    store.close();
}

/// The turns that listeners are told of now.
fn told_of_turns(changes: &mut Changes) -> usize {
    let heard = std::iter::from_fn(|| changes.next().now_or_never().flatten());
    heard.filter(|hint| *hint == Hint::Ready(Kind::Orchestration)).count()
}

#[test]
fn a_start_and_its_claim_are_one_write_and_nobody_is_told() {
    on_a_file(async |hub, session| {
        let mut changes = session.changes();
        let mut waits = session.await_turns(want(2));
        assert!((&mut waits).now_or_never().is_none(), "nothing is ready");
        let before = hub.effort().commits;
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        let turn = waits.await.unwrap().remove(0);
        assert_eq!(hub.effort().commits - before, 1, "one write for both");
        assert_eq!(hub.effort().claims, 0, "and one row");
        assert_eq!(told_of_turns(&mut changes), 0, "there is nothing to ask for");
        assert_eq!((turn.fence.instance.as_str(), turn.messages.len()), ("order", 1));
        assert!(session.claim_turns(want(2)).await.unwrap().is_empty(), "it was handed out");
        session.commit_turns(vec![step(&turn).into()]).await.remove(0).unwrap();
    });
}

#[test]
fn whoever_leaves_something_has_all_told() {
    on_a_file(async |hub, session| {
        let mut changes = session.changes();
        let waits = session.await_turns(want(1));
        futures::pin_mut!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        hub.create(vec![start("first"), start("second")]).await;
        assert_eq!(waits.await.unwrap().len(), 1, "no more than it wants");
        assert_eq!(told_of_turns(&mut changes), 1);
        assert_eq!(session.claim_turns(want(2)).await.unwrap().len(), 1);
    });
}

/// Whatever else the claim that waits has won.
#[test]
fn message_for_a_kept_instance_is_told() {
    on_a_file(async |hub, session| {
        hub.create(vec![start("kept")]).await.remove(0).unwrap();
        let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
        let mut keep = step(&turn);
        keep.then = Then::Keep;
        session.commit_turns(vec![keep.into()]).await.remove(0).unwrap();
        let mut waits = session.await_turns(want(2));
        assert!((&mut waits).now_or_never().is_none());
        let mut changes = session.changes();
        // Both calls are there before the writer is asked, which takes all that waits into one transaction; and if it
        // did not, the message would be told all the same.
        let sent = hub.send(vec![message("kept", "event")]);
        let created = hub.create(vec![start("new")]);
        futures::join!(sent, created);
        let won = waits.await.unwrap();
        assert_eq!(won.iter().map(|turn| turn.fence.instance.as_str()).collect::<Vec<_>>(), ["new"]);
        let told = std::iter::from_fn(|| changes.next().now_or_never().flatten());
        assert!(told.into_iter().any(|hint| hint == Hint::Mail(instance("kept"))));
        assert_eq!(session.waiting_mail().await.unwrap().instances, [instance("kept")]);
    });
}

#[test]
fn what_a_claim_won_after_it_was_given_up_comes_with_the_next() {
    on_a_file(async |hub, session| {
        let mut waits = session.await_turns(want(2));
        assert!((&mut waits).now_or_never().is_none());
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        // Won, and on its way.
        drop(waits);
        assert_eq!(session.claim_turns(want(2)).await.unwrap()[0].fence.instance.as_str(), "order");
        // Given up before anything is ready, it takes nothing from others.
        let mut waits = session.await_turns(want(2));
        assert!((&mut waits).now_or_never().is_none());
        drop(waits);
        let other = hub.attach(host(2, LEASE)).await.unwrap();
        hub.create(vec![start("later")]).await.remove(0).unwrap();
        assert_eq!(other.claim_turns(want(2)).await.unwrap()[0].fence.instance.as_str(), "later");
    });
}

/// The same start with a tag, and for another queue.
fn other_start(id: &str, queue: &str) -> Create {
    let mut create = start(id);
    if let Class::Start(start) = &mut create.start.class {
        start.record.queue = QueueKey::new(Kind::Orchestration, queue, None);
        start.record.tags = [("zone".to_owned(), "north".to_owned())].into();
    }
    create
}

fn only(queue: &str) -> Queues {
    let names = [(queue.into(), VersionRule::Any)];
    Queues { orchestrations: names.into_iter().collect(), ..Queues::default() }
}

/// What is made in one write goes to the claims that want it, and what none of them wants is left.
#[test]
fn a_new_instance_is_offered_to_whoever_wants_such() {
    on_a_file(async |hub, session| {
        let tagged = Want { tags: [("zone".to_owned(), "north".to_owned())].into(), ..want(1) };
        let small = Want { queues: only("Small"), bytes: 1, ..want(9) };
        let claims = [Want { queues: only("Other"), ..want(9) }, tagged, small];
        let mut waits: Vec<_> = claims.into_iter().map(|want| session.await_turns(want)).collect();
        for wait in &mut waits {
            assert!(wait.now_or_never().is_none());
        }
        let mut later = other_start("later", "Other");
        later.start.visible_at =
            later.start.visible_at.max(hub_time(&*hub).await).after(Duration::from_secs(9));
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
        assert_eq!(hub.effort().claims, before.claims, "none was claimed by a write of its own");
        let mut won = Vec::new();
        for wait in waits {
            let turns = wait.await.unwrap();
            won.push(turns.iter().map(|turn| turn.fence.instance.to_string()).collect::<Vec<_>>());
        }
        assert_eq!(won, [vec!["other-1", "other-2"], vec!["tagged-1"], vec!["small-1"]]);
        let left = session.claim_turns(want(9)).await.unwrap();
        let left: Vec<_> = left.iter().map(|turn| turn.fence.instance.as_str()).collect();
        assert_eq!(left.len(), 3, "{left:?}");
        assert!(["nobody's", "tagged-2", "small-2"].iter().all(|name| left.contains(name)), "{left:?}");
    });
}

async fn hub_time(hub: &dyn Manage) -> Timestamp {
    let dump = hub.dump(None).await.unwrap();
    let now =
        dump.items.iter().find_map(|item| if let DumpItem::Now(now) = item { Some(*now) } else { None });
    now.unwrap()
}

#[test]
fn another_hub_and_a_session_whose_time_is_over_are_offered_nothing() {
    let folder = Folder::new();
    let clock = clock();
    let store = SqliteStore::open(folder.file(), options(&clock)).unwrap();
    run(async {
        let (hub, elsewhere) = (store.hub(HubName::default()), store.hub(HubName::new("elsewhere").unwrap()));
        let (session, stranger) =
            (hub.attach(host(1, LEASE)).await.unwrap(), elsewhere.attach(host(2, LEASE)).await.unwrap());
        let (mut strange, mut late) = (stranger.await_turns(want(9)), session.await_turns(want(9)));
        assert!((&mut strange).now_or_never().is_none() && (&mut late).now_or_never().is_none());
        let first = hub.create(vec![start("first")]).await.remove(0);
        assert!(first.is_ok() && late.await.unwrap().len() == 1);
        assert_eq!(hub.effort().claims, 0, "the other hub's claim is not in the way");
        let mut late = session.await_turns(want(9));
        assert!((&mut late).now_or_never().is_none());
        clock.advance(LEASE * 2);
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        assert!(late.await.is_err(), "it is to renew first");
        assert!((&mut strange).now_or_never().is_none());
        let heir = hub.attach(host(3, LEASE)).await.unwrap();
        let mut turns = heir.claim_turns(want(9)).await.unwrap();
        turns.retain(|turn| turn.fence.instance.as_str() == "order");
        assert_eq!(turns.len(), 1);
        assert_eq!((turns[0].fence.epoch.0, turns[0].record.attempts), (1, 0), "nobody had it");
    });
    store.close();
}
