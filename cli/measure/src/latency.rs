//! `dauer bench latency`: one orchestration with one activity at a time.

use dauer::Hub;
use futures::FutureExt;
use serde::Serialize;

use super::place::Place;
use super::process::{self, Meter};
use super::report::{self, Lines, Setting};
use super::sequence::audit;
use super::statistics::{count, percentile, ratio, rounded};
use super::workload::{self, Running, SEQUENCE, Sequence, Value};
use super::{Common, Error, Program};

/// Orchestrations before the clock runs: caches and allocators are warm then.
const WARM_UP: u64 = 100;

/// What an orchestration may take beside its disk accesses.
const ALLOWANCE_MS: f64 = 1.0;

/// Disk accesses that it may wait for: the start, the first turn, the last turn.
const ALLOWANCE_SYNCS: f64 = 3.0;

/// What to measure.
#[derive(clap::Args, Clone)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// So many orchestrations, one after the other.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    orchestrations: u64,
}

#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    #[serde(flatten)]
    setting: Setting,
    orchestrations: u64,
    p50_ms: f64,
    p99_ms: f64,
    /// 1 ms and three fsyncs, measured in the same folder before and after.
    allowance_ms: Option<f64>,
    within_allowance: Option<bool>,
    orchestrations_per_second: f64,
    cpu_ms_per_orchestration: f64,
    peak_rss_bytes: Option<u64>,
    audited: u64,
}

pub(super) async fn run(arguments: Arguments, program: &Program) -> Result<(), Error> {
    let place = Place::new(arguments.common.store.as_deref())?;
    let mut setting = Setting::look(&arguments.common, program, &place)?;
    let hub = dauer::open(&place.url(0, true))?;
    let running = Running::start(workload::register(hub.worker()))?;
    report::progress(&arguments.common, &format!("{} orchestrations", arguments.orchestrations));
    Box::pin(one_at_a_time(&hub, "warm-up", WARM_UP)).await?;
    process::forget_peak();
    let meter = Meter::start();
    let mut times = Box::pin(one_at_a_time(&hub, "latency", arguments.orchestrations)).await?;
    let spent = meter.stop();
    let peak = process::peak_bytes();
    // The disk may have changed its mind meanwhile: the mean of before and after is what the run met.
    if let Some(before) = setting.fsync_ms {
        let after = process::sync_ms(place.scratch())?;
        setting.fsync_ms = Some(rounded(before.midpoint(after), 4));
    }
    running.stop().await?;
    let audited = audit(&hub).await?;
    hub.close().await;
    let p50 = percentile(&mut times, 50.0);
    let allowance = setting.fsync_ms.map(|sync| ALLOWANCE_MS + ALLOWANCE_SYNCS * sync);
    let figures = Figures {
        bench: "latency",
        setting,
        orchestrations: arguments.orchestrations,
        p50_ms: rounded(p50, 4),
        p99_ms: rounded(percentile(&mut times, 99.0), 4),
        allowance_ms: allowance.map(|allowance| rounded(allowance, 4)),
        within_allowance: allowance.map(|allowance| p50 <= allowance),
        orchestrations_per_second: rounded(ratio(count(arguments.orchestrations), spent.seconds), 0),
        cpu_ms_per_orchestration: rounded(
            1000.0 * ratio(spent.processor_seconds, count(arguments.orchestrations)),
            4,
        ),
        peak_rss_bytes: peak,
        audited,
    };
    report::show(&arguments.common, &figures, &lines(&figures))
}

async fn one_at_a_time(hub: &Hub, name: &'static str, total: u64) -> Result<Vec<f64>, Error> {
    let once = move |client: dauer::Client, number: u64| {
        async move {
            let input = Sequence { activities: 1, value: Value::new(number, 0) };
            let handle = client.start(SEQUENCE, &input).id(format!("{name}-{number:08}")).await?;
            let output = handle.output().await?;
            workload::check(handle.id().as_str(), &output, &workload::sequence_output(&input))
        }
        .boxed()
    };
    workload::closed_loop(hub, total, 1, once).await
}

fn lines(figures: &Figures) -> Lines {
    let mut lines = Lines::default();
    figures.setting.lines(&mut lines);
    lines.text(format!("{} orchestrations of one activity, one at a time", figures.orchestrations));
    lines.line(
        "p50",
        format!("{:.3} ms", figures.p50_ms),
        "half took less, from the start call to the output",
    );
    lines.line("p99", format!("{:.3} ms", figures.p99_ms), "all but one in a hundred took less");
    let allowance = figures.allowance_ms.map(|allowance| format!("{allowance:.3} ms"));
    lines.maybe("allowance", allowance, "1 ms and three fsyncs of this disk");
    if let Some(within) = figures.within_allowance {
        lines.text(if within { "p50 is within the allowance" } else { "p50 IS NOT WITHIN THE ALLOWANCE" });
    }
    lines.line(
        "processor",
        format!("{:.3} ms", figures.cpu_ms_per_orchestration),
        "for each, client and worker and store",
    );
    lines
}
