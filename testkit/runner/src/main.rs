//! `cargo test --no-run --message-format=json-render-diagnostics >FILE && dauer-runner FILE [AT_ONCE]`

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::num::NonZero;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use dauer_runner::{Limits, Outcome, programs, run_all};

/// Far more than the longest needs on a slow machine.
const EACH: Duration = Duration::from_secs(15 * 60);

/// What the file must be.
const WANTED: &str = "it must hold what `cargo test --no-run --message-format=json` says";

/// How many of the slowest are listed.
const SLOWEST: usize = 12;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("dauer-runner: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: dauer-runner FILE [AT_ONCE]")?;
    let at_once = match args.next() {
        Some(text) => text.parse().map_err(|error| format!("AT_ONCE is {text:?}: {error}"))?,
        // One more than there are cores: many wait.
        None => available_parallelism()?.saturating_add(1),
    };
    let file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    let programs = programs(BufReader::new(file)).map_err(|error| format!("{path}: {error}"))?;
    if programs.is_empty() {
        return Err(format!("{path} names no program of tests: {WANTED}").into());
    }
    let mut ended: Vec<Outcome> = Vec::new();
    run_all(programs, Limits { at_once: NonZero::get(at_once), each: EACH }, |outcome| {
        // A reader who is gone does not want to know.
        let _ = show(&outcome);
        ended.push(outcome);
    });
    summarise(&mut ended)?;
    Ok(ended.iter().all(|outcome| outcome.result.is_ok()))
}

fn show(outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let seconds = outcome.took.as_secs_f64();
    writeln!(out, "\n     Ran {} ({seconds:.1} s)\n{}", outcome.program.name, outcome.said)?;
    if let Err(reason) = &outcome.result {
        writeln!(out, "FAILED: {reason}\n")?;
    }
    out.flush()
}

fn summarise(ended: &mut [Outcome]) -> io::Result<()> {
    ended.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    let mut out = io::stdout().lock();
    writeln!(out, "{} programs of tests; the slowest:", ended.len())?;
    for outcome in ended.iter().take(SLOWEST) {
        writeln!(out, "{:7.1} s  {}", outcome.took.as_secs_f64(), outcome.program.name)?;
    }
    for outcome in ended.iter() {
        if let Err(reason) = &outcome.result {
            writeln!(out, "FAILED: cargo test {}: {reason}", outcome.program.name)?;
        }
    }
    Ok(())
}
