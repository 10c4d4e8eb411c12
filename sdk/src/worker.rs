//! Workers: the code of this process, and the host that runs it.

use std::future::Future;
use std::sync::Arc;

use dauer_core::HostId;
use dauer_hub::{Host, HostOptions};
use dauer_replay::{Activity, ActivityHandler, Handler, Orchestration, RegisterError, Registry};
use dauer_store::{Env, Refused};

use crate::local::LocalExecutor;
use crate::open::Hub;
use crate::runtime::TokioEnv;

/// Collects the code of a worker.
pub struct WorkerBuilder {
    hub: Hub,
    options: HostOptions,
    registry: Registry,
    error: Option<RegisterError>,
    replay_always: bool,
}

impl WorkerBuilder {
    pub(crate) fn new(hub: Hub, options: HostOptions) -> Self {
        Self { hub, options, registry: Registry::new(), error: None, replay_always: false }
    }

    /// Adds an orchestration: an `async fn(OrchestrationContext, I) -> Result<O>`, or one that gives
    /// `Result<ControlFlow<O, I>>` to continue as new.
    #[must_use]
    pub fn orchestration<I: 'static, O: 'static, S: 'static>(
        mut self,
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
    ) -> Self {
        if let Err(error) = self.registry.orchestration(orchestration, handler) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Adds an activity: an `async fn(ActivityContext, I) -> Result<O>`. It runs at least once.
    #[must_use]
    pub fn activity<I: 'static, O: 'static>(
        mut self,
        activity: Activity<I, O>,
        handler: impl ActivityHandler<I, O>,
    ) -> Self {
        if let Err(error) = self.registry.activity(activity, handler) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// With other settings.
    #[must_use]
    pub fn options(self, options: HostOptions) -> Self {
        Self { options, ..self }
    }

    /// Replays every turn from its history: slower, and shows code that is not deterministic at once.
    #[must_use]
    pub fn replay_always(self) -> Self {
        Self { replay_always: true, ..self }
    }

    /// The worker.
    ///
    /// # Errors
    /// [`RegisterError`] when a name was registered twice or breaks a rule.
    pub fn build(self) -> Result<Worker, RegisterError> {
        match self.error {
            Some(error) => Err(error),
            None => {
                let executor = LocalExecutor::new(self.registry);
                let executor = if self.replay_always { executor.replay_always() } else { executor };
                Ok(Worker { hub: self.hub, options: self.options, executor: Arc::new(executor) })
            }
        }
    }
}

/// A worker, ready to run.
pub struct Worker {
    hub: Hub,
    options: HostOptions,
    executor: Arc<LocalExecutor>,
}

impl Worker {
    /// Runs until `stop`, then finishes what is in flight.
    ///
    /// # Errors
    /// [`Refused`] when the store can never be used: of a newer format, or damaged.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Refused> {
        let env = Arc::new(TokioEnv::new(self.hub.runtime.clone()));
        let host = Host::new(Arc::clone(&self.hub.manage), env.clone(), self.executor, host_id(&*env));
        let result = host.options(self.options).run(stop).await;
        env.stop();
        result
    }
}

/// `{machine}-{pid}-{random}`: readable in logs, and never the same twice.
fn host_id(env: &dyn Env) -> HostId {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine: String =
        machine.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    let machine = if machine.is_empty() { "host" } else { &machine };
    let id = format!("{machine}-{}-{:08x}", std::process::id(), env.random() & 0xffff_ffff);
    // At most 64 + 1 + 10 + 1 + 8 printable bytes, so this never takes the second way.
    HostId::new(id)
        .or_else(|_| HostId::new("host"))
        .unwrap_or_else(|_| unreachable!("a plain word is a name"))
}
