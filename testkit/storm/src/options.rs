//! What storms are started with.

use std::path::PathBuf;
use std::time::Duration;

use crate::tamper::Tamper;

/// The lease of the workers, unless a storm wants another. Short, so that many run out in one storm.
const LEASE: Duration = Duration::from_secs(3);

/// What every storm is started with.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// Workers on the file at any time.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) processes: u64,
    /// Decides what is asked for, and when who is hit. What the machine makes of it differs from run to run.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Clients, each with one instance at a time. More than the dead can hold until their leases run out, so that
    /// every worker always has something to do.
    #[arg(long, default_value_t = 256)]
    pub(crate) instances: u64,
    /// The lease of the workers; 3 s unless the storm wants another.
    #[arg(long)]
    pub(crate) lease_ms: Option<u64>,
    /// For how long a living worker may do nothing: half of the default lease.
    #[arg(long, default_value_t = 15_000)]
    pub(crate) silence_ms_max: u64,
    /// Where to put the file; a new folder of the system's temporary one if not given. Kept when the verdict is red.
    #[arg(long)]
    pub(crate) folder: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// A negative control: verify a copy of the file in which something is wrong.
    #[arg(long, value_enum, hide = true)]
    pub(crate) tamper: Option<Tamper>,
    /// A negative control: activities give another value when they are tried again.
    #[arg(long, hide = true)]
    pub(crate) attempts_show: bool,
}

impl Common {
    /// The lease of the workers.
    pub(crate) fn lease(&self) -> Duration {
        self.lease_ms.map_or(LEASE, Duration::from_millis)
    }

    /// The same with another lease, if none was asked for.
    pub(crate) fn with_lease(self, lease: Duration) -> Self {
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        Self { lease_ms: self.lease_ms.or(Some(lease_ms)), ..self }
    }
}

/// The size of a storm of kills.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Kills {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Kills that have to hit a process that holds a lease.
    #[arg(long, default_value_t = 100)]
    pub(crate) kills: u64,
    /// Processes that are stopped for longer than their lease and then go on.
    #[arg(long, default_value_t = 5)]
    pub(crate) stops: u64,
}
