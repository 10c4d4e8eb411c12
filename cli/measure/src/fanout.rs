//! `dauer bench fanout`: orchestrations that call many activities at once.

use futures::FutureExt;
use serde::Serialize;

use super::place::Place;
use super::process::{self, Meter};
use super::report::{self, Lines, Setting};
use super::sequence::audit;
use super::statistics::{count, percentile, ratio, rounded};
use super::workload::{self, FANOUT, Running};
use super::{Common, Error, Program};

/// What to measure.
#[derive(clap::Args, Clone)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// So many orchestrations.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    orchestrations: u64,
    /// So many activities in each, all at once.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    activities: u32,
    /// So many orchestrations outstanding at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    window: u32,
}

#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    #[serde(flatten)]
    setting: Setting,
    orchestrations: u64,
    activities: u32,
    window: u32,
    tasks_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    seconds: f64,
    /// `None` where the store does not count.
    commits: Option<u64>,
    cpu_seconds: f64,
    peak_rss_bytes: Option<u64>,
    audited: u64,
}

pub(super) async fn run(arguments: Arguments, program: &Program) -> Result<(), Error> {
    let place = Place::new(arguments.common.store.as_deref())?;
    let setting = Setting::look(&arguments.common, program, &place)?;
    let hub = dauer::open(&place.url(0, true))?;
    let running = Running::start(workload::register(hub.worker()))?;
    let (activities, window) = (arguments.activities, arguments.window as usize);
    let before = hub.manage().effort().commits;
    report::progress(&arguments.common, &format!("{} orchestrations", arguments.orchestrations));
    process::forget_peak();
    let meter = Meter::start();
    let looped = workload::closed_loop(&hub, arguments.orchestrations, window, move |client, number| {
        async move {
            let handle = client.start(FANOUT, &activities).id(format!("fanout-{number:08}")).await?;
            let output = handle.output().await?;
            workload::check(handle.id().as_str(), &output, &workload::fanout_output(activities))
        }
        .boxed()
    });
    let mut times = Box::pin(looped).await?;
    let spent = meter.stop();
    let (peak, commits) = (process::peak_bytes(), hub.manage().effort().commits - before);
    running.stop().await?;
    let audited = audit(&hub).await?;
    hub.close().await;
    let tasks = count(arguments.orchestrations) * f64::from(activities);
    let figures = Figures {
        bench: "fanout",
        setting,
        orchestrations: arguments.orchestrations,
        activities,
        window: arguments.window,
        tasks_per_second: rounded(ratio(tasks, spent.seconds), 0),
        p50_ms: rounded(percentile(&mut times, 50.0), 3),
        p99_ms: rounded(percentile(&mut times, 99.0), 3),
        seconds: rounded(spent.seconds, 4),
        commits: (commits > 0).then_some(commits),
        cpu_seconds: rounded(spent.processor_seconds, 3),
        peak_rss_bytes: peak,
        audited,
    };
    report::show(&arguments.common, &figures, &lines(&figures))
}

fn lines(figures: &Figures) -> Lines {
    let mut lines = Lines::default();
    figures.setting.lines(&mut lines);
    lines.text(format!(
        "{} orchestrations of {} activities at once, {} outstanding; every output checked",
        figures.orchestrations, figures.activities, figures.window
    ));
    lines.line(
        "tasks",
        format!("{:.0} /s", figures.tasks_per_second),
        "activities run, and their results gathered",
    );
    lines.line("p50", format!("{:.1} ms", figures.p50_ms), "half of the orchestrations took less");
    lines.line("p99", format!("{:.1} ms", figures.p99_ms), "all but one in a hundred took less");
    lines.maybe(
        "commits",
        figures.commits.map(|commits| commits.to_string()),
        "transactions, each made durable",
    );
    lines.line("processor", format!("{:.2} s", figures.cpu_seconds), "client, worker and store together");
    lines.maybe("peak memory", figures.peak_rss_bytes.map(report::megabytes), "resident");
    lines
}
