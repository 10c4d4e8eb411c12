//! Workers that are elsewhere, as a server has them: the same code, behind streams that break and answers that come late,
//! twice, or never.
//!
//! The workers are real ones of the other side: they take items from the streams of [`Workers`] and answer by its calls. What
//! they run is the code of the host, which keeps count of what was done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dauer_core::turn::Stalled;
use dauer_hub::{
    ActivityDone, ActivityEnd, ActivityWork, Adoption, Capacity, Executor, Past, TurnDone, TurnWork,
    Unfinished,
};
use dauer_proto::{
    ActivityRequest, ActivityResponse, EventType, OrchestratorRequest, OrchestratorResponse, WorkItem,
    WorkItemRequest,
};
use dauer_remote::{Options, Worker, Workers};
use dauer_store::{Encoded, Env, HubKey, InstanceId, Queues, Record, TroubleKind};
use futures::StreamExt;
use futures::future::FutureExt;
use futures::stream::BoxStream;

use crate::code::Code;
use crate::env::SimEnv;
use crate::faults::Plan;
use crate::foreign::REUSING;
use crate::kinds::Kind;
use crate::program::POISON;
use crate::random::Random;
use crate::unpoisoned;
use crate::wire::Network;

/// The seeds whose hosts have their workers elsewhere: those with this remainder by [`ONE_IN`]. By number, so that what was
/// found before there were such seeds is still found where it was.
const REMAINDER: u64 = 4;
const ONE_IN: u64 = 5;

/// The tag of a work item that names its task. Workers without tokens get other numbers than the tasks have.
const TASK: &str = "task";

/// How many workers a host has.
const WORKERS: u64 = 2;

/// How long a worker that lost its stream waits at most before it comes again.
const RECONNECT_MAX: Duration = Duration::from_secs(3);

/// How late an answer is at most: longer than the shortest lease, and than another worker is waited for.
const ANSWER_LATE_MAX: Duration = Duration::from_secs(8);

/// Whether the hosts of a seed have their workers elsewhere.
pub(crate) fn is_elsewhere(seed: u64) -> bool {
    seed % ONE_IN == REMAINDER
}

/// The executor of a host whose workers are elsewhere.
pub(crate) struct Elsewhere {
    workers: Arc<Workers>,
    code: Arc<Code>,
    env: Arc<SimEnv>,
    plan: Arc<Plan>,
    /// What no work item carries, and the code of the host wants to know. An id is used again, so that records have the
    /// execution beside it.
    records: Mutex<BTreeMap<(InstanceId, String), Record>>,
    /// By the tag [`TASK`] of the work item.
    tasks: Mutex<BTreeMap<String, ActivityWork>>,
    /// Whether workers send tokens back. Some SDKs do not, and are known by what they answer: then an answer that comes
    /// twice, or when another worker has been asked, is an answer to whatever is asked next, so that such workers have to
    /// be reliable.
    tokens: bool,
    network: Arc<Network>,
}

/// What makes that answers come twice, or too late.
const UNRELIABLE: [Kind; 5] =
    [Kind::StreamBreaks, Kind::AnswerLate, Kind::AnswerLost, Kind::AnswerTwice, Kind::TurnLate];

impl Elsewhere {
    /// The executor, whose workers come at once.
    pub(crate) fn new(code: Code, network: &Arc<Network>, random: &mut Random) -> Arc<Self> {
        let (env, plan) = (Arc::clone(&code.env), Arc::clone(&code.plan));
        let reliable = !UNRELIABLE.iter().any(|kind| plan.may(*kind));
        let patience = if reliable { 1_000 } else { 1 };
        let options = Options {
            // So that it happens at all: a turn takes no time here.
            turn_answer_max: Duration::from_secs(random.pick(&[1, 5])) * patience,
            reconnect_grace: Duration::from_secs(random.pick(&[0, 3])),
            turn_return_after: Duration::from_secs(random.pick(&[0, 1])),
            restart_grace: Duration::from_secs(5),
            history_streamed_from: usize::MAX,
            ..Options::default()
        };
        let workers = Workers::new(Arc::clone(&env) as Arc<dyn Env>, options);
        let elsewhere = Arc::new(Self {
            workers,
            code: Arc::new(code),
            env: Arc::clone(&env),
            plan,
            records: Mutex::default(),
            tasks: Mutex::default(),
            tokens: !reliable,
            network: Arc::clone(network),
        });
        for _ in 0..WORKERS {
            let room = [random.pick(&[1, 3, 100]), random.pick(&[1, 3, 100])];
            env.spawn(Arc::clone(&elsewhere).work(room).boxed());
        }
        elsewhere
    }

    async fn sleep(&self, longest: Duration) {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX - 1);
        let pause = Duration::from_millis(self.env.random() % (millis + 1));
        self.env.sleep(pause).await;
    }

    /// One worker: takes what its stream brings, and comes again when it has lost it.
    async fn work(self: Arc<Self>, [turns_max, activities_max]: [usize; 2]) {
        loop {
            let queues = self.code.queues();
            let worker =
                Worker { queues, turns_max, activities_max, names_tokens: self.tokens, ..Worker::default() };
            let mut stream = self.workers.connect(worker);
            while let Some(item) = stream.next().await {
                self.env.spawn(Arc::clone(&self).answer(item).boxed());
                // What it has in its hands is answered all the same.
                if self.plan.happens(Kind::StreamBreaks) {
                    break;
                }
            }
            drop(stream);
            self.sleep(RECONNECT_MAX).await;
        }
    }

    async fn answer(self: Arc<Self>, item: WorkItem) {
        let token = item.completion_token;
        if self.plan.happens(Kind::Abandon) {
            return self.workers.abandon(&token);
        }
        match item.request {
            Some(WorkItemRequest::OrchestratorRequest(request)) => self.answer_turn(token, request).await,
            Some(WorkItemRequest::ActivityRequest(request)) => self.answer_activity(token, request).await,
            _ => {}
        }
    }

    async fn answer_turn(&self, token: String, request: OrchestratorRequest) {
        let OrchestratorRequest { instance_id, execution_id, past_events, new_events, .. } = request;
        let Ok(instance) = InstanceId::new(instance_id.as_str()) else { return };
        let run = (instance.clone(), execution_id.unwrap_or_default());
        let Some(record) = unpoisoned(&self.records).get(&run).cloned() else { return };
        let reuses = &*record.queue.name == REUSING;
        let (past, new) = (Past::History(past_events), Arc::new(new_events));
        // What cannot run is given back, as the SDKs do with versions that they do not know.
        let done = match self.code.turn(TurnWork { instance, record, past, new, holding: None }).await {
            Ok(done) => done,
            Err(unfinished) => {
                self.complain(&instance_id, unfinished);
                return self.workers.abandon(&token);
            }
        };
        let response = OrchestratorResponse {
            instance_id,
            actions: done.answer.actions,
            custom_status: done.answer.custom_status,
            // The program that uses event ids again is of an SDK that names tokens.
            completion_token: if self.tokens || reuses { token } else { String::new() },
            ..OrchestratorResponse::default()
        };
        if self.comes_back().await {
            self.workers.complete_turn(response.clone()).await;
        }
        if self.plan.happens(Kind::AnswerTwice) {
            self.sleep(ANSWER_LATE_MAX).await;
            self.workers.complete_turn(response).await;
        }
    }

    async fn answer_activity(&self, token: String, request: ActivityRequest) {
        let instance_id = request.orchestration_instance.map(|of| of.instance_id).unwrap_or_default();
        let task = request.tags.get(TASK).cloned().unwrap_or_default();
        let Some(work) = unpoisoned(&self.tasks).get(&task).cloned() else { return };
        let (result, failure_details) = match self.code.activity(work).await.done {
            ActivityDone::Completed(result) => (result, None),
            ActivityDone::Failed(details) => (None, Some(details)),
            ActivityDone::GivenUp | ActivityDone::Returned { .. } | ActivityDone::Crashed(_) => {
                return self.workers.abandon(&token);
            }
        };
        let response = ActivityResponse {
            instance_id,
            task_id: request.task_id,
            result,
            failure_details,
            completion_token: if self.tokens { token } else { String::new() },
        };
        if self.comes_back().await {
            self.bring(response.clone()).await;
        }
        if self.plan.happens(Kind::AnswerTwice) {
            self.sleep(ANSWER_LATE_MAX).await;
            self.bring(response).await;
        }
    }

    /// Brings the answer to an activity, as a server does.
    async fn bring(&self, response: ActivityResponse) {
        // What matches nothing here was handed out by this process and is over.
        let _ = self.workers.complete_activity(response).await;
    }

    /// Programs are never wrong: what stalls is the server's doing. But for poison, and versions that old hosts do not have.
    fn complain(&self, instance: &str, unfinished: Unfinished) {
        if let Unfinished::Stalled(Stalled { kind, reason, .. }) = unfinished
            && instance != POISON
            && kind != TroubleKind::UnknownName
        {
            unpoisoned(&self.network.stalled)
                .push(format!("elsewhere a turn of {instance} was stalled: {kind:?}: {reason}"));
        }
    }

    /// Whether an answer reaches the server. It may take its time; and one that got lost is sent again when the chaos is
    /// over at the latest.
    async fn comes_back(&self) -> bool {
        if self.plan.happens(Kind::AnswerLate) {
            self.sleep(ANSWER_LATE_MAX).await;
        }
        if self.plan.happens(Kind::AnswerLost) {
            while !self.plan.is_healed() {
                self.sleep(ANSWER_LATE_MAX).await;
            }
        }
        true
    }
}

#[async_trait]
impl Executor for Elsewhere {
    fn queues(&self) -> Queues {
        self.workers.queues()
    }

    fn runs_code(&self) -> bool {
        self.workers.runs_code()
    }

    fn capacity(&self) -> Capacity {
        self.workers.capacity()
    }

    fn keyed(&self, key: HubKey) {
        self.workers.keyed(key);
    }

    fn adoptions(&self) -> BoxStream<'static, Adoption> {
        self.workers.adoptions()
    }

    fn left_behind(&self) -> usize {
        self.workers.left_behind()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.workers.changes()
    }

    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Unfinished> {
        let run = (work.instance.clone(), work.record.execution.to_string());
        unpoisoned(&self.records).insert(run, work.record.clone());
        self.workers.turn(work).await
    }

    async fn activity(&self, work: ActivityWork) -> ActivityEnd {
        let id = work.lease.task.id.to_string();
        unpoisoned(&self.tasks).insert(id.clone(), work.clone());
        self.workers.activity(tagged(work, id)).await
    }
}

/// The same work, with the task's id in the event that the work item is made from.
fn tagged(mut work: ActivityWork, id: String) -> ActivityWork {
    if let Ok(mut event) = work.lease.task.event.event()
        && let Some(EventType::TaskScheduled(scheduled)) = &mut event.event_type
    {
        scheduled.tags.insert(TASK.into(), id);
        work.lease.task.event = Encoded::new(&event);
    }
    work
}
