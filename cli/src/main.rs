//! The `dauer` command. Data goes to stdout, everything else to stderr.

mod demo;
mod history;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Durable orchestrations: ordinary code that survives crashes, restarts and months of waiting.
#[derive(Parser)]
#[command(name = "dauer", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Watch an order go through: chain, fan-out, a race with a timer, a child.
    ///
    /// Example: dauer demo --store memory:
    Demo {
        /// Where the hub lives: `sqlite:FILE`, or `memory:`, which is gone when the demo ends.
        #[arg(long, default_value = "memory:", value_name = "URL")]
        store: String,
    },
}

/// The exit code when what was asked for could not be done; 2 is clap's, for a call that makes no sense.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error),
    };
    let result = runtime.block_on(async {
        match arguments.verb {
            Verb::Demo { store } => demo::run(&store).await,
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&*error),
    }
}

/// The error and what lies behind it, on one line of stderr.
fn complain(error: &dyn Error) -> ExitCode {
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    // Nothing is left to do when even stderr is gone.
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(FAILED)
}
