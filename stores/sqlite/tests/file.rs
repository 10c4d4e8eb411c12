//! The file: who may read it, what is refused and how, what survives, and what two versions do to each other.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::time::Duration;

use futures::StreamExt;

use crate::support::build::{detail, host, instance, message, start, step, task};
use crate::support::claims::{Claims, want};
use crate::support::{Folder, clock, database, everything, open, options, run};
use dauer_sqlite::{OpenError, Options, SqliteStore};
use dauer_store::{Created, Delivered, DumpItem, Hint, HubName, Refused, Store as _, Timestamp};

fn hub() -> HubName {
    HubName::new("orders").expect("a valid name")
}

#[test]
#[cfg(unix)]
fn only_its_user_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let store = open(&folder);
    run(store.hub(hub()).create(vec![start("order")]));
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    let modes: Vec<_> =
        files.map(|file| (file.file_name(), file.metadata().unwrap().permissions().mode() & 0o777)).collect();
    assert!(modes.len() >= 4, "database, log and locks: {modes:?}");
    assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
}

#[test]
fn it_is_made_as_the_design_says() {
    let folder = Folder::new();
    open(&folder).close();
    let database = database(&folder);
    let pragma = |name: &str| -> String {
        let value = database.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
        format!("{:?}", value.unwrap())
    };
    assert_eq!(pragma("auto_vacuum"), "Integer(2)", "incremental");
    assert_eq!(pragma("journal_mode"), "Text(\"wal\")");
    assert_eq!(pragma("page_size"), "Integer(4096)");
    assert_eq!(pragma("user_version"), "Integer(9)");
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = Folder::new();
    let missing = SqliteStore::open(folder.path().join("none/hub.db"), Options::default());
    assert!(matches!(missing, Err(OpenError::DirectoryMissing(_))));
    let directory = SqliteStore::open(folder.path(), Options::default());
    assert!(matches!(directory, Err(OpenError::NotAFile(_))));

    let text =
        "a shopping list that is long enough to be taken for the header of a database file, ".repeat(20);
    std::fs::write(folder.file(), &text).unwrap();
    let refused = SqliteStore::open(folder.file(), Options::default());
    assert!(matches!(refused, Err(OpenError::NotADatabase(_))));
    assert_eq!(std::fs::read_to_string(folder.file()).unwrap(), text);
}

#[test]
fn the_database_of_another_program_is_refused_and_left_alone() {
    let folder = Folder::new();
    database(&folder).execute_batch("CREATE TABLE recipes (name)").unwrap();
    let refused = SqliteStore::open(folder.file(), Options::default());
    assert!(matches!(refused, Err(OpenError::NotADatabase(_))));
    let tables = database(&folder)
        .query_row("SELECT group_concat(name) FROM sqlite_schema", [], |row| row.get::<_, String>(0));
    assert_eq!(tables.unwrap(), "recipes");
    let mode = database(&folder).pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
    assert_eq!(mode.unwrap(), "delete", "not even its settings are changed");
}

#[test]
fn a_newer_file_is_refused() {
    let folder = Folder::new();
    open(&folder).close();
    database(&folder).pragma_update(None, "user_version", 10).unwrap();
    let refused = SqliteStore::open(folder.file(), Options::default());
    assert!(matches!(refused, Err(OpenError::Newer { format: 10, .. })));
}

#[test]
fn a_file_that_becomes_newer_while_it_is_open_is_not_written_any_more() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(hub());
    assert!(run(hub.create(vec![start("one")]))[0].is_ok());
    database(&folder).execute("UPDATE meta SET generation = 10", []).unwrap();
    let refused = run(hub.create(vec![start("two")])).remove(0);
    assert!(matches!(refused, Err(Refused::Newer(_))), "{refused:?}");
    assert!(matches!(run(hub.get(vec![instance("one")])), Err(Refused::Newer(_))));
    let count = database(&folder).query_row("SELECT count(*) FROM instances", [], |row| row.get::<_, i64>(0));
    assert_eq!(count.unwrap(), 1, "nothing was written");
    let again = SqliteStore::open(folder.file(), Options::default());
    assert!(matches!(again, Err(OpenError::Newer { .. })));
}

#[test]
fn everything_is_there_after_it_was_closed() {
    let folder = Folder::new();
    let store = open(&folder);
    let manage = store.hub(hub());
    run(async {
        manage.create(vec![start("one"), start("two"), start("three")]).await;
        let session = manage.attach(host(1, Duration::from_secs(60))).await.unwrap();
        let turns = session.claim_turns(want(2)).await.unwrap();
        let mut first = step(&turns[0]);
        first.tasks = vec![task(&turns[0], "pay"), task(&turns[0], "ship")];
        first.take = 1;
        assert!(session.commit_turns(vec![first.into()]).await[0].is_ok());
        manage.send(vec![message("one", "event"), message("nobody", "lost")]).await;
    });
    let before = run(everything(&*manage));
    assert!(before.iter().filter(|item| matches!(item, DumpItem::Task(_))).count() == 2);
    store.close();
    assert!(matches!(run(manage.send(vec![message("one", "late")]))[0], Err(Refused::NotExecuted(_))));
    assert_eq!(run(everything(&*open(&folder).hub(hub()))), before);
}

#[test]
fn its_time_never_goes_backwards() {
    let (folder, ahead) = (Folder::new(), clock());
    ahead.advance(Duration::from_secs(3600));
    let later = SqliteStore::open(folder.file(), options(&ahead)).unwrap();
    run(later.hub(hub()).create(vec![start("order")]));
    let now = run(everything(&*open(&folder).hub(hub()))).into_iter().find_map(|item| match item {
        DumpItem::Now(now) => Some(now),
        _ => None,
    });
    assert_eq!(now, Some(Timestamp(1_700_003_600_000)), "the clock of the second handle is an hour behind");
}

#[test]
fn time_goes_on_when_a_clock_was_ahead_and_is_put_back() {
    let (folder, clock) = (Folder::new(), clock());
    let store = SqliteStore::open(folder.file(), options(&clock)).unwrap();
    let manage = store.hub(hub());
    run(async {
        let lease = Duration::from_secs(30);
        clock.advance(Duration::from_secs(86_400));
        manage.create(vec![start("order")]).await.remove(0).unwrap();
        let first = manage.attach(host(1, lease)).await.unwrap();
        assert_eq!(first.claim_turns(want(1)).await.unwrap().len(), 1);
        // The clock is put right: a day back. Then, by the same clock, the lease runs out as it would have.
        clock.set(Timestamp(1_700_000_000_000));
        let second = manage.attach(host(2, Duration::from_secs(600))).await.unwrap();
        clock.advance(Duration::from_secs(20));
        assert!(second.claim_turns(want(1)).await.unwrap().is_empty(), "the first lease still runs");
        clock.advance(Duration::from_secs(11));
        assert_eq!(second.claim_turns(want(1)).await.unwrap().len(), 1, "and now it has run out");
    });
}

#[test]
fn another_handle_is_told_that_something_has_changed() {
    let folder = Folder::new();
    let (one, two) = (open(&folder), open(&folder));
    let mut hints = two.hub(hub()).changes();
    run(one.hub(hub()).create(vec![start("order")]));
    run(async {
        while let Some(hint) = hints.next().await {
            if hint == Hint::Elsewhere {
                return;
            }
        }
        panic!("the hints ended");
    });
}

#[test]
fn hints_end_with_the_store() {
    let folder = Folder::new();
    let store = open(&folder);
    let mut hints = store.hub(hub()).changes();
    store.close();
    while run(hints.next()).is_some() {}
}

#[test]
fn a_damaged_instance_harms_no_other() {
    let folder = Folder::new();
    let store = open(&folder);
    let manage = store.hub(hub());
    run(manage.create(vec![start("bad"), start("good")]));
    database(&folder).execute("UPDATE instances SET base = x'0108ff' WHERE id = 'bad'", []).unwrap();
    // One batch is one group: it is rolled back when the first breaks, and the second is carried out alone.
    let sent = run(manage.send(vec![message("bad", "one"), message("good", "two"), message("good", "two")]));
    assert!(matches!(sent[0], Err(Refused::Corrupt(_))), "{:?}", sent[0]);
    assert!(matches!(sent[1], Ok(Delivered::Applied)), "{:?}", sent[1]);
    assert!(matches!(sent[2], Ok(Delivered::Dropped(_))), "{:?}", sent[2]);
    let created = run(manage.create(vec![start("third")])).remove(0);
    assert!(matches!(created, Ok(Created::New(_))), "{created:?}");
    // A message that cannot be read harms no other instance either.
    run(manage.create(vec![start("fourth")])).remove(0).unwrap();
    run(manage.create(vec![start("fifth")])).remove(0).unwrap();
    run(manage.send(vec![message("fifth", "event")])).remove(0).unwrap();
    for damage in [
        "UPDATE instances SET start = x'0108ff' WHERE id = 'fourth'",
        "UPDATE inbox SET body = x'0108ff' WHERE instance = (SELECT key FROM instances WHERE id = 'fifth')",
    ] {
        assert_eq!(database(&folder).execute(damage, []).unwrap(), 1);
    }
    let claimed = run(async {
        let session = manage.attach(host(1, Duration::from_secs(60))).await.unwrap();
        session.claim_turns(want(10)).await.unwrap()
    });
    let names: Vec<_> = claimed.iter().map(|turn| turn.fence.instance.as_str()).collect();
    assert_eq!(names, ["good", "third"]);
    let told = run(manage.get(vec![instance("bad")]));
    assert!(matches!(told, Err(Refused::Corrupt(_))), "{told:?}");
}

#[test]
fn whoever_finds_damage_is_told_in_which_instance() {
    use std::error::Error;
    for (damage, by_query) in [
        ("UPDATE instances SET base = x'0108ff' WHERE id = 'bad'", true),
        ("UPDATE instances SET start = x'0108ff' WHERE id = 'bad'", false),
        ("UPDATE inbox SET body = x'0108ff'", false),
        ("UPDATE tasks SET body = x'0108ff'", false),
    ] {
        let folder = Folder::new();
        let store = open(&folder);
        let manage = store.hub(hub());
        run(async {
            manage.create(vec![start("bad"), start("good")]).await.remove(0).unwrap();
            if damage.contains("tasks") {
                let session = manage.attach(host(1, Duration::from_secs(60))).await.unwrap();
                let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
                let mut scheduling = step(&turn);
                scheduling.tasks = vec![task(&turn, "work")];
                session.commit_turns(vec![scheduling.into()]).await.remove(0).unwrap();
            }
            manage.send(vec![message("bad", "event")]).await.remove(0).unwrap();
        });
        assert_eq!(database(&folder).execute(damage, []).unwrap(), 1, "{damage}");
        // A dump goes on with all else.
        let items = run(everything(&*manage));
        let damaged: Vec<_> = items.iter().filter_map(|item| item.loadable().err()).collect();
        let [Refused::Corrupt(why)] = &damaged[..] else { panic!("{damage}: {damaged:?}") };
        let why = why.to_string();
        assert!(why.contains("'bad'") && why.contains("is damaged"), "{why}");
        let good = |item: &DumpItem| matches!(item, DumpItem::Instance(dump) if dump.id == instance("good"));
        assert!(items.iter().any(good), "{damage}: {items:?}");
        let named = |refused: Refused| {
            let Refused::Corrupt(cause) = &refused else { panic!("{damage}: {refused:?}") };
            assert_eq!(cause.to_string(), "in the instance 'bad'", "{damage}: {refused:?}");
            assert!(cause.source().is_some_and(|why| why.to_string().contains("damaged")), "{refused:?}");
        };
        if damage.contains("tasks") {
            // Without the instance nobody can be named, and what is wrong is told all the same.
            database(&folder).execute("DELETE FROM instances WHERE id = 'bad'", []).unwrap();
            let part = run(manage.dump(Some("tasks/0".to_owned())));
            assert!(matches!(part, Err(Refused::Corrupt(_))), "{part:?}");
        }
        if by_query {
            named(run(manage.query(dauer_store::Query::default())).unwrap_err());
            named(run(manage.get(vec![instance("bad")])).unwrap_err());
        }
    }
}

#[test]
fn a_purge_makes_the_file_smaller() {
    let folder = Folder::new();
    let store = open(&folder);
    let manage = store.hub(hub());
    run(async {
        let session = manage.attach(host(1, Duration::from_secs(60))).await.unwrap();
        for number in 0..20 {
            manage.create(vec![start(&format!("order{number}"))]).await.remove(0).unwrap();
            let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
            let mut last = step(&turn);
            last.record.status = dauer_store::Status::Completed;
            detail(&mut last, &turn, |details| details.set_output(Some("x".repeat(200_000).into())));
            session.commit_turns(vec![last.into()]).await.remove(0).unwrap();
        }
    });
    let pages = || database(&folder).query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = pages();
    let purge = dauer_store::Purge::Matching { query: dauer_store::Query::default(), budget: 100 };
    assert_eq!(run(manage.purge(purge)).unwrap().count, 20);
    assert!(pages() < before / 2, "{before} pages before, {} after", pages());
}

/// How often `/proc/locks` is read before a lock counts as lost. The kernel hands that list out in pieces, and an entry is missing
/// from one read when other locks change meanwhile. A lock that was lost stays lost.
#[cfg(target_os = "linux")]
const LOCK_READS_MAX: u32 = 10_000;

/// Whether `/proc/locks` shows a lock on the database file itself.
#[cfg(target_os = "linux")]
fn lock_is_held(folder: &Folder) -> bool {
    use std::os::unix::fs::MetadataExt;
    let inode = format!(":{} ", std::fs::metadata(folder.file()).unwrap().ino());
    let is_listed = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains("POSIX") && line.contains(&inode))
    };
    (0..LOCK_READS_MAX).any(|_| is_listed())
}

/// A process that closes a file once loses all its POSIX locks on it.
#[test]
#[cfg(target_os = "linux")]
fn failed_open_keeps_the_locks_of_open_handles() {
    let folder = Folder::new();
    let first = open(&folder);
    run(first.hub(hub()).create(vec![start("one")])).remove(0).unwrap();
    assert!(lock_is_held(&folder), "an open store holds a lock");
    // Opening fails at its last check, after everything else that it does with the file.
    database(&folder).pragma_update(None, "user_version", 10).unwrap();
    assert!(SqliteStore::open(folder.file(), Options::default()).is_err());
    assert!(lock_is_held(&folder), "the lock is still there");
}

#[test]
fn a_deleted_hub_is_gone_and_others_stay() {
    let folder = Folder::new();
    let store = open(&folder);
    let (doomed, other) = (HubName::new("doomed").unwrap(), HubName::new("other").unwrap());
    run(async {
        // More than one part has.
        for name in [&doomed, &other] {
            let starts = (0..600).map(|number| start(&format!("order{number}"))).collect();
            assert!(store.hub(name.clone()).create(starts).await.iter().all(Result::is_ok));
        }
        let manage = store.hub(doomed.clone());
        let session = manage.attach(host(1, Duration::from_secs(60))).await.unwrap();
        assert_eq!(session.claim_turns(want(5)).await.unwrap().len(), 5);
        let refused = store.delete_hub(&doomed).await;
        assert!(matches!(refused, Err(Refused::NotExecuted(_))), "a host works in it: {refused:?}");
        assert!(manage.get(vec![instance("order0")]).await.unwrap()[0].is_some());
        session.detach().await.unwrap();

        store.delete_hub(&doomed).await.unwrap();
        store.delete_hub(&doomed).await.unwrap();
        assert!(manage.get(vec![instance("order0")]).await.unwrap()[0].is_none());
        assert!(store.hub(other).get(vec![instance("order599")]).await.unwrap()[0].is_some());
        // The name is free again.
        assert!(matches!(manage.create(vec![start("order0")]).await[0], Ok(Created::New(_))));
        let left = database(&folder).query_row(
            "SELECT count(*) FROM inbox WHERE instance NOT IN (SELECT key FROM instances)",
            [],
            |row| row.get::<_, i64>(0),
        );
        assert_eq!(left.unwrap(), 0, "no row is without its instance");
    });
}
