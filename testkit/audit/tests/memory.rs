//! A real store, driven through the lives of a small family by real turns, is clean after every step; the same lives
//! on stores with known defects are not.

#![allow(clippy::unwrap_used, reason = "a test that cannot drive its hub has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauer_audit::{
    Action, ClientJournal, Commit, CommitJournal, Evidence, Invariant, Operation, Outcome, Report, Settings,
    audit, collect,
};
use dauer_core::ledger::Ledger;
use dauer_core::limits::TurnLimits;
use dauer_core::model::{Message, Over};
use dauer_core::send::{self, Caller, StartRequest};
use dauer_core::turn::{self, Answer, Found, Input};
use dauer_core::{ExecutionId, HostId, HubName, InstanceId, SessionId, Timestamp};
use dauer_memory::{Clock, Defect, ManualClock, MemoryHub, MemoryStore};
use dauer_proto::{
    CompleteOrchestrationAction, EventType, HistoryEvent, OrchestrationStatus, OrchestratorAction, action,
    time,
};
use dauer_store::{Amount, ClaimedTurn, Create, Credit, Host, Manage, Next, Purge, Reuse, Until, Work};
use futures::executor::block_on;

/// These need more than a dump and two journals.
const BEYOND: [Invariant; 7] = [
    Invariant::Replay,
    Invariant::Isolation,
    Invariant::ClientView,
    Invariant::Entities,
    Invariant::Progress,
    Invariant::DueTimers,
    Invariant::Poison,
];

/// More turns in a row than any of these lives needs.
const TURNS_MAX: usize = 50;

/// A hub with one host, and all that its clients and commits were told.
struct Driver {
    clock: Arc<ManualClock>,
    hub: Arc<MemoryHub>,
    work: Arc<dyn Work>,
    client: ClientJournal,
    commits: CommitJournal,
    requests: u128,
    /// How much of each invariant was checked in all audits so far.
    checked: BTreeMap<Invariant, u64>,
}

fn name(id: &str) -> InstanceId {
    InstanceId::new(id).unwrap()
}

impl Driver {
    fn new(defect: Option<Defect>) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000)));
        let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let store = defect.into_iter().fold(store, MemoryStore::with_defect);
        let hub = store.hub(HubName::default());
        let host = Host {
            id: HostId::new("host").unwrap(),
            session: SessionId(1),
            lease: Duration::from_secs(3_600),
            runs_code: true,
        };
        let work = block_on(hub.attach(host)).unwrap();
        let (client, commits) = Default::default();
        Self { clock, hub, work, client, commits, requests: 0, checked: BTreeMap::new() }
    }

    fn caller(&mut self) -> Caller {
        self.requests += 1;
        Caller { request: self.requests, repeatable: true, now: self.clock.now() }
    }

    fn told(&mut self, instance: &str, action: Action) {
        let (outcome, at) = (Outcome::Acknowledged, self.clock.now());
        self.client.operations.push(Operation { instance: name(instance), action, outcome, at });
    }

    fn start(&mut self, instance: &str, scheduled: Option<Timestamp>) {
        let request = StartRequest { scheduled, ..StartRequest::new(name(instance), "Order") };
        let caller = self.caller();
        let execution = ExecutionId(caller.request);
        let start = send::start(request, execution, caller, Over::Refuse).unwrap();
        let id = start.id;
        block_on(self.hub.create(vec![Create::new(start, Reuse::default())])).pop().unwrap().unwrap();
        self.told(instance, Action::Started { execution, start: id });
    }

    fn send(&mut self, message: Message) {
        block_on(self.hub.send(vec![message])).pop().unwrap().unwrap();
    }

    fn raise(&mut self, instance: &str) {
        let message = send::raise(name(instance), "go", None, self.caller()).unwrap();
        let id = message.id;
        self.send(message);
        self.told(instance, Action::Raised { message: id });
    }

    fn terminate(&mut self, instance: &str) {
        let message = send::terminate(name(instance), Some("9".into()), false, self.caller()).unwrap();
        let id = message.id;
        self.send(message);
        self.told(instance, Action::Terminated { message: id });
    }

    fn purge(&mut self, instance: &str) {
        let record = block_on(self.hub.get(vec![name(instance)])).unwrap().pop().unwrap();
        let (_, record) = record.unwrap();
        let purged = block_on(self.hub.purge(Purge::Ids(vec![name(instance)]))).unwrap();
        assert_eq!(purged.count, 1);
        self.told(instance, Action::Purged { execution: record.execution });
    }

    fn audit(&self) -> Report {
        let snapshot = block_on(collect(self.hub.as_ref())).unwrap();
        let evidence = Evidence { client: Some(&self.client), commits: Some(&self.commits) };
        audit(&snapshot, &evidence, &Settings::default())
    }

    /// What the session wins with so much credit in one look. It has none before and after.
    fn win(&self, turns: usize, tasks: usize) -> Next {
        let (turns, tasks) = (Amount::items(turns), Amount::items(tasks));
        self.work.credit(Credit { turns, tasks, ..Credit::default() });
        let next = block_on(self.work.next(Until::Once)).unwrap();
        self.work.credit(Credit::default());
        next
    }

    /// Takes turns until none is ready, a millisecond apart; answers with the first report that is not clean.
    fn turns(&mut self) -> Result<(), Report> {
        // A defective store may hand out turns for ever.
        for _ in 0..TURNS_MAX {
            let Some(claimed) = self.win(1, 0).turns.pop() else { break };
            self.turn(claimed);
            self.clock.advance(Duration::from_millis(1));
            self.check()?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Report> {
        let report = self.audit();
        for (invariant, finding) in report.findings() {
            *self.checked.entry(invariant).or_default() += finding.checked();
        }
        if report.is_clean() { Ok(()) } else { Err(report) }
    }

    fn turn(&mut self, claimed: ClaimedTurn) {
        let ClaimedTurn { fence, record, messages, now, .. } = claimed;
        let mut ledger = Ledger::new(fence.instance.clone(), fence.execution);
        for stored in &block_on(self.work.load_history(&fence, 0, usize::MAX)).unwrap().batches {
            ledger.absorb(stored).unwrap();
        }
        let input = Input { fence, record, messages, completions: Vec::new(), now };
        let instance = input.fence.instance.clone();
        let plan = turn::begin(input, &ledger).unwrap();
        let finished = if plan.is_run() {
            let actions = decide(instance.as_str(), &plan.new_events(), plan.now());
            turn::finish(plan, ledger, Answer { actions, ..Answer::default() }, &TurnLimits::default())
                .unwrap()
        } else {
            turn::settle(plan, ledger).unwrap()
        };
        let committed =
            block_on(self.work.commit_turns(vec![finished.checkpoint.clone().into()])).pop().unwrap();
        // A defective store may refuse what it should take; then there is nothing to journal.
        if let Ok(committed) = committed {
            self.commits.commits.push(Commit::of(&finished.checkpoint, committed.revision));
        }
    }

    /// Carries a message out as a client does that finds no host.
    fn amend(&mut self, message: Message) -> Result<(), Report> {
        let id = message.to.clone();
        let (fence, record) = block_on(self.hub.get(vec![id.clone()])).unwrap().pop().unwrap().unwrap();
        let mut ledger = Ledger::new(id.clone(), record.execution);
        let read = self.hub.read_history(&id, Some(record.execution), 0, usize::MAX);
        for stored in &block_on(read).unwrap().batches {
            ledger.absorb(stored).unwrap();
        }
        let start = block_on(self.hub.read_start(&id)).unwrap();
        let found = Found { fence, record, ledger, start, overtaken: Vec::new(), now: self.clock.now() };
        let checkpoint = turn::amend(found, &message).unwrap().unwrap().checkpoint;
        let committed = block_on(self.hub.amend(checkpoint.clone())).unwrap();
        self.commits.commits.push(Commit::of(&checkpoint, committed.revision));
        self.clock.advance(Duration::from_millis(1));
        self.check()
    }

    /// Runs every task that is ready.
    fn tasks(&mut self) -> Result<(), Report> {
        for lease in self.win(0, 100).tasks {
            let completion = send::task_answer(lease.fence, &lease.task, Ok(Some("1".into())), lease.now);
            let (execution, answer) = (lease.task.execution, completion.answer.id);
            block_on(self.work.complete_activities(vec![completion])).pop().unwrap().unwrap();
            self.told(lease.task.instance.as_str(), Action::Answered { execution, answer });
            self.check()?;
        }
        Ok(())
    }
}

/// The code of all orchestrations: what to do after these events.
fn decide(instance: &str, events: &[HistoryEvent], now: Timestamp) -> Vec<OrchestratorAction> {
    let has = |kind: fn(&EventType) -> bool| events.iter().any(|e| e.event_type.as_ref().is_some_and(kind));
    let begins = has(|kind| matches!(kind, EventType::ExecutionStarted(_)));
    let raised = has(|kind| matches!(kind, EventType::EventRaised(_)));
    let complete = |status| vec![action::complete(9, status, Some("0".into()), None)];
    if has(|kind| matches!(kind, EventType::ExecutionTerminated(_))) {
        return complete(OrchestrationStatus::Terminated);
    }
    match instance {
        "parent" if begins => vec![
            action::schedule_task(0, "Pay", None),
            action::schedule_task(1, "Pay", None),
            action::schedule_task(2, "Pay", None),
            action::create_timer(3, time::from_millis(now.0 + 5_000)),
            action::create_timer(4, time::from_millis(now.0 + 5_001)),
            action::create_timer(5, time::from_millis(now.0 + 5_002)),
            action::create_sub_orchestration(6, "child", "Order", None),
            action::send_event(7, "listener", "go", None),
            action::send_event(8, "listener", "go", None),
        ],
        "parent" if has(|kind| matches!(kind, EventType::TimerFired(_))) => {
            complete(OrchestrationStatus::Completed)
        }
        "child" if begins => vec![action::schedule_task(0, "Pay", None)],
        "child" => complete(OrchestrationStatus::Completed),
        "listener" if raised && !begins => continue_with(events),
        "listener" if raised => complete(OrchestrationStatus::Completed),
        "victim" if begins => {
            vec![
                action::schedule_task(0, "Pay", None),
                action::create_timer(1, time::from_millis(now.0 + 60_000)),
            ]
        }
        _ => Vec::new(),
    }
}

/// Continues as new and takes the events along.
fn continue_with(events: &[HistoryEvent]) -> Vec<OrchestratorAction> {
    let raised = events.iter().filter(|e| matches!(e.event_type, Some(EventType::EventRaised(_))));
    let completion = CompleteOrchestrationAction {
        orchestration_status: OrchestrationStatus::ContinuedAsNew.into(),
        carryover_events: raised.cloned().collect(),
        ..Default::default()
    };
    vec![action::new(9, dauer_proto::ActionType::CompleteOrchestration(completion))]
}

/// The lives of a parent, its child, a listener, a victim and two who wait, audited after every step.
fn live(defect: Option<Defect>) -> Result<BTreeMap<Invariant, u64>, Report> {
    let mut driver = Driver::new(defect);
    for instance in ["listener", "parent", "victim", "paused"] {
        driver.start(instance, None);
        driver.check()?;
    }
    driver.start("later", Some(Timestamp(1_000_000)));
    driver.clock.advance(Duration::from_millis(1));
    driver.turns()?;
    let suspend = send::suspend(name("paused"), None, driver.caller()).unwrap();
    driver.send(suspend);
    driver.turns()?;
    driver.raise("paused");
    driver.raise("later");
    driver.check()?;
    // One task of the victim is never run: its end withdraws it.
    driver.terminate("victim");
    driver.turns()?;
    driver.tasks()?;
    driver.turns()?;
    driver.tasks()?;
    driver.turns()?;
    driver.clock.advance(Duration::from_secs(6));
    driver.turns()?;
    driver.terminate("later");
    driver.turns()?;
    driver.purge("victim");
    driver.check()?;
    Ok(driver.checked)
}

#[test]
fn a_real_store_is_clean_after_every_step() {
    let checked = live(None).unwrap_or_else(|report| panic!("{report}"));
    for (invariant, count) in checked {
        assert_eq!(count > 0, !BEYOND.contains(&invariant), "{invariant}: {count} checked");
    }
}

#[test]
fn a_defective_store_is_found_out() {
    let defects = [
        (Defect::LoseTimers, Invariant::Timers),
        (Defect::LoseTasks, Invariant::Families),
        (Defect::LoseMessages, Invariant::AtomicTurn),
        (Defect::LoseMessages, Invariant::Conservation),
        (Defect::StartToAbsentDropped, Invariant::Families),
        (Defect::EndedKeepsMessages, Invariant::NoOrphans),
        (Defect::TerminateKeepsTasks, Invariant::NoOrphans),
        (Defect::CompleteTwice, Invariant::NoOrphans),
        (Defect::Lifo, Invariant::SenderOrder),
    ];
    for (defect, invariant) in defects {
        let words = format!("{defect:?}");
        let Err(report) = live(Some(defect)) else { panic!("{words} was not found") };
        assert!(!report.finding(invariant).violations().is_empty(), "{words}:\n{report}");
    }
}

/// Runs that clients suspend, resume, replace and end from outside, before they begin and afterwards.
#[test]
fn amended_runs_are_clean_after_every_step() {
    let clean = |result: Result<(), Report>| result.unwrap_or_else(|report| panic!("{report}"));
    let mut driver = Driver::new(None);
    for id in ["unborn", "replaced", "ended"] {
        driver.start(id, None);
        let suspend = send::suspend(name(id), None, driver.caller()).unwrap();
        clean(driver.amend(suspend));
    }
    let resume = send::resume(name("unborn"), None, driver.caller()).unwrap();
    clean(driver.amend(resume));
    let request = StartRequest::new(name("replaced"), "Other");
    let execution = ExecutionId(99);
    let start = send::start(request, execution, driver.caller(), Over::Terminate).unwrap();
    driver.told("replaced", Action::Started { execution, start: start.id });
    clean(driver.amend(start));
    let terminate = send::terminate(name("ended"), None, true, driver.caller()).unwrap();
    let message = terminate.id;
    clean(driver.amend(terminate));
    driver.told("ended", Action::Terminated { message });
    driver.purge("ended");
    clean(driver.check());
    clean(driver.turns());
    for id in ["unborn", "replaced"] {
        let suspend = send::suspend(name(id), None, driver.caller()).unwrap();
        clean(driver.amend(suspend));
        let terminate = send::terminate(name(id), None, true, driver.caller()).unwrap();
        clean(driver.amend(terminate));
    }
}
