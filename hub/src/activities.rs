//! The activities of the loop: they run beside it and beside each other. A result goes into the next turn of an
//! instance that this host keeps, and to the inbox of any other.

use std::sync::Arc;

use futures::channel::mpsc::UnboundedSender;
use futures::future::FutureExt;

use dauer_core::ExecutionId;
use dauer_core::model::{Completion, Encoded, TaskFence};
use dauer_core::send;
use dauer_proto::{TaskFailureDetails, event, failure, time};
use dauer_store::{Cause, Delivered, Item, Refused, Release, TaskLease};

use crate::dispatch::{Dispatch, Side, Step};
use crate::session::Session;

/// A task that is over here: with its result, or without when what ran it is gone.
pub(crate) struct Done {
    execution: ExecutionId,
    result: Result<Completion, TaskFence>,
}

/// A result on its way to the inbox.
pub(crate) struct Answer {
    completion: Completion,
    attempts: u32,
    /// The result did not fit; this is the failure that says so.
    replaced: bool,
}

/// Reports that a task is over, whatever becomes of the future that runs it.
struct Report {
    /// Gone once it is reported.
    task: Option<(TaskFence, ExecutionId)>,
    done: UnboundedSender<Done>,
}

impl Report {
    fn result(mut self, completion: Completion) {
        if let Some((_, execution)) = self.task.take() {
            // Nobody listens when the session is over: the answer would be dropped anyway.
            let _ = self.done.unbounded_send(Done { execution, result: Ok(completion) });
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some((fence, execution)) = self.task.take() {
            let _ = self.done.unbounded_send(Done { execution, result: Err(fence) });
        }
    }
}

impl Dispatch {
    pub(crate) fn claimed_tasks(&mut self, result: Result<Vec<TaskLease>, Refused>) {
        self.task_demand.end(matches!(&result, Ok(leases) if !leases.is_empty()));
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

    /// Runs a task beside the loop, so that a busy activity does not hold up the others.
    pub(crate) fn begin_task(&mut self, lease: TaskLease) {
        let execution = lease.task.execution;
        if self.fuses {
            self.slots.task_begins(&lease.fence.instance, execution);
        }
        let report = Report { task: Some((lease.fence.clone(), execution)), done: self.done.clone() };
        let session = Arc::clone(&self.session);
        let work = async move {
            let completion = run_one(&session, lease).await;
            report.result(completion);
        };
        self.session.env.spawn(work.boxed());
    }

    pub(crate) fn task_done(&mut self, done: Done) {
        let Done { execution, result } = done;
        let fence = match &result {
            Ok(completion) => &completion.fence,
            Err(fence) => fence,
        };
        let instance = fence.instance.clone();
        if self.fuses {
            self.slots.task_ends(&instance, execution);
        }
        let place = self.slots.place_for(&instance, execution).filter(|_| self.fuses);
        match (result, place) {
            (Ok(completion), Some((waiting, due))) => {
                waiting.push(completion);
                if due {
                    self.due.push(instance);
                }
                return;
            }
            (Ok(completion), None) => self.answer_all([completion]),
            // What ran it is gone without an answer: someone has to try again.
            (Err(fence), _) => self.give_task_back(fence),
        }
        self.release_if_useless(&instance);
    }

    /// Sends results to the inboxes they are for, with the next batch.
    pub(crate) fn answer_all(&mut self, results: impl IntoIterator<Item = Completion>) {
        self.answers.extend(results.into_iter().map(|completion| Answer {
            completion,
            attempts: 0,
            replaced: false,
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

    /// Gives a task back as failed; it stays counted as in flight until the store has it.
    fn give_task_back(&mut self, fence: TaskFence) {
        let session = Arc::clone(&self.session);
        let delay = session.retry_delay(1);
        let release = Release { item: Item::Task(fence), delay, trouble: None, failed: true };
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
                self.answers.push(Answer { completion, attempts: 0, replaced: true });
            }
            Err(refused) => {
                tracing::error!(error = %refused, "the answer of an activity was refused; it is tried again");
                self.give_task_back(answer.completion.fence);
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

async fn run_one(session: &Session, lease: TaskLease) -> Completion {
    let (fence, task) = (lease.fence.clone(), lease.task.clone());
    let claimed_at = lease.now;
    let outcome = if lease.attempts >= session.options.task_attempts_max {
        Err(worn_out(lease.attempts))
    } else {
        session.executor.activity(lease).await
    };
    // The store's time at the claim, carried on by this host's clock, would still be this host's opinion: the event
    // says when it was claimed, never earlier than it was scheduled.
    let now = session.env.now().max(claimed_at);
    send::task_answer(fence, &task, outcome, now)
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
