//! One instance on a store of a few lines: enough to take turns, apply checkpoints as a store would, and read what
//! happened as text.
//!
//! Every turn is taken twice and must give the same checkpoint, and after every commit the ledger that is carried
//! along must equal the one built from the stored batches. So each test is also a test of these two properties.

pub(crate) mod make;
mod render;

use std::collections::BTreeMap;

use dauer_core::ledger::Ledger;
use dauer_core::limits::TurnLimits;
use dauer_core::model::{
    Checkpoint, Class, Completion, Details, Fence, History, Hold, Message, Opening, Record, StoredBatch,
    Task, TaskFence,
};
use dauer_core::send;
use dauer_core::turn::{self, Answer, Finished, Found, Input, Plan, Stalled};
use dauer_core::{Epoch, ExecutionId, HostId, InstanceId, MessageId, Timestamp};
use dauer_proto::{HistoryEvent, OrchestratorAction, TaskFailureDetails};

pub(crate) use render::{event_line, message_line};

/// One instance and what a store holds of it.
pub(crate) struct Run {
    pub(crate) id: InstanceId,
    pub(crate) record: Record,
    pub(crate) ledger: Ledger,
    pub(crate) history: Vec<StoredBatch>,
    pub(crate) prologue: Vec<Message>,
    pub(crate) inbox: Vec<Message>,
    pub(crate) timers: Vec<Message>,
    /// The newest task of each event id.
    pub(crate) tasks: BTreeMap<i32, Task>,
    pub(crate) now: i64,
    pub(crate) epoch: Epoch,
    pub(crate) limits: TurnLimits,
    /// Every message is delivered, as by a store that knows no hold.
    pub(crate) careless: bool,
    requests: u128,
}

/// One committed turn.
pub(crate) struct Step {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) details: Details,
    pub(crate) plan: Option<Plan>,
    /// The events that the commit added to the history; none when a new run took the old one's place.
    pub(crate) events: Vec<HistoryEvent>,
}

/// The id of an instance.
pub(crate) fn id(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

impl Run {
    /// Instance `i`, started by a client at 1000 ms. The start waits in the inbox.
    pub(crate) fn start(name: &str, input: Option<&str>) -> Self {
        let request =
            send::StartRequest { input: input.map(Into::into), ..send::StartRequest::new(id("i"), name) };
        Self::requested(request)
    }

    pub(crate) fn requested(request: send::StartRequest) -> Self {
        let caller = send::Caller { request: 1, repeatable: true, now: Timestamp(1_000) };
        Self::created(
            send::start(request, ExecutionId(0x51), caller, dauer_core::model::Over::Refuse).unwrap(),
            1_000,
        )
    }

    /// The instance that a start message brings into being.
    pub(crate) fn created(start: Message, now: i64) -> Self {
        let (Class::Start(begun) | Class::Rewind(begun)) = &start.class else {
            panic!("only a start or rewind creates an instance")
        };
        let record = begun.record(start.id);
        Self {
            id: start.to.clone(),
            ledger: Ledger::new(start.to.clone(), record.execution),
            record,
            history: Vec::new(),
            prologue: Vec::new(),
            inbox: vec![start],
            timers: Vec::new(),
            tasks: BTreeMap::new(),
            now,
            epoch: Epoch(1),
            limits: TurnLimits::default(),
            careless: false,
            requests: 100,
        }
    }

    /// An instance that has taken its first turn, with these actions.
    pub(crate) fn running(actions: impl IntoIterator<Item = OrchestratorAction>) -> Self {
        let mut run = Self::start("order", None);
        run.turn(actions);
        run
    }

    /// A caller with a request id of its own.
    pub(crate) fn caller(&mut self) -> send::Caller {
        self.requests += 1;
        send::Caller { request: self.requests, repeatable: true, now: Timestamp(self.now) }
    }

    pub(crate) fn fence(&self) -> Fence {
        let (execution, revision) = (self.record.execution, self.record.revision);
        Fence { instance: self.id.clone(), execution, revision, epoch: self.epoch }
    }

    pub(crate) fn deliver(&mut self, message: Message) -> &mut Self {
        assert_eq!(message.to, self.id, "a message for someone else");
        self.inbox.push(message);
        self
    }

    pub(crate) fn raise(&mut self, name: &str, data: Option<&str>) -> &mut Self {
        let caller = self.caller();
        self.deliver(send::raise(self.id.clone(), name, data.map(Into::into), caller).unwrap())
    }

    pub(crate) fn suspend(&mut self) -> &mut Self {
        let caller = self.caller();
        self.deliver(send::suspend(self.id.clone(), None, caller).unwrap())
    }

    pub(crate) fn resume(&mut self) -> &mut Self {
        let caller = self.caller();
        self.deliver(send::resume(self.id.clone(), None, caller).unwrap())
    }

    pub(crate) fn terminate(&mut self, output: Option<&str>, recurse: bool) -> &mut Self {
        let caller = self.caller();
        self.deliver(send::terminate(self.id.clone(), output.map(Into::into), recurse, caller).unwrap())
    }

    /// The result of the newest task with that event id.
    pub(crate) fn completion(&self, event_id: i32, outcome: Result<&str, TaskFailureDetails>) -> Completion {
        let task = &self.tasks[&event_id];
        let fence = TaskFence { task: task.id, instance: self.id.clone(), epoch: Epoch(1) };
        send::task_answer(fence, task, outcome.map(|result| Some(result.to_owned())), Timestamp(self.now))
    }

    pub(crate) fn complete(&mut self, event_id: i32, result: &str) -> &mut Self {
        let answer = self.completion(event_id, Ok(result)).answer;
        self.deliver(answer)
    }

    pub(crate) fn fail_task(&mut self, event_id: i32, details: TaskFailureDetails) -> &mut Self {
        let answer = self.completion(event_id, Err(details)).answer;
        self.deliver(answer)
    }

    /// Moves time and puts the timers that are due into the inbox.
    pub(crate) fn at(&mut self, now: i64) -> &mut Self {
        self.now = now;
        let due = |timer: &Message| timer.visible_at <= Timestamp(now);
        let (fired, waiting) = std::mem::take(&mut self.timers).into_iter().partition(due);
        self.timers = waiting;
        self.inbox.extend::<Vec<_>>(fired);
        self
    }

    /// What a claim would give: the prologue, then the inbox, as far as it is visible and admitted; a start that
    /// has not been seen goes with it in any case, first.
    pub(crate) fn claim(&self) -> Vec<Message> {
        let own = |message: &&Message| match &message.class {
            Class::Start(start) | Class::Rewind(start) => start.execution == self.record.execution,
            _ => false,
        };
        let waiting = || self.prologue.iter().chain(&self.inbox);
        let first = waiting().find(own).filter(|_| self.record.is_unborn());
        let visible = |message: &&Message| message.visible_at <= Timestamp(self.now);
        let suspended = self.record.hold() == Hold::Unborn;
        let admitted = |message: &&Message| {
            self.careless
                || self.record.hold().admits(message)
                || !suspended && first.is_some_and(|start| start.visible_at <= Timestamp(self.now))
        };
        let rest: Vec<_> =
            waiting().filter(|message| Some(*message) != first).filter(visible).filter(admitted).collect();
        // The start of a suspended run goes with what wakes the instance, and never alone.
        let first = first.filter(|_| !suspended || !rest.is_empty());
        first.into_iter().chain(rest).cloned().collect()
    }

    pub(crate) fn input(&self, completions: Vec<Completion>) -> Input {
        let (fence, record, messages) = (self.fence(), self.record.clone(), self.claim());
        Input { fence, record, messages, completions, now: Timestamp(self.now) }
    }

    pub(crate) fn plan(&self) -> Plan {
        turn::begin(self.input(Vec::new()), &self.ledger).unwrap()
    }

    /// A turn that the worker answers with these actions.
    pub(crate) fn turn(&mut self, actions: impl IntoIterator<Item = OrchestratorAction>) -> Step {
        self.answer(Answer { actions: actions.into_iter().collect(), ..Answer::default() })
    }

    pub(crate) fn answer(&mut self, answer: Answer) -> Step {
        self.take_turn(Vec::new(), answer).unwrap()
    }

    /// Why the turn cannot be taken; the instance is as before.
    pub(crate) fn refused(&mut self, actions: impl IntoIterator<Item = OrchestratorAction>) -> Stalled {
        let answer = Answer { actions: actions.into_iter().collect(), ..Answer::default() };
        self.take_turn(Vec::new(), answer).err().unwrap()
    }

    pub(crate) fn take_turn(&mut self, done: Vec<Completion>, answer: Answer) -> Result<Step, Stalled> {
        let take = || -> Result<(Plan, Finished), Stalled> {
            let plan = turn::begin(self.input(done.clone()), &self.ledger)?;
            let kept = plan.clone();
            let finished = if plan.is_run() {
                turn::finish(plan, self.ledger.clone(), answer.clone(), &self.limits)
            } else if plan.is_rewind() {
                turn::obey(plan, &self.ledger, &self.events())
            } else {
                turn::settle(plan, self.ledger.clone())
            }?;
            Ok((kept, finished))
        };
        let ((plan, finished), (_, again)) = (take()?, take()?);
        assert_eq!(finished.checkpoint, again.checkpoint, "the same turn gives the same checkpoint");
        assert_eq!(finished.ledger, again.ledger);
        Ok(self.commit(finished, Some(plan)))
    }

    /// Ends a turn as Failed without the worker.
    pub(crate) fn fail(&mut self, details: TaskFailureDetails) -> Step {
        let plan = self.plan();
        let finished = turn::fail(plan.clone(), self.ledger.clone(), details).unwrap();
        self.commit(finished, Some(plan))
    }

    /// A client's terminate.
    pub(crate) fn termination(&mut self, output: Option<&str>, recurse: bool) -> Message {
        let caller = self.caller();
        send::terminate(self.id.clone(), output.map(Into::into), recurse, caller).unwrap()
    }

    /// Carries a client's message out from outside, as if it waited. `None` when it changes nothing.
    pub(crate) fn amend(&mut self, message: Message) -> Result<Option<Step>, Stalled> {
        self.amend_over(Vec::new(), message)
    }

    /// The same while other messages wait, which that one overtakes.
    pub(crate) fn amend_over(
        &mut self,
        overtaken: Vec<MessageId>,
        message: Message,
    ) -> Result<Option<Step>, Stalled> {
        let start = self.prologue.iter().chain(&self.inbox).find(|message| match &message.class {
            Class::Start(start) | Class::Rewind(start) => start.execution == self.record.execution,
            _ => false,
        });
        let start = start.filter(|_| self.ledger.started().is_none()).cloned();
        let (fence, record, ledger) = (self.fence(), self.record.clone(), self.ledger.clone());
        let found = Found { fence, record, ledger, start, overtaken, now: Timestamp(self.now) };
        let finished = turn::amend(found.clone(), &message)?;
        let again = turn::amend(found, &message)?.map(|finished| finished.checkpoint);
        assert_eq!(finished.as_ref().map(|finished| &finished.checkpoint), again.as_ref(), "the same twice");
        let Some(finished) = finished else { return Ok(None) };
        self.deliver(message);
        Ok(Some(self.commit(finished, None)))
    }

    /// Rewinds it from outside.
    pub(crate) fn rewind(&mut self, reason: &str) -> Result<Step, Stalled> {
        let (fence, record, now) = (self.fence(), self.record.clone(), Timestamp(self.now));
        let past = self.events();
        let finished = turn::rewind(fence, record, (&self.ledger, &past), now, Some(reason.into()))?;
        Ok(self.commit(finished, None))
    }

    /// Applies a checkpoint as a store would, and checks what must hold after every commit.
    pub(crate) fn commit(&mut self, finished: Finished, plan: Option<Plan>) -> Step {
        let Finished { checkpoint, details, ledger, events } = finished;
        assert_eq!(checkpoint.fence, self.fence(), "a commit carries what was claimed");
        assert_eq!(checkpoint.record.revision, self.record.revision, "only the store counts revisions");
        for consumed in &checkpoint.consumed {
            let before = self.prologue.len() + self.inbox.len();
            self.prologue.retain(|message| message.id != *consumed);
            self.inbox.retain(|message| message.id != *consumed);
            assert_eq!(before - 1, self.prologue.len() + self.inbox.len(), "{consumed} was waiting, once");
        }
        self.record = checkpoint.record.clone().after(&self.record.details);
        assert_eq!(self.record.details, details, "what the checkpoint leaves out has not changed");
        self.record.revision = checkpoint.fence.revision.next();
        let batches = match checkpoint.history.clone() {
            History::Append(batch) => vec![batch],
            History::Replace { execution, batches, prologue } => {
                assert_eq!(execution, self.record.execution);
                self.history.clear();
                self.timers.clear();
                // What the old prologue still holds was not consumed, so it stays: after the new one.
                self.prologue.splice(0..0, prologue);
                batches
            }
        };
        for batch in batches {
            let first = self.history.iter().map(|stored| stored.batch.count).sum();
            let (revision, epoch, at) = (self.record.revision, self.epoch, Timestamp(self.now));
            let owner = HostId::new("host").unwrap();
            self.history.push(StoredBatch { first, revision, epoch, owner, at, batch });
        }
        self.tasks.extend(checkpoint.tasks.iter().map(|task| (task.event_id, task.clone())));
        self.timers.extend(checkpoint.timers.iter().cloned());
        self.ledger = ledger;
        self.check();
        Step { checkpoint, details, plan, events }
    }

    fn check(&self) {
        assert_eq!(self.rebuilt(), self.ledger, "the ledger of the stored history is the one carried along");
        let stored = self.history.iter().map(|stored| &stored.batch);
        assert_eq!(self.record.history_len, stored.clone().map(|batch| batch.count).sum::<u32>());
        assert_eq!(
            self.record.history_bytes,
            stored.clone().map(|batch| batch.events.len() as u64).sum::<u64>()
        );
        let mut produced: Vec<MessageId> = stored.flat_map(|batch| batch.produced.clone()).collect();
        let count = produced.len();
        produced.sort();
        produced.dedup();
        assert_eq!(produced.len(), count, "nothing is produced twice");
    }

    /// The ledger as a host makes it that has never seen the instance.
    pub(crate) fn rebuilt(&self) -> Ledger {
        let mut ledger = Ledger::new(self.id.clone(), self.record.execution);
        for stored in &self.history {
            ledger.absorb(stored).unwrap();
        }
        ledger
    }

    pub(crate) fn events(&self) -> Vec<HistoryEvent> {
        self.history.iter().flat_map(|stored| stored.batch.decode().unwrap()).collect()
    }

    /// The history, one line an event.
    pub(crate) fn text(&self) -> String {
        self.events().iter().map(event_line).collect::<Vec<_>>().join("\n")
    }

    /// The start of another client for this instance.
    pub(crate) fn other_start(&mut self, name: &str, over: dauer_core::model::Over) -> Message {
        let caller = self.caller();
        let execution = ExecutionId(caller.request);
        send::start(send::StartRequest::new(self.id.clone(), name), execution, caller, over).unwrap()
    }
}

impl Step {
    /// Compares what the turn did with lines of text; indentation does not count.
    #[track_caller]
    pub(crate) fn is(&self, expected: &str) -> &Self {
        assert_text(&render::step(self), expected);
        self
    }

    /// The messages that the turn sent.
    pub(crate) fn sent(&self) -> Vec<Message> {
        self.checkpoint.messages.clone()
    }

    pub(crate) fn prologue(&self) -> &[Message] {
        match &self.checkpoint.history {
            History::Replace { prologue, .. } => prologue,
            History::Append(_) => &[],
        }
    }

    /// The events that the worker was given.
    pub(crate) fn new_events(&self) -> Vec<String> {
        self.plan.as_ref().map(Plan::new_events).unwrap_or_default().iter().map(event_line).collect()
    }
}

/// What a start message carries.
pub(crate) fn start_of(message: &Message) -> &Opening {
    let Class::Start(start) = &message.class else { panic!("not a start: {message:?}") };
    start
}

/// Compares text line by line; indentation and empty lines do not count.
#[track_caller]
pub(crate) fn assert_text(actual: &str, expected: &str) {
    let lines = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let (actual, expected) = (lines(actual), lines(expected));
    assert!(actual == expected, "expected:\n{expected}\nactual:\n{actual}");
}
