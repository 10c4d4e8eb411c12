//! The code of these hosts: an orchestration that runs the activities of its input beside each other, activities that take
//! time or kill their process, and an orchestration whose every turn kills it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dauer_core::turn::Answer;
use dauer_hub::{
    ActivityDone, ActivityEnd, ActivityWork, Attempt, Executor, Past, TurnDone, TurnWork, Unfinished,
};
use dauer_proto::{
    EventType, HistoryEvent, OrchestrationStatus, OrchestratorAction, TaskFailureDetails, action, event,
};
use dauer_store::{Env, Queues};

use super::aboard::{Aboard, Key};
use crate::env::SimEnv;
use crate::executor::Owner;

/// The orchestration that runs activities.
pub(super) const WORK: &str = "work";

/// The orchestration whose turns kill.
pub(super) const KILLER: &str = "killer";

/// The name of all activities.
const STEP: &str = "step";

/// The event id of a turn, which no activity has.
pub(super) const TURN: i32 = -1;

/// The least time in which code kills.
const AT_ONCE: Duration = Duration::from_millis(1);

/// The input of an activity that takes that long.
pub(super) fn takes(time: Duration) -> String {
    format!("takes {}", time.as_millis())
}

/// The input of an activity that kills its process after that time.
pub(super) fn kills(after: Duration) -> String {
    format!("kills {}", after.as_millis())
}

fn time(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap_or_default())
}

/// The code of one process.
pub(super) struct Deadly {
    pub(super) aboard: Arc<Aboard>,
    pub(super) env: Arc<SimEnv>,
    pub(super) owner: Owner,
    pub(super) fuses: bool,
}

impl Deadly {
    /// The end of this process. What began together with it is on its way by then.
    async fn kill<T>(&self, key: &Key, suspect: bool, after: Duration) -> T {
        self.env.sleep(after.max(AT_ONCE)).await;
        self.aboard.kill(self.owner, key, suspect && after <= AT_ONCE);
        futures::future::pending().await
    }
}

#[async_trait]
impl Executor for Deadly {
    fn queues(&self) -> Queues {
        Queues::default()
    }

    fn fuses(&self) -> bool {
        self.fuses
    }

    fn turn_at_once(&self, work: TurnWork) -> Attempt {
        match &*work.record.queue.name {
            WORK if self.fuses => Attempt::Done(Ok(orchestrate(work))),
            _ => Attempt::Later(Box::new(work)),
        }
    }

    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Unfinished> {
        if &*work.record.queue.name == WORK {
            return Ok(orchestrate(work));
        }
        let key = (work.instance, TURN);
        let _begun = self.aboard.begin(self.owner, &key);
        let late = work.new.iter().find_map(input).unwrap_or_default();
        self.kill(&key, work.record.deaths.workers > 0, time(&late)).await
    }

    async fn activity(&self, work: ActivityWork) -> ActivityEnd {
        let task = &work.lease.task;
        let key = (task.instance.clone(), task.event_id);
        let _begun = self.aboard.begin(self.owner, &key);
        let scheduled = task.event.event().ok().and_then(|event: HistoryEvent| match event.event_type {
            Some(EventType::TaskScheduled(scheduled)) => scheduled.input,
            _ => None,
        });
        let job = scheduled.unwrap_or_default();
        match job.split_once(' ') {
            Some(("kills", after)) => self.kill(&key, work.lease.deaths.workers > 0, time(after)).await,
            Some((_, takes)) if takes != "0" => self.env.sleep(time(takes)).await,
            _ => {}
        }
        ActivityDone::Completed(None).into()
    }
}

fn input(event: &HistoryEvent) -> Option<String> {
    match &event.event_type {
        Some(EventType::ExecutionStarted(started)) => started.input.clone(),
        _ => None,
    }
}

fn failure(event: &HistoryEvent) -> Option<TaskFailureDetails> {
    match &event.event_type {
        Some(EventType::TaskFailed(failed)) => failed.failure_details.clone(),
        _ => None,
    }
}

/// Runs all activities of the input beside each other, and ends when all have ended.
fn orchestrate(work: TurnWork) -> TurnDone {
    let past = match work.past {
        Past::History(past) => past,
        // This executor keeps nothing alive.
        Past::Live(_) => Vec::new(),
    };
    let all = || past.iter().chain(&*work.new);
    let jobs: Vec<String> = all().find_map(input).unwrap_or_default().split(',').map(str::to_owned).collect();
    let answers = all().filter(|event| event::answers(event).is_some()).count();
    let begins = work.new.iter().any(|event| input(event).is_some());
    let actions: Vec<OrchestratorAction> = if begins {
        (0..).zip(jobs).map(|(id, job)| action::schedule_task(id, STEP, Some(job))).collect()
    } else if answers >= jobs.len() {
        let failed = all().find_map(failure);
        let status = match failed {
            Some(_) => OrchestrationStatus::Failed,
            None => OrchestrationStatus::Completed,
        };
        let id = i32::try_from(jobs.len()).unwrap_or(i32::MAX);
        vec![action::complete(id, status, None, failed)]
    } else {
        Vec::new()
    };
    TurnDone { answer: Answer { actions, ..Answer::default() }, live: None, past, receipt: None, build: None }
}
