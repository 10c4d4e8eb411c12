//! The lease claims about the file: which columns and indexes carry a lease, how older files get them, and what a claim
//! reads of it. The numbers in the names are those of `docs/CLAIMS.md`.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::path::Path;
use std::time::Duration;

use crate::support::build::{detail, host, instance, message, start, step};
use crate::support::claims::{Claims, want};
use crate::support::{Folder, clock, database, everything, open, run};
use dauer_store::{HubName, Query, Refused, Timestamp};

const LEASE: Duration = Duration::from_secs(30);

/// The texts that a query gives.
fn texts(folder: &Folder, sql: &str) -> Vec<String> {
    let file = database(folder);
    let mut find = file.prepare(sql).expect("a query");
    let rows = find.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<rusqlite::Result<_>>().expect("texts")
}

#[test]
fn lease_a09_version_owner_and_expiry_are_columns() {
    let folder = Folder::new();
    let store = open(&folder);
    run(store.hub(HubName::default()).create(vec![start("order")])).remove(0).unwrap();
    let column = |table: &str, name: &str| {
        let sql = format!(
            "SELECT type || CASE \"notnull\" WHEN 1 THEN ' NOT NULL' ELSE '' END
             FROM pragma_table_info('{table}') WHERE name = '{name}'"
        );
        texts(&folder, &sql).pop()
    };
    // The version: of the state, and of who holds it.
    assert_eq!(column("instances", "revision").as_deref(), Some("INTEGER NOT NULL"));
    assert_eq!(column("instances", "epoch").as_deref(), Some("INTEGER NOT NULL"));
    assert_eq!(texts(&folder, "SELECT revision || ' ' || epoch FROM instances"), ["0 0"], "both begin at 0");
    // The owner: a session, nobody at first; and whose it is.
    assert_eq!(column("instances", "holder").as_deref(), Some("INTEGER"));
    assert_eq!(column("sessions", "host").as_deref(), Some("TEXT NOT NULL"));
    // The expiry: a number, so that no format of a time has to be compared, and never absent.
    assert_eq!(column("sessions", "expires_at").as_deref(), Some("INTEGER NOT NULL"));
}

/// How SQLite finds the rows of a query.
fn plan(folder: &Folder, sql: &str) -> String {
    let file = database(folder);
    let mut find = file.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a query");
    let rows = find.query_map([], |row| row.get::<_, String>(3)).expect("rows");
    rows.collect::<rusqlite::Result<Vec<_>>>().expect("texts").join("; ")
}

#[test]
fn lease_a10_claims_and_takeovers_find_their_rows_by_index() {
    let folder = Folder::new();
    open(&folder).close();
    let of =
        |index: &str| texts(&folder, &format!("SELECT name FROM pragma_index_info('{index}')")).join(", ");
    assert_eq!(of("instances_held"), "holder", "what a session holds");
    assert_eq!(of("instances_mail"), "holder, ready_at", "what it holds and has messages for");
    assert_eq!(of("instances_ready"), "offered, place", "what anyone may claim");
    assert_eq!(of("tasks_held"), "holder");
    assert_eq!(of("tasks_ready"), "queue, place");

    let ready = plan(
        &folder,
        "SELECT place, key FROM instances WHERE offered = 1 AND place IS NOT NULL AND place <= 5
            AND (place, key) > (1, 1) ORDER BY place, key LIMIT 1",
    );
    assert!(ready.contains("SEARCH instances USING COVERING INDEX instances_ready"), "{ready}");
    assert!(!ready.contains("TEMP B-TREE"), "nothing is sorted: {ready}");
    let held = plan(&folder, "SELECT key FROM instances WHERE holder = 1");
    assert!(held.contains("USING COVERING INDEX instances_held"), "{held}");
    let owner = plan(&folder, "SELECT key FROM sessions WHERE hub = 1 AND id = x'00'");
    assert!(owner.contains("SEARCH sessions USING"), "{owner}");
}

#[test]
fn lease_a11_a_file_is_migrated_once_however_often_it_is_opened() {
    let folder = Folder::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format8.db");
    std::fs::copy(golden, folder.file()).unwrap();
    let column = "SELECT name FROM pragma_table_info('instances') WHERE name = 'trials'";
    assert_eq!(texts(&folder, column), [""; 0], "an older file");
    let open_again = || {
        let store = open(&folder);
        let items = run(everything(&*store.hub(HubName::new("golden").unwrap())));
        store.close();
        (texts(&folder, "SELECT coalesce(sql, '') FROM sqlite_schema ORDER BY name"), items)
    };
    let first = open_again();
    assert!(first.1.len() > 3, "the file has something in it");
    assert_eq!(texts(&folder, column), ["trials"], "a column of the current format");
    assert_eq!(open_again(), first);
    assert_eq!(open_again(), first);
}

#[test]
fn lease_a26_a_claim_reads_no_instance_that_it_cannot_have() {
    let folder = Folder::new();
    let (one, two) = (open(&folder), open(&folder));
    let (hub, other) = (one.hub(HubName::default()), two.hub(HubName::default()));
    run(async {
        hub.create(vec![start("held")]).await.remove(0).unwrap();
        let holder = hub.attach(host(1, LEASE)).await.unwrap();
        assert_eq!(holder.claim_turns(want(1)).await.unwrap().len(), 1);
        let mut later = start("later");
        later.start.visible_at = clock_now().after(LEASE);
        hub.create(vec![later, start("free")]).await.into_iter().for_each(|created| {
            created.unwrap();
        });
        // Whoever reads one of these two fails.
        let damage = "UPDATE instances SET base = x'0108ff' WHERE id IN ('held', 'later')";
        assert_eq!(database(&folder).execute(damage, []).unwrap(), 2);

        let session = other.attach(host(2, LEASE)).await.unwrap();
        let turns = session.claim_turns(want(10)).await.unwrap();
        let claimed: Vec<_> = turns.iter().map(|turn| turn.fence.instance.as_str()).collect();
        assert_eq!(claimed, ["free"]);
        assert!(session.claim_turns(want(10)).await.unwrap().is_empty(), "nor does an empty one");
        let read = other.get(vec![instance("later")]).await;
        assert!(matches!(read, Err(Refused::Corrupt(_))), "the control: to read one is to fail: {read:?}");
    });
}

fn clock_now() -> Timestamp {
    use dauer_store::Clock;
    clock().now()
}

#[test]
fn lease_a27_the_history_is_read_after_the_claim_and_by_the_claimer_alone() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
        session.commit_turns(vec![step(&turn).into()]).await.remove(0).unwrap();
        hub.send(vec![message("order", "event")]).await.remove(0).unwrap();

        // Whoever looks at events fails now: the smallest of all numbers has no absolute value.
        let trap = "ALTER TABLE history RENAME TO hidden;
            CREATE VIEW history AS SELECT key, instance, first, revision, epoch, host, at, count, trail, tail,
                abs(-9223372036854775807 - revision) AS events FROM hidden";
        database(&folder).execute_batch(trap).unwrap();
        let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
        assert_eq!((turn.record.history_len, turn.history.clone()), (1, None));
        assert!(session.load_history(&turn.fence, 0, usize::MAX).await.is_err(), "the control");
        database(&folder).execute_batch("DROP VIEW history; ALTER TABLE hidden RENAME TO history").unwrap();

        let slice = session.load_history(&turn.fence, 0, usize::MAX).await.unwrap();
        assert_eq!(slice.batches.len(), 1);
        let other = hub.attach(host(2, LEASE)).await.unwrap();
        let refused = other.load_history(&turn.fence, 0, usize::MAX).await;
        assert!(matches!(refused, Err(Refused::Fenced)), "it has not claimed it: {refused:?}");
    });
}

#[test]
fn lease_a28_the_full_state_can_be_read_without_a_claim() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        hub.create(vec![start("one"), start("two")]).await;
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
        let mut first = step(&turn);
        detail(&mut first, &turn, |details| details.set_custom_status(Some("\"half\"".into())));
        session.commit_turns(vec![first.into()]).await.remove(0).unwrap();

        let found = hub.query(Query::default()).await.unwrap().records;
        let seen: Vec<_> = found
            .iter()
            .map(|(id, record)| (id.as_str(), record.revision.0, record.details.custom_status().is_some()))
            .collect();
        assert_eq!(seen, [("one", 1, true), ("two", 0, false)], "held, waiting or done, all of it");
        let history = hub.read_history(&instance("one"), None, 0, usize::MAX).await.unwrap();
        assert_eq!(history.batches.len(), 1);
        assert_eq!(hub.get(vec![instance("two")]).await.unwrap()[0].as_ref().unwrap().1.history_len, 0);
    });
}
