//! A host: one process that claims work from a hub.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, FutureExt, Shared, select};

use dauer_core::{HostId, HubKey, SessionId};
use dauer_store::{Env, Manage, Refused, Work};

use crate::executor::Executor;
use crate::inspect::Inspector;
use crate::options::HostOptions;
use crate::session::{Instant, News, Renewed, Session, Stop};
use crate::{backoff, dispatch, mend, renewal};

/// One host in one hub. [`Host::run`] is all of its life.
pub struct Host {
    hub: Arc<dyn Manage>,
    env: Arc<dyn Env>,
    executor: Arc<dyn Executor>,
    id: HostId,
    options: HostOptions,
    inspector: Inspector,
    /// Finds the build id of this process.
    build: Option<Shared<BoxFuture<'static, Option<Arc<str>>>>>,
    /// The build id of this process, once it is known.
    known_build: Arc<OnceLock<Arc<str>>>,
}

impl Host {
    /// A host with default settings.
    pub fn new(hub: Arc<dyn Manage>, env: Arc<dyn Env>, executor: Arc<dyn Executor>, id: HostId) -> Self {
        let (options, inspector, known_build) = Default::default();
        Self { hub, env, executor, id, options, inspector, build: None, known_build }
    }

    /// Asks this host what it holds, while it runs.
    #[must_use]
    pub fn inspector(&self) -> Inspector {
        self.inspector.clone()
    }

    /// With other settings.
    #[must_use]
    pub fn options(self, options: HostOptions) -> Self {
        Self { options, ..self }
    }

    /// With the build id of this process, for hosts that run code themselves. Instances that are stalled by another build are
    /// retried when the host attaches ([`mend`](crate::mend)). A host waits for the id neither to begin nor to report trouble.
    #[must_use]
    pub fn build(self, build: impl Future<Output = Option<Arc<str>>> + Send + 'static) -> Self {
        Self { build: Some(build.boxed().shared()), ..self }
    }

    /// Claims and executes until `stop`, then finishes what is in flight (for at most
    /// [`HostOptions::drain_max`]) and detaches.
    ///
    /// # Errors
    /// [`Refused`] when the store can never be used: it is of a newer format, or damaged. All else is tried again.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Refused> {
        let stop: Stop = stop.boxed().shared();
        if !self.executor.runs_code() {
            let Some(key) = self.key(&stop).await? else { return Ok(()) };
            self.executor.keyed(key);
        }
        loop {
            let Some((work, at)) = self.attach(&stop).await? else { return Ok(()) };
            self.begin_to_mend(&stop);
            let (session, news) = self.session(work, at);
            self.serve(&session, news, &stop).await;
            if stop.peek().is_some() {
                return Ok(());
            }
        }
    }

    /// Retries beside the host what is stalled by another build. Only once: an instance that fails with this build rests.
    fn begin_to_mend(&mut self, stop: &Stop) {
        let Some(build) = self.build.take() else { return };
        let (hub, env, known) = (Arc::clone(&self.hub), Arc::clone(&self.env), Arc::clone(&self.known_build));
        let (queues, stop) = (self.executor.queues(), stop.clone());
        let mending = async move {
            let Some(build) = build.await else { return };
            let build = known.get_or_init(|| build);
            mend::mend(&*hub, &*env, (build, &queues)).await;
        };
        self.env.spawn(select(mending.boxed(), stop).map(drop).boxed());
    }

    fn session(&self, work: Arc<dyn Work>, opened_at: Instant) -> (Arc<Session>, UnboundedReceiver<News>) {
        let (tell, news) = unbounded();
        let session = Session {
            hub: Arc::clone(&self.hub),
            work,
            env: Arc::clone(&self.env),
            executor: Arc::clone(&self.executor),
            options: self.options.clone(),
            build: Arc::clone(&self.known_build),
            renewed: Renewed::new(opened_at),
            lapses: AtomicU64::new(0),
            over: AtomicBool::new(false),
            news: tell,
        };
        let session = Arc::new(session);
        self.inspector.follow(&session);
        (session, news)
    }

    /// Opens a session, and says when it was asked for; `None` when told to stop before that succeeded.
    async fn attach(&self, stop: &Stop) -> Result<Option<(Arc<dyn Work>, Instant)>, Refused> {
        let opens = || async {
            let session = SessionId(u128::from(self.env.random()) << 64 | u128::from(self.env.random()));
            let (lease, runs_code) = (self.options.lease, self.executor.runs_code());
            let host = dauer_store::Host { id: self.id.clone(), session, lease, runs_code };
            let began = Instant::of(&*self.env);
            let work = self.hub.attach(host).await?;
            tracing::info!(host = %self.id, ?session, "a session was opened");
            Ok((work, began))
        };
        self.until_answered(stop, opens).await
    }

    /// Reads the key of the hub, which is made here if there is none; `None` when told to stop before that succeeded.
    async fn key(&self, stop: &Stop) -> Result<Option<HubKey>, Refused> {
        let mut candidate = [0; 32];
        candidate.chunks_mut(8).for_each(|part| part.copy_from_slice(&self.env.random().to_le_bytes()));
        self.until_answered(stop, || self.hub.key(HubKey(candidate))).await
    }

    /// Calls the store until it answers; `None` when told to stop before that.
    async fn until_answered<T, F>(&self, stop: &Stop, call: impl Fn() -> F) -> Result<Option<T>, Refused>
    where
        F: Future<Output = Result<T, Refused>>,
    {
        let mut attempts = 0;
        loop {
            match call().await {
                Ok(answer) => return Ok(Some(answer)),
                Err(refused @ (Refused::Newer(_) | Refused::Corrupt(_))) => return Err(refused),
                Err(refused) => tracing::warn!(host = %self.id, error = %refused, "no session; trying again"),
            }
            attempts += 1;
            let HostOptions { retry_delay_min: min, retry_delay_max: max, .. } = self.options;
            let delay = backoff::delay(min, max, attempts, self.env.random());
            if let Either::Right(_) = select(self.sleep(delay), stop.clone()).await {
                return Ok(None);
            }
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.env.sleep(duration)
    }

    /// Serves one session until it is over, or the host has drained.
    async fn serve(&self, session: &Arc<Session>, news: UnboundedReceiver<News>, stop: &Stop) {
        let dispatch = self.beside(dispatch::run(Arc::clone(session), news, stop.clone()));
        // Renewal goes on while the host drains: what it finishes then must still count.
        let (end, ended) = oneshot::channel::<()>();
        let ended: Stop = ended.map(|_| ()).boxed().shared();
        let renewal = self.beside(renewal::run(Arc::clone(session), ended));
        let overdue = stop.clone().then({
            let (env, drain) = (Arc::clone(&self.env), self.options.drain_max);
            move |()| env.sleep(drain)
        });
        // A session that the store has ended is left at once; its loop notices by itself.
        let work = select(dispatch, renewal);
        if let Either::Right(_) = select(work, overdue.boxed()).await {
            tracing::warn!(host = %self.id, "stopped before everything in flight was finished");
        }
        session.end();
        drop(end);
        match session.work.detach().await {
            Ok(()) => tracing::info!(host = %self.id, "the session was closed"),
            Err(refused) => {
                tracing::warn!(host = %self.id, error = %refused, "the session could not be closed; its lease will run out");
            }
        }
    }

    /// Spawns a loop and waits for its end.
    fn beside(&self, work: impl Future<Output = ()> + Send + 'static) -> BoxFuture<'static, ()> {
        let (done, end) = oneshot::channel::<()>();
        self.env.spawn(
            async move {
                work.await;
                drop(done);
            }
            .boxed(),
        );
        end.map(|_| ()).boxed()
    }
}
