//! Mistakes with messages, tasks and leases.

use dauer_audit::Invariant::{AppliedOnce, AtomicTurn, Families, NoOrphans, Readiness, SenderOrder};
use dauer_core::model::{Class, Control, Deaths, Encoded, Origin, Status};
use dauer_core::{MessageId, Revision};
use dauer_store::TaskDump;

use super::{Mutant, mutant};
use crate::support::{World, at, id, name, stranger};

/// The task that an instance waits for.
fn task<'w>(world: &'w mut World, instance: &str) -> &'w mut TaskDump {
    let mut tasks = world.snapshot.tasks.values_mut();
    tasks.find(|dump| dump.task.instance == name(instance)).unwrap()
}

fn remove_task(world: &mut World, instance: &str) -> TaskDump {
    let id: MessageId = task(world, instance).task.id;
    world.snapshot.tasks.remove(&id).unwrap()
}

pub(crate) const ATOMIC: &[Mutant] = &[
    mutant("a history is written without its status", AtomicTurn, "its status is Pending", |world| {
        let record = &mut world.instance("idle").record;
        record.status = Status::Pending;
    }),
    mutant("an instance is created without its start", AtomicTurn, "is not waiting for it", |world| {
        world.instance("later").inbox.clear();
    }),
    mutant("a run continues without its start", AtomicTurn, "is not waiting for it", |world| {
        world.instance("again").prologue.remove(0);
    }),
    mutant("a batch forgets what it produced", AtomicTurn, "produced only 0 identities", |world| {
        // Its task is taken away with it: a task without an origin is another mistake.
        remove_task(world, "stopped");
        world.instance("stopped").history[0].batch.produced.clear();
    }),
    mutant("a sent event is lost", AtomicTurn, "only 2 of them", |world| {
        world.instance("idle").inbox.remove(0);
        forget_sent(world, id("busy/6/0"));
    }),
    mutant("a message is sent before its commit", AtomicTurn, "which has only committed 2", |world| {
        let Origin::Turn { revision, .. } = &mut world.instance("idle").inbox[1].origin else { return };
        *revision = Revision(3);
    }),
    mutant("a refused turn's message is sent", AtomicTurn, "no such identity", |world| {
        let mut stray = world.instance("idle").inbox[1].clone();
        stray.id = id("stray");
        if let Origin::Turn { ordinal, .. } = &mut stray.origin {
            *ordinal = None;
        }
        world.instance("idle").inbox.push(stray);
    }),
    mutant("a refused turn's task is there", AtomicTurn, "no commit of this run produced it", |world| {
        let mut stray = task(world, "kid").clone();
        stray.task.id = id("stray");
        world.snapshot.tasks.insert(stray.task.id, stray);
    }),
    mutant("a waiting message is damaged", AtomicTurn, "cannot be read", |world| {
        let dump = world.instance("paused");
        dump.inbox[0].event = Encoded::from_stored(dump.inbox[0].event.stored().slice(..3));
    }),
];

/// Takes a message out of the journal of commits, so that only the dump shows that it is gone.
fn forget_sent(world: &mut World, id: MessageId) {
    for commit in &mut world.commits.commits {
        commit.sent.retain(|sent| sent.id != id);
    }
}

pub(crate) const WAITING: &[Mutant] = &[
    mutant("a message is delivered twice", AppliedOnce, "is waiting twice", |world| {
        let dump = world.instance("paused");
        let copy = dump.inbox[0].clone();
        dump.inbox.push(copy);
    }),
    mutant("a consumed message stays", AppliedOnce, "although the history has applied it", |world| {
        let dump = world.instance("paused");
        dump.inbox[0].id = dump.history[0].batch.consumed[0].0;
        dump.memory.clear();
        acknowledge_no_raise(world);
    }),
    mutant("a repeat is not recognised", AppliedOnce, "remembers to have applied it", |world| {
        let dump = world.instance("paused");
        let id = dump.inbox[0].id;
        dump.memory.push((id, at(1)));
    }),
];

fn acknowledge_no_raise(world: &mut World) {
    world.client.operations.retain(|each| each.instance != name("paused"));
}

pub(crate) const FAMILIES: &[Mutant] = &[
    mutant("a task is lost", Families, "no task to run and no answer", |world| _ = remove_task(world, "kid")),
    mutant("only the task of a former attempt is left", Families, "no task to run", |world| {
        let mut old = remove_task(world, "retried");
        old.task.id = id("retried/0/0");
        world.snapshot.tasks.insert(old.task.id, old);
    }),
    mutant("a task is withdrawn while its instance waits", Families, "no task to run", |world| {
        task(world, "busy").withdrawn = true;
    }),
    mutant("the answer of a child is lost", Families, "has ended and its answer", |world| {
        let answer = world.instance("busy").inbox.remove(1);
        forget_sent(world, answer.id);
    }),
    mutant("the start of a child is lost", Families, "kid does not exist", |world| {
        world.snapshot.instances.remove(&name("kid"));
        world.snapshot.tasks.retain(|_, dump| dump.task.instance != name("kid"));
    }),
    mutant("a child is replaced and its parent not told", Families, "begun by another start", |world| {
        world.instance("kid").record.start = id("another start");
    }),
    mutant("a child forgets its parent", Families, "begun by another start", |world| {
        world.instance("kid").record.parent = None;
    }),
];

pub(crate) const READINESS: &[Mutant] = &[
    mutant("a delivery does not wake its target", Readiness, "not ready at any time", |world| {
        world.instance("idle").ready_at = None;
    }),
    mutant("a terminate waits for the scheduled start", Readiness, "6000 ms after a message", |world| {
        let stop = dauer_proto::event::execution_terminated(1, None, false);
        let dump = world.instance("later");
        let mut message = dump.inbox[0].clone();
        message.id = id("stop later");
        message.class = Class::Control(Control::Terminate);
        message.event = Encoded::new(&stop);
        message.visible_at = at(0);
        dump.inbox.push(message);
    }),
    mutant("a timer does not wake its instance", Readiness, "1 ms after a message", |world| {
        let dump = world.instance("later");
        dump.ready_at = Some(at(9_001));
    }),
];

pub(crate) const ORDER: &[Mutant] = &[mutant("a transport reorders", SenderOrder, "waits behind", |world| {
    world.instance("idle").inbox.swap(0, 1);
})];

pub(crate) const ORPHANS: &[Mutant] = &[
    mutant("a purge leaves a task", NoOrphans, "an instance that does not exist", |world| {
        let mut left = task(world, "kid").clone();
        left.task.id = id("left");
        left.task.instance = name("gone");
        world.snapshot.tasks.insert(left.task.id, left);
    }),
    mutant("a session's end leaves its task held", NoOrphans, "nobody can take it over", |world| {
        task(world, "busy").holder = Some(stranger());
    }),
    mutant("a session's end leaves its instance held", NoOrphans, "nobody can take it over", |world| {
        world.instance("busy").holder = Some(stranger());
    }),
    mutant("a withdrawn task outlives its holder", NoOrphans, "nothing will ever remove it", |world| {
        task(world, "stopped").holder = None;
    }),
    mutant("a terminated run's task still waits", NoOrphans, "should have been withdrawn", |world| {
        let task = task(world, "stopped");
        task.holder = None;
        task.withdrawn = false;
    }),
    mutant("a trial of a task outlives its hold", NoOrphans, "no session holds it", |world| {
        let task = task(world, "busy");
        (task.holder, task.trial) = (None, true);
    }),
    mutant("a trial of a turn outlives its hold", NoOrphans, "no session holds it", |world| {
        let instance = world.instance("busy");
        (instance.holder, instance.trial) = (None, true);
    }),
    mutant("a server's end counts as one during a trial", NoOrphans, "deaths during trials", |world| {
        world.instance("busy").record.deaths = Deaths { workers: 1, servers: 1, trials: 2 };
    }),
    mutant("an answered task stays", NoOrphans, "is not open", |world| {
        let mut stale = task(world, "busy").clone();
        stale.task.id = id("busy/3/0");
        stale.task.event_id = 3;
        stale.holder = None;
        world.snapshot.tasks.insert(stale.task.id, stale);
    }),
    mutant("an ended run keeps a message", NoOrphans, "which never takes it", |world| {
        let mut message = world.instance("paused").inbox[0].clone();
        message.id = id("raised at done");
        message.to = name("done");
        world.instance("done").inbox.push(message);
    }),
];
