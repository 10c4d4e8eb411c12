//! `dauer bench`: what this machine, this disk and this store reach, through the public interface.
//!
//! Every output is checked and every run ends with an audit, so that a fast wrong answer is no figure at all.
//!
//! A crate of its own, because what is generic in the SDK is compiled with the crate that uses it: here as in a user's
//! program, with all optimisation, which the rest of the command is built without.

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

use clap::{Args, Subcommand, ValueEnum};
use dauer::{Hub, OpenError};

pub use error::Error;

/// What only the program knows that measures. It must be the `dauer` command: two of the benchmarks start it once more,
/// as a worker or as a server.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The name of its allocator.
    pub allocator: &'static str,
    /// Whether a URL is that of a server.
    pub is_server: fn(&str) -> bool,
    /// Connects to a server, with the token of the user if there is one.
    pub connect: fn(&str) -> Result<Hub, OpenError>,
}

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

/// Which benchmark, and how large.
#[derive(Args)]
pub struct Bench {
    #[command(subcommand)]
    kind: Kind,
}

/// The benchmarks.
#[derive(Subcommand)]
enum Kind {
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

impl Kind {
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

/// Runs a benchmark on a runtime of its own, and prints its figures.
///
/// # Errors
/// [`Error`] when there are no figures, or none that count.
pub fn run(Bench { kind }: Bench, program: &Program) -> Result<(), Error> {
    let network = match &kind {
        Kind::Sequence(arguments) => arguments.server.is_some(),
        Kind::Waits(_) => true,
        _ => false,
    };
    let network = network || kind.common().store.as_deref().is_some_and(program.is_server);
    kind.common().runtime.runtime(network)?.block_on(async {
        match kind {
            Kind::Sequence(arguments) => Box::pin(sequence::run(arguments, program)).await,
            Kind::Fanout(arguments) => Box::pin(fanout::run(arguments, program)).await,
            Kind::Latency(arguments) => Box::pin(latency::run(arguments, program)).await,
            Kind::Timers(arguments) => Box::pin(timers::run(arguments, program)).await,
            Kind::Waits(arguments) => Box::pin(waits::run(arguments, program)).await,
            Kind::History(arguments) => Box::pin(history::run(arguments, program)).await,
        }
    })
}
