//! The activities of the loop: they run beside it and beside each other. A result goes into the next turn of an
//! instance that this host keeps, and to the inbox of any other.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::UnboundedSender;
use futures::future::FutureExt;

use dauer_core::cancel::{CancelReason, Cancellation};
use dauer_core::model::{Completion, Encoded, Task, TaskFence};
use dauer_core::send;
use dauer_core::{ExecutionId, Timestamp};
use dauer_proto::{TaskFailureDetails, event, failure, time};
use dauer_store::{Cause, Delivered, Item, Refused, Release, TaskLease};

use crate::dispatch::{Dispatch, Side, Step};
use crate::executor::{ActivityDone, ActivityEnd, ActivityWork, Receipt};
use crate::options::RUN_HERE_MAX;
use crate::session::Session;

/// A task that is over here.
pub(crate) struct Done {
    execution: ExecutionId,
    ending: Ending,
}

/// How a task ends here.
enum Ending {
    /// With its result.
    Result(Completion, Option<Receipt>),
    /// It is to be run by somebody else, after a while.
    GivenUp(TaskFence, Duration),
    /// What ran it is gone.
    Broken(TaskFence),
}

/// A result on its way to the inbox.
pub(crate) struct Answer {
    completion: Completion,
    attempts: u32,
    /// The result did not fit; this is the failure that says so.
    replaced: bool,
    /// Dropped, with the rest of this, when the store has said what became of it.
    receipt: Option<Receipt>,
}

/// Reports that a task is over, whatever becomes of the future that runs it.
struct Report {
    /// Gone once it is reported.
    task: Option<(TaskFence, ExecutionId)>,
    done: UnboundedSender<Done>,
}

impl Report {
    fn end(mut self, ending: Ending) {
        if let Some((_, execution)) = self.task.take() {
            // Nobody listens when the session is over: the answer would be dropped anyway.
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

impl Dispatch {
    pub(crate) fn claimed_tasks(&mut self, result: Result<Vec<TaskLease>, Refused>) {
        self.task_demand.end(result.as_ref().ok().map(Vec::len));
        match result {
            Ok(leases) if leases.is_empty() => self.ask_when(Side::Tasks),
            Ok(leases) => {
                self.in_flight += leases.len();
                for lease in leases {
                    self.begin_task(lease);
                }
            }
            Err(refused) => self.not_claimed(Side::Tasks, &refused),
        }
    }

    /// Runs a task beside the loop, so that a busy activity does not hold up the others; or right here what is over at once,
    /// where everything shares one thread.
    pub(crate) fn begin_task(&mut self, lease: TaskLease) {
        let (cancellation, execution) = (Cancellation::new(), lease.task.execution);
        if self.stopping {
            cancellation.cancel(CancelReason::Draining);
        }
        let answering = Answering::of(&lease);
        let session = Arc::clone(&self.session);
        let work = ActivityWork { lease, cancellation: cancellation.clone() };
        let mut activity = run(session, work).boxed();
        if self.may_run_here()
            && let Some(end) = AssertUnwindSafe(&mut activity).catch_unwind().now_or_never()
        {
            let ending = match end {
                Ok(end) => answering.end(&self.session, end),
                // As where it runs beside the loop: it is gone without an answer.
                Err(_panic) => Ending::Broken(answering.fence),
            };
            return self.task_done(Done { execution, ending });
        }
        let fence = &answering.fence;
        self.slots.task_begins(fence, execution, cancellation);
        let report = Report { task: Some((fence.clone(), execution)), done: self.done.clone() };
        let session = Arc::clone(&self.session);
        let work = async move {
            let end = activity.await;
            report.end(answering.end(&session, end));
        };
        self.session.env.spawn(work.boxed());
    }

    /// Whether a task may run as a part of the loop: not for long, because nothing else runs meanwhile. What other processes run
    /// has to wait for them in any case.
    fn may_run_here(&mut self) -> bool {
        if !self.single_threaded || !self.fuses {
            return false;
        }
        let now = self.session.env.steady();
        let since = *self.running_since.get_or_insert(now);
        now.since(since) <= RUN_HERE_MAX
    }

    pub(crate) fn task_done(&mut self, done: Done) {
        let Done { execution, ending } = done;
        let fence = match &ending {
            Ending::Result(completion, _) => &completion.fence,
            Ending::GivenUp(fence, _) | Ending::Broken(fence) => fence,
        };
        let instance = fence.instance.clone();
        self.slots.task_ends(fence);
        let place = self.slots.place_for(&instance, execution).filter(|_| self.fuses);
        match (ending, place) {
            (Ending::Result(completion, _), Some((waiting, due))) => {
                waiting.push(completion);
                if due {
                    self.due.push(instance);
                }
                return;
            }
            (Ending::Result(completion, receipt), None) => {
                self.answers.push(Answer { completion, attempts: 0, replaced: false, receipt });
            }
            // Nothing went wrong: whoever has room may run it.
            (Ending::GivenUp(fence, delay), _) => self.give_task_back(fence, delay, false),
            // It is gone without an answer: someone has to try again.
            (Ending::Broken(fence), _) => self.give_failed_task_back(fence),
        }
        self.release_if_useless(&instance);
    }

    /// Sends results to the inboxes they are for, with the next batch.
    pub(crate) fn answer_all(&mut self, results: impl IntoIterator<Item = Completion>) {
        self.answers.extend(results.into_iter().map(|completion| Answer {
            completion,
            attempts: 0,
            replaced: false,
            receipt: None,
        }));
    }

    pub(crate) fn send_answers(&mut self) {
        if !self.answers.is_empty() {
            let batch = std::mem::take(&mut self.answers);
            self.steps.push(answer(Arc::clone(&self.session), batch).boxed());
        }
    }

    /// So many tasks are no longer this host's concern.
    pub(crate) fn settle_tasks(&mut self, count: usize) {
        if count > 0 {
            self.in_flight = self.in_flight.saturating_sub(count);
            self.task_demand.room();
            self.turn_demand.room();
        }
    }

    fn give_failed_task_back(&mut self, fence: TaskFence) {
        self.give_task_back(fence, self.session.retry_delay(1), true);
    }

    /// Gives a task back; it stays counted as in flight until the store has it.
    fn give_task_back(&mut self, fence: TaskFence, delay: Duration, failed: bool) {
        let session = Arc::clone(&self.session);
        let release = Release { item: Item::Task(fence), delay, trouble: None, failed };
        self.steps.push(async move { session.give_back(release).await }.map(|()| Step::TaskReleased).boxed());
    }

    pub(crate) fn answered(&mut self, answer: Answer, result: &Result<Delivered, Refused>) {
        match result {
            Ok(Delivered::Applied) => self.settle_tasks(1),
            Ok(Delivered::Dropped(reason)) => {
                let instance = &answer.completion.fence.instance;
                tracing::info!(%instance, ?reason, "the answer of an activity was dropped");
                self.settle_tasks(1);
            }
            Err(Refused::Unknown(_) | Refused::NotExecuted(_)) => {
                let again = Box::new(Answer { attempts: answer.attempts + 1, ..answer });
                let delay = self.session.retry_delay(again.attempts).min(self.session.options.poll_max);
                self.steps.push(self.session.sleep(delay).map(|()| Step::AnswerAgain(again)).boxed());
            }
            Err(Refused::TooLarge(limit)) if !answer.replaced => {
                // The result does not fit: a failure that says so does, and the orchestration can act on it.
                let text = format!("{} is {}, the store allows {}", limit.name, limit.found, limit.allowed);
                let completion = too_large(answer.completion, text);
                let receipt = answer.receipt;
                self.answers.push(Answer { completion, attempts: 0, replaced: true, receipt });
            }
            Err(refused) => {
                tracing::error!(error = %refused, "the answer of an activity was refused; it is tried again");
                self.give_failed_task_back(answer.completion.fence);
            }
        }
    }
}

fn too_large(completion: Completion, text: String) -> Completion {
    let Completion { fence, mut answer } = completion;
    // What this host has just encoded can be read back.
    if let Ok(result) = answer.event.event() {
        let at = result.timestamp.as_ref().and_then(|at| time::to_millis_ceil(at).ok()).unwrap_or_default();
        let details = failure::failure("ResultTooLarge", text).non_retriable();
        let failed = event::task_failed(at, event::answers(&result).unwrap_or_default(), details);
        answer.event = Encoded::new(&failed);
    }
    Completion { fence, answer }
}

async fn run(session: Arc<Session>, work: ActivityWork) -> ActivityEnd {
    let attempts = work.lease.attempts;
    if attempts >= session.options.task_attempts_max {
        return ActivityDone::Failed(worn_out(attempts)).into();
    }
    session.executor.activity(work).await
}

/// What the answer of a task needs to know of it.
struct Answering {
    fence: TaskFence,
    task: Task,
    claimed_at: Timestamp,
}

impl Answering {
    fn of(lease: &TaskLease) -> Self {
        Self { fence: lease.fence.clone(), task: lease.task.clone(), claimed_at: lease.now }
    }

    fn end(self, session: &Session, end: ActivityEnd) -> Ending {
        let Self { fence, task, claimed_at } = self;
        let outcome = match end.done {
            ActivityDone::Completed(output) => Ok(output),
            ActivityDone::Failed(details) => Err(details),
            ActivityDone::GivenUp => return Ending::GivenUp(fence, Duration::ZERO),
            ActivityDone::Returned { delay } => return Ending::GivenUp(fence, delay),
        };
        // The store's time at the claim, carried on by this host's clock, would still be this host's opinion: the event
        // says when it was claimed, never earlier than it was scheduled.
        let now = session.env.now().max(claimed_at);
        Ending::Result(send::task_answer(fence, &task, outcome, now), end.receipt)
    }
}

fn worn_out(attempts: u32) -> TaskFailureDetails {
    let text = format!("The activity was tried {attempts} times and its host died each time.");
    failure::failure("ActivityCrashed", text).non_retriable()
}

async fn answer(session: Arc<Session>, batch: Vec<Answer>) -> Step {
    let completions = batch.iter().map(|answer| answer.completion.clone()).collect();
    let results = session.work.complete_activities(completions).await;
    // What a store does not answer it leaves unknown; none should.
    let missing = || Err(Refused::Unknown(Cause::new("the store gave no answer")));
    let results = results.into_iter().chain(std::iter::repeat_with(missing));
    Step::Answered(batch.into_iter().zip(results).collect())
}
