//! A hub with a running worker, for tests.
#![allow(dead_code)] // Each test file uses its own part.
#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

use std::time::Duration;

use dauer::{Client, Hub, InstanceId, Record, WorkerBuilder};
use futures::channel::oneshot;
use tokio::task::JoinHandle;

/// A deadline that only a broken test reaches.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A worker that runs until it is stopped.
pub(crate) struct Running {
    pub(crate) hub: Hub,
    pub(crate) client: Client,
    stop: oneshot::Sender<()>,
    worker: JoinHandle<Result<(), dauer::Refused>>,
}

impl Running {
    pub(crate) fn start(code: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Self {
        Self::on(&dauer::open("memory:").unwrap(), code)
    }

    pub(crate) fn on(hub: &Hub, code: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Self {
        let worker = code(hub.worker()).build().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = tokio::spawn(worker.run(async {
            let _ = stopped.await;
        }));
        Self { hub: hub.clone(), client: hub.client(), stop, worker }
    }

    /// Waits until the record fulfils a condition.
    pub(crate) async fn wait(&self, id: &InstanceId, condition: impl Fn(&Record) -> bool) -> Record {
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            match self.client.raw().wait(id, Duration::from_secs(1), &condition).await {
                Ok(record) => return record,
                Err(error) => assert!(tokio::time::Instant::now() < deadline, "{id}: {error}"),
            }
            // A wait for an absent instance fails at once: ask again until it exists.
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.worker.await.unwrap().unwrap();
    }
}

/// A folder of its own for each test, gone afterwards.
pub(crate) struct Folder(pub(crate) std::path::PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dauer-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.0.join("hub.db").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
