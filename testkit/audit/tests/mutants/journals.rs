//! Mistakes that only the journals of clients and commits show.

use dauer_audit::Invariant::{Conservation, Durability, NoResurrection, SenderOrder, SingleCommitter};
use dauer_audit::{Action, Commit, Sent};
use dauer_core::model::Status;
use dauer_core::{Epoch, Revision};

use super::{Mutant, mutant};
use crate::support::{World, execution, id, name};

fn commit<'w>(world: &'w mut World, instance: &str, revision: u64) -> &'w mut Commit {
    let mut commits = world.commits.commits.iter_mut();
    commits.find(|each| each.fence.instance == name(instance) && each.revision.0 == revision).unwrap()
}

pub(crate) const DURABILITY: &[Mutant] = &[
    mutant("an acknowledged start is lost", Durability, "but it does not exist", |world| {
        world.client.operations.retain(|each| !matches!(each.action, Action::Purged { .. }));
    }),
    mutant("an acknowledged start is undone", Durability, "which nobody sent", |world| {
        let start = id("of nobody");
        world.instance("paused").record.start = start;
    }),
    mutant("an acknowledged event is lost", Durability, "event", |world| {
        world.instance("paused").inbox.clear();
    }),
    mutant("an acknowledged terminate is lost", Durability, "terminate", |world| {
        let message = id("terminate at idle");
        let mut operation = world.client.operations[0].clone();
        operation.instance = name("idle");
        operation.action = Action::Terminated { message };
        world.client.operations.push(operation);
    }),
    mutant("an acknowledged answer is lost", Durability, "answer", |world| {
        let mut operation = world.client.operations[0].clone();
        operation.action = Action::Answered { execution: execution("busy"), answer: id("paid 0") };
        world.client.operations.push(operation);
    }),
    mutant("continue-as-new loses an event", Durability, "event", |world| {
        let dump = world.instance("again");
        dump.prologue.truncate(1);
        dump.memory.clear();
    }),
];

fn told(world: &mut World, instance: &str, action: Action) {
    let mut operation = world.client.operations[0].clone();
    operation.instance = name(instance);
    operation.action = action;
    world.client.operations.push(operation);
}

fn ended(execution: Option<&str>, status: Status, output: Option<&str>) -> Action {
    let (execution, output) = (execution.map(self::execution), output.map(str::to_owned));
    Action::Ended { execution, status, output }
}

pub(crate) const ENDS: &[Mutant] = &[
    mutant("an instance that was seen is gone", Durability, "but does not exist", |world| {
        told(world, "never", Action::Found);
    }),
    mutant("an end that was seen is gone", Durability, "but does not exist", |world| {
        told(world, "never", ended(None, Status::Completed, None));
    }),
    mutant("an end that was seen is taken back", Durability, "for a client, but is", |world| {
        told(world, "busy", ended(Some("busy"), Status::Completed, None));
    }),
    mutant("an end that was seen is another one", Durability, "as Failed for a client", |world| {
        told(world, "done", ended(None, Status::Failed, None));
    }),
    mutant("an output that was seen is another one", Durability, "another output", |world| {
        told(world, "done", ended(Some("done"), Status::Completed, Some("\"not this\"")));
    }),
    mutant("a run that was seen to end is replaced by itself", Durability, "which nobody began", |world| {
        told(world, "done", ended(Some("done, before"), Status::Completed, None));
    }),
];

pub(crate) const COMMITTER: &[Mutant] = &[
    mutant("two sessions hear that they committed", SingleCommitter, "to two committers", |world| {
        let twin = commit(world, "done", 1).clone();
        world.commits.commits.push(twin);
    }),
    mutant("a revision is left out", SingleCommitter, "was made from revision 7", |world| {
        commit(world, "done", 1).fence.revision = Revision(7);
    }),
    mutant("an old epoch commits", SingleCommitter, "after epoch 3", |world| {
        commit(world, "busy", 2).fence.epoch = Epoch(1);
    }),
    mutant(
        "a refused commit is in the history",
        SingleCommitter,
        "no commit of this run was confirmed",
        |world| {
            world.commits.commits.retain(|each| each.fence.instance != name("done"));
        },
    ),
];

pub(crate) const RESURRECTION: &[Mutant] = &[
    mutant("a purged run returns", NoResurrection, "is there again", |world| {
        let record = &world.snapshot.instances[&name("done")].record;
        let action = Action::Purged { execution: record.execution };
        let mut operation = world.client.operations[0].clone();
        operation.instance = name("done");
        operation.action = action;
        world.client.operations.push(operation);
    }),
    mutant("the start of a purged run begins another", NoResurrection, "was begun again by start", |world| {
        let start = world.snapshot.instances[&name("done")].record.start;
        let execution = execution("done, before");
        for action in [Action::Started { execution, start }, Action::Purged { execution }] {
            let mut operation = world.client.operations[0].clone();
            operation.instance = name("done");
            operation.action = action;
            world.client.operations.push(operation);
        }
    }),
    mutant("a removed start begins a run", NoResurrection, "whose instance was removed", |world| {
        let record = &world.snapshot.instances[&name("done")].record;
        let before = record.times.accepted.before(std::time::Duration::from_secs(1));
        world.snapshot.removed_starts.insert(record.start, before);
    }),
];

pub(crate) const CONSERVATION: &[Mutant] = &[mutant(
    "messages vanish without being counted",
    Conservation,
    "1 counted drops do not cover",
    |world| {
        let lost = |words: &str| Sent { id: id(words), to: name("idle"), execution: None, ordinal: None };
        commit(world, "busy", 1).sent.extend([lost("lost 1"), lost("lost 2")]);
    },
)];

pub(crate) const ORDER: &[Mutant] = &[
    mutant(
        "two messages are consumed in the wrong order",
        SenderOrder,
        "after (revision 1, message 1)",
        |world| {
            commit(world, "idle", 2).consumed = vec![id("busy/6/0"), id("busy/5/0")];
        },
    ),
    mutant("a message is overtaken", SenderOrder, "waits although (revision 1, message 2)", |world| {
        commit(world, "idle", 2).consumed.push(id("busy/7/0"));
    }),
];
