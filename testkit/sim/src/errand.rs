//! The orchestration of instances that come and go. Every ticket that it draws has a number of its own, so that its output
//! shows which execution of which activity each answer came from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use dauer_proto::{EventType, HistoryEvent, TaskFailureDetails, failure};
use dauer_replay::{
    Activity, CallError, Error, Event, Orchestration, OrchestrationContext, RegisterError, Registry, Result,
};
use dauer_store::{ExecutionId, InstanceId, MessageId, Status, Task};
use serde::{Deserialize, Serialize};

use crate::journal::End;
use crate::random::Random;
use crate::unpoisoned;

/// The orchestration.
pub(crate) const ERRAND: Orchestration<Errand, Report> = Orchestration::new("errand");

/// The name of the activity that draws a ticket.
pub(crate) const TICKET: &str = "ticket";

const DRAW: Activity<Wish, u64> = Activity::new(TICKET);

/// The event that an errand may wait for. Clients raise it only sometimes.
pub(crate) const GO: &str = "go";

/// The most legs of an errand: short ones end while others still work on them.
const LEGS_MAX: u64 = 3;

/// What an errand does. Two with the same label are the same request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Errand {
    pub(crate) label: u64,
    pub(crate) legs: Vec<Leg>,
}

/// A part of an errand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Leg {
    /// Draws a ticket.
    Ticket,
    /// Draws a ticket; the first attempt fails, and the run with it. A rewind draws again.
    Unlucky,
    /// Sleeps for so many milliseconds.
    Sleep(u64),
    /// Runs a child, whatever becomes of it.
    Child(Vec<Leg>),
    /// Waits for an event that may never come.
    Idle,
    /// Continues as new once, with what is left.
    Again,
}

/// What an errand has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    label: u64,
    tickets: Vec<u64>,
}

/// What a ticket is drawn with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Wish {
    label: u64,
    unlucky: bool,
}

impl Errand {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let label = random.bits() >> 16;
        Self { label, legs: legs(random, true) }
    }
}

fn legs(random: &mut Random, parent: bool) -> Vec<Leg> {
    let count = random.between(0, LEGS_MAX);
    let leg = |random: &mut Random| match random.below(if parent { 13 } else { 8 }) {
        0..=3 => Leg::Ticket,
        4 => Leg::Unlucky,
        5 | 6 => Leg::Sleep(random.pick(&[1, 50, 1_000])),
        7 => Leg::Idle,
        8 | 9 => Leg::Child(legs(random, false)),
        10 => Leg::Again,
        11 => Leg::Unlucky,
        _ => Leg::Ticket,
    };
    (0..count).map(|_| leg(random)).collect()
}

/// Adds the orchestration to the code of a host.
pub(crate) fn register(registry: &mut Registry) -> std::result::Result<(), RegisterError> {
    registry.orchestration(ERRAND, run)?;
    Ok(())
}

async fn run(context: OrchestrationContext, errand: Errand) -> Result<std::ops::ControlFlow<Report, Errand>> {
    let Errand { label, legs } = errand;
    let mut tickets = Vec::new();
    for (at, leg) in legs.iter().enumerate() {
        match leg {
            Leg::Ticket | Leg::Unlucky => {
                let unlucky = *leg == Leg::Unlucky;
                tickets.push(context.call(DRAW, &Wish { label, unlucky }).await?);
            }
            Leg::Sleep(millis) => context.sleep(Duration::from_millis(*millis)).await,
            Leg::Child(legs) => {
                let id = InstanceId::new(format!("{}.{at}", context.instance()))
                    .map_err(|_| Error::fatal("the child's id is too long"))?;
                let errand = Errand { label, legs: legs.clone() };
                match context.call_orchestration(ERRAND, &errand).instance(&id).await {
                    Ok(_) | Err(CallError::Failed(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Leg::Idle => drop(context.event(Event::<i64>::new(GO)).await?),
            Leg::Again => {
                let legs = legs[at + 1..].to_vec();
                return Ok(std::ops::ControlFlow::Continue(Errand { label, legs }));
            }
        }
    }
    Ok(std::ops::ControlFlow::Break(Report { label, tickets }))
}

/// All tickets that were drawn.
#[derive(Default)]
pub(crate) struct Tickets {
    state: Mutex<Drawn>,
}

#[derive(Default)]
struct Drawn {
    issued: BTreeMap<u64, Ticket>,
    /// The schedules that have failed once.
    failed: BTreeSet<(InstanceId, u64, i32)>,
    /// The label of each start that a client has sent.
    labels: BTreeMap<MessageId, u64>,
}

struct Ticket {
    instance: InstanceId,
    execution: ExecutionId,
    /// When the host began to run the activity.
    began: u64,
}

impl Tickets {
    /// A client has sent a start with that label.
    pub(crate) fn label(&self, start: MessageId, label: u64) {
        unpoisoned(&self.state).labels.insert(start, label);
    }

    /// Draws a ticket for a task whose execution began at that moment.
    pub(crate) fn draw(&self, task: &Task, began: u64) -> Result<Option<String>, TaskFailureDetails> {
        let scheduled = task.event.event().ok().and_then(|event: HistoryEvent| match event.event_type {
            Some(EventType::TaskScheduled(scheduled)) => scheduled.input,
            _ => None,
        });
        let wish: Option<Wish> = scheduled.and_then(|input| serde_json::from_str(&input).ok());
        let Some(Wish { label, unlucky }) = wish else {
            return Err(failure::failure("Undecodable", "the call makes no sense").non_retriable());
        };
        let mut drawn = unpoisoned(&self.state);
        if unlucky && drawn.failed.insert((task.instance.clone(), label, task.event_id)) {
            return Err(failure::failure("Unlucky", "the first attempt fails").non_retriable());
        }
        let number = drawn.issued.len() as u64;
        let ticket = Ticket { instance: task.instance.clone(), execution: task.execution, began };
        drawn.issued.insert(number, ticket);
        Ok(Some(number.to_string()))
    }

    /// What is wrong with a run that has ended: it reports what its start asked for, and every answer in it was computed for
    /// this very run.
    pub(crate) fn check(&self, end: &End) -> Option<String> {
        let End { instance, born, record } = end;
        if record.status != Status::Completed {
            return None;
        }
        let output = record.details.output().map_or("", |output| output.as_str());
        let Ok(Report { label, tickets }) = serde_json::from_str(output) else {
            return Some(format!("outcome of {instance}: no report: {output:?}"));
        };
        let drawn = unpoisoned(&self.state);
        if let Some(asked) = drawn.labels.get(&record.start).filter(|asked| **asked != label) {
            return Some(format!(
                "I10 {instance}: its start asked for errand {asked}, and it has run errand {label}"
            ));
        }
        tickets.iter().find_map(|number| {
            let Some(ticket) = drawn.issued.get(number) else {
                return Some(format!("I6 {instance}: ticket {number} was never drawn"));
            };
            if ticket.instance != *instance {
                return Some(format!("I6 {instance}: ticket {number} was drawn for {}", ticket.instance));
            }
            if ticket.began < *born {
                return Some(format!(
                    "I18 {instance}: ticket {number} was drawn before its start, by a run that was purged"
                ));
            }
            // A rewound run, and only such a one, keeps answers of a run before.
            (ticket.execution != record.execution && record.generation == 0).then(|| {
                format!("I6 {instance}: ticket {number} was drawn by execution {}", ticket.execution)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use dauer_store::{Kind, QueueKey, Record, Revision};

    use super::*;

    const RUN: ExecutionId = ExecutionId(1);

    fn id() -> InstanceId {
        InstanceId::new("c0").unwrap()
    }

    fn end(born: u64, output: &str) -> End {
        let queue = QueueKey::new(Kind::Orchestration, "errand", None);
        let mut record = Record {
            status: Status::Completed,
            revision: Revision(1),
            ..Record::pending(queue, RUN, MessageId([1; 16]))
        };
        record.details.set_output(Some(output.into()));
        End { instance: id(), born, record }
    }

    fn tickets(execution: ExecutionId, began: u64) -> Tickets {
        let tickets = Tickets::default();
        let ticket = Ticket { instance: id(), execution, began };
        unpoisoned(&tickets.state).issued.insert(0, ticket);
        tickets.label(MessageId([1; 16]), 7);
        tickets
    }

    #[test]
    fn ticket_of_this_run_is_accepted() {
        assert_eq!(tickets(RUN, 5).check(&end(4, r#"{"label":7,"tickets":[0]}"#)), None);
    }

    #[test]
    fn ticket_of_a_purged_run_is_found() {
        let found = tickets(RUN, 3).check(&end(4, r#"{"label":7,"tickets":[0]}"#)).unwrap();
        assert!(found.starts_with("I18"), "{found}");
    }

    #[test]
    fn ticket_of_another_execution_is_found() {
        let found = tickets(ExecutionId(2), 5).check(&end(4, r#"{"label":7,"tickets":[0]}"#)).unwrap();
        assert!(found.starts_with("I6"), "{found}");
    }

    #[test]
    fn report_of_another_start_is_found() {
        let found = tickets(RUN, 5).check(&end(4, r#"{"label":8,"tickets":[0]}"#)).unwrap();
        assert!(found.starts_with("I10"), "{found}");
    }
}
