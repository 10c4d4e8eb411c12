//! The `dauer` command. Data goes to stdout, everything else to stderr.

mod audit;
mod bench;
mod demo;
mod history;

use std::error::Error;
use std::future::Future;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Checkpoints are made on one thread and freed on another, which the system's allocator is slow at; see
/// docs/BENCHMARKS.md.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable orchestrations: ordinary code that survives crashes, restarts and months of waiting.
#[derive(Parser)]
#[command(name = "dauer", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Watch an order go through: chain, retry, fan-out, a race with a timer, a child.
    ///
    /// Kill it and run it again: the order goes on where it stopped. Ctrl-C finishes what is running first; a second
    /// Ctrl-C ends at once.
    Demo {
        /// Where the hub lives: `sqlite:FILE`, or `memory:`, which is gone when the demo ends.
        #[arg(long, default_value = "sqlite:dauer.db", value_name = "URL")]
        store: String,
        /// Ask on the terminal whether the order is approved.
        #[arg(long)]
        interactive: bool,
    },
    /// Check everything that a store holds against the invariants.
    ///
    /// For each invariant: how many things were checked, and what was wrong. The last line is the verdict; the exit code
    /// is 0 only when it is clean. Audit a store that rests: while hosts are at work, a violation may be no more than the
    /// time between two reads.
    ///
    /// Example: dauer audit sqlite:dauer.db
    Audit {
        /// The store: `sqlite:FILE`, or just the path of the file. It is never created.
        #[arg(value_name = "STORE")]
        store: String,
        /// What clients were told, one JSON object a line; shows whether anything acknowledged is lost.
        ///
        /// The first line is {"dauer_journal":1}, the others are like
        /// {"at":1700000000000,"instance":"order-1","did":"start"}. `did` is start, found, ended, raise, terminate,
        /// answer or purge; the documentation of the crate dauer-audit says which fields go with each.
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
    },
    /// Measure what this machine, its disk and a store reach.
    #[command(subcommand)]
    Bench(bench::Bench),
}

/// The exit code when what was asked for could not be done, or an audit is not clean; 2 is clap's, for a call that
/// makes no sense.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    match Arguments::parse().verb {
        Verb::Demo { store, interactive } => block_on(demo::run(store, interactive)),
        Verb::Audit { store, journal } => block_on(audit::run(store, journal)),
        // It has a runtime of its own choice.
        Verb::Bench(bench) => bench::run(bench),
    }
}

/// Runs a command that lives on tokio.
fn block_on(command: impl Future<Output = Result<ExitCode, Box<dyn Error>>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error),
    };
    let result = runtime.block_on(command);
    // Whatever still runs has no one left to tell: it must not hold up the end.
    runtime.shutdown_background();
    result.unwrap_or_else(|error| complain(&*error))
}

/// An error and what lies behind it, in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// The error on one line of stderr.
fn complain(error: &dyn Error) -> ExitCode {
    // Nothing is left to do when even stderr is gone.
    let _ = writeln!(std::io::stderr(), "error: {}", with_causes(error));
    ExitCode::from(FAILED)
}
