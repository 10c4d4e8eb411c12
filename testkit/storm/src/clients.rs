//! The clients of a storm. They live in the parent, which is never killed: they start, raise, terminate and wait, and
//! write down what they were told.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dauer::{Hub, Record, Status};
use dauer_audit::{Action, ClientJournal, Operation, Outcome};
use dauer_core::ExecutionId;
use dauer_core::send::{self, Caller};
use dauer_sim::random::Random;
use dauer_store::{Class, Create, Delivered, InstanceId, Message, Over, Refused, Reuse, Timestamp};

use tokio::sync::{RwLock, RwLockWriteGuard, watch};

use crate::case::{Case, ENOUGH, Program};
use crate::programs::NUMBER;

/// The pause before the same request is sent again.
const AGAIN: Duration = Duration::from_millis(20);

/// Longer than any storm.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// One case that has ended, as the client that waited saw it.
pub(crate) struct Ended {
    pub(crate) id: InstanceId,
    pub(crate) record: Record,
}

/// All clients.
pub(crate) struct Clients {
    /// Where they ask. Whoever listens is told when it is another one.
    hub: watch::Sender<Hub>,
    /// Read by whoever is about to write.
    calm: RwLock<()>,
    seed: u64,
    journal: Mutex<ClientJournal>,
    begun: Mutex<Vec<Case>>,
    ended: Mutex<Vec<Ended>>,
    complaints: Mutex<Vec<String>>,
    /// What was refused and asked again, by what was said.
    refusals: Mutex<BTreeMap<String, u64>>,
    drawn: AtomicU64,
    open: AtomicU64,
    feeding: AtomicBool,
    last_end: Mutex<Instant>,
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic left behind is still worth looking at.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clients {
    pub(crate) fn new(hub: Hub, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            hub: watch::Sender::new(hub),
            calm: RwLock::default(),
            seed,
            journal: Mutex::default(),
            begun: Mutex::default(),
            ended: Mutex::default(),
            complaints: Mutex::default(),
            refusals: Mutex::default(),
            drawn: AtomicU64::new(0),
            open: AtomicU64::new(0),
            feeding: AtomicBool::new(true),
            last_end: Mutex::new(Instant::now()),
        })
    }

    /// One client: a case after the other for as long as the storm lasts.
    pub(crate) async fn serve(self: Arc<Self>) {
        while self.feeding.load(Ordering::Relaxed) {
            self.begin(None).await.1.await;
        }
    }

    /// No further cases.
    pub(crate) fn close(&self) {
        self.feeding.store(false, Ordering::Relaxed);
    }

    /// Waits until nobody is about to write anything, and keeps it so.
    pub(crate) async fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.calm.write().await
    }

    /// From now on they ask there.
    pub(crate) fn switch(&self, hub: Hub) {
        self.hub.send_replace(hub);
    }

    fn hub(&self) -> Hub {
        self.hub.borrow().clone()
    }

    /// How many cases are not over yet.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// How long no case has come to its end.
    pub(crate) fn since_last_end(&self) -> Duration {
        unpoisoned(&self.last_end).elapsed()
    }

    /// How many cases are over.
    pub(crate) fn ended(&self) -> usize {
        unpoisoned(&self.ended).len()
    }

    /// What was refused and asked again, by what was said.
    pub(crate) fn refusals(&self) -> BTreeMap<String, u64> {
        unpoisoned(&self.refusals).clone()
    }

    /// How often something was.
    pub(crate) fn refused(&self) -> u64 {
        unpoisoned(&self.refusals).values().sum()
    }

    /// What the clients were told.
    pub(crate) fn journal(&self) -> ClientJournal {
        unpoisoned(&self.journal).clone()
    }

    /// All cases, over or not.
    pub(crate) fn begun(&self) -> Vec<Case> {
        unpoisoned(&self.begun).clone()
    }

    /// The cases that are over.
    pub(crate) fn take_ended(&self) -> Vec<Ended> {
        std::mem::take(&mut unpoisoned(&self.ended))
    }

    /// What must not happen to a client, and did.
    pub(crate) fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut unpoisoned(&self.complaints))
    }

    /// Starts a case, of that program if one is given. What it gives is the id of the case, and the rest of what a
    /// client does with it.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        program: Option<Program>,
    ) -> (String, impl Future<Output = ()> + Send + use<>) {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::stream(self.seed, number);
        let name = format!("i{number:06}");
        // A letter and a number are an id.
        let case = InstanceId::new(name.as_str()).ok().map(|id| Case::draw(&mut random, id));
        let case = case.map(|case| match program {
            Some(program) => Case { program, ..case },
            None => case,
        });
        if let Some(case) = &case {
            unpoisoned(&self.begun).push(case.clone());
            self.start(case, &mut random).await;
        }
        let clients = Arc::clone(self);
        let rest = async move {
            if let Some(case) = case {
                clients.accompany(&case, &mut random).await;
                clients.wait(case).await;
            }
            clients.open.fetch_sub(1, Ordering::Relaxed);
        };
        (name, rest)
    }

    async fn start(&self, case: &Case, random: &mut Random) {
        let start = match send::start(
            case.request(),
            ExecutionId(u128::from(random.bits()) << 64 | u128::from(random.bits())),
            caller(random),
            Over::Refuse,
        ) {
            Ok(start) => start,
            Err(error) => return self.complain(format!("{}: no start: {error}", case.id)),
        };
        let Class::Start(begun) = &start.class else { return };
        let execution = begun.execution;
        loop {
            let create = Create::new(start.clone(), Reuse { replaceable: Vec::new() });
            let busy = self.calm.read().await;
            let answer = self.hub().manage().create(vec![create]).await.pop();
            drop(busy);
            match answer {
                Some(Ok(_)) => break,
                Some(Err(refused @ (Refused::Unknown(_) | Refused::NotExecuted(_)))) => {
                    self.again(&refused).await;
                }
                other => return self.complain(format!("{}: its start was answered by {other:?}", case.id)),
            }
        }
        self.note(&case.id, Action::Started { execution, start: start.id });
    }

    /// Raises what it waits for, or ends it.
    async fn accompany(&self, case: &Case, random: &mut Random) {
        for number in case.numbers() {
            tokio::time::sleep(random.duration(case.pause_max)).await;
            match send::raise(case.id.clone(), NUMBER.name(), Some(number.to_string()), caller(random)) {
                Ok(message) => self.deliver(message, |message| Action::Raised { message }).await,
                Err(error) => self.complain(format!("{}: no event: {error}", case.id)),
            }
        }
        if case.is_terminated() {
            tokio::time::sleep(random.duration(case.pause_max)).await;
            match send::terminate(case.id.clone(), Some(ENOUGH.to_owned()), true, caller(random)) {
                Ok(message) => self.deliver(message, |message| Action::Terminated { message }).await,
                Err(error) => self.complain(format!("{}: no terminate: {error}", case.id)),
            }
        }
    }

    async fn deliver(&self, message: Message, action: fn(dauer_store::MessageId) -> Action) {
        loop {
            let busy = self.calm.read().await;
            let answer = self.hub().manage().send(vec![message.clone()]).await.pop();
            drop(busy);
            match answer {
                Some(Ok(Delivered::Applied)) => return self.note(&message.to, action(message.id)),
                // What was asked again because its outcome was unknown is there already.
                Some(Ok(Delivered::Dropped(dauer_store::DropReason::Repeat))) => {
                    return self.note(&message.to, action(message.id));
                }
                // A race may be over before its event comes.
                Some(Ok(Delivered::Dropped(dauer_store::DropReason::Ended))) => return,
                Some(Err(refused @ (Refused::Unknown(_) | Refused::NotExecuted(_)))) => {
                    self.again(&refused).await;
                }
                other => {
                    return self.complain(format!("{}: a message was answered by {other:?}", message.to));
                }
            }
        }
    }

    /// Counts what was refused, and waits a moment before it is asked again.
    async fn again(&self, refused: &Refused) {
        let mut text = refused.to_string();
        let mut cause = refused.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        *unpoisoned(&self.refusals).entry(text).or_default() += 1;
        tokio::time::sleep(AGAIN).await;
    }

    /// Waits for the end, for ever: the storm says when it has taken too long.
    async fn wait(&self, case: Case) {
        let mut hub = self.hub.subscribe();
        let is_over = |record: &Record| {
            if case.is_waiting() { record.status == Status::Running } else { record.status.is_ended() }
        };
        loop {
            let client = hub.borrow_and_update().client();
            let answer = tokio::select! {
                answer = client.raw().wait(&case.id, WAIT_MAX, is_over) => answer,
                // The hub is another one now. These clients have it for as long as they live.
                _ = hub.changed() => continue,
            };
            match answer {
                Ok(record) => {
                    *unpoisoned(&self.last_end) = Instant::now();
                    if record.status.is_ended() {
                        let output = record.details.output().map(|output| output.as_str().to_owned());
                        let (execution, status) = (Some(record.execution), record.status);
                        self.note(&case.id, Action::Ended { execution, status, output });
                    }
                    unpoisoned(&self.ended).push(Ended { id: case.id, record });
                    return;
                }
                Err(dauer_hub::ClientError::Absent(id)) => {
                    return self.complain(format!("{id}: its start was acknowledged, and it is not there"));
                }
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    fn note(&self, instance: &InstanceId, action: Action) {
        let (instance, outcome, at) = (instance.clone(), Outcome::Acknowledged, now());
        unpoisoned(&self.journal).operations.push(Operation { instance, action, outcome, at });
    }

    fn complain(&self, text: String) {
        unpoisoned(&self.complaints).push(text);
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn caller(random: &mut Random) -> Caller {
    let request = u128::from(random.bits()) << 64 | u128::from(random.bits());
    Caller { request, repeatable: true, now: now() }
}
