//! One life of a store: a host and clients on it, until all instances of that life have ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dauer::{HostId, HostOptions, InstanceId, LocalExecutor};
use dauer_core::send::{self, Caller, StartRequest};
use dauer_core::{ExecutionId, identity};
use dauer_hub::{Client, ClientError, Host};
use dauer_store::{
    Class, Create, Delivered, DropReason, Env, Manage, Message, Over, Purge, Refused, Reuse, Steady,
    Timestamp,
};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::error::Error;
use crate::programs::{Case, NUMBER, registry};
use crate::told::{Tell, Told, now};

/// Nothing takes so long; what does is stuck.
pub(crate) const END_MAX: Duration = Duration::from_secs(60);

/// The pause before the same request is sent again.
const AGAIN: Duration = Duration::from_millis(3);

/// Few, so that some tasks of a fan find no room with the turn that schedules them and are claimed for themselves.
const ACTIVITIES_MAX: usize = 3;

/// Time, chance and tasks of one host.
struct Surroundings {
    runtime: Handle,
    began: Instant,
    tasks: Mutex<JoinSet<()>>,
}

impl Env for Surroundings {
    fn now(&self) -> Timestamp {
        now()
    }

    fn steady(&self) -> Steady {
        Steady(i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep_until(&self, at: Steady) -> BoxFuture<'static, ()> {
        let _entered = self.runtime.enter();
        tokio::time::sleep(at.since(self.steady())).boxed()
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn_on(work, &self.runtime);
    }

    fn random(&self) -> u64 {
        // Only sessions are named by it, and two of them in one file are seconds apart at most.
        getrandom::u64().unwrap_or_else(|_| now().0.unsigned_abs())
    }
}

/// Works on these cases until they have ended; tells of everything.
pub(crate) async fn work(hub: Arc<dyn Manage>, cases: &[Case], tell: &Tell) -> Result<(), Error> {
    let env =
        Arc::new(Surroundings { runtime: Handle::current(), began: Instant::now(), tasks: Mutex::default() });
    let options = HostOptions {
        activities_max: ACTIVITIES_MAX,
        poll_max: Duration::from_millis(200),
        retry_delay_min: Duration::from_millis(1),
        retry_delay_max: Duration::from_millis(20),
        drain_max: Duration::from_secs(2),
        ..HostOptions::default()
    };
    let id = HostId::new(format!("power-{}", std::process::id()))?;
    let executor = Arc::new(LocalExecutor::new(registry()?));
    let host = Host::new(Arc::clone(&hub), env.clone(), executor, id).options(options);
    let (stop, stopped) = oneshot::channel::<()>();
    let host = tokio::spawn(host.run(async { _ = stopped.await }));
    let client = Client::new(hub, env.clone());
    let driven = join_all(cases.iter().map(|case| drive(&client, case, tell))).await;
    drop(stop);
    if !matches!(host.await, Ok(Ok(()))) {
        tell(Told::Complaint("the host ended by itself".to_owned()));
    }
    env.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    driven.into_iter().collect()
}

/// Starts one, raises what it waits for, and waits for its end.
async fn drive(client: &Client, case: &Case, tell: &Tell) -> Result<(), Error> {
    let request = case.request()?;
    let id = request.instance.clone();
    let complaint = |what: String| Told::Complaint(format!("{id}: {what}"));
    let start = send::start(request.clone(), run_of(&request), caller(0), Over::Refuse)?;
    if let Some(what) = create(client, start).await {
        tell(complaint(what));
        return Ok(());
    }
    for (number, request) in case.numbers().into_iter().zip(1..) {
        let message = send::raise(id.clone(), NUMBER.name(), Some(number.to_string()), caller(request))?;
        deliver(client, message).await.into_iter().for_each(|what| tell(complaint(what)));
    }
    let began = now();
    let end = loop {
        match client.wait_ended(&id, END_MAX).await {
            Ok(record) => break Told::ended(&id, &record),
            Err(ClientError::Refused(refused)) if passes(&refused, began) => tokio::time::sleep(AGAIN).await,
            Err(error) => break complaint(format!("its end was not seen: {error:?}")),
        }
    };
    tell(end);
    Ok(())
}

/// Whether a refusal may pass by itself: then the same is asked again, until it has taken too long.
fn passes(refused: &Refused, began: Timestamp) -> bool {
    matches!(refused, Refused::Unknown(_) | Refused::NotExecuted(_)) && now().since(began) < END_MAX
}

/// Starts an instance, again and again until it is there; what is wrong with the answer otherwise.
async fn create(client: &Client, start: Message) -> Option<String> {
    let began = now();
    loop {
        let create = Create::new(start.clone(), Reuse { replaceable: Vec::new() });
        match client.hub().create(vec![create]).await.pop() {
            Some(Ok(_)) => return None,
            Some(Err(refused)) if passes(&refused, began) => tokio::time::sleep(AGAIN).await,
            other => return Some(format!("its start was answered with {other:?}")),
        }
    }
}

/// Sends a message until it is there; what is wrong with the answer otherwise.
async fn deliver(client: &Client, message: Message) -> Option<String> {
    let began = now();
    loop {
        match client.hub().send(vec![message.clone()]).await.pop() {
            Some(Ok(Delivered::Applied | Delivered::Dropped(DropReason::Repeat | DropReason::Ended))) => {
                return None;
            }
            Some(Err(refused)) if passes(&refused, began) => tokio::time::sleep(AGAIN).await,
            other => return Some(format!("a message was answered with {other:?}")),
        }
    }
}

/// Purges a case that has ended, until it is gone.
pub(crate) async fn purge(hub: &Arc<dyn Manage>, case: &Case, tell: &Tell) -> Result<(), Error> {
    let request = case.request()?;
    let start = send::start(request.clone(), run_of(&request), caller(0), Over::Refuse)?;
    let Class::Start(begun) = &start.class else { return Ok(()) };
    let (instance, execution) = (case.id.to_owned(), begun.execution.0);
    tell(Told::Purging { instance: instance.clone(), execution });
    let began = now();
    let end = loop {
        match hub.purge(Purge::Ids(vec![InstanceId::new(case.id)?])).await {
            Ok(_) => break Told::Purged { instance, execution },
            Err(refused) if passes(&refused, began) => tokio::time::sleep(AGAIN).await,
            Err(refused) => break Told::Complaint(format!("its purge was answered with {refused:?}")),
        }
    };
    tell(end);
    Ok(())
}

/// The run of a case, the same in every life: a case is started once and never again after its purge.
fn run_of(request: &StartRequest) -> ExecutionId {
    identity::execution_of(identity::requested(&request.instance, 0))
}

/// The same request has the same number in every life, so that it can be sent again.
fn caller(request: u128) -> Caller {
    Caller { request, repeatable: true, now: now() }
}
