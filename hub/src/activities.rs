//! The loop that claims activity tasks, runs them beside each other, and answers them in batches.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};

use dauer_core::model::{Completion, Encoded, Kind, TaskFence};
use dauer_core::send;
use dauer_proto::{TaskFailureDetails, event, failure, time};
use dauer_store::{Cause, Delivered, Hint, Item, Refused, Release, TaskLease};

use crate::demand::Demand;
use crate::session::{Session, Stop};

enum Step {
    Woken,
    Claimed(Result<Vec<TaskLease>, Refused>),
    Idle(Option<Duration>),
    Done(Result<Completion, TaskFence>),
    Answered(Vec<(Answer, Result<Delivered, Refused>)>),
    Again(Answer),
    Released,
    Stopped,
}

struct Answer {
    completion: Completion,
    attempts: u32,
}

struct Activities {
    session: Arc<Session>,
    steps: FuturesUnordered<BoxFuture<'static, Step>>,
    ready: Vec<Answer>,
    in_flight: usize,
    demand: Demand,
    stopping: bool,
}

/// Claims and answers tasks until told to stop, then finishes what is in flight.
pub(crate) async fn run(session: Arc<Session>, stop: Stop) {
    let mut activities = Activities {
        session,
        steps: FuturesUnordered::new(),
        ready: Vec::new(),
        in_flight: 0,
        demand: Demand::new(),
        stopping: false,
    };
    activities.steps.push(stop.map(|()| Step::Stopped).boxed());
    let mut hints = activities.session.work.changes().fuse();
    loop {
        if activities.session.is_over() || activities.stopping && activities.in_flight == 0 {
            return;
        }
        activities.begin_what_can();
        let step = futures::select_biased! {
            step = activities.steps.select_next_some() => step,
            hint = hints.select_next_some() => {
                if hint == Hint::Ready(Kind::Activity) {
                    activities.demand.hint();
                }
                continue;
            }
        };
        activities.take(step);
        while let Some(Some(step)) = activities.steps.next().now_or_never() {
            activities.take(step);
        }
    }
}

impl Activities {
    fn begin_what_can(&mut self) {
        if !self.ready.is_empty() {
            let batch = std::mem::take(&mut self.ready);
            self.steps.push(answer(Arc::clone(&self.session), batch).boxed());
        }
        let free = self.session.options.activities_max.saturating_sub(self.in_flight);
        if self.demand.begin(!self.stopping && free > 0) {
            self.steps.push(claim(Arc::clone(&self.session), free).boxed());
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Woken => self.demand.wake(),
            Step::Claimed(result) => self.claimed(result),
            Step::Idle(due) => self.idle(due),
            Step::Done(Ok(completion)) => self.ready.push(Answer { completion, attempts: 0 }),
            // What ran it is gone without an answer: someone has to try again.
            Step::Done(Err(fence)) => self.give_back(fence),
            Step::Released => self.finished(),
            Step::Answered(results) => {
                for (answer, result) in results {
                    self.answered(answer, &result);
                }
            }
            Step::Again(answer) => self.ready.push(answer),
            Step::Stopped => self.stopping = true,
        }
    }

    fn finished(&mut self) {
        self.in_flight -= 1;
        self.demand.room();
    }

    /// Gives a task back as failed; it stays counted as in flight until the store has it.
    fn give_back(&mut self, fence: TaskFence) {
        let session = Arc::clone(&self.session);
        let delay = session.retry_delay(1);
        let release = Release { item: Item::Task(fence), delay, trouble: None, failed: true };
        self.steps.push(async move { session.give_back(release).await }.map(|()| Step::Released).boxed());
    }

    fn claimed(&mut self, result: Result<Vec<TaskLease>, Refused>) {
        self.demand.end(matches!(&result, Ok(leases) if !leases.is_empty()));
        match result {
            Ok(leases) if leases.is_empty() => {
                let session = Arc::clone(&self.session);
                let queues = session.executor.queues();
                let ask = async move { Step::Idle(session.work.next_due(&queues).await.ok().flatten()) };
                self.steps.push(ask.boxed());
            }
            Ok(leases) => {
                for lease in leases {
                    self.in_flight += 1;
                    self.begin(lease);
                }
            }
            Err(Refused::Fenced) => self.session.end(),
            Err(refused) => {
                tracing::warn!(error = %refused, "activities could not be claimed; trying again");
                self.idle(None);
            }
        }
    }

    fn idle(&mut self, due: Option<Duration>) {
        let sleep = self.demand.idle(&self.session, due);
        self.steps.extend(sleep.map(|sleep| sleep.map(|()| Step::Woken).boxed()));
    }

    /// Runs a task beside this loop, so that a busy activity does not hold up the others.
    fn begin(&mut self, lease: TaskLease) {
        let (done, result) = oneshot::channel();
        let fence = lease.fence.clone();
        let session = Arc::clone(&self.session);
        self.session.env.spawn(
            async move {
                let completion = run_one(&session, lease).await;
                // Nobody listens when the session is over: the answer would be dropped anyway.
                let _ = done.send(completion);
            }
            .boxed(),
        );
        self.steps.push(result.map(|completion| Step::Done(completion.map_err(|_| fence))).boxed());
    }

    fn answered(&mut self, answer: Answer, result: &Result<Delivered, Refused>) {
        match result {
            Ok(Delivered::Applied) => self.finished(),
            Ok(Delivered::Dropped(reason)) => {
                let instance = &answer.completion.fence.instance;
                tracing::info!(%instance, ?reason, "the answer of an activity was dropped");
                self.finished();
            }
            Err(Refused::Unknown(_) | Refused::NotExecuted(_)) => {
                let again = Answer { attempts: answer.attempts + 1, ..answer };
                let delay = self.session.retry_delay(again.attempts).min(self.session.options.poll_max);
                self.steps.push(self.session.sleep(delay).map(|()| Step::Again(again)).boxed());
            }
            Err(Refused::TooLarge(limit)) if answer.attempts == 0 => {
                // The result does not fit: a failure that says so does, and the orchestration can act on it.
                let text = format!("{} is {}, the store allows {}", limit.name, limit.found, limit.allowed);
                let completion = too_large(answer.completion, text);
                self.ready.push(Answer { completion, attempts: 1 });
            }
            Err(refused) => {
                tracing::error!(error = %refused, "the answer of an activity was refused; it is tried again");
                self.give_back(answer.completion.fence);
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

async fn claim(session: Arc<Session>, free: usize) -> Step {
    if !session.may_claim() {
        return Step::Claimed(Err(Refused::NotExecuted(Cause::new("the session could not be renewed"))));
    }
    let claimed = session.work.claim_activities(session.want(free)).await;
    if matches!(claimed, Err(Refused::NotExecuted(_))) {
        // The store may hold the session for expired, after a jump of its clock, say: a renewal mends that.
        session.renew().await;
    }
    Step::Claimed(claimed)
}

async fn answer(session: Arc<Session>, batch: Vec<Answer>) -> Step {
    let completions = batch.iter().map(|answer| answer.completion.clone()).collect();
    let results = session.work.complete_activities(completions).await;
    Step::Answered(batch.into_iter().zip(results).collect())
}
