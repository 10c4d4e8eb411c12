//! Turns that lie in one row of the history, and leave the row of their instance as it was.

use std::sync::Arc;
use std::time::Duration;

use crate::support::build::{detail, event, host, instance, message, start, step, task};
use crate::support::claims::{Claims, want};
use crate::support::{Folder, clock, database, everything, options, run};
use dauer_sqlite::{ManualClock, SqliteStore};
use dauer_store::{
    Batch, Checkpoint, ClaimedTurn, Committed, Completion, Delivered, DumpItem, History, HubName,
    InstanceDump, Item, Kind, Manage, Refused, Release, Revision, TaskLease, Then, Work,
};

const LEASE: Duration = Duration::from_secs(30);

/// One instance, kept by the session of a host, on one of two handles on a file.
struct Kept {
    clock: Arc<ManualClock>,
    hub: Arc<dyn Manage>,
    /// On the other handle: what it writes makes the first one forget what it knows, and what it reads is the file.
    other: Arc<dyn Manage>,
    session: Arc<dyn Work>,
    turn: ClaimedTurn,
    stores: [SqliteStore; 2],
    folder: Folder,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stores.iter().for_each(SqliteStore::close);
    }
}

impl Kept {
    /// With its first turn committed, which nobody can say in one row: the instance has begun.
    async fn new() -> Self {
        let (folder, clock) = (Folder::new(), clock());
        let open = || SqliteStore::open(folder.file(), options(&clock)).unwrap();
        let stores = [open(), open()];
        let [hub, other] = [0, 1].map(|at: usize| stores[at].hub(HubName::default()));
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
        let mut kept = Self { clock, hub, other, session, turn, stores, folder };
        let first = kept.next(&[]);
        kept.commit(first).await.unwrap();
        kept
    }

    /// The next turn: it asks for these tasks, takes them, and keeps the instance.
    fn next(&self, tasks: &[&str]) -> Checkpoint {
        let mut step = step(&self.turn);
        step.tasks = tasks.iter().map(|name| task(&self.turn, name)).collect();
        let events: Vec<_> =
            [event("time")].into_iter().chain(step.tasks.iter().map(|t| t.event.clone())).collect();
        let produced = step.tasks.iter().map(|task| task.id).collect();
        let History::Append(Batch { consumed, .. }) = step.history else { panic!("a turn adds") };
        step.history = History::Append(Batch::join(&events, consumed, produced).unwrap());
        (step.take, step.then) = (tasks.len(), Then::Keep);
        step
    }

    /// Commits, and goes on from there.
    async fn commit(&mut self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        let committed = self.session.commit_turns(vec![checkpoint.into()]).await.remove(0)?;
        self.turn.fence.revision = committed.revision;
        self.turn.messages = committed.arrived.clone();
        self.turn.record.status = dauer_store::Status::Running;
        Ok(committed)
    }

    /// A turn that takes these tasks, and nothing else.
    async fn take(&mut self, tasks: &[&str]) -> Vec<TaskLease> {
        let next = self.next(tasks);
        self.commit(next).await.unwrap().taken
    }

    /// Makes the handle of the session forget what it knows.
    async fn forget(&self) {
        let other = format!("other{}", everything(&*self.other).await.len());
        self.other.create(vec![start(&other)]).await.remove(0).unwrap();
    }

    /// The instance, and the names of its tasks, as the file has them.
    async fn read(&self) -> (InstanceDump, Vec<String>) {
        let (mut found, mut tasks) = (None, Vec::new());
        for item in everything(&*self.other).await {
            match item {
                DumpItem::Instance(dump) if dump.id == instance("order") => found = Some(*dump),
                DumpItem::Task(dump) => tasks.push(dump.task.queue.name.to_string()),
                _ => {}
            }
        }
        tasks.sort_unstable();
        (found.unwrap(), tasks)
    }

    /// How many tasks are in hands.
    async fn held_tasks(&self) -> usize {
        self.other.scale().await.unwrap().held.get(&Kind::Activity).copied().unwrap_or(0)
    }

    /// The revision of the instance's own row.
    fn row(&self) -> i64 {
        let sql = "SELECT revision FROM instances WHERE id = 'order'";
        database(&self.folder).query_row(sql, [], |row| row.get(0)).unwrap()
    }

    async fn give_back(&self, item: Item) {
        let release = Release { item, delay: Duration::ZERO, trouble: None, failed: false };
        self.session.release(vec![release]).await.remove(0).unwrap();
    }
}

fn answer(lease: &TaskLease, text: &str) -> Completion {
    let mut answer = message("order", text);
    answer.answers = Some(lease.task.id);
    Completion { fence: lease.fence.clone(), answer }
}

#[test]
fn a_turn_that_changes_only_how_far_its_history_goes_is_one_row() {
    run(async {
        let mut kept = Kept::new().await;
        assert_eq!(kept.row(), 0, "nor did the first turn write it");
        let (before, _) = kept.read().await;
        kept.clock.advance(Duration::from_millis(7));
        let written = kept.hub.effort().rows;
        let leases = kept.take(&["pay", "ship"]).await;
        // And the time of the file, in every transaction.
        assert_eq!(kept.hub.effort().rows - written, 2);
        assert_eq!(kept.row(), 0, "it is left as it was");

        let (after, tasks) = kept.read().await;
        assert_eq!((after.record.revision, after.epoch), (Revision(2), before.epoch));
        assert_eq!(after.record.history_len, before.record.history_len + 3);
        let bytes: usize = after.history.iter().map(|stored| stored.batch.events.len()).sum();
        assert_eq!(after.record.history_bytes, bytes as u64);
        assert_eq!(after.record.times.updated, before.record.times.updated.after(Duration::from_millis(7)));
        assert_eq!(after.holder, before.holder);
        assert_eq!(tasks, ["pay", "ship"]);
        assert_eq!(kept.held_tasks().await, 2);

        // What was taken is answered in the next turn, also when that has to be read from the file.
        kept.forget().await;
        let mut next = kept.next(&["pack"]);
        next.completions = leases.iter().map(|lease| answer(lease, lease.task.queue.name.as_ref())).collect();
        assert_eq!(kept.commit(next).await.unwrap().taken.len(), 1);
        assert_eq!(kept.row(), 0);
        assert_eq!(kept.read().await.1, ["pack"]);
        assert_eq!(kept.held_tasks().await, 1);
    });
}

#[test]
fn what_a_turn_changes_beyond_is_in_the_row_of_the_instance() {
    run(async {
        let mut kept = Kept::new().await;
        // What people see of it.
        let mut shown = kept.next(&[]);
        detail(&mut shown, &kept.turn, |details| details.set_custom_status(Some("\"half\"".into())));
        kept.commit(shown).await.unwrap();
        kept.turn.record.details.set_custom_status(Some("\"half\"".into()));
        let (dump, _) = kept.read().await;
        assert_eq!((kept.row(), dump.record.revision), (2, Revision(2)));
        assert_eq!(dump.record.details, kept.turn.record.details);
        // A task that was taken in an earlier turn.
        kept.take(&["pay"]).await;
        assert_eq!(kept.row(), 2, "the control");
        kept.take(&["ship"]).await;
        assert_eq!((kept.row(), kept.read().await.0.record.revision), (4, Revision(4)));
        assert_eq!(kept.read().await.1, ["pay", "ship"]);
        assert_eq!(kept.held_tasks().await, 2);
        // That it is let go.
        let last = Checkpoint { then: Then::Release { delay: Duration::ZERO }, ..kept.next(&[]) };
        kept.commit(last).await.unwrap();
        assert_eq!((kept.row(), kept.read().await.0.record.revision), (5, Revision(5)));
        assert_eq!(kept.read().await.1, ["pay", "ship"]);
    });
}

#[test]
fn it_is_recognised_when_it_comes_again() {
    run(recognised(&["pay"]));
    run(recognised(&[]));
}

async fn recognised(tasks: &[&str]) {
    let mut kept = Kept::new().await;
    let turn = kept.next(tasks);
    let committed = kept.commit(turn.clone()).await.unwrap();
    let again = || async {
        kept.forget().await;
        kept.session.commit_turns(vec![turn.clone().into()]).await.remove(0)
    };
    assert_eq!(again().await.unwrap(), committed);
    // Also when the instance has left the hands that committed it, and is in others.
    let mut fence = turn.fence.clone();
    fence.revision = committed.revision;
    kept.give_back(Item::Turn(fence)).await;
    kept.other.send(vec![message("order", "event")]).await.remove(0).unwrap();
    let others = kept.other.attach(host(2, LEASE)).await.unwrap();
    let claimed = others.claim_turns(want(9)).await.unwrap();
    let claimed = claimed.iter().find(|turn| turn.fence.instance == instance("order")).unwrap();
    assert_eq!(claimed.fence.epoch, turn.fence.epoch.next());
    assert_eq!(claimed.fence.revision, committed.revision);
    let known = again().await.unwrap();
    assert_eq!((known.revision, known.taken), (committed.revision, committed.taken));
    // Another one of the same session is not.
    let other = Checkpoint { fence: claimed.fence.clone(), ..turn.clone() };
    let refused = kept.session.commit_turns(vec![other.into()]).await.remove(0);
    assert!(matches!(refused, Err(Refused::Fenced)), "{refused:?}");
}

#[test]
fn a_task_that_lies_there_is_answered_alone() {
    run(async {
        let mut kept = Kept::new().await;
        let leases = kept.take(&["pay"]).await;
        kept.forget().await;
        let answered = kept.session.complete_activities(vec![answer(&leases[0], "paid")]).await.remove(0);
        assert_eq!(answered.unwrap(), Delivered::Applied);
        let (dump, tasks) = kept.read().await;
        assert_eq!((tasks.len(), dump.inbox.len()), (0, 1));
        assert_eq!((kept.row(), dump.record.revision), (2, Revision(2)), "the row says it now");
        let again = kept.session.complete_activities(vec![answer(&leases[0], "paid")]).await.remove(0);
        assert!(matches!(again, Ok(Delivered::Dropped(_))), "{again:?}");
    });
}

#[test]
fn when_its_host_dies_others_have_the_instance_and_its_tasks() {
    run(async {
        let mut kept = Kept::new().await;
        kept.take(&["pay", "ship"]).await;
        kept.clock.advance(LEASE);
        let others = kept.other.attach(host(2, LEASE)).await.unwrap();
        let mut names: Vec<_> = others
            .claim_activities(want(9))
            .await
            .unwrap()
            .iter()
            .map(|lease| (lease.task.queue.name.to_string(), lease.deaths.workers))
            .collect();
        names.sort_unstable();
        assert_eq!(names, [("pay".to_owned(), 1), ("ship".to_owned(), 1)]);
        kept.other.send(vec![message("order", "event")]).await.remove(0).unwrap();
        let claimed = others.claim_turns(want(1)).await.unwrap().remove(0);
        assert_eq!(claimed.fence.revision, Revision(2));
        assert_eq!(claimed.record.history_len, 4);
        // Nothing of it is lost by the next commit.
        let committed = others.commit_turns(vec![step(&claimed).into()]).await.remove(0).unwrap();
        assert_eq!((committed.revision, kept.row()), (Revision(3), 3));
        let slice = kept.hub.read_history(&instance("order"), None, 0, usize::MAX).await.unwrap();
        let revisions: Vec<_> = slice.batches.iter().map(|stored| stored.revision.0).collect();
        assert_eq!(revisions, [1, 2, 3]);
    });
}

#[test]
fn a_tail_that_makes_no_sense_is_told() {
    run(async {
        let mut kept = Kept::new().await;
        kept.take(&["pay"]).await;
        let damage = "UPDATE history SET tail = x'0108ff' WHERE tail IS NOT NULL";
        assert_eq!(database(&kept.folder).execute(damage, []).unwrap(), 2);
        let refused = kept.other.get(vec![instance("order")]).await;
        assert!(matches!(refused, Err(Refused::Corrupt(_))), "{refused:?}");
    });
}
