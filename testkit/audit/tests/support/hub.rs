//! A healthy hub with an instance in every state, and the journals that belong to it.

use std::collections::BTreeMap;

use dauer_audit::{
    Action, ClientJournal, Commit, CommitJournal, Evidence, Operation, Outcome, Report, Sent, Settings,
    Snapshot,
};
use dauer_core::model::{Class, Control, DropReason, Encoded, Fence, Message, Origin, Record, Status};
use dauer_core::{Revision, SessionId};
use dauer_proto::{OrchestrationStatus, SubOrchestrationInstanceCreatedEvent, event, failure, time};
use dauer_store::{DumpItem, InstanceDump, SessionDump};

use super::instance::{
    Build, EPOCH, at, child_start, execution, host, id, name, pay, session, start_message,
};

/// The store's time of the dump.
const NOW: i64 = 3_000;

/// A hub with the journals of its clients and commits.
pub(crate) struct World {
    pub(crate) snapshot: Snapshot,
    pub(crate) client: ClientJournal,
    pub(crate) commits: CommitJournal,
    pub(crate) settings: Settings,
}

impl World {
    pub(crate) fn audit(&self) -> Report {
        let evidence = Evidence { client: Some(&self.client), commits: Some(&self.commits) };
        dauer_audit::audit(&self.snapshot, &evidence, &self.settings)
    }

    pub(crate) fn instance(&mut self, id: &str) -> &mut InstanceDump {
        self.snapshot.instances.get_mut(&name(id)).unwrap()
    }

    /// Writes the events of one batch anew, and counts them as the record does.
    pub(crate) fn rewrite(
        &mut self,
        id: &str,
        batch: usize,
        change: impl FnOnce(&mut Vec<dauer_proto::HistoryEvent>),
    ) {
        let dump = self.instance(id);
        let stored = &mut dump.history[batch].batch;
        let mut events = stored.decode().unwrap();
        change(&mut events);
        let encoded: Vec<_> = events.iter().map(Encoded::new).collect();
        *stored = dauer_core::model::Batch::join(&encoded, stored.consumed.clone(), stored.produced.clone())
            .unwrap();
        let mut first = 0;
        for stored in &mut dump.history {
            stored.first = first;
            first += stored.batch.count;
        }
        dump.record.history_len = first;
        dump.record.history_bytes = dump.history.iter().map(|stored| stored.batch.events.len() as u64).sum();
    }
}

/// A hub that nothing is wrong with.
pub(crate) fn healthy() -> World {
    let builds = instances();
    let mut items = vec![
        DumpItem::Now(at(NOW)),
        DumpItem::Session(SessionDump {
            id: session(),
            host: host(),
            expires_at: at(NOW + 1_000),
            runs_code: true,
        }),
        DumpItem::Dropped(DropReason::Ended, 1),
    ];
    for build in builds {
        items.push(DumpItem::Instance(Box::new(build.dump)));
        items.extend(build.tasks.into_iter().map(|task| DumpItem::Task(Box::new(task))));
    }
    let snapshot = Snapshot::from_items(items);
    let (client, commits) = (client(), commits(&snapshot));
    World { snapshot, client, commits, settings: Settings { task_attempts: Some(5), ..Settings::default() } }
}

fn instances() -> Vec<Build> {
    let mut builds = family();
    builds.extend([done(), failed(), stopped(), paused(), continued(), retried(), scheduled(), entity()]);
    builds
}

/// `busy` waits for a task, a timer, a living child and an ended one, and has sent events to `idle`.
fn family() -> Vec<Build> {
    let child = |id: &str| SubOrchestrationInstanceCreatedEvent {
        instance_id: id.into(),
        name: "Order".into(),
        ..Default::default()
    };
    let mut idle = Build::pending("idle");
    idle.turn(500, vec![]);
    let mut busy = Build::pending("busy");
    let own = vec![
        event::task_scheduled(1_000, 0, pay()),
        event::timer_created(1_000, 1, time::from_millis(5_000)),
        event::sub_orchestration_created(1_000, 2, child("kid")),
        event::task_scheduled(1_000, 3, pay()),
        event::timer_created(1_000, 4, time::from_millis(1_500)),
        event::event_sent(1_000, 5, "idle", "go", None),
        event::event_sent(1_000, 6, "idle", "go", None),
        event::event_sent(1_000, 7, "idle", "go", None),
        event::sub_orchestration_created(1_000, 8, child("heir")),
    ];
    busy.turn(1_000, own);
    let mut kid = Build::child("kid", child_start(&busy, "kid", 2));
    kid.turn(1_200, vec![event::task_scheduled(1_200, 0, pay())]).task(0);
    let mut heir = Build::child("heir", child_start(&busy, "heir", 8));
    let end = event::execution_completed(1_300, 0, OrchestrationStatus::Completed, Some("1".into()), None);
    heir.turn(1_300, vec![end]).status(Status::Completed).output("1");
    let first = idle.event_from(&busy, 5, 0);
    idle.commit(1_400, vec![first], vec![]);
    let (second, third) = (idle.event_from(&busy, 6, 1), idle.event_from(&busy, 7, 2));
    idle.waits(second).waits(third);
    let paid = busy.answer("paid 3", busy.identity(3), &event::task_completed(1_400, 3, None));
    let rang = busy.timer(4, 1_500);
    let sent = busy.timer(1, 5_000);
    busy.commit(1_600, vec![paid, rang], vec![]).task(0).waits(sent);
    busy.tasks[0].holder = Some(session());
    busy.dump.holder = Some(session());
    let told = event::sub_orchestration_completed(1_300, 8, Some("1".into()));
    let answer = busy.answer("heir is done", busy.identity(8), &told);
    // The answer is a message that the child's last commit produced.
    heir.dump.history[0].batch.produced = vec![answer.id];
    busy.waits(Message { origin: heir.origin(Some(0)), ..answer });
    vec![busy, kid, heir, idle]
}

fn done() -> Build {
    let mut build = Build::pending("done");
    let end = event::execution_completed(1_000, 0, OrchestrationStatus::Completed, Some("42".into()), None);
    build.turn(1_000, vec![end]).status(Status::Completed).output("42");
    build
}

fn failed() -> Build {
    let mut build = Build::pending("failed");
    let details = failure::failure("Broken", "it broke");
    build.dump.record.details.set_failure(Some(Encoded::new(&details)));
    let end = event::execution_completed(1_000, 0, OrchestrationStatus::Failed, None, Some(details));
    build.turn(1_000, vec![end]).status(Status::Failed);
    build
}

/// Terminated while a worker held its task, which waits for that worker only.
fn stopped() -> Build {
    let mut build = Build::pending("stopped");
    build.turn(1_000, vec![event::task_scheduled(1_000, 0, pay())]).task(0);
    build.tasks[0].holder = Some(session());
    build.tasks[0].withdrawn = true;
    let stop =
        control(&build, Control::Terminate, &event::execution_terminated(1_500, Some("9".into()), false));
    let end = event::execution_completed(1_600, -1, OrchestrationStatus::Terminated, Some("9".into()), None);
    build.commit(1_600, vec![stop], vec![end]).status(Status::Terminated).output("9");
    build
}

/// Suspended; what has arrived since waits.
fn paused() -> Build {
    let mut build = Build::pending("paused");
    build.turn(1_000, vec![]);
    let suspend = control(&build, Control::Suspend, &event::execution_suspended(1_500, None));
    build.commit(1_600, vec![suspend], vec![]).status(Status::Suspended);
    let raised = Encoded::new(&event::event_raised(1_700, "go", None));
    let client = Origin::Client { request: None };
    let message = build.answer("raised at paused", id(""), &event::orchestrator_started(1));
    build.waits(Message { execution: None, answers: None, origin: client, event: raised, ..message });
    build
}

fn control(build: &Build, control: Control, event: &dauer_proto::HistoryEvent) -> Message {
    let message = build.answer(&format!("{control:?} {}", build.dump.id), id(""), event);
    let origin = Origin::Client { request: None };
    Message { class: Class::Control(control), execution: None, answers: None, origin, ..message }
}

/// Continued as new, with an event carried over; the next run has not begun.
fn continued() -> Build {
    let mut build = Build::pending("again");
    build.turn(1_000, vec![]);
    build.dump.history.clear();
    let record = Record { generation: 1, execution: execution("again, 2"), ..build.dump.record.clone() };
    build.dump.record = Record { history_len: 0, history_bytes: 0, ..record };
    let start = start_message("again", id("start again, 2"), &build.dump.record);
    let carried = build.answer("raised at again", id(""), &event::event_raised(900, "go", None));
    let carried = Message { execution: None, answers: None, ..carried };
    build.dump.memory.push((carried.id, at(1_000)));
    build.dump.prologue = vec![start, carried];
    build.settle();
    build
}

/// A call that failed and was made again under the same event id, as Python does.
fn retried() -> Build {
    let mut build = Build::pending("retried");
    build.turn(1_000, vec![event::task_scheduled(1_000, 0, pay())]);
    let details = failure::failure("Busy", "try again");
    let answer = build.answer("failed 0", build.identity(0), &event::task_failed(1_400, 0, details));
    build.attempt = 1;
    build.commit(1_500, vec![answer], vec![event::task_scheduled(1_500, 0, pay())]).task(0);
    build
}

/// Not to run before its time.
fn scheduled() -> Build {
    let mut build = Build::pending("later");
    build.dump.record.times.scheduled = Some(at(9_000));
    build.dump.inbox[0].visible_at = at(9_000);
    build.settle();
    build
}

fn entity() -> Build {
    let mut build = Build::pending("@counter@a");
    let first = build.dump.inbox.remove(0);
    build.dump.record = Record::entity("counter", &first, Revision::default());
    build.settle();
    build
}

fn client() -> ClientJournal {
    let start = |id_: &str| Action::Started { execution: execution(id_), start: id(&format!("start {id_}")) };
    let operations = [
        ("busy", start("busy")),
        ("paused", start("paused")),
        ("paused", Action::Raised { message: id("raised at paused") }),
        ("again", Action::Raised { message: id("raised at again") }),
        ("stopped", Action::Terminated { message: id("Terminate stopped") }),
        ("busy", Action::Answered { execution: execution("busy"), answer: id("paid 3") }),
        ("old", Action::Started { execution: execution("old"), start: id("start old") }),
        ("old", Action::Purged { execution: execution("old") }),
        ("idle", Action::Found),
        ("stopped", Action::Ended { execution: None, status: Status::Terminated, output: None }),
    ];
    let acknowledged = |(instance, action): (&str, Action)| Operation {
        instance: name(instance),
        action,
        outcome: Outcome::Acknowledged,
        at: at(1_000),
    };
    ClientJournal { operations: operations.into_iter().map(acknowledged).collect() }
}

/// The journal that a simulator would have kept: all commits of the histories, with what they sent.
fn commits(snapshot: &Snapshot) -> CommitJournal {
    let mut sent: BTreeMap<_, Vec<Sent>> = BTreeMap::new();
    for message in snapshot.instances.values().flat_map(|dump| dump.inbox.iter()) {
        if let Origin::Turn { instance, revision, .. } = &message.origin {
            sent.entry((instance.clone(), *revision)).or_default().push(Sent::of(message));
        }
    }
    let mut commits = Vec::new();
    for (instance, dump) in &snapshot.instances {
        for stored in &dump.history {
            let revision = Revision(stored.revision.0 - 1);
            let execution = dump.record.execution;
            commits.push(Commit {
                fence: Fence { instance: instance.clone(), execution, revision, epoch: EPOCH },
                revision: stored.revision,
                execution,
                consumed: stored.batch.consumed.iter().map(|(id, _)| *id).collect(),
                produced: stored.batch.produced.clone(),
                sent: sent.remove(&(instance.clone(), stored.revision)).unwrap_or_default(),
            });
        }
    }
    // What was sent and is consumed by now: the first event for `idle` and the start of `kid`.
    let busy = commits.iter_mut().find(|commit| commit.fence.instance == name("busy")).unwrap();
    let identity = |event_id: i32| id(&format!("busy/{event_id}/0"));
    let consumed = [("idle", 5, Some(0)), ("kid", 2, None)];
    busy.sent.extend(consumed.map(|(to, event_id, ordinal)| Sent {
        id: identity(event_id),
        to: name(to),
        execution: None,
        ordinal,
    }));
    CommitJournal { commits }
}

/// A session that no store knows.
pub(crate) fn stranger() -> SessionId {
    SessionId(99)
}
