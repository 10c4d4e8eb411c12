//! Running one activity, beside the loop or as a part of it.
//!
//! Invariant: each task that began reports its end once, whatever becomes of the future that runs it.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::UnboundedSender;

use dauer_core::model::{Completion, Task, TaskFence};
use dauer_core::send;
use dauer_core::{ExecutionId, Timestamp};
use dauer_proto::{TaskFailureDetails, failure};
use dauer_store::TaskLease;

use super::suspects::counted;
use crate::executor::{ActivityDone, ActivityEnd, ActivityWork, Receipt};
use crate::session::Session;

/// A task that is over here.
pub(super) struct Done {
    pub(super) execution: ExecutionId,
    pub(super) ending: Ending,
}

/// How a task ends here.
pub(super) enum Ending {
    /// With its result.
    Result(Completion, Option<Receipt>),
    /// Another host is to run it, after a while.
    GivenUp(TaskFence, Duration),
    /// What ran it is gone.
    Broken(TaskFence),
}

/// Reports that a task is over, whatever becomes of the future that runs it.
pub(super) struct Report {
    /// Gone once it is reported.
    task: Option<(TaskFence, ExecutionId)>,
    done: UnboundedSender<Done>,
}

impl Report {
    pub(super) fn new(task: (TaskFence, ExecutionId), done: UnboundedSender<Done>) -> Self {
        Self { task: Some(task), done }
    }

    pub(super) fn end(mut self, ending: Ending) {
        if let Some((_, execution)) = self.task.take() {
            // The loop has ended with the session: the answer would be dropped anyway.
            let _ = self.done.unbounded_send(Done { execution, ending });
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some((fence, execution)) = self.task.take() {
            let _ = self.done.unbounded_send(Done { execution, ending: Ending::Broken(fence) });
        }
    }
}

pub(super) async fn run(session: Arc<Session>, work: ActivityWork) -> ActivityEnd {
    if let Some(failure) = worn_out(&session, &work.lease) {
        return ActivityDone::Failed(failure).into();
    }
    session.executor.activity(work).await
}

/// How long a task rests whose worker may still execute it: a server held the task, and its session has ended.
pub(super) fn rest(lease: &TaskLease, grace: Duration) -> Option<Duration> {
    let rest = lease.mark?.after(grace).since(lease.now);
    (!rest.is_zero()).then_some(rest)
}

/// What the answer of a task needs to know of it.
pub(super) struct Answering {
    pub(super) fence: TaskFence,
    task: Task,
    claimed_at: Timestamp,
}

impl Answering {
    pub(super) fn of(lease: &TaskLease) -> Self {
        Self { fence: lease.fence.clone(), task: lease.task.clone(), claimed_at: lease.now }
    }

    pub(super) fn end(self, session: &Session, end: ActivityEnd) -> Ending {
        let Self { fence, task, claimed_at } = self;
        let outcome = match end.done {
            ActivityDone::Completed(output) => Ok(output),
            ActivityDone::Failed(details) => Err(details),
            ActivityDone::Crashed(deaths) => Err(crashed(counted(deaths))),
            ActivityDone::GivenUp => return Ending::GivenUp(fence, Duration::ZERO),
            ActivityDone::Returned { delay } => return Ending::GivenUp(fence, delay),
        };
        // The store's time at the claim, carried on by this host's clock, would still be this host's opinion: the event
        // says when it was claimed, never earlier than it was scheduled.
        let now = session.env.now().max(claimed_at);
        Ending::Result(send::task_answer(fence, &task, outcome, now), end.receipt)
    }
}

/// Why an activity is not run any more: workers died in its trials, or it came to no end.
pub(super) fn worn_out(session: &Session, lease: &TaskLease) -> Option<TaskFailureDetails> {
    let (deaths, attempts) = (counted(lease.deaths), lease.attempts);
    if deaths >= session.options.trial_deaths_max {
        return Some(crashed(deaths));
    }
    (attempts >= session.options.task_attempts_max).then(|| {
        let text = format!("The activity was tried {attempts} times and ended each time without an answer.");
        failure::failure("ActivityCrashed", text).non_retriable()
    })
}

/// Of an activity whose workers died in its trials.
fn crashed(deaths: u32) -> TaskFailureDetails {
    let text = format!("{deaths} processes died when this activity had begun and nothing else.");
    failure::failure("ActivityCrashed", text).non_retriable()
}
