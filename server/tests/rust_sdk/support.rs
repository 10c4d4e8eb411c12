//! A server in this process, and what tests say to it.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use dauer::{Hub, HubName, Store, Worker, WorkerBuilder};
use dauer_server::{Server, ServerError, ServerOptions};
use futures::channel::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything takes unless something is broken.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A server that runs until it is stopped or dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) store: Store,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), ServerError>>,
}

impl Served {
    /// On a store in memory, with other settings than the default.
    pub(crate) async fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        Self::on(Store::open("memory:").unwrap(), SocketAddr::from(([127, 0, 0, 1], 0)), change).await
    }

    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// On a store that stays when the server goes.
    pub(crate) async fn on(store: Store, grpc: SocketAddr, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let mut options = ServerOptions { grpc, ..ServerOptions::new(store.clone()) };
        change(&mut options);
        // The port may still be in the hands of the server that was there before.
        let server = eventually(async || Server::bind(options.clone()).await.ok()).await;
        let address = server.grpc_address();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run(async { _ = stopped.await }));
        Self { address, store, stop: Some(stop), running }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its default hub, over gRPC.
    pub(crate) fn hub(&self) -> Hub {
        dauer::connect(&self.url()).unwrap()
    }

    /// The same hub in this process.
    pub(crate) fn inside(&self) -> Hub {
        self.store.hub(HubName::default())
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.running.await.unwrap().unwrap();
    }
}

/// A worker at work.
pub(crate) struct Working {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), dauer::Refused>>,
}

impl Working {
    pub(crate) fn start(worker: WorkerBuilder) -> Self {
        Self::run(worker.build().unwrap())
    }

    fn run(worker: Worker) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        Self { stop, running: tokio::spawn(worker.run(async { _ = stopped.await })) }
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.running.await.unwrap().unwrap();
    }

    /// Waits until it ends by itself.
    pub(crate) async fn end(self) -> Result<(), dauer::Refused> {
        self.running.await.unwrap()
    }
}

/// Looks again and again until there is something, or too much time has passed.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(look: impl Fn() -> F) -> T {
    let deadline = tokio::time::Instant::now() + SOON;
    let mut pause = tokio::time::interval(Duration::from_millis(5));
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "it did not happen within {SOON:?}");
        pause.tick().await;
    }
}
