//! `dauer bench`: what this machine, this disk and this store reach, through the public interface.
//!
//! Every output is checked and every run ends with an audit, so that a fast wrong answer is no figure at all.

mod error;
mod fanout;
mod history;
mod latency;
mod limit;
mod place;
mod process;
mod report;
mod sequence;
mod statistics;
mod timers;
mod waits;
mod workload;

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};

pub(crate) use error::Error;

use crate::error::Failure;

/// What all benchmarks are told.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// A new store, `sqlite:FILE`, which stays; or `memory:`. Without it: a file in a temporary folder, removed afterwards.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// The runtime that client and worker share.
    #[arg(long, value_enum, default_value_t = Flavour::DEFAULT, hide = true)]
    runtime: Flavour,
}

/// Which runtime of tokio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flavour {
    /// One thread, beside those of the store.
    CurrentThread,
    /// A thread per core, beside those of the store.
    MultiThread,
}

impl Flavour {
    /// What was measured to be faster; see docs/BENCHMARKS.md.
    const DEFAULT: Self = Self::CurrentThread;

    fn name(self) -> &'static str {
        match self {
            Self::CurrentThread => "current_thread",
            Self::MultiThread => "multi_thread",
        }
    }

    /// Stores have threads of their own: only servers need the network.
    fn runtime(self, network: bool) -> std::io::Result<tokio::runtime::Runtime> {
        let mut builder = match self {
            Self::CurrentThread => tokio::runtime::Builder::new_current_thread(),
            Self::MultiThread => tokio::runtime::Builder::new_multi_thread(),
        };
        if network {
            builder.enable_all();
        }
        builder.enable_time().build()
    }
}

/// The benchmarks.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Many orchestrations of a few activities each: orchestrations per second, beside what bare rows reach.
    ///
    /// Example: dauer bench sequence --orchestrations 5000 --activities 5
    Sequence(sequence::Arguments),
    /// Orchestrations of many activities at once: tasks per second.
    Fanout(fanout::Arguments),
    /// One orchestration of one activity at a time: milliseconds from start to output.
    Latency(latency::Arguments),
    /// Many orchestrations asleep: seconds to start them, memory, a restart with them, an idle hub.
    Timers(timers::Arguments),
    /// A server that does nothing, and calls that only wait for it: memory and processor time.
    Waits(waits::Arguments),
    /// One orchestration of many turns: whether a late turn costs more than an early one.
    History(history::Arguments),
}

impl Bench {
    fn common(&self) -> &Common {
        match self {
            Self::Sequence(arguments) => &arguments.common,
            Self::Fanout(arguments) => &arguments.common,
            Self::Latency(arguments) => &arguments.common,
            Self::Timers(arguments) => &arguments.common,
            Self::Waits(arguments) => &arguments.common,
            Self::History(arguments) => &arguments.common,
        }
    }
}

/// Runs a benchmark on a runtime of its own.
pub(crate) fn run(bench: Bench) -> Result<ExitCode, Failure> {
    let network = match &bench {
        Bench::Sequence(arguments) => arguments.server.is_some(),
        Bench::Waits(_) => true,
        _ => false,
    };
    let result = bench.common().runtime.runtime(network).map_err(Error::from).and_then(|runtime| {
        runtime.block_on(async {
            match bench {
                Bench::Sequence(arguments) => Box::pin(sequence::run(arguments)).await,
                Bench::Fanout(arguments) => Box::pin(fanout::run(arguments)).await,
                Bench::Latency(arguments) => Box::pin(latency::run(arguments)).await,
                Bench::Timers(arguments) => Box::pin(timers::run(arguments)).await,
                Bench::Waits(arguments) => Box::pin(waits::run(arguments)).await,
                Bench::History(arguments) => Box::pin(history::run(arguments)).await,
            }
        })
    });
    result.map(|()| ExitCode::SUCCESS).map_err(Failure::Bench)
}
