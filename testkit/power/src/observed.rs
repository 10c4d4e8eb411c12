//! An interceptor that tells every answer of a store, between a host or client and the store.

use std::sync::Arc;

use async_trait::async_trait;
use dauer_faults::{Answer, Call, Destination, Interceptor, wrap_hub};
use dauer_store::{Checkpoint, Class, Committed, Completion, Create, Delivered, Manage, Refused, Timestamp};

use crate::told::{Tell, Told, number};

/// What a planted fault is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Honesty {
    /// Answers are told when they are given.
    Honest,
    /// Planted: starts and commits are told before they are carried out, as by a store that answers before its commit.
    Hasty,
}

/// A hub that tells its answers.
pub(crate) fn observe(hub: Arc<dyn Manage>, tell: Tell, honesty: Honesty) -> Arc<dyn Manage> {
    wrap_hub(hub, Arc::new(Observed { tell, honesty }))
}

struct Observed {
    tell: Tell,
    honesty: Honesty,
}

#[async_trait]
impl Interceptor for Observed {
    async fn call(&self, call: Call, to: Destination<'_>) -> Answer {
        let made = call.clone();
        if self.honesty == Honesty::Hasty {
            hasty(&made).into_iter().for_each(&*self.tell);
        }
        let answer = to.carry_out(call).await;
        told(&made, &answer).into_iter().for_each(&*self.tell);
        self.tell_refusals(&answer);
        answer
    }
}

impl Observed {
    /// Refusals are allowed when the disk fails, or never.
    fn tell_refusals(&self, answer: &Answer) {
        for refused in answer.results().into_iter().flatten() {
            let how = match refused {
                Refused::Fenced => "fenced",
                Refused::NotExecuted(_) => "not executed",
                Refused::Unknown(_) => "unknown",
                other => {
                    (self.tell)(Told::Complaint(format!("{} was answered with {other:?}", answer.op())));
                    continue;
                }
            };
            (self.tell)(Told::Refused { call: answer.op().name().to_owned(), how: how.to_owned() });
        }
    }
}

/// What a store that answers before its commit tells.
fn hasty(call: &Call) -> Vec<Told> {
    match call {
        Call::Create { batch } => batch.iter().filter_map(started).collect(),
        Call::CommitTurns { batch } => {
            let commit = |checkpoint: &Arc<_>| Told::committed(checkpoint, &assumed(checkpoint));
            batch.iter().map(commit).collect()
        }
        _ => Vec::new(),
    }
}

/// What the answer acknowledges.
fn told(call: &Call, answer: &Answer) -> Vec<Told> {
    match (call, answer) {
        (Call::Create { batch }, Answer::Create(answers)) => {
            let created = batch.iter().zip(answers).filter(|(_, answer)| answer.is_ok());
            created.filter_map(|(create, _)| started(create)).collect()
        }
        (Call::Send { batch }, Answer::Send(answers)) => {
            let applied = batch.iter().zip(answers).filter(|(_, answer)| is_applied(answer));
            let raised = applied.map(|(message, _)| Told::Raised {
                instance: message.to.to_string(),
                message: number(message.id),
            });
            raised.collect()
        }
        (Call::CommitTurns { batch }, Answer::CommitTurns(answers)) => {
            let committed = batch.iter().zip(answers).filter_map(|(checkpoint, answer)| {
                let committed = answer.as_ref().ok()?;
                Some(Told::committed(checkpoint, committed))
            });
            committed.collect()
        }
        (Call::CompleteActivities { batch }, Answer::CompleteActivities(answers)) => {
            let applied = batch.iter().zip(answers).filter(|(_, answer)| is_applied(answer));
            applied.map(|(completion, _)| answered(completion)).collect()
        }
        _ => Vec::new(),
    }
}

fn is_applied(answer: &Result<Delivered, Refused>) -> bool {
    matches!(answer, Ok(Delivered::Applied))
}

fn started(create: &Create) -> Option<Told> {
    let Class::Start(begun) = &create.start.class else { return None };
    let instance = create.start.to.to_string();
    Some(Told::Started { instance, execution: begun.execution.0, start: number(create.start.id) })
}

fn answered(completion: &Completion) -> Told {
    Told::Answered {
        instance: completion.answer.to.to_string(),
        execution: completion.answer.execution.map_or(0, |execution| execution.0),
        answer: number(completion.answer.id),
    }
}

/// The answer that the commit would have.
fn assumed(checkpoint: &Checkpoint) -> Committed {
    let (revision, now) = (checkpoint.fence.revision.next(), Timestamp::default());
    Committed { revision, arrived: Vec::new(), more: false, taken: Vec::new(), now }
}
