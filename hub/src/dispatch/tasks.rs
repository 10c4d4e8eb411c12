//! The tasks of the loop. They run beside it and beside each other. A result goes into the next turn of an instance that this
//! host keeps, and to the inbox of any other.
//!
//! Invariant: a task is counted in `in_flight` from the commit or win that brings it until the store has its result or has it
//! back.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::{BoxFuture, FutureExt};

use dauer_core::cancel::{CancelReason, Cancellation};
use dauer_core::model::{Completion, DropReason, Encoded, TaskFence};
use dauer_proto::{event, failure, time};
use dauer_store::{Cause, Delivered, Env, Item, Refused, Release, Steady, TaskLease, TaskName};

use super::activity::{self, Answering, Done, Ending, Report};
use super::{Dispatch, Step};
use crate::executor::{ActivityWork, Receipt};
use crate::holding::Holding;
use crate::options::{ANSWER_ADOPTIONS_MAX, RUN_HERE_MAX};
use crate::session::Session;

/// A result on its way to the inbox.
pub(super) struct Answer {
    completion: Completion,
    attempts: u32,
    /// The result did not fit; this is the failure that says so.
    replaced: bool,
    /// How often the session has adopted the task for it.
    adoptions: u32,
    /// Dropped, with the rest of this, when the store has said what became of it.
    receipt: Option<Receipt>,
}

impl Answer {
    fn of(completion: Completion, receipt: Option<Receipt>) -> Self {
        Self { completion, attempts: 0, replaced: false, adoptions: 0, receipt }
    }

    /// The task that it answers.
    pub(super) fn task(&self) -> TaskName {
        let TaskFence { task, instance, .. } = &self.completion.fence;
        TaskName { instance: instance.clone(), task: *task }
    }

    /// The same answer, from the new holder of the task.
    pub(super) fn under(mut self, fence: TaskFence) -> Self {
        self.completion.fence = fence;
        self.adoptions += 1;
        self
    }
}

/// What runs, and results for the next answer.
pub(super) struct Tasks {
    in_flight: usize,
    answers: Vec<Answer>,
    /// Answers that were not stored because the session is over. Their receipts are dropped after it, so that the caller that brought
    /// one learns that it may not have been taken.
    not_stored: Vec<Answer>,
    /// Where activities report.
    done: UnboundedSender<Done>,
    /// Whether tasks may run as a part of the loop: all that is spawned shares one thread with it.
    here: bool,
    /// Since when they have, since the loop last waited.
    here_since: Option<Steady>,
}

impl Tasks {
    pub(super) fn new(here: bool) -> (Self, UnboundedReceiver<Done>) {
        let (done, reports) = unbounded();
        (
            Self { in_flight: 0, answers: Vec::new(), not_stored: Vec::new(), done, here, here_since: None },
            reports,
        )
    }

    /// How many run here, are about to, or have results that the store does not have yet.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// `count` tasks more are this host's concern.
    pub(super) fn take(&mut self, count: usize) {
        self.in_flight += count;
    }

    /// `count` tasks are no longer this host's concern.
    pub(super) fn settle(&mut self, count: usize) {
        self.in_flight = self.in_flight.saturating_sub(count);
    }

    /// Sends a result with the next answer.
    pub(super) fn answer(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// The session has ended, and the store has not taken the answer.
    pub(super) fn was_not_stored(&mut self, answer: Answer) {
        self.settle(1);
        self.not_stored.push(answer);
    }

    pub(super) fn loop_waits(&mut self) {
        self.here_since = None;
    }

    /// Whether a task may run as a part of the loop: not for long, because nothing else runs meanwhile. What other processes run
    /// has to wait for them in any case.
    fn may_run_here(&mut self, env: &dyn Env) -> bool {
        if !self.here {
            return false;
        }
        let now = env.steady();
        let since = *self.here_since.get_or_insert(now);
        now.since(since) <= RUN_HERE_MAX
    }
}

impl Dispatch {
    /// Runs a task beside the loop, so that a busy activity does not hold up the others; or right here what is over at once,
    /// where everything shares one thread.
    pub(super) fn begin_task(&mut self, lease: TaskLease) {
        self.suspects.begins(self.session.env.steady());
        let (cancellation, execution) = (Cancellation::new(), lease.task.execution);
        if self.stopping {
            cancellation.cancel(CancelReason::Draining);
        }
        let answering = Answering::of(&lease);
        let session = Arc::clone(&self.session);
        let options = &self.session.options;
        let holding = (!self.session.executor.runs_code())
            .then(|| Holding::new(&self.session, Item::Task(lease.fence.clone()), options.trial_deaths_max));
        let work = ActivityWork { lease, cancellation: cancellation.clone(), holding };
        let mut activity = activity::run(session, work).boxed();
        if self.tasks.may_run_here(&*self.session.env)
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
        let report = Report::new((fence.clone(), execution), self.tasks.done.clone());
        let session = Arc::clone(&self.session);
        let work = async move {
            let end = activity.await;
            report.end(answering.end(&session, end));
        };
        self.session.env.spawn(work.boxed());
    }

    pub(super) fn task_done(&mut self, done: Done) {
        let Done { execution, ending } = done;
        let fence = match &ending {
            Ending::Result(completion, _) => &completion.fence,
            Ending::GivenUp(fence, _) | Ending::Broken(fence) => fence,
        };
        let instance = fence.instance.clone();
        self.slots.task_ends(fence);
        self.suspects.task_ended(fence);
        let place =
            self.slots.place_for(&instance, execution).filter(|_| self.fuses && !self.suspects.is_closed());
        match (ending, place) {
            (Ending::Result(completion, _), Some((waiting, due))) => {
                waiting.push(completion);
                if due {
                    self.due.add(instance);
                }
                return;
            }
            (Ending::Result(completion, receipt), None) => {
                self.tasks.answers.push(Answer::of(completion, receipt));
            }
            // Nothing went wrong: whoever has room may run it.
            (Ending::GivenUp(fence, delay), _) => {
                self.ask_for_less();
                self.give_task_back(fence, delay, false);
            }
            // It is gone without an answer: someone has to try again.
            (Ending::Broken(fence), _) => self.give_failed_task_back(fence),
        }
        self.release_if_useless(&instance);
    }

    /// Sends results to the inboxes they are for, with the next batch.
    pub(super) fn answer_all(&mut self, results: impl IntoIterator<Item = Completion>) {
        self.tasks.answers.extend(results.into_iter().map(|completion| Answer::of(completion, None)));
    }

    pub(super) fn send_answers(&mut self) {
        if !self.tasks.answers.is_empty() {
            let batch = std::mem::take(&mut self.tasks.answers);
            self.steps.push(answer(Arc::clone(&self.session), batch).boxed());
        }
    }

    fn give_failed_task_back(&mut self, fence: TaskFence) {
        self.give_task_back(fence, self.session.retry_delay(1), true);
    }

    /// Gives a task back; it stays counted as in flight until the store has it.
    pub(super) fn give_task_back(&mut self, fence: TaskFence, delay: Duration, failed: bool) {
        let released = self.giving_task_back(fence, delay, failed);
        self.steps.push(released);
    }

    /// The same; the caller has it done.
    pub(super) fn giving_task_back(
        &self,
        fence: TaskFence,
        delay: Duration,
        failed: bool,
    ) -> BoxFuture<'static, Step> {
        let session = Arc::clone(&self.session);
        let release = Release { item: Item::Task(fence), delay, trouble: None, failed };
        async move { session.give_back(release).await }.map(|()| Step::TaskReleased).boxed()
    }

    pub(super) fn answered(&mut self, answer: Answer, result: &Result<Delivered, Refused>) {
        match result {
            Ok(Delivered::Applied) => self.tasks.settle(1),
            Ok(Delivered::Dropped(DropReason::NotHeld)) if self.may_adopt(&answer) => {
                self.adoptions.ask_for(answer);
            }
            Ok(Delivered::Dropped(reason)) => {
                let instance = &answer.completion.fence.instance;
                tracing::info!(%instance, ?reason, "the answer of an activity was dropped");
                self.tasks.settle(1);
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
                self.tasks.answers.push(Answer { replaced: true, ..Answer::of(completion, answer.receipt) });
            }
            Err(Refused::Fenced) if !self.session.executor.runs_code() => self.tasks.was_not_stored(answer),
            Err(refused) => {
                tracing::error!(error = %refused, "the answer of an activity was refused; it is tried again");
                self.give_failed_task_back(answer.completion.fence);
            }
        }
    }
}

impl Dispatch {
    /// Whether the answer of a worker elsewhere still counts although the session has lost the task. A worker in this process
    /// has lost it for good: another host may have begun it.
    fn may_adopt(&self, answer: &Answer) -> bool {
        !self.session.executor.runs_code() && answer.adoptions < ANSWER_ADOPTIONS_MAX
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

async fn answer(session: Arc<Session>, batch: Vec<Answer>) -> Step {
    let completions = batch.iter().map(|answer| answer.completion.clone()).collect();
    let results = session.work.complete_activities(completions).await;
    // What a store does not answer it leaves unknown; none should.
    let missing = || Err(Refused::Unknown(Cause::new("the store gave no answer")));
    let results = results.into_iter().chain(std::iter::repeat_with(missing));
    Step::Answered(batch.into_iter().zip(results).collect())
}
