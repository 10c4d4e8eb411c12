//! Mistakes in histories and records.

use dauer_audit::Invariant::{
    AppliedOnce, Bounded, Causality, Identity, LinearHistory, SingleCommitter, TerminalIsFinal, Timers,
};
use dauer_audit::Repeated;
use dauer_core::model::{Encoded, Fate, Payload, Status};
use dauer_core::{Epoch, MessageId, Revision, SessionId};
use dauer_proto::{OrchestrationStatus, TaskFailureDetails, event, time};

use super::{Mutant, mutant};
use crate::support::{at, execution, id, name};

pub(crate) const LINEAR: &[Mutant] = &[
    mutant("a batch is lost", LinearHistory, "a gap", |world| world.instance("busy").history[1].first += 1),
    mutant("two batches overlap", LinearHistory, "an overlap", |world| {
        world.instance("busy").history[1].first -= 1
    }),
    mutant("a batch is cut off", LinearHistory, "does not hold the events", |world| {
        let dump = world.instance("done");
        let bytes = dump.history[0].batch.events.stored();
        let cut = Encoded::from_stored(bytes.slice(..bytes.len() - 1));
        dump.record.history_bytes = cut.len() as u64;
        dump.history[0].batch.events = cut;
    }),
    mutant("a batch counts wrong", LinearHistory, "where 4 were stored", |world| {
        let dump = world.instance("done");
        dump.history[0].batch.count += 1;
        dump.record.history_len += 1;
    }),
    mutant("the record counts events wrong", LinearHistory, "the record counts 99 events", |world| {
        world.instance("done").record.history_len = 99;
    }),
    mutant("the record counts bytes wrong", LinearHistory, "bytes of history", |world| {
        world.instance("done").record.history_bytes += 1;
    }),
];

pub(crate) const COMMITTER: &[Mutant] = &[
    mutant("two commits make one revision", SingleCommitter, "two commits took one place", |world| {
        world.instance("retried").history[0].revision = Revision(2);
    }),
    mutant("the fence lets an old owner through", SingleCommitter, "a superseded owner", |world| {
        world.instance("busy").history[1].epoch = Epoch(2);
    }),
    mutant("the record does not count a commit", SingleCommitter, "the record only at 1", |world| {
        world.instance("retried").record.revision = Revision(1);
    }),
    mutant("a takeover does not raise the epoch", SingleCommitter, "the instance is only at 2", |world| {
        world.instance("busy").epoch = Epoch(2);
    }),
];

pub(crate) const ONCE: &[Mutant] = &[
    mutant("a completion is written twice", AppliedOnce, "a second time", |world| {
        world.rewrite("busy", 1, |events| events.push(event::task_completed(1_600, 3, None)));
    }),
    mutant("a message is applied by two commits", AppliedOnce, "had applied", |world| {
        let dump = world.instance("busy");
        let first = dump.history[0].batch.consumed[0].0;
        dump.history[1].batch.consumed.push((first, Fate::Event(0)));
    }),
    mutant("two messages become one event", AppliedOnce, "and so did another", |world| {
        world.instance("busy").history[1].batch.consumed[1].1 = Fate::Event(1);
    }),
    mutant("a message becomes no event", AppliedOnce, "of a batch of", |world| {
        world.instance("busy").history[1].batch.consumed[1].1 = Fate::Event(50);
    }),
];

pub(crate) const CAUSALITY: &[Mutant] = &[
    mutant("an answer of another run is applied", Causality, "not scheduled before", |world| {
        world.rewrite("idle", 1, |events| events.push(event::task_completed(1_400, 77, None)));
    }),
    mutant("an answer is applied to another kind", Causality, "but event 2 scheduled activity 0", |world| {
        world.rewrite("busy", 1, |events| events.push(event::sub_orchestration_completed(1_600, 0, None)));
    }),
    mutant("a task runs before its schedule is durable", Causality, "the very commit", |world| {
        world.rewrite("kid", 0, |events| {
            events.push(event::task_scheduled(1_200, 5, crate::support::pay()));
            events.push(event::task_completed(1_200, 5, None));
        });
        world.instance("kid").history[0].batch.produced.push(id("kid/5/0"));
    }),
    mutant("an entity answers a call nobody made", Causality, "never asked for", |world| {
        world.rewrite("idle", 1, |events| events.push(event::entity_operation_completed(1_400, "r", None)));
    }),
];

pub(crate) const TERMINAL: &[Mutant] = &[
    mutant("an ended run goes on", TerminalIsFinal, "follows the end of the run", |world| {
        world.rewrite("done", 0, |events| events.push(event::event_raised(1_001, "late", None)));
    }),
    mutant("the status is not written with the end", TerminalIsFinal, "the record says Failed", |world| {
        world.instance("done").record.status = Status::Failed;
    }),
    mutant("the end is not written with the status", TerminalIsFinal, "its history has no end", |world| {
        world.rewrite("done", 0, |events| _ = events.pop());
    }),
    mutant("the output is another", TerminalIsFinal, "the output of the record", |world| {
        world.instance("done").record.details.set_output(Some(Payload::from("43")));
    }),
    mutant("the failure is lost", TerminalIsFinal, "the failure of the record", |world| {
        world.instance("failed").record.details.set_failure(None);
    }),
    mutant("the failure is another", TerminalIsFinal, "the failure of the record", |world| {
        world
            .instance("failed")
            .record
            .details
            .set_failure(Some(Encoded::new(&TaskFailureDetails::default())));
    }),
    mutant(
        "a living run has a time of completion",
        TerminalIsFinal,
        "and has a time of completion",
        |world| {
            world.instance("idle").record.times.completed = Some(at(1));
        },
    ),
    mutant("a suspension is forgotten", TerminalIsFinal, "was suspended", |world| {
        let dump = world.instance("paused");
        dump.record.status = Status::Running;
        dump.ready_at = Some(at(0));
    }),
];

pub(crate) const TIMERS: &[Mutant] = &[
    mutant("a timer fires before its time", Timers, "100 ms before its time", |world| {
        world.instance("busy").history[1].at = at(1_400);
    }),
    mutant("a turn's time is before its timer", Timers, "in a turn that began", |world| {
        world.rewrite("busy", 1, |events| events[0] = event::orchestrator_started(1_450));
    }),
    mutant("a timer fires with another time", Timers, "another time than it was set to", |world| {
        world.rewrite("busy", 1, |events| events[2] = event::timer_fired(1_500, 4, time::from_millis(1_499)));
    }),
    mutant("the time of turns goes back", Timers, "before the one before it", |world| {
        world.rewrite("idle", 1, |events| events[0] = event::orchestrator_started(400));
    }),
    mutant("a timer is lost", Timers, "nothing waits to fire it", |world| {
        world.instance("busy").inbox.remove(0);
    }),
    mutant("a timer waits for a run before", Timers, "nothing waits to fire it", |world| {
        world.instance("busy").inbox[0].execution = Some(execution("busy, before"));
    }),
    mutant("a timer is rounded down", Timers, "would fire 1 ms before", |world| {
        world.instance("busy").inbox[0].visible_at = at(4_999);
    }),
    mutant("a timer is put off", Timers, "would fire 1 ms after", |world| {
        world.instance("busy").inbox[0].visible_at = at(5_001);
    }),
];

pub(crate) const IDENTITY: &[Mutant] = &[
    mutant("two instances run one execution", Identity, "and so does", |world| {
        let execution = world.instance("@counter@a").record.execution;
        world.instance("later").record.execution = execution;
    }),
    mutant("two instances were begun by one start", Identity, "and so was", |world| {
        let start = world.instance("failed").record.start;
        world.instance("done").record.start = start;
    }),
    mutant("a history begins twice", Identity, "has 2 starts", |world| {
        world.rewrite("idle", 1, |events| {
            let begin = event::start("Order", "idle", execution("idle").to_string());
            events.push(event::execution_started(1, begin));
        });
    }),
    mutant("a history belongs to another instance", Identity, "the start of another instance", |world| {
        world.rewrite("done", 0, |events| {
            let begin = event::start("Order", "other", execution("done").to_string());
            events[1] = event::execution_started(1, begin);
        });
    }),
    mutant("a history belongs to another run", Identity, "the record says", |world| {
        world.rewrite("done", 0, |events| {
            let begin = event::start("Order", "done", execution("before").to_string());
            events[1] = event::execution_started(1, begin);
        });
    }),
    mutant("a message lies in another inbox", Identity, "but is for elsewhere", |world| {
        world.instance("paused").inbox[0].to = name("elsewhere");
    }),
    mutant("an instance is there twice", Identity, "more than once", |world| {
        world.snapshot.repeated.push(Repeated::Instance(name("busy")));
    }),
    mutant("a task is there twice", Identity, "task 00000000", |world| {
        world.snapshot.repeated.push(Repeated::Task(MessageId([0; 16])));
    }),
    mutant("a session is there twice", Identity, "session 00000000", |world| {
        world.snapshot.repeated.push(Repeated::Session(SessionId(7)));
    }),
];

pub(crate) const BOUNDED: &[Mutant] = &[
    mutant("the history grows without limit", Bounded, "events of history", |world| {
        world.settings.limits.history_events = 3;
    }),
    mutant("the history grows in bytes", Bounded, "bytes of history", |world| {
        world.settings.limits.history_bytes = 10;
    }),
    mutant("the memory is never cleared", Bounded, "remembered messages", |world| {
        let dump = world.instance("again");
        dump.memory = (0..10_001).map(|n| (id(&format!("{n:05}")), at(1))).collect();
    }),
    mutant("more is open than allowed", Bounded, "has 4 open", |world| world.settings.limits.open_tasks = 3),
    mutant("a turn does more than allowed", Bounded, "are allowed", |world| {
        world.settings.limits.actions_per_turn = 5;
    }),
    mutant("an output is too large", Bounded, "a payload of", |world| {
        world.settings.limits.payload_bytes = 1
    }),
    mutant("a timer is set too far ahead", Bounded, "further ahead than allowed", |world| {
        world.settings.limits.timer = std::time::Duration::from_secs(3);
    }),
    mutant("a task is tried for ever", Bounded, "6 failed attempts", |world| {
        world.snapshot.tasks.values_mut().next().unwrap().attempts = 6;
    }),
    mutant("a turn is tried for ever", Bounded, "9 failed attempts", |world| {
        world.settings.turn_attempts = Some(8);
        world.instance("idle").record.attempts = 9;
    }),
];

/// An execution that ends as it should not.
pub(crate) const CONTINUED: &[Mutant] = &[mutant(
    "a run that continues keeps its end",
    TerminalIsFinal,
    "ORCHESTRATION_STATUS_CONTINUED_AS_NEW",
    |world| {
        let end = event::execution_completed(1, 9, OrchestrationStatus::ContinuedAsNew, None, None);
        world.rewrite("idle", 1, |events| events.push(end));
    },
)];
