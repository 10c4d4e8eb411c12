//! The message that an instance is made by lies in its row, and a first turn that changes nothing else leaves that row as it was.

use std::time::Duration;

use crate::support::build::{host, instance, locked_by, message, start, step};
use crate::support::claims::{Claims, want};
use crate::support::{Folder, clock, everything, options, run};
use dauer_sqlite::{Clock, SqliteStore};
use dauer_store::{
    Checkpoint, ClaimedTurn, DumpItem, ExecutionId, HubName, InstanceDump, Kind, Manage, Message, MessageId,
    Origin, Query, Revision, Status, Then, Work,
};

const LEASE: Duration = Duration::from_secs(30);

/// A file, with one handle for what is done and another that reads what lies there.
struct File {
    folder: Folder,
    store: SqliteStore,
    other: SqliteStore,
}

impl File {
    fn new(messages: usize) -> Self {
        let folder = Folder::new();
        let clock = clock();
        let mut options = options(&clock);
        options.memory.messages = messages;
        let open = || SqliteStore::open(folder.file(), options.clone()).unwrap();
        Self { store: open(), other: open(), folder }
    }

    fn hub(&self) -> std::sync::Arc<dyn Manage> {
        self.store.hub(HubName::default())
    }

    /// The instance as another handle reads it.
    async fn read(&self, id: &str) -> InstanceDump {
        let items = everything(&*self.other.hub(HubName::default())).await;
        let found = items.into_iter().find_map(|item| match item {
            DumpItem::Instance(dump) if dump.id == instance(id) => Some(*dump),
            _ => None,
        });
        found.unwrap()
    }

    fn count(&self, sql: &str) -> i64 {
        let database = rusqlite::Connection::open(self.folder.file()).unwrap();
        database.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn waiting(&self) -> (i64, i64) {
        let in_rows = "SELECT count(*) FROM instances WHERE start IS NOT NULL";
        (self.count(in_rows), self.count("SELECT count(*) FROM inbox"))
    }

    /// The statuses under which a query finds the instance.
    async fn found_as(&self, id: &str) -> Vec<Status> {
        let mut found = Vec::new();
        for status in [Status::Pending, Status::Running, Status::Completed] {
            let query = Query { statuses: vec![status], ..Query::default() };
            let page = self.other.hub(HubName::default()).query(query).await.unwrap();
            found.extend(page.records.iter().filter(|(found, _)| found.as_str() == id).map(|_| status));
        }
        found
    }
}

/// Claims the only turn there is.
async fn claim(session: &dyn Work) -> ClaimedTurn {
    let mut turns = session.claim_turns(want(9)).await.unwrap();
    assert_eq!(turns.len(), 1);
    turns.remove(0)
}

/// The order in which events wait, by what they say.
fn texts(dump: &InstanceDump) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[1..]).into_owned();
    dump.inbox.iter().map(|message| text(message.event.stored())).collect()
}

#[test]
fn a_start_lies_in_the_row_of_its_instance_until_a_turn_takes_it() {
    run(async {
        let file = File::new(64);
        file.hub().create(vec![start("order")]).await.remove(0).unwrap();
        assert_eq!(file.waiting(), (1, 0));
        let waiting = file.read("order").await;
        assert_eq!((waiting.inbox.len(), waiting.record.status), (1, Status::Pending));
        assert!(file.hub().read_start(&instance("order")).await.unwrap().is_some());

        let session = file.hub().attach(host(1, LEASE)).await.unwrap();
        let turn = claim(&*session).await;
        assert_eq!(turn.messages, waiting.inbox, "what lies there is what is handed out");
        session.commit_turns(vec![step(&turn).into()]).await.remove(0).unwrap();
        assert_eq!(file.waiting(), (0, 0), "a turn that lets go writes the row");
        assert!(file.read("order").await.inbox.is_empty());
        assert!(file.hub().read_start(&instance("order")).await.unwrap().is_none());
    });
}

/// However little of an inbox is held in memory: what comes later stays behind the start, in the file too.
#[test]
fn what_comes_behind_a_start_stays_behind_it() {
    run(async {
        let mut orders = Vec::new();
        for messages in [0, 1, 2, 64] {
            let file = File::new(messages);
            file.hub().create(vec![start("order")]).await.remove(0).unwrap();
            // All at the same time, by the clock of the file.
            let sent = file.hub().send(vec![message("order", "one"), message("order", "two")]).await;
            assert!(sent.iter().all(Result::is_ok), "{sent:?}");
            let (in_row, in_inbox) = file.waiting();
            assert_eq!(in_row + in_inbox, 3);
            assert_eq!(in_row, i64::from(messages > 2), "{messages} are held in memory");
            let read = file.read("order").await;
            let session = file.hub().attach(host(1, LEASE)).await.unwrap();
            assert_eq!(claim(&*session).await.messages.first(), read.inbox.first());
            orders.push(texts(&read));
        }
        assert!(orders.windows(2).all(|pair| pair[0] == pair[1]), "{orders:?}");
        assert_eq!(orders[0][1..], ["one", "two"]);
    });
}

/// An instance whose first turn is in the row of the history alone.
async fn begun(file: &File) -> (std::sync::Arc<dyn Work>, ClaimedTurn) {
    file.hub().create(vec![start("order")]).await.remove(0).unwrap();
    let session = file.hub().attach(host(1, LEASE)).await.unwrap();
    let mut turn = claim(&*session).await;
    let first = Checkpoint { then: Then::Keep, ..step(&turn) };
    let committed = session.commit_turns(vec![first.into()]).await.remove(0).unwrap();
    let row = "SELECT count(*) FROM instances WHERE id = 'order' AND revision = 0 AND start IS NOT NULL";
    assert_eq!(file.count(row), 1, "the row is as the claim left it");
    turn.fence.revision = committed.revision;
    (session, turn)
}

#[test]
fn an_instance_that_has_begun_is_found_as_running() {
    run(async {
        let file = File::new(64);
        file.hub().create(vec![start("waits")]).await.remove(0).unwrap();
        assert_eq!(file.found_as("waits").await, [Status::Pending]);
        let session = file.hub().attach(host(2, LEASE)).await.unwrap();
        let waits = claim(&*session).await;
        assert_eq!(file.found_as("waits").await, [Status::Pending], "a claim is no turn");
        let (_session, _) = begun(&file).await;
        assert_eq!(file.found_as("order").await, [Status::Running]);
        let read = file.read("order").await;
        assert_eq!((read.record.status, read.inbox.len(), read.ready_at), (Status::Running, 0, None));
        assert_eq!(read.record.revision.0, 1);
        session.commit_turns(vec![step(&waits).into()]).await.remove(0).unwrap();
        assert_eq!(file.found_as("waits").await, [Status::Running]);
    });
}

#[test]
fn mail_of_an_instance_that_has_begun_is_read_by_its_holder() {
    run(async {
        // What is known in memory is the same as what is read from the file.
        for forgets in [false, true] {
            let file = File::new(64);
            let (session, turn) = begun(&file).await;
            let sender = if forgets { &file.other } else { &file.store };
            sender.hub(HubName::default()).send(vec![message("order", "event")]).await.remove(0).unwrap();
            assert_eq!(session.waiting_mail().await.unwrap(), std::slice::from_ref(&turn.fence.instance));
            let mail = session.mail(vec![turn.fence.clone()]).await.remove(0).unwrap();
            assert_eq!(mail.messages.len(), 1);
            let again = ClaimedTurn { messages: mail.messages, ..turn };
            assert_eq!(file.waiting(), (0, 1), "its row was written with all of it");
            session.commit_turns(vec![step(&again).into()]).await.remove(0).unwrap();
            assert_eq!(file.read("order").await.record.revision.0, 2);
        }
    });
}

#[test]
fn whoever_takes_over_begins_behind_its_first_turn() {
    run(async {
        let file = File::new(64);
        let (session, turn) = begun(&file).await;
        file.other.hub(HubName::default()).end_session(session.session()).await.unwrap();
        let heir = file.other.hub(HubName::default()).attach(host(2, LEASE)).await.unwrap();
        assert!(heir.claim_turns(want(9)).await.unwrap().is_empty(), "nothing waits for it");
        let scale = file.other.hub(HubName::default()).scale().await.unwrap();
        assert_eq!(scale.ready.get(&Kind::Orchestration), None);
        file.hub().send(vec![message("order", "event")]).await.remove(0).unwrap();
        let taken = claim(&*heir).await;
        assert_eq!(
            (taken.fence.revision, taken.messages.len()),
            (turn.fence.revision, 1),
            "the start is taken"
        );
        assert!(taken.fence.epoch > turn.fence.epoch);
        let late = session.commit_turns(vec![step(&turn).into()]).await.remove(0);
        assert!(late.is_err(), "{late:?}");
        heir.commit_turns(vec![step(&taken).into()]).await.remove(0).unwrap();
        assert_eq!(file.read("order").await.history.len(), 2);
    });
}

#[test]
fn message_behind_a_spilled_start_lies_in_one_place() {
    let file = File::new(1);
    run(async {
        let hub = file.hub();
        hub.create(vec![start("spilled")]).await.remove(0).unwrap();
        // Two wait, more than is held in memory: the start becomes a row of the inbox, with a key below all others.
        hub.send(vec![message("spilled", "first")]).await.remove(0).unwrap();
        let (fence, record) = hub.get(vec![instance("spilled")]).await.unwrap().remove(0).unwrap();
        let first = message("spilled", "first");
        let turn = ClaimedTurn {
            fence,
            record,
            messages: vec![first],
            more: false,
            history: None,
            now: clock().now(),
        };
        let mut change = step(&turn);
        change.record = turn.record.clone().since(&turn.record.details);
        hub.amend(change).await.unwrap();
        // The next row has the key behind the start's.
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        let turns = session.claim_turns(want(10)).await.unwrap();
        let order = turns.iter().find(|turn| turn.fence.instance == instance("order")).unwrap();
        session.commit_turns(vec![step(order).into()]).await.remove(0).unwrap();
        hub.send(vec![message("order", "second")]).await.remove(0).unwrap();
        let again = session.claim_turns(want(10)).await.unwrap();
        session.commit_turns(vec![step(&again[0]).into()]).await.remove(0).unwrap();
        assert_eq!(file.read("order").await.inbox, [], "the message was consumed, and lies nowhere else");
        assert_eq!(session.claim_turns(want(10)).await.unwrap().len(), 0, "it is not delivered again");
    });
}

/// Where a start is a row of the inbox, a look for mail would find the instance by when that row was ready.
#[test]
fn first_turn_from_an_inbox_row_leaves_no_mail() {
    run(async {
        let file = File::new(0);
        file.hub().create(vec![start("order")]).await.remove(0).unwrap();
        assert_eq!(file.waiting(), (0, 1));
        let session = file.hub().attach(host(1, LEASE)).await.unwrap();
        let first = Checkpoint { then: Then::Keep, ..step(&claim(&*session).await) };
        session.commit_turns(vec![first.into()]).await.remove(0).unwrap();
        assert_eq!(file.read("order").await.ready_at, None);
        assert_eq!(session.waiting_mail().await.unwrap(), []);
    });
}

/// Only entities have senders in their rows: only they are locked by one. The contract does not say so.
#[test]
fn orchestration_held_for_a_sender_gets_its_messages() {
    run(async {
        for messages in [0, 64] {
            let file = File::new(messages);
            file.hub().create(vec![start("order")]).await.remove(0).unwrap();
            let session = file.hub().attach(host(1, LEASE)).await.unwrap();
            let mut held = step(&claim(&*session).await);
            held.record.details = Some(locked_by("owner"));
            session.commit_turns(vec![held.into()]).await.remove(0).unwrap();
            let origin = Origin::Turn {
                instance: instance("owner"),
                execution: ExecutionId(1),
                revision: Revision(1),
                ordinal: Some(0),
            };
            let of_owner = Message { origin, ..message("order", "of the owner") };
            let sent = file.hub().send(vec![message("order", "of a client"), of_owner.clone()]).await;
            assert!(sent.iter().all(Result::is_ok), "{sent:?}");
            let ids: Vec<MessageId> = claim(&*session).await.messages.iter().map(|m| m.id).collect();
            assert_eq!(ids, [of_owner.id], "{messages} are held in memory");
        }
    });
}
