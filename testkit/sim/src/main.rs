//! `dauer-sim`: runs seeds, shows what they tested, replays one with its trace, and makes a failing one smaller.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use dauer_sim::batch::{Batch, cores, run_all, run_caught};
use dauer_sim::coverage::SEEDS_MIN;
use dauer_sim::kinds::{Kind, UnknownKind};
use dauer_sim::{Config, Outcome, shrink, table};

#[cfg(feature = "planted")]
mod planted;

/// The least faults that a seed has on average: fewer prove little.
const FAULTS_MIN: u64 = 20;

/// How often a long run says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// The simulator: whole hubs with every fault, one thread, virtual time, one seed.
#[derive(Parser)]
#[command(name = "dauer-sim")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs many seeds on all cores and shows what they tested. Fails on a violation, and from 1,000 seeds on when
    /// anything that can happen never did.
    Run {
        /// How many.
        #[arg(long)]
        seeds: u64,
        /// The first one.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// On so many threads; without it on one for each core.
        #[arg(long)]
        threads: Option<usize>,
        #[command(flatten)]
        left_out: LeftOut,
    },
    /// Runs one seed again.
    Replay {
        /// Which.
        seed: u64,
        /// Prints everything that happened, the same to the last byte every time.
        #[arg(long)]
        trace: bool,
        #[command(flatten)]
        left_out: LeftOut,
    },
    /// Leaves out of a failing seed what it does not need to fail.
    Shrink {
        /// Which.
        seed: u64,
        #[command(flatten)]
        left_out: LeftOut,
    },
    /// Lists every fault.
    Faults,
    /// Runs seeds with each planted bug, one after the other, until one is found; and without.
    #[cfg(feature = "planted")]
    Planted {
        /// How many seeds a bug may hide from.
        #[arg(long, default_value_t = 200)]
        seeds: u64,
        /// Only this one.
        #[arg(long)]
        only: Option<String>,
    },
}

/// What is left out of a seed.
#[derive(Args, Default)]
struct LeftOut {
    /// No faults at all.
    #[arg(long)]
    calm: bool,
    /// Faults, by name.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Cases, by number.
    #[arg(long, value_delimiter = ',')]
    without_cases: Vec<usize>,
    /// Steps, as case.step.
    #[arg(long, value_delimiter = ',')]
    without_steps: Vec<String>,
    /// So many hosts.
    #[arg(long, default_value_t = 0)]
    without_hosts: usize,
    /// The hub whose instances come and go.
    #[arg(long)]
    without_churn: bool,
    /// The world whose code kills its process.
    #[arg(long)]
    without_killers: bool,
    /// The operator, and the instance that nobody can run.
    #[arg(long)]
    without_operator: bool,
    /// The scenario of servers whose workers have lives of their own.
    #[arg(long)]
    apart: bool,
    /// A bug that is planted, by name.
    #[cfg(feature = "planted")]
    #[arg(long)]
    planted: Option<String>,
}

/// Why the arguments make no sense.
#[derive(Debug, thiserror::Error)]
enum Misunderstood {
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    #[error("'{0}' names no step; write case.step, as in 0.3")]
    Step(String),
    #[cfg(feature = "planted")]
    #[error("there is no planted bug called '{0}'; `dauer-sim planted` lists them all")]
    Bug(String),
}

impl LeftOut {
    fn config(&self) -> Result<Config, Misunderstood> {
        let step = |text: &String| {
            let parts = text.split_once('.');
            let numbers = parts.and_then(|(case, step)| Some((case.parse().ok()?, step.parse().ok()?)));
            numbers.ok_or_else(|| Misunderstood::Step(text.clone()))
        };
        Ok(Config {
            calm: self.calm,
            without: self.without.iter().map(|name| name.parse()).collect::<Result<_, UnknownKind>>()?,
            without_cases: self.without_cases.iter().copied().collect(),
            without_steps: self.without_steps.iter().map(step).collect::<Result<_, _>>()?,
            without_hosts: self.without_hosts,
            without_churn: self.without_churn,
            without_killers: self.without_killers,
            without_operator: self.without_operator,
            apart: self.apart,
            #[cfg(feature = "planted")]
            planted: self.planted.as_deref().map(planted::by_name).transpose()?,
            ..Config::default()
        })
    }
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    match obey(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(misunderstood) => {
            tell(&format!("{misunderstood}"));
            ExitCode::from(2)
        }
    }
}

/// Whether everything is as it should be.
fn obey(command: Command) -> Result<bool, Misunderstood> {
    match command {
        Command::Run { seeds, from, threads, left_out } => {
            let threads = threads.unwrap_or_else(cores);
            Ok(run(from, seeds, threads, &left_out.config()?))
        }
        Command::Replay { seed, trace, left_out } => {
            let config = Config { trace, ..left_out.config()? };
            Ok(replay(&run_caught(seed, &config), &config))
        }
        Command::Shrink { seed, left_out } => {
            smaller(seed, &left_out.config()?);
            Ok(true)
        }
        Command::Faults => {
            for kind in Kind::ALL {
                say(&format!("{:18} {:?}", kind.name(), kind.target()));
            }
            Ok(true)
        }
        #[cfg(feature = "planted")]
        Command::Planted { seeds, only } => planted::run(seeds, only.as_deref(), cores()),
    }
}

/// To those who read the result.
fn say(text: &str) {
    // Whoever closed the pipe does not want to know.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// To those who wait for it.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the speed of the simulator, not its time"
)]
fn watch() -> impl Fn() -> Duration {
    let began = std::time::Instant::now();
    move || began.elapsed()
}

fn run(from: u64, seeds: u64, threads: usize, config: &Config) -> bool {
    let elapsed = watch();
    let told = Mutex::new(Duration::ZERO);
    let batch = run_all(from..from.saturating_add(seeds), config, threads, |done, failed| {
        let now = elapsed();
        if let Ok(mut told) = told.try_lock()
            && now - *told >= TELL_EVERY
        {
            *told = now;
            tell(&format!("{done} of {seeds} seeds after {} s, {failed} failed", now.as_secs()));
        }
    });
    say(&table::render(&batch.statistics));
    let seconds = elapsed().as_secs_f64();
    say(&format!(
        "{seconds:.1} s on {threads} threads, {:.1} seeds a second",
        seeds as f64 / seconds.max(0.001)
    ));
    let complete = config.apart || judge_coverage(&batch);
    for outcome in &batch.failed {
        say(&format!("{outcome}"));
    }
    if let Some(first) = batch.failed.first() {
        say(&format!("{} of {seeds} seeds failed; the first is made smaller:", batch.failures));
        smaller(first.seed, config);
    }
    batch.failures == 0 && complete
}

/// Whether enough happened, everywhere.
fn judge_coverage(batch: &Batch) -> bool {
    let statistics = &batch.statistics;
    if statistics.seeds < SEEDS_MIN {
        say(&format!("fewer than {SEEDS_MIN} seeds: what never happened proves nothing"));
        return true;
    }
    let mut missing = statistics.coverage.empty();
    if statistics.coverage.faults() < FAULTS_MIN * statistics.seeds {
        missing.push(format!("fewer than {FAULTS_MIN} faults a seed"));
    }
    let counted = [
        ("fenced commits", statistics.fenced_commits),
        ("commits of unknown outcome that had happened", statistics.unknown_committed),
        (
            "commits of unknown outcome that had not",
            statistics.unknown_commits - statistics.unknown_committed,
        ),
        ("client calls", statistics.client_calls),
        ("commits with results", statistics.fused),
        ("arrivals for kept instances", statistics.arrived),
        ("mail read for kept instances", statistics.read),
        ("mail that met a turn", statistics.met),
        ("turns and tasks won", statistics.won),
        ("kept instances named", statistics.named),
        ("recalls", statistics.recalls),
        ("turns and tasks recalled", statistics.recalled),
        ("activities executed again", statistics.effects_repeated),
        ("turns of poison", statistics.poisoned),
        ("timers", statistics.timers),
    ];
    missing.extend(
        counted
            .into_iter()
            .chain(statistics.churned.figures())
            .filter(|(_, count)| *count == 0)
            .map(|(what, _)| what.to_owned()),
    );
    for cell in &missing {
        say(&format!("never happened: {cell}"));
    }
    missing.is_empty()
}

fn replay(outcome: &Outcome, config: &Config) -> bool {
    for line in &outcome.trace {
        say(line);
    }
    for violation in &outcome.violations {
        say(&format!("violation: {violation}"));
    }
    let (seed, hash) = (outcome.seed, outcome.trace_hash);
    say(&format!("seed {seed}{config}: {} violations, trace {hash:016x}", outcome.violations.len()));
    outcome.violations.is_empty()
}

fn smaller(seed: u64, config: &Config) {
    match shrink(seed, config) {
        None => say(&format!("seed {seed}{config} does not fail")),
        Some(shrunk) => {
            for violation in &shrunk.outcome.violations {
                say(&format!("  {violation}"));
            }
            say(&format!("after {} runs: dauer-sim replay {seed}{} --trace", shrunk.runs, shrunk.config));
        }
    }
}
