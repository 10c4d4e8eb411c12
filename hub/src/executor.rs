//! The seam to workers: a turn or an activity in, an answer out.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;

use dauer_core::InstanceId;
use dauer_core::cancel::Cancellation;
use dauer_core::model::{Queues, Record};
use dauer_core::turn::{Answer, Stalled};
use dauer_proto::{HistoryEvent, TaskFailureDetails};
use dauer_store::TaskLease;

/// What an executor keeps of an instance between turns: for the Rust SDK the live future.
pub type Live = Box<dyn Any + Send>;

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
}

/// A worker's answer to a turn.
pub struct TurnDone {
    /// What it wants done.
    pub answer: Answer,
    /// What to hand back with the next turn, if this one is committed.
    pub live: Option<Live>,
    /// The history it was given, handed back so that the hub can keep it when there is nothing live.
    pub past: Vec<HistoryEvent>,
}

/// One activity, for a worker.
#[derive(Debug, Clone)]
pub struct ActivityWork {
    /// What to do.
    pub lease: TaskLease,
    /// Given when nobody wants the answer any more. The work may go on all the same.
    pub cancellation: Cancellation,
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
    /// What it can run: claims ask for nothing else.
    fn queues(&self) -> Queues;

    /// What it can say something about although it cannot run it: claims ask for it now and then, so that work which
    /// nobody can run is shown with its trouble instead of waiting unseen. Only for an executor whose
    /// [`queues`](Self::queues) leave that out.
    fn explains(&self) -> Option<Queues> {
        None
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

    /// Runs the code on a turn's events. The turn is stalled when that is not possible.
    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Stalled>;

    /// Runs an activity. Runs at least once; a failure is a result like any other.
    async fn activity(&self, work: ActivityWork) -> ActivityDone;
}
