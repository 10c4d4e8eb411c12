//! `dauer bench sequence`: many orchestrations, each with a few activities one after the other.

mod figures;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use dauer::{Client, Handle, HostOptions, Hub};
use futures::FutureExt;
use serde::Serialize;

use super::limit::{self, Comparison, DIFFERENCE_MAX, Effort, Sample, Schedule};
use super::place::Place;
use super::process::{self, Meter, Spent};
use super::report::{self, Setting};
use super::statistics::{count, median_index, percentile, ratio, rounded};
use super::workload::{self, Running, SEQUENCE, Sequence, Value};
use super::{Common, Error, Program};
use figures::{CORES_FREE_MIN, Disturbed, Figures, Run, lines};

/// What to measure.
#[derive(clap::Args, Clone)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// So many orchestrations.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    orchestrations: u64,
    /// So many activities in each, one after the other.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    activities: u32,
    /// So many orchestrations outstanding at once.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    window: u32,
    /// So many bytes of padding, carried by the input, every activity and the output.
    #[arg(long, default_value_t = 0, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    payload: u32,
    /// So many runs, each on a new file; the median is reported.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Ids that grow, like numbers of orders; or random ones, like those that clients make up.
    #[arg(long, value_enum, default_value_t = Ids::Growing)]
    ids: Ids,
    /// Measure a server that runs, instead of a store: client and worker are here and reach it over gRPC. What is started
    /// there stays there.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "store")]
    pub(super) server: Option<String>,
    /// Only runs on two idle cores count: one in which others had a part of them is made again.
    #[arg(long, conflicts_with = "server")]
    idle: bool,
    /// What all ids begin with: a server may have others of an earlier run.
    #[arg(skip)]
    prefix: String,
}

/// What the ids of the instances look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Ids {
    Growing,
    Random,
}

/// How often the bare loop does the same: each pass takes a quarter of a second, in which the machine may be a third faster or
/// slower than in the next one. The median counts.
const LIMIT_PASSES: usize = 3;

/// So many runs may not count with `--idle`: a few minutes, in which a machine that is idle at times has been idle.
const DISTURBED_MAX: usize = 60;

/// So many customers: some share a tag, and most do not.
const CUSTOMERS: u64 = 100;

/// The tags of an orchestration: whose order it is, and one that is the same for all.
pub(super) type Tags = [(&'static str, String); 2];

fn tags(number: u64) -> Tags {
    [("customer", (number % CUSTOMERS).to_string()), ("region", "north".to_owned())]
}

/// A number that looks like chance, and is another for every number.
pub(super) fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

impl Arguments {
    fn id(&self, number: u64) -> String {
        match self.ids {
            Ids::Growing => format!("{}sequence-{number:08}", self.prefix),
            Ids::Random => format!("{}{:016x}{:016x}", self.prefix, scatter(number), scatter(!number)),
        }
    }

    /// The URL of the server, if one is measured.
    fn server_url(&self, program: &Program) -> Option<String> {
        let address = self.server.as_deref()?;
        Some(if (program.is_server)(address) { address.to_owned() } else { format!("http://{address}") })
    }

    /// The same for one of several runs. On a server they must not find what the others left.
    fn for_run(&self, number: usize) -> Self {
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let prefix = self.server.as_ref().map(|_| format!("{moment:x}-{number}-")).unwrap_or_default();
        Self { prefix, ..self.clone() }
    }

    /// Turns and activities that the worker takes at once: room for all that is outstanding, at least the default. Twice,
    /// because a turn under way has both the activity that ended and the one that it schedules.
    fn room(&self) -> usize {
        (2 * self.window as usize).max(HostOptions::default().turns_max)
    }

    fn input(&self, number: u64) -> Sequence {
        Sequence { activities: self.activities, value: Value::new(number, self.payload as usize) }
    }

    /// Starts one, with two tags.
    async fn start(&self, client: Client, number: u64) -> Result<Handle<Value>, Error> {
        let mut call = client.start(SEQUENCE, &self.input(number)).id(self.id(number));
        for (name, value) in tags(number) {
            call = call.tag(name, value);
        }
        Ok(call.await?)
    }

    /// The tags of all, by id.
    fn tags(&self) -> BTreeMap<String, Tags> {
        (0..self.orchestrations).map(|number| (self.id(number), tags(number))).collect()
    }

    /// Starts one, waits for its output and checks it.
    async fn once(&self, client: Client, number: u64) -> Result<(), Error> {
        let handle = self.start(client, number).await?;
        let output = handle.output().await?;
        workload::check(handle.id().as_str(), &output, &workload::sequence_output(&self.input(number)))
    }
}

pub(super) async fn run(arguments: Arguments, program: &Program) -> Result<(), Error> {
    let server = arguments.server_url(program);
    let place = Place::new(server.as_deref().or(arguments.common.store.as_deref()))?;
    let setting = Setting::look(&arguments.common, program, &place)?;
    let sample = if place.is_file() { Some(sample(&arguments, &place).await?) } else { None };
    let (runs, disturbed) = Box::pin(all_runs(&arguments, program, &place, sample.as_ref())).await?;
    let rates: Vec<f64> = runs.iter().map(|run| run.orchestrations_per_second).collect();
    let median_run = median_index(&rates);
    let figures = Figures {
        bench: "sequence",
        setting: &setting,
        orchestrations: arguments.orchestrations,
        activities: arguments.activities,
        window: arguments.window,
        worker_room: arguments.room(),
        payload_bytes: arguments.payload,
        ids: arguments.ids,
        median_run,
        median: &runs[median_run],
        runs: &runs,
        disturbed: &disturbed,
    };
    report::show(&arguments.common, &figures, &lines(&figures))?;
    let comparable = runs.iter().filter_map(|run| run.comparison).all(|comparison| comparison.comparable);
    if comparable { Ok(()) } else { Err(Error::NotComparable(DIFFERENCE_MAX)) }
}

/// As many runs as are wanted; and those that do not count, because others had a part of the cores.
async fn all_runs(
    arguments: &Arguments,
    program: &Program,
    place: &Place,
    sample: Option<&Sample>,
) -> Result<(Vec<Run>, Vec<Disturbed>), Error> {
    let (mut runs, mut disturbed) = (Vec::new(), Vec::new());
    let wanted = arguments.runs as usize;
    while runs.len() < wanted {
        let number = runs.len();
        let last = number + 1 == wanted;
        place.clear();
        report::progress(&arguments.common, &format!("run {} of {wanted}", number + 1));
        let of_run = arguments.for_run(number);
        let run = Box::pin(measure(&of_run, program, place, sample, (number, last))).await?;
        if !arguments.idle || run.was_idle() {
            runs.push(run);
            continue;
        }
        if last {
            place.clear_given();
        }
        disturbed.push(Disturbed::from(run));
        give_up_after(&disturbed)?;
    }
    Ok((runs, disturbed))
}

/// A machine that is never idle is told so, instead of measured without an end.
fn give_up_after(disturbed: &[Disturbed]) -> Result<(), Error> {
    match disturbed.last() {
        Some(last) if disturbed.len() >= DISTURBED_MAX => {
            let limit = last.limit_cores_free.unwrap_or(f64::INFINITY);
            let free = last.cores_free.unwrap_or_default().min(limit);
            Err(Error::NotIdle { runs: disturbed.len(), free, wanted: CORES_FREE_MIN })
        }
        _ => Ok(()),
    }
}

/// The rows of one such orchestration.
async fn sample(arguments: &Arguments, place: &Place) -> Result<Sample, Error> {
    let hub = dauer::open(&place.file_url("sample.db"))?;
    let file = place.scratch().join("sample.db");
    let sample = Sample::take(&hub, &file, |client| async move { arguments.start(client, 0).await }).await;
    hub.close().await;
    sample
}

async fn measure(
    arguments: &Arguments,
    program: &Program,
    place: &Place,
    sample: Option<&Sample>,
    (number, last): (usize, bool),
) -> Result<Run, Error> {
    let url = place.url(number, last);
    let hub = if (program.is_server)(&url) { (program.connect)(&url)? } else { dauer::open(&url)? };
    let room = arguments.room();
    let options = HostOptions { turns_max: room, activities_max: room, ..HostOptions::default() };
    let running = Running::start(workload::register(hub.worker()).options(options))?;
    let mut run = Box::pin(clocked(arguments, &hub)).await?;
    running.stop().await?;
    if !hub.is_remote() {
        run.audited = Some(audit(&hub).await?);
    }
    hub.close().await;
    let file = place.file(number, last);
    if let (Some(file), Some(sample), Some(store)) = (file, sample, run.comparison) {
        let (spent, effort) = bare(arguments, place, sample, (&file, &run)).await?;
        let rate = ratio(count(arguments.orchestrations), spent.seconds);
        run.limit_per_second = Some(rounded(rate, 0));
        run.limit_cores_free = spent.cores_free.map(|free| rounded(free, 2));
        run.limit_cpu_seconds = Some(rounded(spent.processor_seconds, 3));
        run.limit_ratio = Some(rounded(ratio(run.orchestrations_per_second, rate), 3));
        run.comparison = Some(Comparison::new(store.store, effort).rounded());
    }
    Ok(run)
}

/// From the first start to the last output.
async fn clocked(arguments: &Arguments, hub: &Hub) -> Result<Run, Error> {
    let before = hub.manage().effort();
    process::forget_peak();
    let work = arguments.clone();
    let meter = Meter::start();
    let looped =
        workload::closed_loop(hub, arguments.orchestrations, arguments.window as usize, move |client, n| {
            let work = work.clone();
            async move { work.once(client, n).await }.boxed()
        });
    let mut times = looped.await?;
    let spent = meter.stop();
    let peak = process::peak_bytes();
    let after = hub.manage().effort();
    let effort = dauer_store::Effort {
        commits: after.commits - before.commits,
        turns: after.turns - before.turns,
        claims: after.claims - before.claims,
        statements: after.statements - before.statements,
        rows: after.rows - before.rows,
        syncs: after.syncs - before.syncs,
    };
    let counted = effort.commits > 0;
    // Each activity ends a turn, and the last turn only ends the run; more where one had to be taken again.
    let turns = u64::from(arguments.activities + 1) * arguments.orchestrations;
    let turns = count(if counted { effort.turns } else { turns });
    let each = Effort::new(&effort, spent.written_bytes, arguments.orchestrations);
    Ok(Run {
        orchestrations_per_second: rounded(ratio(count(arguments.orchestrations), spent.seconds), 0),
        turns_per_second: rounded(ratio(turns, spent.seconds), 0),
        p50_ms: rounded(percentile(&mut times, 50.0), 3),
        p99_ms: rounded(percentile(&mut times, 99.0), 3),
        seconds: rounded(spent.seconds, 4),
        commits: counted.then_some(effort.commits),
        checkpoints_per_commit: counted
            .then(|| rounded(ratio(count(effort.turns), count(effort.commits)), 1)),
        claims: counted.then_some(effort.claims),
        cpu_seconds: rounded(spent.processor_seconds, 3),
        // A server has a part of the work, and is another process.
        cores_free: spent.cores_free.filter(|_| !hub.is_remote()).map(|free| rounded(free, 2)),
        peak_rss_bytes: peak,
        limit_per_second: None,
        limit_cpu_seconds: None,
        limit_cores_free: None,
        limit_ratio: None,
        comparison: counted.then(|| Comparison::new(each, each)),
        audited: None,
    })
}

/// The store at rest must hold what its invariants say; gives how many things were compared.
pub(super) async fn audit(hub: &Hub) -> Result<u64, Error> {
    let snapshot = dauer_audit::collect(&**hub.manage()).await?;
    let report =
        dauer_audit::audit(&snapshot, &dauer_audit::Evidence::default(), &dauer_audit::Settings::default());
    if report.is_clean() { Ok(report.checked()) } else { Err(Error::Unclean(report.to_string())) }
}

/// The limit of a run whose store is closed: what it did, done once more by a bare loop.
async fn bare(
    arguments: &Arguments,
    place: &Place,
    sample: &Sample,
    (file, run): (&Path, &Run),
) -> Result<(Spent, Effort), Error> {
    let counted = (run.commits.unwrap_or_default(), run.claims.unwrap_or_default());
    let schedule = Schedule::read(file, counted, arguments.tags())?;
    let mut passes = Vec::new();
    for number in 0..LIMIT_PASSES {
        let name = format!("limit-{number}.db");
        // The store makes its tables and goes.
        dauer::open(&place.file_url(&name))?.close().await;
        passes.push(limit::write(&place.scratch().join(name), sample, &schedule)?);
    }
    let rates: Vec<f64> = passes.iter().map(|(spent, _)| ratio(1.0, spent.seconds)).collect();
    Ok(passes.swap_remove(median_index(&rates)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_never_idle_is_told_so() {
        let disturbed = |limit_cores_free| Disturbed {
            orchestrations_per_second: 1.0,
            cores_free: Some(1.5),
            limit_per_second: None,
            limit_cores_free,
        };
        let mut runs = vec![disturbed(None); DISTURBED_MAX - 1];
        give_up_after(&[]).unwrap();
        give_up_after(&runs).unwrap();
        runs.push(disturbed(Some(0.25)));
        let error = give_up_after(&runs).unwrap_err().to_string();
        assert!(error.contains("60 runs") && error.contains("0.25") && error.contains("--idle"), "{error}");
    }

    #[test]
    fn scattered_numbers_are_distinct_and_out_of_order() {
        let all: std::collections::BTreeSet<u64> = (0..10_000).map(scatter).collect();
        assert_eq!(all.len(), 10_000);
        let growing = (0..999_u64).filter(|number| scatter(*number) < scatter(number + 1)).count();
        assert!((400..600).contains(&growing), "{growing}");
    }
}
