//! Workers: the code of this process, and the host that runs it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use dauer_core::HostId;
use dauer_hub::{Host, HostOptions, retention};
use dauer_replay::{
    Activity, ActivityContext, ActivityHandler, Handler, Orchestration, RegisterError, Registry,
};
use dauer_store::{Env, Refused};

use crate::build_id;
use crate::local::LocalExecutor;
use crate::open::Hub;
use crate::runtime::TokioEnv;

/// Collects the code of a worker.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use dauer::{Activity, ActivityContext, HostId, HostOptions, Orchestration, OrchestrationContext, Result};
///
/// const DOUBLE: Activity<u32, u32> = Activity::new("double");
/// const TWICE: Orchestration<u32, u32> = Orchestration::new("twice");
///
/// async fn double(_: ActivityContext, n: u32) -> Result<u32> {
///     Ok(n * 2)
/// }
///
/// async fn twice(ctx: OrchestrationContext, n: u32) -> Result<u32> {
///     Ok(ctx.call(DOUBLE, &n).await?)
/// }
///
/// let worker = dauer::open("memory:")?
///     .worker()
///     .orchestration(TWICE, twice)
///     .activity(DOUBLE, double)
///     .options(HostOptions { activities_max: 4, ..HostOptions::default() })
///     .retention(Duration::from_secs(30 * 24 * 60 * 60))
///     .host_id(HostId::new("north-1")?)
///     .build()?;
/// # let _ = worker;
/// # Ok(())
/// # }
/// ```
pub struct WorkerBuilder {
    hub: Hub,
    options: HostOptions,
    registry: Registry,
    error: Option<RegisterError>,
    replay_always: bool,
    retention: Option<Duration>,
    host_id: Option<HostId>,
    build_id: Option<Arc<str>>,
}

impl WorkerBuilder {
    pub(crate) fn new(hub: Hub, options: HostOptions) -> Self {
        let registry = Registry::new().with_payloads(hub.payloads.clone());
        let (error, replay_always, retention, host_id, build_id) = Default::default();
        Self { hub, options, registry, error, replay_always, retention, host_id, build_id }
    }

    /// Adds an orchestration: an `async fn(OrchestrationContext, I) -> Result<O>`, or one that gives
    /// `Result<ControlFlow<O, I>>` to continue as new.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    /// use std::ops::ControlFlow;
    /// use dauer::{Orchestration, OrchestrationContext, Result};
    ///
    /// const COUNT: Orchestration<u32, String> = Orchestration::new("count");
    ///
    /// async fn count(_: OrchestrationContext, n: u32) -> Result<ControlFlow<String, u32>> {
    ///     Ok(if n == 0 { ControlFlow::Break("done".to_owned()) } else { ControlFlow::Continue(n - 1) })
    /// }
    ///
    /// let hub = dauer::open("memory:")?;
    /// let worker = hub.worker().orchestration(COUNT, count).build()?;
    /// tokio::spawn(worker.run(std::future::pending()));
    /// assert_eq!(hub.client().start(COUNT, &3).await?.output().await?, "done");
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    /// use dauer::{Activity, ActivityContext, Result};
    ///
    /// const READ: Activity<String, String> = Activity::new("read");
    ///
    /// async fn read(_: ActivityContext, path: String) -> Result<String> {
    ///     Ok(std::fs::read_to_string(path)?)
    /// }
    ///
    /// let worker = dauer::open("memory:")?.worker().activity(READ, read).build()?;
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
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

    /// Adds an activity that uses something of the program, a pool of connections say: a method
    /// `async fn(self: Arc<S>, ActivityContext, I) -> Result<O>`, or any function whose first parameter is an `Arc<S>`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use dauer::{Activity, ActivityContext, Result};
    ///
    /// const CHARGE: Activity<u32, u32> = Activity::new("charge");
    ///
    /// struct Shop { fee: u32 }
    ///
    /// impl Shop {
    ///     async fn charge(self: Arc<Self>, _: ActivityContext, amount: u32) -> Result<u32> {
    ///         Ok(amount + self.fee)
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    /// let shop = Arc::new(Shop { fee: 2 });
    /// let worker = dauer::open("memory:")?.worker().activity_with(CHARGE, shop, Shop::charge).build()?;
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn activity_with<S, I, O, Fut>(
        self,
        activity: Activity<I, O>,
        shared: Arc<S>,
        handler: impl Fn(Arc<S>, ActivityContext, I) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        S: Send + Sync + 'static,
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = dauer_replay::Result<O>> + Send + 'static,
    {
        self.activity(activity, move |context: ActivityContext, input: I| {
            handler(Arc::clone(&shared), context, input)
        })
    }

    /// With other settings.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::HostOptions;
    ///
    /// let worker = dauer::open("memory:")?.worker().options(HostOptions { turns_max: 8, ..HostOptions::default() });
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn options(self, options: HostOptions) -> Self {
        Self { options, ..self }
    }

    /// Replays every turn from its history: slower, and shows code that is not deterministic at once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let worker = dauer::open("memory:")?.worker().replay_always().build()?;
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn replay_always(self) -> Self {
        Self { replay_always: true, ..self }
    }

    /// Removes instances of the hub for good once they have been ended for so long, whoever ran them. Without it nothing
    /// is ever removed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let month = Duration::from_secs(30 * 24 * 60 * 60);
    /// let worker = dauer::open("memory:")?.worker().retention(month).build()?;
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn retention(self, keep: Duration) -> Self {
        Self { retention: Some(keep), ..self }
    }

    /// Under this name instead of `{machine}-{pid}-{random}`. It is shown where the host's work is: in histories, leases
    /// and logs. No two workers of a hub should have the same at the same time; nothing but clarity depends on it, because
    /// every run of a worker has a session of its own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::HostId;
    ///
    /// let worker = dauer::open("memory:")?.worker().host_id(HostId::new("north-1")?).build()?;
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn host_id(self, id: HostId) -> Self {
        Self { host_id: Some(id), ..self }
    }

    /// With this build id instead of the hash of the program's file. When a worker of another build comes, instances that this
    /// build has stalled are tried again at once. Give one when the file says too little, because the code is in libraries say,
    /// or too much.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let worker = dauer::open("memory:")?.worker().build_id("2026-11-20.7").build()?;
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn build_id(self, id: &str) -> Self {
        Self { build_id: Some(build_id::given(id)), ..self }
    }

    /// The worker.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::{Activity, ActivityContext, RegisterError};
    ///
    /// const READ: Activity<u32, u32> = Activity::new("read");
    /// let read = |_: ActivityContext, n: u32| async move { Ok(n) };
    ///
    /// let twice = dauer::open("memory:")?.worker().activity(READ, read).activity(READ, read).build();
    /// assert!(matches!(twice, Err(RegisterError::DuplicateActivity { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RegisterError`] when a name was registered twice or breaks a rule.
    pub fn build(self) -> Result<Worker, RegisterError> {
        match self.error {
            Some(error) => Err(error),
            None => {
                let executor = LocalExecutor::new(self.registry);
                let executor = if self.replay_always { executor.replay_always() } else { executor };
                let executor = Arc::new(executor);
                let Self { hub, options, retention, host_id, build_id, .. } = self;
                Ok(Worker { hub, options, executor, retention, host_id, build_id })
            }
        }
    }
}

/// A worker, ready to run.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tokio::sync::oneshot;
///
/// let (stop, stopped) = oneshot::channel::<()>();
/// let worker = dauer::open("memory:")?.worker().build()?;
/// let running = tokio::spawn(worker.run(async { _ = stopped.await }));
/// drop(stop);
/// running.await??; // what was in flight is finished
/// # Ok(())
/// # }
/// ```
pub struct Worker {
    hub: Hub,
    options: HostOptions,
    executor: Arc<LocalExecutor>,
    retention: Option<Duration>,
    host_id: Option<HostId>,
    build_id: Option<Arc<str>>,
}

impl Worker {
    /// Runs until `stop`, then finishes what is in flight. [`shutdown_signal`](crate::shutdown_signal) is a `stop` for
    /// whole programs.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let worker = dauer::open("sqlite:orders.db")?.worker().build()?;
    /// worker.run(dauer::shutdown_signal()?).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Refused`] when the store can never be used: of a newer format, or damaged; or when the server of the hub does not
    /// let the worker in. One that cannot be reached is waited for.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Refused> {
        let env = Arc::new(TokioEnv::new(self.hub.runtime.clone()));
        let stop = stop.boxed().shared();
        let build = match self.build_id {
            Some(id) => futures::future::ready(Some(id)).boxed().shared(),
            None => build_id::of_program(&self.hub.runtime),
        };
        #[cfg(feature = "grpc")]
        if let Some(wire) = self.hub.wire() {
            let (executor, options, retention) = (self.executor, self.options, self.retention);
            let host = self.host_id.unwrap_or_else(|| host_id(&*env));
            let parts = crate::remote::Parts { executor, options, host, build, retention };
            return Box::pin(crate::remote::run(wire, parts, stop)).await;
        }
        if let Some(keep) = self.retention {
            env.spawn(retention::run(self.hub.manage.clone(), env.clone(), keep, stop.clone()).boxed());
        }
        let id = self.host_id.unwrap_or_else(|| host_id(&*env));
        let host = Host::new(Arc::clone(&self.hub.manage), env.clone(), self.executor, id);
        let result = host.options(self.options).build(build).run(stop).await;
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
