//! Worker processes on a file, and a client in this process.

#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dauer::{Client, ClientError, InstanceId, Orchestration, Record};

/// Calls an activity by its name.
pub(crate) const CALLS: Orchestration<(String, Option<f64>), String> = Orchestration::new("calls");

/// A deadline that only a broken test reaches.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// How long one wait in the store lasts before the test looks at its processes again.
const LOOK: Duration = Duration::from_millis(100);

/// Whether the default settings are tested.
pub(crate) fn is_full() -> bool {
    std::env::var("DAUER_DEATHS").is_ok_and(|size| size == "full")
}

/// A folder with a hub and a journal; gone afterwards.
pub(crate) struct World {
    folder: PathBuf,
    pub(crate) client: Client,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("dauer-deaths-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let client = dauer::open(&url(&folder)).unwrap().client();
        Self { folder, client }
    }

    /// Starts a worker process.
    pub(crate) fn worker(&self, arguments: &[&str]) -> Worker {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dauer-deaths"));
        command.args(["--url", &url(&self.folder)]).arg("--journal").arg(self.journal()).args(arguments);
        Worker(command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// How often the journal has this.
    pub(crate) fn count(&self, kind: &str, key: &str) -> usize {
        let text = std::fs::read_to_string(self.journal()).unwrap_or_default();
        text.lines().filter(|line| line.contains(&format!(" {kind} {key} "))).count()
    }

    /// Waits until the record fulfils a condition; `None` after a moment, so that the caller can look at its processes.
    pub(crate) async fn look(&self, id: &InstanceId, condition: impl Fn(&Record) -> bool) -> Option<Record> {
        match self.client.raw().wait(id, LOOK, condition).await {
            Ok(record) => Some(record),
            Err(error) => {
                assert!(matches!(error, dauer::RawClientError::TimedOut(_)), "{id}: {error}");
                None
            }
        }
    }

    /// The output of an instance that has ended, or its failure.
    pub(crate) async fn outcome(&self, id: &InstanceId) -> Result<String, String> {
        let handle = self.client.handle(CALLS, &id.to_string()).unwrap();
        match handle.output_within(SOON).await {
            Err(ClientError::Failed { source, .. }) => Err(format!("{}: {}", source.kind, source.message)),
            other => other.map_err(|error| error.to_string()),
        }
    }

    /// Waits until the record fulfils a condition.
    pub(crate) async fn until(
        &self,
        id: &InstanceId,
        max: Duration,
        condition: impl Fn(&Record) -> bool,
    ) -> Record {
        let deadline = Instant::now() + max;
        loop {
            if let Some(record) = self.look(id, &condition).await {
                return record;
            }
            if Instant::now() > deadline {
                let record = self.client.raw().get(id).await.unwrap();
                panic!("{id} is not as expected within {max:?}: {record:?}");
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A folder that cannot be removed is in the system's folder for such.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn url(folder: &std::path::Path) -> String {
    format!("sqlite:{}", folder.join("hub.db").display())
}

/// A worker process; killed when it goes out of scope.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Lets the worker finish what it has.
    pub(crate) fn stop(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
