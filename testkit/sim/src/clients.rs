//! The clients: they start instances, raise what these wait for, suspend, resume and terminate, and wait for the end.
//! They never crash, and send the same request again until they know what became of it, and now and then once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_audit::{Action, ClientJournal, Operation, Outcome};
use dauer_core::send::{self, Caller, StartRequest};
use dauer_hub::{Client, ClientError};
use dauer_store::{
    Class, Create, Created, Delivered, DropReason, Env, ExecutionId, InstanceId, Manage, Message, Over,
    Purge, Record, Refused, Reuse, Status,
};
use futures::future::{BoxFuture, FutureExt, join_all};

use crate::cases::Case;
use crate::env::SimEnv;
use crate::faults::Plan;
use crate::interpret::{Input, MODERN, PROGRAM};
use crate::kinds::Kind;
use crate::program::{Demand, EVENT_NAMES, family_of, parent_of};
use crate::random::Random;
use crate::unpoisoned;

/// How long a client waits for an end before it asks again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the clients of a run share.
pub(crate) struct Clients {
    pub(crate) hub: Arc<dyn Manage>,
    pub(crate) env: Arc<SimEnv>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) journal: Mutex<ClientJournal>,
    /// How each case ended, as its client saw it.
    pub(crate) ended: Mutex<BTreeMap<InstanceId, Record>>,
    pub(crate) purged: Mutex<BTreeSet<InstanceId>>,
    /// Cases that a client rewinds or begins again: they, and what they have started, may run again after an end.
    pub(crate) revived: Mutex<BTreeSet<InstanceId>>,
    pub(crate) violations: Mutex<Vec<String>>,
    pub(crate) seed: u64,
}

/// Keeps an id for as long as a client lives that was not told whether it has it.
fn keep_all() -> Reuse {
    Reuse { replaceable: Vec::new() }
}

impl Clients {
    pub(crate) fn client(&self) -> Client {
        Client::new(Arc::clone(&self.hub), Arc::clone(&self.env) as Arc<dyn Env>)
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.env.sleep(duration).await;
    }

    /// Waits a little before the same is asked again.
    pub(crate) async fn rest(&self) {
        self.sleep(Duration::from_millis(self.env.random() % 500)).await;
    }

    pub(crate) fn note(&self, instance: &InstanceId, action: Action) {
        let (outcome, at) = (Outcome::Acknowledged, self.env.now());
        let operation = Operation { instance: instance.clone(), action, outcome, at };
        unpoisoned(&self.journal).operations.push(operation);
    }

    pub(crate) fn complain(&self, text: String) {
        unpoisoned(&self.violations).push(text);
    }

    /// Whether an instance belongs to a case that a client rewinds or begins again: its children run again with it.
    pub(crate) fn may_run_again(&self, id: &InstanceId) -> bool {
        let family = family_of(id);
        unpoisoned(&self.revived).iter().any(|case| case.as_str() == family)
    }

    pub(crate) fn caller(&self) -> Caller {
        let request = u128::from(self.env.random()) << 64 | u128::from(self.env.random());
        Caller { request, repeatable: true, now: self.env.now() }
    }

    /// The run that a start begins.
    pub(crate) fn draw_execution(&self) -> ExecutionId {
        ExecutionId(u128::from(self.env.random()) << 64 | u128::from(self.env.random()))
    }

    /// All that clients do with one case.
    pub(crate) async fn serve(self: Arc<Self>, case: Case) {
        let mut random =
            Random::stream(self.seed, 10_000 + crate::trace::hash(case.id.as_str().as_bytes()) % 1_000);
        self.sleep(random.duration(Duration::from_secs(5))).await;
        let mut beside: Vec<BoxFuture<'_, ()>> = Vec::new();
        for demand in case.program.demands(&case.id) {
            let random = Random::new(random.bits());
            beside.push(self.raise_all(demand, random).boxed());
        }
        if case.terminated {
            beside.push(self.terminate(&case, random.duration(Duration::from_secs(20))).boxed());
        }
        if case.suspended {
            beside.push(self.suspend(&case, Random::new(random.bits())).boxed());
        }
        if case.contended {
            let pause = random.duration(Duration::from_millis(20));
            beside.push(self.contend(&case, pause).boxed());
        }
        let main = async {
            self.start(&case, &mut random).await;
            self.wait(&case).await;
            if case.rewound && self.rewind(&case).await {
                self.wait_resuming(&case).await;
            }
        };
        futures::future::join(main, join_all(beside)).await;
        if let Some(again) = case.again {
            self.begin_again(&case, again, &mut random).await;
        }
        if case.purged {
            self.purge(&case).await;
        }
    }

    pub(crate) fn request(&self, case: &Case) -> StartRequest {
        let input = serde_json::to_string(&Input::first(case.program.clone())).ok();
        let version = case.modern.then(|| MODERN.to_owned());
        let scheduled = case.scheduled.map(|after| self.env.now().after(after));
        StartRequest { input, version, scheduled, ..StartRequest::new(case.id.clone(), PROGRAM.name()) }
    }

    async fn start(&self, case: &Case, random: &mut Random) {
        if case.by_user {
            return self.start_as_users_do(case).await;
        }
        let Some(start) = self.create(case).await else { return };
        if self.plan.happens(Kind::ClientAgain) {
            // The same request again, from a client that did not get the answer.
            self.sleep(random.duration(Duration::from_secs(10))).await;
            self.create_until_known(case, &start).await;
        }
    }

    /// Another client that wants the same instance.
    async fn contend(&self, case: &Case, pause: Duration) {
        self.sleep(pause).await;
        self.create(case).await;
    }

    async fn create(&self, case: &Case) -> Option<Message> {
        let start = match send::start(self.request(case), self.draw_execution(), self.caller(), Over::Refuse)
        {
            Ok(start) => start,
            Err(error) => {
                self.complain(format!("{}: no start: {error}", case.id));
                return None;
            }
        };
        if self.create_until_known(case, &start).await
            && let Class::Start(begins) = &start.class
        {
            let execution = begins.execution;
            self.note(&case.id, Action::Started { execution, start: start.id });
        }
        Some(start)
    }

    /// Sends a start until it is known what became of it: whether this start is the one.
    async fn create_until_known(&self, case: &Case, start: &Message) -> bool {
        loop {
            let create = Create::new(start.clone(), keep_all());
            match self.hub.create(vec![create]).await.pop() {
                Some(Ok(Created::New(_) | Created::Repeat(_))) => return true,
                Some(Err(Refused::Unknown(_) | Refused::NotExecuted(_))) => self.rest().await,
                Some(Err(Refused::Exists(_))) if case.contended => return false,
                other => {
                    self.complain(format!("I10 {}: its start was answered with {other:?}", start.to));
                    return false;
                }
            }
        }
    }

    /// Through the client that users have. It gives up after some attempts, and then another one is another request.
    async fn start_as_users_do(&self, case: &Case) {
        let mut uncertain = case.contended;
        loop {
            match self.client().start(self.request(case), keep_all()).await {
                Ok(_) => break,
                Err(ClientError::Refused(Refused::Unknown(_) | Refused::NotExecuted(_))) => uncertain = true,
                Err(ClientError::Refused(Refused::Exists(_))) if uncertain => break,
                Err(error) => {
                    return self.complain(format!("I10 {}: it could not be started: {error}", case.id));
                }
            }
        }
        self.note(&case.id, Action::Found);
    }

    /// Waits for the end and looks twice: what has ended stays so.
    pub(crate) async fn wait(&self, case: &Case) {
        let ended = loop {
            match self.client().wait_ended(&case.id, PATIENCE).await {
                Ok(record) => break record,
                Err(ClientError::Absent(id)) => {
                    return self.complain(format!("I4 {id}: started, and not there"));
                }
                Err(_) => {}
            }
        };
        let (execution, status) = (Some(ended.execution), ended.status);
        let output = ended.details.output().map(|output| output.as_str().to_owned());
        self.note(&case.id, Action::Ended { execution, status, output });
        self.sleep(Duration::from_secs(1)).await;
        let again = self.get(&case.id).await;
        let facts = |record: &Record| {
            (record.status, record.details.output().cloned(), record.execution, record.times.completed)
        };
        if again.as_ref().map(facts) != Some(facts(&ended)) {
            self.complain(format!("I7 {}: it had ended, and changed", case.id));
        }
        unpoisoned(&self.ended).insert(case.id.clone(), ended);
    }

    /// Rewinds a case that has failed, once, as users do. What made it fail is still there, so that it fails again, in the
    /// same way; but on its way there it does again what failed, and its children do.
    async fn rewind(&self, case: &Case) -> bool {
        let failed = |record: &Record| record.status == Status::Failed;
        if !unpoisoned(&self.ended).get(&case.id).is_some_and(failed) {
            return false;
        }
        unpoisoned(&self.revived).insert(case.id.clone());
        loop {
            match self.client().rewind(&case.id, Some("tried again".into())).await {
                Ok(()) => return true,
                Err(ClientError::Refused(Refused::Unknown(_) | Refused::NotExecuted(_))) => self.rest().await,
                // An earlier attempt, of which nobody knew, has rewound it.
                Err(ClientError::NotFailed { .. }) => return true,
                Err(error) => {
                    self.complain(format!("{}: it could not be rewound: {error}", case.id));
                    return false;
                }
            }
        }
    }

    pub(crate) async fn get(&self, id: &InstanceId) -> Option<Record> {
        loop {
            match self.client().get(id).await {
                Ok(record) => return record,
                Err(_) => self.rest().await,
            }
        }
    }

    /// Removes an instance that has ended. It never comes back, and nothing reaches it any more.
    async fn purge(&self, case: &Case) {
        let Some(record) = self.get(&case.id).await else {
            return self.complain(format!("I4 {}: it had ended, and is gone", case.id));
        };
        while let Err(refused) = self.hub.purge(Purge::Ids(vec![case.id.clone()])).await {
            if !matches!(refused, Refused::Unknown(_) | Refused::NotExecuted(_)) {
                return self.complain(format!("{}: its purge was answered with {refused}", case.id));
            }
            self.rest().await;
        }
        unpoisoned(&self.purged).insert(case.id.clone());
        self.note(&case.id, Action::Purged { execution: record.execution });
        if let Ok(late) = send::raise(case.id.clone(), EVENT_NAMES[0], None, self.caller()) {
            drop(self.hub.send(vec![late]).await);
        }
        if self.get(&case.id).await.is_some() {
            self.complain(format!("I18 {}: it was purged, and is there", case.id));
        }
    }

    pub(crate) async fn raise_all(&self, demand: Demand, mut random: Random) {
        let mut again = Vec::new();
        for value in demand.values {
            self.sleep(random.duration(demand.pause)).await;
            let name = EVENT_NAMES[demand.event % EVENT_NAMES.len()];
            let raise = send::raise(demand.instance.clone(), name, Some(value.to_string()), self.caller());
            let Ok(message) = raise else { return self.complain(format!("{}: no event", demand.instance)) };
            if !self.deliver(&message).await {
                return;
            }
            self.note(&demand.instance, Action::Raised { message: message.id });
            if self.plan.happens(Kind::ClientAgain) {
                again.push(message);
            }
        }
        // Late, when the run they were for may have continued as new.
        for message in again {
            self.sleep(random.duration(demand.pause)).await;
            self.deliver(&message).await;
        }
    }

    /// Sends until it is there. False when the instance will never be there.
    pub(crate) async fn deliver(&self, message: &Message) -> bool {
        let mut hopeless = false;
        loop {
            match self.hub.send(vec![message.clone()]).await.pop() {
                // It may have come to be before it was found that nobody is left to start it.
                Some(Ok(Delivered::Dropped(DropReason::Absent))) if hopeless => return false,
                Some(Ok(Delivered::Dropped(DropReason::Absent))) => {
                    hopeless = self.never_comes(&message.to).await;
                    if !hopeless {
                        self.sleep(Duration::from_secs(1)).await;
                    }
                }
                Some(Ok(_)) => return true,
                Some(Err(Refused::Unknown(_) | Refused::NotExecuted(_))) => self.rest().await,
                other => {
                    self.complain(format!("{}: a message was answered with {other:?}", message.to));
                    return false;
                }
            }
        }
    }

    /// Whether an instance that is not there never will be: somebody it descends from has ended without starting the
    /// next. From the top down: what is missing after its parent was seen to have ended will not come any more.
    async fn never_comes(&self, id: &InstanceId) -> bool {
        let mut line: Vec<InstanceId> = Vec::new();
        while let Some((parent, _)) = parent_of(line.last().unwrap_or(id)) {
            line.push(parent);
        }
        let Some(root) = line.pop() else { return unpoisoned(&self.purged).contains(id) };
        if unpoisoned(&self.purged).contains(&root) {
            // It had ended before.
        } else if !matches!(self.client().get(&root).await, Ok(Some(record)) if record.status.is_ended()) {
            return false;
        }
        while let Some(next) = line.pop() {
            match self.client().get(&next).await {
                Ok(Some(record)) if record.status.is_ended() => {}
                Ok(None) => return true,
                _ => return false,
            }
        }
        true
    }

    async fn terminate(&self, case: &Case, after: Duration) {
        self.sleep(after).await;
        let order = send::terminate(case.id.clone(), Some("\"enough\"".into()), true, self.caller());
        if let Ok(message) = order
            && self.deliver(&message).await
        {
            self.note(&case.id, Action::Terminated { message: message.id });
        }
    }

    /// Suspends, and surely resumes; a late repetition of the suspend must not count again.
    async fn suspend(&self, case: &Case, mut random: Random) {
        self.sleep(random.duration(Duration::from_secs(8))).await;
        let suspend = send::suspend(case.id.clone(), None, self.caller());
        let resume = send::resume(case.id.clone(), None, self.caller());
        let (Ok(suspend), Ok(resume)) = (suspend, resume) else { return };
        self.deliver(&suspend).await;
        self.sleep(random.duration(Duration::from_secs(10))).await;
        self.deliver(&resume).await;
        if self.plan.happens(Kind::ClientAgain) {
            self.sleep(random.duration(Duration::from_secs(10))).await;
            self.deliver(&suspend).await;
        }
    }
}
