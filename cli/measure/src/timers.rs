//! `dauer bench timers`: many orchestrations asleep, a restart with them, and what an idle hub costs.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dauer::Hub;
use futures::FutureExt;
use serde::{Deserialize, Serialize};

use super::place::Place;
use super::process::{self, Meter};
use super::report::{self, Lines, Setting};
use super::sequence::audit;
use super::statistics::{count, ratio, rounded};
use super::workload::{self, NAP, Running, SEQUENCE, Sequence, Value};
use super::{Common, Error, Program};

/// How long they sleep: longer than any benchmark.
const SLEEP_SECONDS: u64 = 60 * 60;

/// Starts outstanding at once: as in `bench sequence`.
const WINDOW: usize = 1024;

/// Longer than a start and its first turn take on any disk.
const PATIENCE: Duration = Duration::from_secs(600);

/// What to measure.
#[derive(clap::Args, Clone)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// So many orchestrations, each asleep for an hour.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    instances: u64,
    /// For so many seconds the idle hub is watched.
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    idle: f64,
    /// The process that is started again; prints what it found.
    #[arg(long, hide = true)]
    restarted: bool,
}

#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    #[serde(flatten)]
    setting: Setting,
    instances: u64,
    start_seconds: f64,
    starts_per_second: f64,
    cpu_seconds: f64,
    rss_bytes: Option<u64>,
    peak_rss_bytes: Option<u64>,
    /// `None` for a store that is gone with its process.
    restart: Option<Restart>,
    /// Of a core, of the process in which all was started.
    idle_cpu_percent: f64,
    idle_seconds: f64,
    audited: u64,
}

/// What the restarted process is like.
#[derive(Serialize)]
struct Restart {
    /// From the start of the process until a new orchestration has put out its result.
    restart_seconds: f64,
    #[serde(flatten)]
    told: Told,
}

/// What it tells.
#[derive(Serialize, Deserialize)]
struct Told {
    restarted_rss_bytes: Option<u64>,
    restarted_idle_cpu_percent: f64,
}

pub(super) async fn run(arguments: Arguments, program: &Program) -> Result<(), Error> {
    if arguments.restarted {
        return Box::pin(again(&arguments)).await;
    }
    let place = Place::new(arguments.common.store.as_deref())?;
    let setting = Setting::look(&arguments.common, program, &place)?;
    let url = place.url(0, true);
    let hub = dauer::open(&url)?;
    let running = Running::start(workload::register(hub.worker()))?;
    process::forget_peak();
    report::progress(&arguments.common, &format!("starting {} orchestrations", arguments.instances));
    let meter = Meter::start();
    Box::pin(send_to_sleep(&hub, arguments.instances)).await?;
    let spent = meter.stop();
    let (resident, peak) = (process::resident_bytes(), process::peak_bytes());
    report::progress(&arguments.common, &format!("idle for {} s, twice", arguments.idle));
    let idle_cpu_percent = idle(arguments.idle).await;
    running.stop().await?;
    hub.close().await;
    let restart = if place.is_file() { Some(restart(&arguments, &url)?) } else { None };
    // The restarted process has added one that ended.
    let audited = if place.is_file() { audit(&dauer::open(&url)?).await? } else { 0 };
    let figures = Figures {
        bench: "timers",
        setting,
        instances: arguments.instances,
        start_seconds: rounded(spent.seconds, 3),
        starts_per_second: rounded(ratio(count(arguments.instances), spent.seconds), 0),
        cpu_seconds: rounded(spent.processor_seconds, 3),
        rss_bytes: resident,
        peak_rss_bytes: peak,
        restart,
        idle_cpu_percent: rounded(idle_cpu_percent, 3),
        idle_seconds: arguments.idle,
        audited,
    };
    report::show(&arguments.common, &figures, &lines(&figures))
}

/// Starts all, and waits until each has run to its timer.
async fn send_to_sleep(hub: &Hub, instances: u64) -> Result<(), Error> {
    let asleep = move |client: dauer::Client, number: u64| {
        async move {
            let handle = client.start(NAP, &SLEEP_SECONDS).id(format!("nap-{number:08}")).await?;
            // Running is committed together with the timer.
            let begun = client.raw().wait_started(handle.id(), PATIENCE).await;
            let status = begun.map_err(dauer::ClientError::from)?.status;
            workload::check(handle.id().as_str(), &status, &dauer::Status::Running)
        }
        .boxed()
    };
    workload::closed_loop(hub, instances, WINDOW, asleep).await.map(drop)
}

/// The part of a core that this process needs while nothing happens, in percent.
async fn idle(seconds: f64) -> f64 {
    let meter = Meter::start();
    tokio::time::sleep(Duration::from_secs_f64(seconds.clamp(0.0, 3600.0))).await;
    let spent = meter.stop();
    100.0 * ratio(spent.processor_seconds, spent.seconds)
}

/// Starts this program again on the same file, as after a deployment.
fn restart(arguments: &Arguments, url: &str) -> Result<Restart, Error> {
    let child = |what: &str| Error::Child(what.to_owned());
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args(["bench", "timers", "--restarted", "--store", url, "--idle", &arguments.idle.to_string()]);
    command.args(["--runtime", &arguments.common.runtime.name().replace('_', "-")]);
    let began = Instant::now();
    let mut process = command.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(process.stdout.take().ok_or_else(|| child("no output"))?).lines();
    let working = lines.next().transpose()?;
    let restart_seconds = began.elapsed().as_secs_f64();
    let told = lines.next().transpose()?;
    let status = process.wait()?;
    match (working.as_deref(), told) {
        (Some(WORKING), Some(told)) if status.success() => {
            Ok(Restart { restart_seconds: rounded(restart_seconds, 4), told: serde_json::from_str(&told)? })
        }
        _ => Err(child(&status.to_string())),
    }
}

/// What the restarted process says once it has done something.
const WORKING: &str = "working";

/// The restarted process: opens the store, and proves that it works by a new orchestration.
async fn again(arguments: &Arguments) -> Result<(), Error> {
    let url = arguments.common.store.as_deref().unwrap_or_default();
    let hub = dauer::open(url)?;
    let running = Running::start(workload::register(hub.worker()))?;
    let input = Sequence { activities: 1, value: Value::new(0, 0) };
    let handle = hub.client().start(SEQUENCE, &input).id("restarted").await?;
    let output = handle.output_within(PATIENCE).await?;
    workload::check("restarted", &output, &workload::sequence_output(&input))?;
    let mut out = std::io::stdout();
    writeln!(out, "{WORKING}")?;
    out.flush()?;
    let restarted_idle_cpu_percent = rounded(idle(arguments.idle).await, 3);
    let told = Told { restarted_rss_bytes: process::resident_bytes(), restarted_idle_cpu_percent };
    running.stop().await?;
    writeln!(out, "{}", serde_json::to_string(&told)?)?;
    Ok(())
}

fn lines(figures: &Figures) -> Lines {
    let mut lines = Lines::default();
    figures.setting.lines(&mut lines);
    lines.text(format!("{} orchestrations, each asleep for an hour", figures.instances));
    let rate = format!("until all are acknowledged and asleep; {:.0} /s", figures.starts_per_second);
    lines.line("started in", format!("{:.2} s", figures.start_seconds), &rate);
    lines.maybe("memory", figures.rss_bytes.map(report::megabytes), "resident with all of them asleep");
    lines.maybe("peak memory", figures.peak_rss_bytes.map(report::megabytes), "on the way there");
    let idle = |percent: f64| format!("{percent:.2} %");
    let watched = format!("of a core, while nothing happens for {} s", figures.idle_seconds);
    lines.line("idle", idle(figures.idle_cpu_percent), &watched);
    let restart = figures.restart.as_ref();
    let seconds = restart.map(|restart| format!("{:.3} s", restart.restart_seconds));
    lines.maybe("restart", seconds, "a new process, until it has run a new orchestration to its end");
    if let Some(Restart { told, .. }) = restart {
        lines.maybe("memory", told.restarted_rss_bytes.map(report::megabytes), "resident after the restart");
        lines.line("idle", idle(told.restarted_idle_cpu_percent), "of a core, after the restart");
    }
    lines
}
