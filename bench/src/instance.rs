//! An instance in the middle of a chain of activities, without a store.

use std::error::Error;
use std::time::{Duration, Instant};

use dauer_core::ledger::Ledger;
use dauer_core::limits::TurnLimits;
use dauer_core::model::{Checkpoint, Class, Fence, History, Message, Over, Record, Task, TaskFence};
use dauer_core::send::{self, Caller, StartRequest};
use dauer_core::turn::{self, Answer, Finished, Input};
use dauer_core::{Epoch, ExecutionId, InstanceId, Revision, Timestamp};
use dauer_proto::{HistoryEvent, action};
use dauer_replay::{Activity, Live, Orchestration, OrchestrationContext, Registry, Result as Outcome};

const STEP: Activity<u32, u32> = Activity::new("step");
const CHAIN: Orchestration<u32, u32> = Orchestration::new("chain");

async fn chain(ctx: OrchestrationContext, steps: u32) -> Outcome<u32> {
    let mut value = 0;
    for _ in 0..steps {
        value = ctx.call(STEP, &value).await?;
    }
    Ok(value)
}

/// What carries an instance from turn to turn, as a store and a host would.
pub(crate) struct Bench {
    record: Record,
    ledger: Ledger,
    revision: Revision,
    next: Vec<Message>,
    live: Option<Live>,
    registry: Registry,
    now: Timestamp,
}

impl Bench {
    /// A live instance whose history has at least that many events, with one answer waiting.
    pub(crate) fn with_history(events: u32) -> Result<Self, Box<dyn Error>> {
        let mut bench = Self::new()?;
        while bench.ledger.events() < events {
            bench.step()?;
        }
        Ok(bench)
    }

    fn new() -> Result<Self, Box<dyn Error>> {
        let id = InstanceId::new("bench")?;
        let now = Timestamp(1_700_000_000_000);
        let caller = Caller { request: 1, repeatable: true, now };
        let request =
            StartRequest { input: Some("4000000".into()), ..StartRequest::new(id.clone(), "chain") };
        let start = send::start(request, ExecutionId(1), caller, Over::Refuse)?;
        let Class::Start(begun) = &start.class else { return Err("no start".into()) };
        let record = begun.record(start.id);
        let mut registry = Registry::new();
        registry.orchestration(CHAIN, chain)?;
        let ledger = Ledger::new(id, record.execution);
        let (revision, live) = (Revision(0), None);
        Ok(Self { record, ledger, revision, next: vec![start], live, registry, now })
    }

    fn input(&self) -> Input {
        let instance = self.ledger.instance().clone();
        let fence =
            Fence { instance, execution: self.record.execution, revision: self.revision, epoch: Epoch(1) };
        let (record, messages) = (self.record.clone(), self.next.clone());
        Input { fence, record, messages, completions: Vec::new(), now: self.now }
    }

    /// Begin and finish, with the worker's answer made up; nothing is kept.
    pub(crate) fn turn(&self) -> Result<Finished, Box<dyn Error>> {
        let plan = turn::begin(self.input(), &self.ledger)?;
        let task = action::schedule_task(1_000_000, "step", Some("7".into()));
        let answer = Answer { actions: vec![task], ..Answer::default() };
        Ok(turn::finish(plan, self.ledger.clone(), answer, &TurnLimits::default())?)
    }

    /// The events that one such turn adds.
    pub(crate) fn sample_events(&self) -> Vec<HistoryEvent> {
        self.turn().map(|finished| finished.events).unwrap_or_default()
    }

    /// Takes real turns of the live instance and gives the nanoseconds that one took.
    pub(crate) fn run(mut self, turns: u32) -> Result<u128, Box<dyn Error>> {
        let mut spent = Duration::ZERO;
        for _ in 0..turns {
            let began = Instant::now();
            let finished = self.take()?;
            spent += began.elapsed();
            self.keep(finished)?;
        }
        Ok(spent.as_nanos() / u128::from(turns))
    }

    fn step(&mut self) -> Result<(), Box<dyn Error>> {
        let finished = self.take()?;
        self.keep(finished)
    }

    fn take(&mut self) -> Result<Finished, Box<dyn Error>> {
        let plan = turn::begin(self.input(), &self.ledger)?;
        let new = plan.new_events();
        let answer = match &mut self.live {
            Some(live) => live.turn(&new)?,
            None => {
                let (live, answer) = Live::start(&self.registry, &[], &new)?;
                self.live = Some(live);
                answer
            }
        };
        let answer = Answer { actions: answer.actions, custom_status: answer.custom_status, trace: None };
        let empty = Ledger::new(self.ledger.instance().clone(), self.record.execution);
        let ledger = std::mem::replace(&mut self.ledger, empty);
        Ok(turn::finish(plan, ledger, answer, &TurnLimits::default())?)
    }

    /// What the store does with a checkpoint, and the worker with its task.
    fn keep(&mut self, finished: Finished) -> Result<(), Box<dyn Error>> {
        let Finished { checkpoint, details, ledger, .. } = finished;
        let Checkpoint { record, tasks, history, .. } = checkpoint;
        (self.record, self.ledger) = (record.after(&details), ledger);
        self.revision = self.revision.next();
        self.record.revision = self.revision;
        let History::Append(batch) = history else { return Err("the history was replaced".into()) };
        self.record.history_bytes += batch.events.len() as u64;
        self.record.history_len += batch.count;
        self.now = self.now.after(Duration::from_millis(1));
        self.next = tasks.iter().map(|task| self.result(task)).collect();
        Ok(())
    }

    fn result(&self, task: &Task) -> Message {
        let fence = TaskFence { task: task.id, instance: task.instance.clone(), epoch: Epoch(1) };
        send::task_answer(fence, task, Ok(Some("7".into())), self.now).answer
    }
}
