//! The seam to workers: a turn or an activity in, an answer out.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::oneshot;
use futures::stream::{BoxStream, StreamExt};

use dauer_core::cancel::Cancellation;
use dauer_core::model::{Deaths, Queues, Record};
use dauer_core::turn::{Answer, Stalled};
use dauer_core::{HubKey, InstanceId};
use dauer_proto::{HistoryEvent, TaskFailureDetails};
use dauer_store::{TaskLease, TaskName};

use crate::holding::Holding;

/// What an executor keeps of an instance between turns: for the Rust SDK the live future.
pub type Live = Box<dyn Any + Send>;

/// What an executor hands over with an answer and the hub drops once that answer is settled: it is durable, or nothing will
/// ever come of it. So whoever brought the answer can be told then, and not before.
pub type Receipt = Box<dyn Any + Send>;

/// How much an executor can have in its hands at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Turns.
    pub turns: usize,
    /// Activities.
    pub activities: usize,
}

impl Capacity {
    /// As much as the host's own settings allow.
    pub const UNBOUNDED: Self = Self { turns: usize::MAX, activities: usize::MAX };
}

/// What went before the new events.
pub enum Past {
    /// The executor's own state after the last committed turn: nothing has to be replayed.
    Live(Live),
    /// The committed history, to be replayed.
    History(Vec<HistoryEvent>),
}

/// One turn, for a worker.
pub struct TurnWork {
    /// The instance.
    pub instance: InstanceId,
    /// Its record.
    pub record: Record,
    /// What went before.
    pub past: Past,
    /// What is new; never empty. Let go of it with the answer at the latest: then the hub need not copy it.
    pub new: Arc<Vec<HistoryEvent>>,
    /// What a server notes of the turn. None where code runs in this process.
    pub holding: Option<Holding>,
}

/// A worker's answer to a turn.
pub struct TurnDone {
    /// What it wants done.
    pub answer: Answer,
    /// What to hand back with the next turn, if this one is committed.
    pub live: Option<Live>,
    /// The history it was given, handed back so that the hub can keep it when there is nothing live.
    pub past: Vec<HistoryEvent>,
    /// To be dropped when the turn is committed, or never will be.
    pub receipt: Option<Receipt>,
    /// The build id of the worker, where it is another process than the host.
    pub build: Option<Arc<str>>,
}

/// Why a turn has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfinished {
    /// It cannot run now: shown as trouble, and tried again.
    Stalled(Stalled),
    /// Nothing is wrong with it, but nobody here can run it: given back without blame, not to be claimed before so long.
    Returned {
        /// How long.
        delay: Duration,
    },
    /// Its workers died with it during trials ([`Holding::is_poison`]).
    Poison(Deaths),
}

impl From<Stalled> for Unfinished {
    fn from(stalled: Stalled) -> Self {
        Self::Stalled(stalled)
    }
}

/// One activity, for a worker.
#[derive(Debug, Clone)]
pub struct ActivityWork {
    /// What to do.
    pub lease: TaskLease,
    /// Given when nobody wants the answer any more. The work may go on all the same.
    pub cancellation: Cancellation,
    /// What a server notes of the task. None where code runs in this process.
    pub holding: Option<Holding>,
}

/// A request of the executor to make the session the holder of a task that one of its workers executes or has answered.
#[derive(Debug)]
pub struct Adoption {
    /// The task.
    pub task: TaskName,
    /// Told the outcome. Dropped without one when the session has ended: the executor asks again.
    pub outcome: oneshot::Sender<Adopted>,
}

/// The outcome of an adoption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adopted {
    /// The session holds the task: [`Executor::activity`] is called with it.
    Held,
    /// The task is not open any more: it was answered or withdrawn, or its run is gone.
    Over,
}

/// A worker's answer to an activity.
#[derive(Debug, Clone, PartialEq)]
pub enum ActivityDone {
    /// Its result.
    Completed(Option<String>),
    /// It failed.
    Failed(TaskFailureDetails),
    /// It ended early because it was cancelled, and is to be run by another host: neither a result nor a failed attempt.
    GivenUp,
    /// Whoever was to run it gave it back: not a failed attempt, but not to be claimed before so long, so that it does not
    /// go back and forth all the time.
    Returned {
        /// How long.
        delay: Duration,
    },
    /// Its workers died with it during trials ([`Holding::is_poison`]).
    Crashed(Deaths),
}

/// A worker's answer to an activity, and who is to be told when it is durable.
pub struct ActivityEnd {
    /// The answer.
    pub done: ActivityDone,
    /// To be dropped when the answer is settled.
    pub receipt: Option<Receipt>,
}

impl From<ActivityDone> for ActivityEnd {
    fn from(done: ActivityDone) -> Self {
        Self { done, receipt: None }
    }
}

impl From<Result<Option<String>, TaskFailureDetails>> for ActivityDone {
    fn from(result: Result<Option<String>, TaskFailureDetails>) -> Self {
        match result {
            Ok(output) => Self::Completed(output),
            Err(details) => Self::Failed(details),
        }
    }
}

/// What became of a turn that was to run at once.
pub enum Attempt {
    /// It did.
    Done(Result<TurnDone, Stalled>),
    /// It has to wait for something.
    Later(Box<TurnWork>),
}

/// Something that runs user code: in this process, or by way of a remote worker.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// What it can run: the host takes nothing else. An executor that fuses is asked once for each session, and at each of its
    /// [`changes`](Self::changes).
    fn queues(&self) -> Queues;

    /// What it can say something about although it cannot run it: the host takes some of it now and then, so that work which
    /// no host can run is shown with its trouble instead of waiting unseen. Only for an executor whose
    /// [`queues`](Self::queues) leave that out.
    fn explains(&self) -> Option<Queues> {
        None
    }

    /// Whether user code runs in this process. An executor whose workers are processes of their own says no: the end of this
    /// process is then not the end of the code (rule 9 of the store contract).
    fn runs_code(&self) -> bool {
        true
    }

    /// The most items that it can execute at once. The host takes no more. The answer may differ from call to call.
    fn capacity(&self) -> Capacity {
        Capacity::UNBOUNDED
    }

    /// Tells that [`queues`](Self::queues) or [`capacity`](Self::capacity) admit more than before, or less. For an executor
    /// that never changes, nothing is ever told. Asked once for each session.
    fn changes(&self) -> BoxStream<'static, ()> {
        futures::stream::pending().boxed()
    }

    /// Tells the key of the hub, once, before the first session. An executor with workers elsewhere seals tokens with it.
    fn keyed(&self, key: HubKey) {
        let _ = key;
    }

    /// Tasks that workers execute or have answered, and that the session does not hold. Asked once for each session.
    fn adoptions(&self) -> BoxStream<'static, Adoption> {
        futures::stream::pending().boxed()
    }

    /// How many activities workers execute whose answers any later server takes, too. A host that stops does not wait for them.
    fn left_behind(&self) -> usize {
        0
    }

    /// Whether the results of activities that ran on this host may go into the turns they are for, without ever being
    /// messages. Only for an executor that runs turns in this process and at once: a turn that waits for another worker
    /// would keep the results from being durable for as long.
    fn fuses(&self) -> bool {
        false
    }

    /// Runs a turn at once, if that is possible without waiting for anything; saves the future. Hands the work back
    /// otherwise, and [`Executor::turn`] gets it.
    fn turn_at_once(&self, work: TurnWork) -> Attempt {
        Attempt::Later(Box::new(work))
    }

    /// Runs the code on a turn's events. The turn is stalled, or given back, when that is not possible.
    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Unfinished>;

    /// Runs an activity. Runs at least once; a failure is a result like any other.
    async fn activity(&self, work: ActivityWork) -> ActivityEnd;
}
