//! One hub that is in use: its client, its workers, and the host that claims work for them.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Shared, select};

use dauer::{HostOptions, Store, TokioEnv};
use dauer_core::{HostId, HubName};
use dauer_hub::{Client, Host};
use dauer_remote::{Worker, Workers};
use dauer_store::{Env, Manage, Refused};
use tokio::sync::Notify;
use tonic::Status;

use crate::status;

/// A hub that is in use.
pub(crate) struct Hub {
    pub(crate) name: HubName,
    pub(crate) client: Client,
    pub(crate) workers: Arc<Workers>,
    env: Arc<TokioEnv>,
    options: HostOptions,
    host: Mutex<HostState>,
    /// The id of its host, from the first worker on.
    host_id: OnceLock<HostId>,
    /// Told when the host has failed.
    failed: Arc<Notify>,
    /// Whether the hub is known to exist in the store.
    exists: AtomicBool,
}

/// How far the host is.
enum HostState {
    /// No worker has come yet.
    Idle,
    Running(Running),
    /// It has ended by itself, because the store can never be used.
    Failed(String),
    /// It was stopped, and may still finish what was in flight.
    Stopped(Option<Ended>),
}

/// Ready when a host has ended.
type Ended = Shared<BoxFuture<'static, ()>>;

struct Running {
    /// Dropped to stop it.
    stop: oneshot::Sender<()>,
    ended: Ended,
}

impl Hub {
    pub(crate) fn new(
        name: HubName,
        manage: Arc<dyn Manage>,
        options: HostOptions,
        workers: dauer_remote::Options,
        failed: Arc<Notify>,
    ) -> Self {
        let env = Arc::new(TokioEnv::new(tokio::runtime::Handle::current()));
        let seam: Arc<dyn Env> = Arc::clone(&env) as _;
        Self {
            name,
            client: Client::new(manage, Arc::clone(&seam)),
            workers: Workers::new(seam, workers),
            env,
            options,
            host: Mutex::new(HostState::Idle),
            host_id: OnceLock::new(),
            failed,
            exists: AtomicBool::new(false),
        }
    }

    pub(crate) fn env(&self) -> &dyn Env {
        &*self.env
    }

    fn host(&self) -> MutexGuard<'_, HostState> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why there is no host although there should be one.
    pub(crate) fn failure(&self) -> Option<String> {
        match &*self.host() {
            HostState::Failed(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Whether no worker is connected and none has work. Calls that are open are for the caller to count.
    pub(crate) fn is_idle(&self) -> bool {
        self.workers.is_idle()
    }

    /// Whether the store has the hub. Asked until it has: a hub that is deleted here gets a new entry.
    pub(crate) async fn exists(&self, store: &Store) -> Result<bool, Refused> {
        if self.exists.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let exists = store.has_hub(&self.name).await?;
        self.exists.store(exists, Ordering::Relaxed);
        Ok(exists)
    }

    /// How many workers are connected to that host, if it is the one of this hub.
    pub(crate) fn workers_of(&self, host: &HostId) -> Option<usize> {
        (self.host_id.get() == Some(host)).then(|| self.workers.figures().streams)
    }

    /// Whether no worker has come yet, so that no host was begun.
    pub(crate) fn has_never_had_a_host(&self) -> bool {
        matches!(*self.host(), HostState::Idle)
    }

    /// Whether a host claims work here.
    pub(crate) fn has_host(&self) -> bool {
        matches!(*self.host(), HostState::Running(_))
    }

    /// Sees to it that a host claims work for the workers.
    pub(crate) fn ensure_host(self: &Arc<Self>) -> Result<(), Status> {
        let mut host = self.host();
        match &*host {
            HostState::Idle => *host = HostState::Running(self.spawn_host()?),
            HostState::Running(_) => {}
            HostState::Failed(reason) => {
                return Err(Status::unavailable(format!(
                    "no work can be claimed in '{}': {reason}",
                    self.name
                )));
            }
            HostState::Stopped(_) => return Err(status::stopping()),
        }
        Ok(())
    }

    fn spawn_host(self: &Arc<Self>) -> Result<Running, Status> {
        let id = HostId::new(format!("server-{}-{:08x}", std::process::id(), self.env.random() >> 32));
        let id = id.map_err(|invalid| status::name(&invalid))?;
        let id = self.host_id.get_or_init(|| id).clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel::<()>();
        let (manage, env) = (Arc::clone(self.client.hub()), Arc::clone(&self.env) as Arc<dyn Env>);
        let host = Host::new(manage, env, Arc::clone(&self.workers) as _, id).options(self.options.clone());
        // Whoever drops the hub stops its host, which must not keep the hub alive.
        let hub = Arc::downgrade(self);
        tokio::spawn(async move {
            let result = host.run(stopped.map(drop)).await;
            Self::host_ended(&hub, result);
            drop(end);
        });
        let ended = ended.map(drop).boxed().shared();
        Ok(Running { stop, ended })
    }

    fn host_ended(hub: &Weak<Self>, result: Result<(), Refused>) {
        let (Some(hub), Err(refused)) = (hub.upgrade(), result) else { return };
        let reason = dauer_hub::with_causes(&refused);
        tracing::error!(hub = %hub.name, error = reason, "no work can be claimed any more; look at the store");
        *hub.host() = HostState::Failed(reason);
        hub.failed.notify_one();
        // Those who wait for work here wait for nothing.
        hub.workers.close();
    }

    /// Retries what another build has stalled, when the first worker of a build connects.
    pub(crate) fn mend(&self, worker: &Worker) {
        let Some(build) = worker.build.clone().filter(|build| !self.workers.has_build(build)) else { return };
        let host = self.host();
        let HostState::Running(Running { ended, .. }) = &*host else { return };
        let (manage, env, ended) = (Arc::clone(self.client.hub()), Arc::clone(&self.env), ended.clone());
        let queues = worker.queues.clone();
        tokio::spawn(async move {
            let mending = dauer_hub::mend(&*manage, &*env, (&build, &queues));
            select(pin!(mending), ended).await;
        });
    }

    /// Stops claiming, and waits until what is in flight is finished or has had its time. Any number of callers may wait.
    pub(crate) async fn stop_host(&self) {
        let ended = {
            let mut host = self.host();
            match std::mem::replace(&mut *host, HostState::Stopped(None)) {
                HostState::Idle => None,
                HostState::Running(Running { stop, ended }) => {
                    drop(stop);
                    *host = HostState::Stopped(Some(ended.clone()));
                    Some(ended)
                }
                HostState::Stopped(ended) => {
                    *host = HostState::Stopped(ended.clone());
                    ended
                }
                failed @ HostState::Failed(_) => {
                    *host = failed;
                    None
                }
            }
        };
        if let Some(ended) = ended {
            ended.await;
        }
    }
}
