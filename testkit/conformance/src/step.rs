//! Checkpoints, in the words of a turn: "consume this, schedule that, then let go".

use std::time::Duration;

use dauer_core::identity;
use dauer_proto::event;
use dauer_store::{
    Batch, Checkpoint, ClaimedTurn, Committed, Completion, Details, Encoded, EntityRecord, ExecutionId, Fate,
    Fence, History, Lock, Message, MessageId, Record, Status, Task, Then,
};

/// A checkpoint in the making. By default it consumes every claimed message, leaves the instance running and open,
/// and lets go of it.
#[derive(Debug, Clone)]
pub struct Step {
    /// The record afterwards. The checkpoint gets it in the end, with its details if they are others than before.
    record: Record,
    before: Details,
    checkpoint: Checkpoint,
}

impl Step {
    /// The plain next step of a claimed turn.
    #[must_use]
    pub fn of(turn: &ClaimedTurn) -> Self {
        let mut record =
            Record { status: Status::Running, attempts: 0, trouble: None, ..turn.record.clone() };
        unlock(&mut record.details);
        let mut events = vec![Encoded::new(&event::orchestrator_started(turn.now.0))];
        events.extend(turn.messages.iter().map(|message| message.event.clone()));
        let fates = turn.messages.iter().zip(1..).map(|(message, index)| (message.id, Fate::Event(index)));
        let batch =
            Batch::join(&events, fates.collect(), Vec::new()).expect("the suite's events have our format");
        let before = turn.record.details.clone();
        Self {
            checkpoint: Checkpoint {
                fence: turn.fence.clone(),
                consumed: turn.messages.iter().map(|message| message.id).collect(),
                completions: Vec::new(),
                history: History::Append(batch),
                record: record.clone().since(&before),
                tasks: Vec::new(),
                timers: Vec::new(),
                messages: Vec::new(),
                take: 0,
                then: Then::Release { delay: Duration::ZERO },
            },
            record,
            before,
        }
    }

    /// The turn as it stands after its plain step was committed, with nothing waiting.
    #[must_use]
    pub fn after(turn: &ClaimedTurn) -> ClaimedTurn {
        let Checkpoint { record, .. } = Self::of(turn).into();
        let record = record.after(&turn.record.details);
        let revision = turn.fence.revision.next();
        let fence = Fence { revision, ..turn.fence.clone() };
        ClaimedTurn { fence, record: Record { revision, ..record }, messages: Vec::new(), ..turn.clone() }
    }

    /// The turn that goes on after a commit with `Keep`, with what has arrived.
    #[must_use]
    pub fn continued(before: &ClaimedTurn, committed: &Committed) -> ClaimedTurn {
        ClaimedTurn { messages: committed.arrived.clone(), now: committed.now, ..Self::after(before) }
    }

    /// With another fence than the one claimed.
    #[must_use]
    pub fn fence(mut self, change: impl FnOnce(&mut Fence)) -> Self {
        change(&mut self.checkpoint.fence);
        self
    }

    /// Consumes only these.
    #[must_use]
    pub fn consuming(mut self, ids: &[MessageId]) -> Self {
        self.checkpoint.consumed = ids.to_vec();
        if let History::Append(batch) = &mut self.checkpoint.history {
            batch.consumed.retain(|(id, _)| ids.contains(id));
        }
        self
    }

    /// Locked by an orchestration.
    #[must_use]
    pub fn locked_by(mut self, owner: &str) -> Self {
        let owner = crate::instance(owner);
        let lock = Lock { section: "section".into(), owner, owner_execution: ExecutionId(1) };
        self.record.details.set_entity(Some(EntityRecord { lock: Some(lock), ..EntityRecord::default() }));
        self
    }

    /// Suspends the instance.
    #[must_use]
    pub fn suspended(mut self) -> Self {
        self.record.status = Status::Suspended;
        self
    }

    /// Ends the run.
    #[must_use]
    pub fn ended(mut self, status: Status) -> Self {
        self.record.status = status;
        self.record.details.set_output(Some("\"done\"".into()));
        self
    }

    /// With other changes to the record.
    #[must_use]
    pub fn record(mut self, change: impl FnOnce(&mut Record)) -> Self {
        change(&mut self.record);
        self
    }

    /// Schedules activities.
    #[must_use]
    pub fn tasks(mut self, tasks: impl IntoIterator<Item = Task>) -> Self {
        self.checkpoint.tasks.extend(tasks);
        self
    }

    /// Leases so many of the new tasks to the session.
    #[must_use]
    pub fn take(mut self, count: usize) -> Self {
        self.checkpoint.take = count;
        self
    }

    /// Uses results that never were in the inbox.
    #[must_use]
    pub fn completions(mut self, completions: impl IntoIterator<Item = Completion>) -> Self {
        self.checkpoint.completions.extend(completions);
        self
    }

    /// Sets timers.
    #[must_use]
    pub fn timers(mut self, timers: impl IntoIterator<Item = Message>) -> Self {
        self.checkpoint.timers.extend(timers);
        self
    }

    /// Sends messages.
    #[must_use]
    pub fn messages(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.checkpoint.messages.extend(messages);
        self
    }

    /// Ends this run and begins the next, with these messages before the inbox.
    #[must_use]
    pub fn continue_as_new(mut self, prologue: Vec<Message>) -> Self {
        let Fence { instance, execution, revision, .. } = &self.checkpoint.fence;
        let execution = identity::next_execution(instance, *execution, *revision);
        self.checkpoint.history = History::Replace { execution, batches: Vec::new(), prologue };
        let record = &mut self.record;
        (record.execution, record.generation) = (execution, record.generation + 1);
        (record.history_len, record.history_bytes) = (0, 0);
        self
    }

    /// Begins the run of a start that was waiting for an ended instance.
    #[must_use]
    pub fn begin(mut self, start: &Record) -> Self {
        let execution = start.execution;
        self.checkpoint.history = History::Replace { execution, batches: Vec::new(), prologue: Vec::new() };
        let record = &mut self.record;
        (record.execution, record.start) = (execution, start.start);
        (record.history_len, record.history_bytes) = (0, 0);
        self
    }

    /// The next run begins with this history instead of an empty one, as after a rewind.
    #[must_use]
    pub fn with_history(mut self, history: Vec<Batch>) -> Self {
        if let History::Replace { batches, .. } = &mut self.checkpoint.history {
            *batches = history;
        }
        self
    }

    /// Adds nothing to the history, as a turn that only puts something off.
    #[must_use]
    pub fn without_events(mut self) -> Self {
        if let (History::Append(batch), Ok(nothing)) =
            (&mut self.checkpoint.history, Batch::join(&[], Vec::new(), Vec::new()))
        {
            *batch = nothing;
        }
        self
    }

    /// Keeps the instance with the session.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.checkpoint.then = Then::Keep;
        self
    }

    /// The execution that is current after this step.
    #[must_use]
    pub fn execution(&self) -> dauer_store::ExecutionId {
        self.record.execution
    }
}

/// Takes the lock away.
pub(crate) fn unlock(details: &mut Details) {
    if let Some(entity) = details.entity().filter(|entity| entity.lock.is_some()) {
        let entity = EntityRecord { lock: None, ..entity.clone() };
        details.set_entity(Some(entity));
    }
}

impl From<Step> for Checkpoint {
    /// Completes what follows from the rest: the identities produced, and the length of the history.
    fn from(step: Step) -> Self {
        let Step { mut record, before, mut checkpoint } = step;
        let tasks = checkpoint.tasks.iter().map(|task| task.id);
        let messages = checkpoint.timers.iter().chain(&checkpoint.messages).map(|message| message.id);
        let produced = tasks.chain(messages).collect();
        if let History::Append(batch) = &mut checkpoint.history {
            batch.produced = produced;
            record.history_len += batch.count;
            record.history_bytes += batch.events.len() as u64;
        }
        checkpoint.record = record.since(&before);
        checkpoint
    }
}
