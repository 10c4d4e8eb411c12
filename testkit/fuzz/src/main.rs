//! `dauer-fuzz`: long runs of the fuzz targets. Figures go to stdout, findings to stderr, with the input in hexadecimal.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use dauer_fuzz::{drive, from_hex, targets};

/// Fuzz targets for what dauer reads.
#[derive(Parser)]
#[command(name = "dauer-fuzz", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a target, or `all`, over its corpus and so many changed inputs.
    ///
    /// Example: dauer-fuzz run history --iterations 1000000 --seed 7
    Run {
        /// The target; `dauer-fuzz list` names them.
        target: String,
        /// How many inputs.
        #[arg(long, default_value_t = 100_000)]
        iterations: u64,
        /// The same seed gives the same inputs.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Give one input to a target, as `run` printed it.
    Replay {
        /// The target.
        target: String,
        /// The input in hexadecimal.
        input: String,
    },
    /// The targets, and what they read.
    List,
}

/// The exit code when a claim is broken; 2 is clap's, for a call that makes no sense.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    match act(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Nothing can be done when stderr is gone; the exit code says it too.
            let _ = writeln!(std::io::stderr(), "{message}");
            ExitCode::from(FAILED)
        }
    }
}

fn act(command: Command) -> Result<(), String> {
    match command {
        Command::List => {
            targets::ALL.iter().try_for_each(|target| say(&format!("{:8} {}", target.name, target.about)))
        }
        Command::Replay { target, input } => {
            let input = from_hex(&input).ok_or("the input is not hexadecimal; copy it from the finding")?;
            let verdict = drive::once(&find(&target)?, &input)?;
            say(&format!("{} by {}", if verdict.accepted { "accepted" } else { "refused" }, verdict.what))
        }
        Command::Run { target, iterations, seed } => {
            let chosen = if target == "all" { targets::ALL.to_vec() } else { vec![find(&target)?] };
            chosen.iter().try_for_each(|target| run(target, iterations, seed))
        }
    }
}

fn find(name: &str) -> Result<targets::Target, String> {
    targets::by_name(name).ok_or_else(|| format!("there is no target '{name}'; `dauer-fuzz list` names them"))
}

fn run(target: &targets::Target, iterations: u64, seed: u64) -> Result<(), String> {
    let begun = Instant::now();
    let tally = drive::run(target, iterations, seed).map_err(|finding| finding.to_string())?;
    let (name, seconds) = (target.name, begun.elapsed().as_secs_f64());
    let (accepted, refused) = (tally.accepted(), tally.refused());
    say(&format!(
        "{name}: {accepted} accepted, {refused} refused, seed {seed}, {seconds:.1} s\n{}",
        tally.lines()
    ))
}

fn say(line: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{}", line.trim_end())
        .map_err(|error| format!("stdout cannot be written: {error}"))
}
