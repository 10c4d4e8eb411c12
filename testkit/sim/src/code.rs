//! What hosts execute: the real executor of the SDK, made slower now and then, and beside it a worker of another kind and
//! an instance that nobody can run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dauer::LocalExecutor;
use dauer_core::turn::{Answer, Stalled};
use dauer_hub::{
    ActivityDone, ActivityEnd, ActivityWork, Attempt, Executor, Past, TurnDone, TurnWork, Unfinished,
};
use dauer_proto::{
    ActionType, EventType, HistoryEvent, OrchestrationStatus, OrchestratorAction, TaskFailureDetails, failure,
};
use dauer_store::{Env, Filter, Queues, TaskLease, TroubleKind, VersionRule};

use crate::env::SimEnv;
use crate::errand::{TICKET, Tickets};
use crate::faults::Plan;
use crate::foreign::{self, REUSING, UNSTEADY};
use crate::interpret::{Effects, note_effect};
use crate::journal::Journal;
use crate::kinds::Kind;
use crate::program::POISON;
use crate::unpoisoned;

/// How many turns were executed, and what they asked for.
pub(crate) type Actions = Arc<Mutex<(u64, BTreeMap<&'static str, u64>)>>;

/// How often something that hangs looks whether the chaos is over.
const HANG_LOOK: Duration = Duration::from_secs(2);

/// The longest that a turn takes: longer than the shortest lease, short enough that there is another turn after it.
const TURN_LATE_MAX: Duration = Duration::from_secs(5);

/// The code of a host.
pub(crate) struct Code {
    pub(crate) local: LocalExecutor,
    pub(crate) queues: Queues,
    pub(crate) env: Arc<SimEnv>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) effects: Effects,
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) pause_max: Duration,
    pub(crate) actions: Actions,
    pub(crate) fuses: bool,
}

impl Code {
    async fn sleep(&self, longest: Duration) {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX - 1);
        let pause = Duration::from_millis(self.env.random() % (millis + 1));
        self.env.sleep(pause).await;
    }

    /// Most activities are over at once, some take a moment, and a few longer than a lease.
    async fn work(&self) {
        if self.plan.happens(Kind::ActivityLate) {
            return self.sleep(self.pause_max).await;
        }
        match self.env.random() % 20 {
            0..=3 => self.sleep(Duration::from_secs(2)).await,
            4..=8 => self.sleep(Duration::from_millis(5)).await,
            _ => {}
        }
    }

    /// The turns that the SDK does not run; it gets all others back.
    fn turn_elsewhere(&self, work: TurnWork) -> Attempt {
        match &*work.record.queue.name {
            REUSING => {
                let past = match work.past {
                    Past::History(past) => past,
                    // This worker never leaves anything alive behind.
                    Past::Live(_) => Vec::new(),
                };
                let (_, actions) = foreign::turn(&past, &work.new);
                let answer = Answer { actions, ..Answer::default() };
                Attempt::Done(Ok(TurnDone { answer, live: None, past, receipt: None, build: None }))
            }
            POISON => Attempt::Done(Err(Stalled::new(TroubleKind::Panic, "it is poison"))),
            _ => Attempt::Later(Box::new(work)),
        }
    }

    fn count<E>(&self, done: &Result<TurnDone, E>) {
        let mut actions = unpoisoned(&self.actions);
        actions.0 += 1;
        if let Ok(done) = done {
            for name in done.answer.actions.iter().filter_map(action_name) {
                *actions.1.entry(name).or_default() += 1;
            }
        }
    }

    /// The activity of the other worker. Whether it fails depends on how many attempts there were before this one.
    fn unsteady(&self, lease: &TaskLease) -> Result<Option<String>, TaskFailureDetails> {
        let task = &lease.task;
        let earlier = self.journal.earlier_schedules(task);
        note_effect(&self.effects, (task.instance.clone(), task.execution, task.event_id, earlier));
        let undecodable = || failure::failure("Undecodable", "the call makes no sense").non_retriable();
        let scheduled = task.event.event().ok().and_then(|event: HistoryEvent| match event.event_type {
            Some(EventType::TaskScheduled(scheduled)) => scheduled.input,
            _ => None,
        });
        let call = scheduled.and_then(|input| serde_json::from_str(&input).ok()).ok_or_else(undecodable)?;
        let answer = foreign::attempt(call, earlier);
        answer.map(|value| Some(value.to_string())).map_err(|message| failure::failure("Unsteady", message))
    }
}

#[async_trait]
impl Executor for Code {
    fn queues(&self) -> Queues {
        self.queues.clone()
    }

    fn explains(&self) -> Option<Queues> {
        self.local.explains().map(with_foreign)
    }

    fn fuses(&self) -> bool {
        self.fuses
    }

    /// Most turns run at once where results are fused. Some take their time, as on a machine that is busy elsewhere; and
    /// all of them where nothing is fused, as with a remote worker.
    fn turn_at_once(&self, work: TurnWork) -> Attempt {
        if !self.fuses || self.env.random().is_multiple_of(4) || self.plan.may(Kind::TurnLate) {
            return Attempt::Later(Box::new(work));
        }
        let attempt = match self.turn_elsewhere(work) {
            Attempt::Later(work) => self.local.turn_at_once(*work),
            done => done,
        };
        if let Attempt::Done(done) = &attempt {
            self.count(done);
        }
        attempt
    }

    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Unfinished> {
        let done = match self.turn_elsewhere(work) {
            Attempt::Done(done) => done.map_err(Unfinished::Stalled),
            Attempt::Later(work) => self.local.turn(*work).await,
        };
        self.count(&done);
        if self.plan.happens(Kind::TurnLate) {
            self.sleep(TURN_LATE_MAX).await;
        } else if self.env.random().is_multiple_of(20) {
            self.sleep(Duration::from_millis(500)).await;
        }
        done
    }

    async fn activity(&self, work: ActivityWork) -> ActivityEnd {
        let began = self.journal.moment();
        self.work().await;
        let hangs = self.plan.happens(Kind::ActivityHangs);
        while hangs && !self.plan.is_healed() {
            self.env.sleep(HANG_LOOK).await;
        }
        let result = match &*work.lease.task.queue.name {
            UNSTEADY => ActivityDone::from(self.unsteady(&work.lease)).into(),
            TICKET => {
                let task = &work.lease.task;
                note_effect(&self.effects, (task.instance.clone(), task.execution, task.event_id, 0));
                ActivityDone::from(self.tickets.draw(task, began)).into()
            }
            _ => self.local.activity(work).await,
        };
        self.work().await;
        result
    }
}

/// And what this executor runs without the SDK.
pub(crate) fn with_foreign(mut queues: Queues) -> Queues {
    if let Filter::Names(names) = &mut queues.orchestrations {
        let names = Arc::make_mut(names);
        names.insert(REUSING.into(), VersionRule::Any);
        names.insert(POISON.into(), VersionRule::Any);
    }
    if let Filter::Names(names) = &mut queues.activities {
        let names = Arc::make_mut(names);
        names.insert(UNSTEADY.into(), VersionRule::Any);
        names.insert(TICKET.into(), VersionRule::Any);
    }
    queues
}

fn action_name(action: &OrchestratorAction) -> Option<&'static str> {
    Some(match action.orchestrator_action_type.as_ref()? {
        ActionType::ScheduleTask(_) => "ScheduleTask",
        ActionType::CreateTimer(_) => "CreateTimer",
        ActionType::CreateSubOrchestration(_) => "CreateSubOrchestration",
        ActionType::SendEvent(_) => "SendEvent",
        ActionType::SendEntityMessage(_) => "SendEntityMessage",
        ActionType::TerminateOrchestration(_) => "TerminateOrchestration",
        ActionType::RewindOrchestration(_) => "RewindOrchestration",
        ActionType::CompleteOrchestration(completion) => match completion.orchestration_status() {
            OrchestrationStatus::Completed => "complete: Completed",
            OrchestrationStatus::Failed => "complete: Failed",
            OrchestrationStatus::ContinuedAsNew => "complete: ContinuedAsNew",
            OrchestrationStatus::Terminated => "complete: Terminated",
            _ => "complete: other",
        },
    })
}
