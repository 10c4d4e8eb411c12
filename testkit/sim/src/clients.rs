//! The clients: they start instances, raise what these wait for, suspend, resume and terminate, and wait for the end.
//! They never crash, and send the same request again until they know what became of it, and now and then once more.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_audit::{Action, ClientJournal, Operation, Outcome};
use dauer_core::send::{self, Caller, StartRequest};
use dauer_hub::{Client, ClientError};
use dauer_store::{
    Create, Delivered, DropReason, Env, InstanceId, Manage, Message, Over, Record, Refused, Reuse,
};
use futures::future::{BoxFuture, FutureExt, join_all};

use crate::env::SimEnv;
use crate::interpret::{Input, PROGRAM};
use crate::program::{Demand, EVENT_NAMES, Program};
use crate::random::Random;
use crate::unpoisoned;

/// One instance that clients care about.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) id: InstanceId,
    pub(crate) program: Program,
    /// Somebody asks for its end, whether or not it comes in time.
    pub(crate) terminated: bool,
    /// Somebody suspends it for a while.
    pub(crate) suspended: bool,
}

impl Case {
    /// The cases of a seed.
    pub(crate) fn draw(random: &mut Random, count: u64) -> Vec<Self> {
        let case = |number| {
            let id = InstanceId::new(format!("i{number}")).ok()?;
            let program = Program::draw(random, 2);
            let (terminated, suspended) = (random.chance(1_000), random.chance(2_000));
            Some(Self { id, program, terminated, suspended })
        };
        (0..count).filter_map(case).collect()
    }
}

/// What the clients of a run share.
pub(crate) struct Clients {
    pub(crate) hub: Arc<dyn Manage>,
    pub(crate) env: Arc<SimEnv>,
    pub(crate) journal: Mutex<ClientJournal>,
    pub(crate) violations: Mutex<Vec<String>>,
    pub(crate) seed: u64,
}

impl Clients {
    fn client(&self) -> Client {
        Client::new(Arc::clone(&self.hub), Arc::clone(&self.env) as Arc<dyn Env>)
    }

    async fn sleep(&self, duration: Duration) {
        self.env.sleep_until(self.env.now().after(duration)).await;
    }

    fn note(&self, instance: &InstanceId, action: Action) {
        let operation = Operation {
            instance: instance.clone(),
            action,
            outcome: Outcome::Acknowledged,
            at: self.env.now(),
        };
        unpoisoned(&self.journal).operations.push(operation);
    }

    fn complain(&self, text: String) {
        unpoisoned(&self.violations).push(text);
    }

    fn caller(&self) -> Caller {
        let request = u128::from(self.env.random()) << 64 | u128::from(self.env.random());
        Caller { request, repeatable: true, now: self.env.now() }
    }

    /// All that clients do with one case.
    pub(crate) async fn serve(self: Arc<Self>, case: Case) {
        let mut random =
            Random::stream(self.seed, 10_000 + crate::trace::hash(case.id.as_str().as_bytes()) % 1_000);
        self.sleep(random.duration(Duration::from_secs(5))).await;
        let mut beside: Vec<BoxFuture<'_, ()>> = Vec::new();
        for demand in case.program.demands(&case.id) {
            let random = Random::new(random.bits());
            beside.push(self.raise_all(&case, demand, random).boxed());
        }
        if case.terminated {
            beside.push(self.terminate(&case, random.duration(Duration::from_secs(20))).boxed());
        }
        if case.suspended {
            beside.push(self.suspend(&case, Random::new(random.bits())).boxed());
        }
        let main = async {
            self.start(&case, &mut random).await;
            self.wait(&case).await;
        };
        futures::future::join(main, join_all(beside)).await;
    }

    async fn start(&self, case: &Case, random: &mut Random) {
        let input = serde_json::to_string(&Input::first(case.program.clone())).ok();
        let request = StartRequest { input, ..StartRequest::new(case.id.clone(), PROGRAM.name()) };
        if random.chance(3_000) {
            return self.start_as_users_do(request).await;
        }
        let start = match send::start(request, self.caller(), Over::Refuse) {
            Ok(start) => start,
            Err(error) => return self.complain(format!("{}: no start: {error}", case.id)),
        };
        let execution = match &start.class {
            dauer_store::Class::Start(start) => start.record.execution,
            _ => return self.complain(format!("{}: the start is none", case.id)),
        };
        self.create(&start).await;
        self.note(&case.id, Action::Started { execution, start: start.id });
        if random.chance(2_000) {
            // The same request again, from a client that did not get the answer.
            self.sleep(random.duration(Duration::from_secs(10))).await;
            self.create(&start).await;
        }
    }

    async fn create(&self, start: &Message) {
        loop {
            let create = Create { start: start.clone(), reuse: Reuse { replaceable: Vec::new() } };
            match self.hub.create(vec![create]).await.pop() {
                Some(Ok(_)) => return,
                Some(Err(Refused::Unknown(_) | Refused::NotExecuted(_))) => {
                    self.sleep(Duration::from_millis(self.env.random() % 500)).await;
                }
                other => {
                    return self.complain(format!("I10 {}: its start was answered with {other:?}", start.to));
                }
            }
        }
    }

    /// Through the client that users have. It gives up after some attempts, and then another one is another request.
    async fn start_as_users_do(&self, request: StartRequest) {
        let instance = request.instance.clone();
        let mut uncertain = false;
        loop {
            match self.client().start(request.clone(), Reuse { replaceable: Vec::new() }).await {
                Ok(_) => return,
                Err(ClientError::Refused(Refused::Unknown(_) | Refused::NotExecuted(_))) => uncertain = true,
                Err(ClientError::Refused(Refused::Exists(_))) if uncertain => return,
                Err(error) => {
                    return self.complain(format!("I10 {instance}: it could not be started: {error}"));
                }
            }
        }
    }

    /// Waits for the end and looks twice: what has ended stays so.
    async fn wait(&self, case: &Case) {
        let ended = loop {
            match self.client().wait_ended(&case.id, Duration::from_secs(3_600)).await {
                Ok(record) => break record,
                Err(ClientError::Absent(id)) => {
                    return self.complain(format!("I4 {id}: started, and not there"));
                }
                Err(_) => {}
            }
        };
        self.sleep(Duration::from_secs(1)).await;
        let again = loop {
            match self.client().get(&case.id).await {
                Ok(record) => break record,
                Err(_) => self.sleep(Duration::from_millis(100)).await,
            }
        };
        let facts = |record: &Record| {
            (record.status, record.output.clone(), record.execution, record.times.completed)
        };
        if again.as_ref().map(facts) != Some(facts(&ended)) {
            self.complain(format!("I7 {}: it had ended, and changed", case.id));
        }
    }

    async fn raise_all(&self, case: &Case, demand: Demand, mut random: Random) {
        for value in demand.values {
            self.sleep(random.duration(Duration::from_secs(8))).await;
            let name = EVENT_NAMES[demand.event % EVENT_NAMES.len()];
            let raise = send::raise(demand.instance.clone(), name, Some(value.to_string()), self.caller());
            let Ok(message) = raise else { return self.complain(format!("{}: no event", demand.instance)) };
            if !self.deliver(case, &message).await {
                return;
            }
            self.note(&demand.instance, Action::Raised { message: message.id });
            if random.chance(2_000) {
                self.deliver(case, &message).await;
            }
        }
    }

    /// Sends until it is there. False when the case is over, and the instance will never be there.
    async fn deliver(&self, case: &Case, message: &Message) -> bool {
        loop {
            match self.hub.send(vec![message.clone()]).await.pop() {
                Some(Ok(Delivered::Dropped(DropReason::Absent))) if self.is_over(case).await => return false,
                Some(Ok(Delivered::Dropped(DropReason::Absent))) => self.sleep(Duration::from_secs(1)).await,
                Some(Ok(_)) => return true,
                Some(Err(Refused::Unknown(_) | Refused::NotExecuted(_))) => {
                    self.sleep(Duration::from_millis(self.env.random() % 500)).await;
                }
                other => {
                    self.complain(format!("{}: a message was answered with {other:?}", message.to));
                    return false;
                }
            }
        }
    }

    async fn is_over(&self, case: &Case) -> bool {
        let record = self.client().get(&case.id).await;
        record.ok().flatten().is_some_and(|record| record.status.is_ended())
    }

    async fn terminate(&self, case: &Case, after: Duration) {
        self.sleep(after).await;
        let order = send::terminate(case.id.clone(), Some("\"enough\"".into()), true, self.caller());
        if let Ok(message) = order
            && self.deliver(case, &message).await
        {
            self.note(&case.id, Action::Terminated { message: message.id });
        }
    }

    /// Suspends, and surely resumes; a late repetition of the suspend must not count again.
    async fn suspend(&self, case: &Case, mut random: Random) {
        self.sleep(random.duration(Duration::from_secs(15))).await;
        let suspend = send::suspend(case.id.clone(), None, self.caller());
        let resume = send::resume(case.id.clone(), None, self.caller());
        let (Ok(suspend), Ok(resume)) = (suspend, resume) else { return };
        self.deliver(case, &suspend).await;
        self.sleep(random.duration(Duration::from_secs(10))).await;
        self.deliver(case, &resume).await;
        if random.chance(3_000) {
            self.sleep(random.duration(Duration::from_secs(10))).await;
            self.deliver(case, &suspend).await;
        }
    }
}
