//! What a storm is started with.

use std::path::PathBuf;

use crate::tamper::Tamper;

/// The size of a storm.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Workers on the file at any time.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) processes: u64,
    /// Kills that have to hit a process that holds a lease.
    #[arg(long, default_value_t = 100)]
    pub(crate) kills: u64,
    /// Decides what is asked for, and when who is hit. What the machine makes of it differs from run to run.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Clients, each with one instance at a time. More than the dead can hold until their leases run out, so that
    /// every worker always has something to do.
    #[arg(long, default_value_t = 256)]
    pub(crate) instances: u64,
    /// Processes that are stopped for longer than their lease and then go on.
    #[arg(long, default_value_t = 5)]
    pub(crate) stops: u64,
    /// The lease of the workers. Short, so that many run out in one storm.
    #[arg(long, default_value_t = 3_000)]
    pub(crate) lease_ms: u64,
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
