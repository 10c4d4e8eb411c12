//! The figures of `dauer bench sequence`, and how they are told.

use serde::Serialize;

use super::{Ids, LIMIT_PASSES};
use crate::limit::Comparison;
use crate::report::{self, Lines, Setting};

/// One run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    pub(super) orchestrations_per_second: f64,
    pub(super) turns_per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) seconds: f64,
    /// `None` where the store does not count.
    pub(super) commits: Option<u64>,
    pub(super) checkpoints_per_commit: Option<f64>,
    /// Instances that were not claimed in the write that started them.
    pub(super) claims: Option<u64>,
    pub(super) cpu_seconds: f64,
    /// How many cores the rest of the machine left to it; `None` where the system does not tell, or a server has a part of the
    /// work.
    pub(super) cores_free: Option<f64>,
    pub(super) peak_rss_bytes: Option<u64>,
    pub(super) limit_per_second: Option<f64>,
    pub(super) limit_cpu_seconds: Option<f64>,
    pub(super) limit_cores_free: Option<f64>,
    pub(super) limit_ratio: Option<f64>,
    pub(super) comparison: Option<Comparison>,
    /// Things that were compared; `None` where the store is out of reach.
    pub(super) audited: Option<u64>,
}

/// So many cores must be left to a run that is to count with `--idle`: one for client and worker, one for the writer of the store,
/// less one part in twenty. Something always happens on a computer, and its time is counted in hundredths of a second, of which
/// the shortest pass of the limit has twenty.
pub(super) const CORES_FREE_MIN: f64 = 1.9;

impl Run {
    /// Whether it had two idle cores, and its limit had them too.
    pub(super) fn was_idle(&self) -> bool {
        let idle = |free: Option<f64>| free.is_some_and(|free| free >= CORES_FREE_MIN);
        idle(self.cores_free) && (self.limit_per_second.is_none() || idle(self.limit_cores_free))
    }
}

/// A run that does not count.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Disturbed {
    pub(super) orchestrations_per_second: f64,
    pub(super) cores_free: Option<f64>,
    pub(super) limit_per_second: Option<f64>,
    pub(super) limit_cores_free: Option<f64>,
}

impl From<Run> for Disturbed {
    fn from(run: Run) -> Self {
        let Run { orchestrations_per_second, cores_free, limit_per_second, limit_cores_free, .. } = run;
        Self { orchestrations_per_second, cores_free, limit_per_second, limit_cores_free }
    }
}

/// All figures.
#[derive(Serialize)]
pub(super) struct Figures<'f> {
    pub(super) bench: &'static str,
    #[serde(flatten)]
    pub(super) setting: &'f Setting,
    pub(super) orchestrations: u64,
    pub(super) activities: u32,
    pub(super) window: u32,
    /// Turns, and activities, that the worker takes at once.
    pub(super) worker_room: usize,
    pub(super) payload_bytes: u32,
    pub(super) ids: Ids,
    /// The median run, whose figures follow.
    pub(super) median_run: usize,
    #[serde(flatten)]
    pub(super) median: &'f Run,
    pub(super) runs: &'f [Run],
    /// With `--idle`: runs that do not count, because others had a part of the cores.
    pub(super) disturbed: &'f [Disturbed],
}

pub(super) fn lines(figures: &Figures<'_>) -> Lines {
    let (mut lines, run) = (Lines::default(), figures.median);
    figures.setting.lines(&mut lines);
    lines.text(format!(
        "{} orchestrations of {} activities, {} outstanding at once, room for {} in the worker, {} bytes of padding, {:?} ids, 2 tags each; \
         every output checked, {}; {} runs, the median is run {}",
        figures.orchestrations,
        figures.activities,
        figures.window,
        figures.worker_room,
        figures.payload_bytes,
        figures.ids,
        if run.audited.is_some() { "every store audited" } else { "the server's store not audited" },
        figures.runs.len(),
        figures.median_run + 1,
    ));
    let rates: Vec<String> =
        figures.runs.iter().map(|run| format!("{:.0}", run.orchestrations_per_second)).collect();
    lines.line(
        "orchestrations",
        format!("{:.0} /s", run.orchestrations_per_second),
        &format!("runs: {}", rates.join(", ")),
    );
    lines.line("turns", format!("{:.0} /s", run.turns_per_second), "each is one durable step");
    lines.line("p50", format!("{:.2} ms", run.p50_ms), "half took less, from the start call to the output");
    lines.line("p99", format!("{:.2} ms", run.p99_ms), "all but one in a hundred took less");
    lines.maybe("commits", run.commits.map(|commits| commits.to_string()), "transactions, each made durable");
    let per_commit = run.checkpoints_per_commit.map(|each| format!("{each:.1}"));
    lines.maybe("turns per commit", per_commit, "how many turns share one transaction");
    let whose = if run.audited.is_some() { "client, worker and store" } else { "client and worker" };
    lines.line("processor", format!("{:.2} s", run.cpu_seconds), &format!("{whose} together"));
    lines.maybe(
        "cores free",
        run.cores_free.map(|free| format!("{free:.2}")),
        &format!(
            "of {}: what other processes, and whoever has this machine as a guest, left",
            figures.setting.cores
        ),
    );
    if !run.was_idle() && run.cores_free.is_some() {
        lines.text("Not on two idle cores: the figures are about the rest of the machine too. --idle makes such runs again.");
    }
    if !figures.disturbed.is_empty() {
        lines.text(format!(
            "{} runs more were not on two idle cores, and do not count",
            figures.disturbed.len()
        ));
    }
    lines.maybe("peak memory", run.peak_rss_bytes.map(report::megabytes), &format!("resident, {whose}"));
    let limit = run.limit_per_second.map(|rate| format!("{rate:.0} /s"));
    let processor = run.limit_cpu_seconds.unwrap_or_default();
    let what = format!(
        "the same rows, bytes and fsyncs by a bare loop, same folder, median of {LIMIT_PASSES} passes; {processor:.2} s of processor"
    );
    lines.maybe("limit", limit, &what);
    let part = run.limit_ratio.map(|part| format!("{:.0} %", part * 100.0));
    lines.maybe(
        "of the limit",
        part,
        "what is left after orchestrations, histories, leases, client and worker",
    );
    if let Some(comparison) = run.comparison.filter(|_| run.limit_per_second.is_some()) {
        comparison.lines(&mut lines);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cores_free: Option<f64>, limit: Option<Option<f64>>) -> Run {
        Run {
            orchestrations_per_second: 1.0,
            turns_per_second: 1.0,
            p50_ms: 1.0,
            p99_ms: 1.0,
            seconds: 1.0,
            commits: None,
            checkpoints_per_commit: None,
            claims: None,
            cpu_seconds: 1.0,
            cores_free,
            peak_rss_bytes: None,
            limit_per_second: limit.map(|_| 1.0),
            limit_cpu_seconds: None,
            limit_cores_free: limit.flatten(),
            limit_ratio: None,
            comparison: None,
            audited: None,
        }
    }

    #[test]
    fn a_run_counts_when_it_and_its_limit_had_two_idle_cores() {
        for (cores_free, limit, idle) in [
            (Some(2.0), Some(Some(1.95)), true),
            (Some(1.9), Some(Some(1.9)), true),
            (Some(64.0), None, true),
            (Some(1.89), Some(Some(2.0)), false),
            (Some(2.0), Some(Some(1.89)), false),
            // Who does not know cannot say so.
            (Some(2.0), Some(None), false),
            (None, None, false),
        ] {
            assert_eq!(run(cores_free, limit).was_idle(), idle, "{cores_free:?} {limit:?}");
        }
    }
}
