//! What looks odd and is allowed: each of these changes leaves the hub clean. An auditor that cries wolf is switched
//! off.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its hub has failed")]

mod support;

use dauer_audit::{Action, Invariant, Operation, Outcome};
use dauer_core::model::{Batch, Class, Control, DropReason, Encoded, Fate, Message, Origin, Status};
use dauer_core::{Epoch, Revision};
use dauer_proto::{ExecutionRewoundEvent, OrchestrationStatus, event};
use dauer_store::InstanceDump;
use support::{World, at, execution, healthy, id, name};

/// Something an engine or store may do.
type Legal = (&'static str, fn(&mut World));

const LEGAL: &[Legal] = &[
    ("a repeat is recognised and dropped, twice", |world| {
        let dump = world.instance("busy");
        let first = dump.history[0].batch.consumed[0].0;
        let repeat = (first, Fate::Dropped(DropReason::Repeat));
        dump.history[1].batch.consumed.extend([repeat, repeat]);
    }),
    ("a message is delivered once more, after a later one of its sender", |world| {
        let second = |commit: &&mut dauer_audit::Commit| {
            commit.fence.instance == name("idle") && commit.revision == Revision(2)
        };
        let commit = world.commits.commits.iter_mut().find(second).unwrap();
        assert!(commit.consumed.contains(&id("busy/5/0")));
        commit.consumed.push(id("busy/5/0"));
    }),
    ("the answer of a task waits, and the task is gone", |world| {
        let dump = world.snapshot.tasks.remove(&id("kid/0/0")).unwrap();
        let answer = answer_to(world.instance("kid"), dump.task.id);
        world.instance("kid").inbox.push(answer);
        world.instance("kid").ready_at = Some(at(0));
    }),
    ("the answer of a child is still in its outbox", |world| {
        let answer = world.instance("busy").inbox.remove(1);
        world.instance("heir").outbox.push(answer);
    }),
    ("the start of a child is still in the outbox", |world| {
        let start = world.instance("again").prologue[0].clone();
        let (id, to) = (id("busy/2/0"), name("kid"));
        world.instance("busy").outbox.push(Message { id, to, ..start });
        world.snapshot.instances.remove(&name("kid"));
        world.snapshot.tasks.retain(|_, dump| dump.task.instance != name("kid"));
    }),
    ("a ready time is earlier than needed, or has passed", |world| {
        world.instance("later").ready_at = Some(at(8_000));
        world.instance("idle").ready_at = Some(at(2_999));
    }),
    ("a release with delay puts a turn off", |world| {
        let dump = world.instance("idle");
        dump.not_before = at(7_000);
        dump.ready_at = Some(at(7_000));
    }),
    ("a timer whose time had passed is visible at its commit", |world| {
        world.rewrite("kid", 0, |events| {
            events.push(event::timer_created(1_200, 4, dauer_proto::time::from_millis(10)));
        });
        let timer = timer_of(world.instance("kid"), 4, 10);
        let dump = world.instance("kid");
        dump.history[0].batch.produced.push(timer.id);
        dump.inbox.push(Message { visible_at: at(1_200), ..timer });
        dump.ready_at = Some(at(1_200));
    }),
    ("an ended run's timer is not yet due on a queue", |world| {
        let timer = timer_of(world.instance("done"), 4, 8_000);
        world.instance("done").inbox.push(Message { answers: None, ..timer });
        world.instance("done").history[0].batch.produced.push(id("timer of done"));
    }),
    ("an ended instance has the start of its next run waiting", |world| {
        let mut start = world.instance("later").inbox[0].clone();
        start.id = id("start done again");
        start.to = name("done");
        world.instance("done").inbox.push(start);
        world.instance("done").ready_at = Some(at(9_000));
    }),
    ("a pending instance is suspended from outside", |world| {
        let dump = world.instance("later");
        let fate = Fate::Dropped(DropReason::Obeyed);
        append(dump, Batch::join(&[], vec![(id("suspend"), fate)], Vec::new()).unwrap());
        dump.record.status = Status::Suspended;
        dump.ready_at = None;
        confirm(world, "later");
    }),
    ("a pending instance is ended from outside", |world| {
        let dump = world.instance("later");
        let start = dump.inbox.remove(0);
        let end = event::execution_completed(2_000, -1, OrchestrationStatus::Terminated, None, None);
        let terminated = event::execution_terminated(2_000, None, false);
        let events = [event::orchestrator_started(2_000), start.event.event().unwrap(), terminated, end];
        let fates = vec![(start.id, Fate::Event(1)), (id("terminate"), Fate::Event(2))];
        append(dump, Batch::join(&events.each_ref().map(Encoded::new), fates, Vec::new()).unwrap());
        dump.ready_at = None;
        dump.record.status = Status::Terminated;
        dump.record.times.completed = Some(at(2_000));
        confirm(world, "later");
    }),
    ("a pending instance puts a suspend off, without an event", |world| {
        let dump = world.instance("later");
        let fate = Fate::Dropped(DropReason::PutOff);
        append(dump, Batch::join(&[], vec![(id("suspend"), fate)], vec![id("suspend again")]).unwrap());
        let suspend = Encoded::new(&event::execution_suspended(1, None));
        let class = Class::Control(Control::Suspend);
        let message = Message { id: id("suspend again"), class, event: suspend, ..dump.inbox[0].clone() };
        dump.inbox.push(message);
        confirm(world, "later");
    }),
    ("a rewind writes old batches as one commit", |world| {
        let dump = world.instance("busy");
        dump.record.generation = 1;
        for stored in &mut dump.history {
            (stored.revision, stored.at) = (Revision(2), at(2_000));
            stored.batch.produced.clear();
        }
        world.rewrite("busy", 1, |events| {
            events.push(event::execution_rewound(2_000, ExecutionRewoundEvent::default()));
        });
    }),
    ("a store without transactions sends a task early", |world| {
        world.settings.transactional = false;
        let mut early = world.snapshot.tasks[&id("kid/0/0")].clone();
        early.task.id = id("kid/9/0");
        early.task.event_id = 9;
        world.snapshot.tasks.insert(early.task.id, early);
    }),
    ("a task of a run that continued is still to be run", |world| {
        let mut left = world.snapshot.tasks[&id("kid/0/0")].clone();
        left.task.id = id("again/0/0");
        left.task.instance = name("again");
        left.task.execution = execution("again");
        world.snapshot.tasks.insert(left.task.id, left);
    }),
    ("a dropped message is covered by a counter", |world| {
        let lost = dauer_audit::Sent { id: id("lost"), to: name("idle"), execution: None, ordinal: None };
        world.commits.commits[0].sent.push(lost);
    }),
    ("the outcome of a start is unknown", |world| {
        tell(
            world,
            "never",
            Action::Started { execution: execution("never"), start: id("never") },
            Outcome::Unknown,
        );
    }),
    ("an event is raised at an instance that ends", |world| {
        tell(world, "done", Action::Raised { message: id("late") }, Outcome::Acknowledged);
    }),
    ("an instance is started anew after a purge", |world| {
        let execution = execution("done, before");
        tell(world, "done", Action::Started { execution, start: id("before") }, Outcome::Acknowledged);
        tell(world, "done", Action::Purged { execution }, Outcome::Acknowledged);
        let record = &world.snapshot.instances[&name("done")].record;
        let action = Action::Started { execution: record.execution, start: record.start };
        tell(world, "done", action, Outcome::Acknowledged);
    }),
    ("an instance that was seen to end is started anew", |world| {
        let seen = |execution| Action::Ended { execution, status: Status::Failed, output: None };
        tell(world, "done", seen(Some(execution("done, before"))), Outcome::Acknowledged);
        tell(world, "done", seen(None), Outcome::Acknowledged);
        let before = Action::Started { execution: execution("done, before"), start: id("before") };
        tell(world, "done", before, Outcome::Acknowledged);
        let record = &world.snapshot.instances[&name("done")].record;
        let again = Action::Started { execution: record.execution, start: record.start };
        tell(world, "done", again, Outcome::Acknowledged);
    }),
    ("an instance that was seen to end is purged", |world| {
        tell(world, "old", Action::Found, Outcome::Acknowledged);
        let seen = Action::Ended { execution: None, status: Status::Completed, output: Some("1".into()) };
        tell(world, "old", seen, Outcome::Acknowledged);
    }),
    ("the epoch grows between two commits", |world| {
        let dump = world.instance("busy");
        dump.epoch = Epoch(9);
        dump.history[1].epoch = Epoch(8);
    }),
];

fn tell(world: &mut World, instance: &str, action: Action, outcome: Outcome) {
    world.client.operations.push(Operation { instance: name(instance), action, outcome, at: at(2_000) });
}

fn message(dump: &InstanceDump, event: &dauer_proto::HistoryEvent) -> Message {
    Message {
        id: id("message"),
        to: dump.id.clone(),
        execution: Some(dump.record.execution),
        class: Class::Ordinary,
        origin: Origin::Client { request: None },
        answers: None,
        visible_at: at(0),
        event: Encoded::new(event),
    }
}

fn answer_to(dump: &InstanceDump, task: dauer_core::MessageId) -> Message {
    Message { answers: Some(task), ..message(dump, &event::task_completed(1_300, 0, None)) }
}

fn timer_of(dump: &InstanceDump, event_id: i32, fire_at: i64) -> Message {
    let fired = event::timer_fired(fire_at, event_id, dauer_proto::time::from_millis(fire_at));
    let identity = id(&format!("timer {event_id} of {}", dump.id));
    Message { id: identity, answers: Some(identity), visible_at: at(fire_at), ..message(dump, &fired) }
}

/// Adds the first batch of a pending instance.
fn append(dump: &mut InstanceDump, batch: Batch) {
    dump.record.revision = Revision(1);
    dump.record.history_len = batch.count;
    dump.record.history_bytes = batch.events.len() as u64;
    let (revision, owner) = (Revision(1), support::host());
    let stored =
        dauer_core::model::StoredBatch { first: 0, revision, epoch: Epoch(3), owner, at: at(2_000), batch };
    dump.history.push(stored);
}

/// Tells the journal of commits of an instance's first commit.
fn confirm(world: &mut World, instance: &str) {
    let execution = world.instance(instance).record.execution;
    let mut commit = world.commits.commits[0].clone();
    commit.fence.instance = name(instance);
    (commit.fence.revision, commit.revision, commit.execution) = (Revision(0), Revision(1), execution);
    (commit.consumed, commit.sent) = (Vec::new(), Vec::new());
    world.commits.commits.push(commit);
}

#[test]
fn what_is_allowed_is_not_reported() {
    let mut wrong = Vec::new();
    for (name, make) in LEGAL {
        let mut world = healthy();
        make(&mut world);
        let report = world.audit();
        if !report.is_clean() {
            let told: Vec<_> = report.violations().map(|(i, v)| format!("  {}: {v}", i.code())).collect();
            wrong.push(format!("{name}:\n{}", told.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The pairs of the list above: the same thing without what makes it legal is a violation.
#[test]
fn what_makes_it_legal_is_needed() {
    let mut world = healthy();
    let (_, early_task) = LEGAL.iter().find(|(name, _)| name.contains("without transactions")).unwrap();
    early_task(&mut world);
    world.settings.transactional = true;
    let report = world.audit();
    assert!(!report.finding(Invariant::AtomicTurn).violations().is_empty(), "{report}");

    let mut world = healthy();
    let (_, rewind) = LEGAL.iter().find(|(name, _)| name.contains("a rewind")).unwrap();
    rewind(&mut world);
    world.instance("busy").record.generation = 0;
    let report = world.audit();
    assert!(!report.finding(Invariant::SingleCommitter).violations().is_empty(), "{report}");

    let mut world = healthy();
    world.snapshot.dropped.clear();
    let (_, dropped) = LEGAL.iter().find(|(name, _)| name.contains("covered by a counter")).unwrap();
    dropped(&mut world);
    let report = world.audit();
    assert!(!report.finding(Invariant::Conservation).violations().is_empty(), "{report}");
}
