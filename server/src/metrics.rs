//! The figures of the server in Prometheus' text format.

use std::fmt::Write as _;
use std::sync::Arc;

use dauer_remote::Figures;
use dauer_store::Effort;

use crate::hub::Hub;
use crate::hubs::Hubs;

/// One figure of each hub.
struct Metric {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    /// Which of several figures under one name it is.
    label: &'static str,
    value: fn(&Seen) -> u64,
}

/// What was seen of a hub.
struct Seen {
    hub: String,
    workers: Figures,
    effort: Effort,
    waits: usize,
    has_host: bool,
    has_failed: bool,
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&Seen) -> u64) -> Metric {
    Metric { name, help, kind: "gauge", label: "", value }
}

const fn counter(name: &'static str, help: &'static str, value: fn(&Seen) -> u64) -> Metric {
    Metric { name, help, kind: "counter", label: "", value }
}

impl Metric {
    const fn of(self, label: &'static str) -> Self {
        Self { label, ..self }
    }
}

const TURN: &str = r#",kind="orchestration""#;
const ACTIVITY: &str = r#",kind="activity""#;

const HELD: &str = "Work items that workers have in their hands.";
const ANSWERED: &str = "Work items that workers have answered.";

/// Those with the same name stand beside each other.
const METRICS: &[Metric] = &[
    gauge("dauer_worker_streams", "Workers that are connected.", |seen| seen.workers.streams as u64),
    counter("dauer_worker_streams_lost_total", "Workers that have gone.", |seen| seen.workers.streams_lost),
    gauge("dauer_items_held", HELD, |seen| seen.workers.turns_held as u64).of(TURN),
    gauge("dauer_items_held", HELD, |seen| seen.workers.activities_held as u64).of(ACTIVITY),
    counter("dauer_items_answered_total", ANSWERED, |seen| seen.workers.turns_answered).of(TURN),
    counter("dauer_items_answered_total", ANSWERED, |seen| seen.workers.activities_answered).of(ACTIVITY),
    counter("dauer_items_abandoned_total", "Work items that workers gave back.", |seen| {
        seen.workers.abandoned
    }),
    counter("dauer_answers_dropped_total", "Answers that were late, repeated or for nothing.", |seen| {
        seen.workers.answers_dropped
    }),
    gauge("dauer_waits", "Calls that wait for an instance.", |seen| seen.waits as u64),
    gauge("dauer_host_running", "Whether work is claimed for workers.", |seen| u64::from(seen.has_host)),
    gauge("dauer_host_failed", "Whether no work can be claimed any more.", |seen| u64::from(seen.has_failed)),
    counter("dauer_store_commits_total", "Transactions that wrote something.", |seen| seen.effort.commits),
    counter("dauer_store_turns_total", "Turns that were committed.", |seen| seen.effort.turns),
    counter("dauer_store_statements_total", "Statements that wrote.", |seen| seen.effort.statements),
    counter("dauer_store_rows_total", "Rows that were written.", |seen| seen.effort.rows),
    counter("dauer_store_syncs_total", "Times the disk was waited for.", |seen| seen.effort.syncs),
];

fn seen(hub: &Arc<Hub>) -> Seen {
    Seen {
        hub: hub.name.to_string(),
        workers: hub.workers.figures(),
        effort: hub.client.hub().effort(),
        waits: hub.client.waits(),
        has_host: hub.has_host(),
        has_failed: hub.failure().is_some(),
    }
}

/// All figures, as Prometheus reads them.
pub(crate) fn text(hubs: &Hubs) -> String {
    written(&hubs.all().iter().map(seen).collect::<Vec<_>>())
}

fn written(hubs: &[Seen]) -> String {
    let mut text = String::new();
    let mut last = "";
    for Metric { name, help, kind, label, value } in METRICS {
        if *name != last {
            // Writing to a string never fails.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            last = name;
        }
        for seen in hubs {
            // Names of hubs are letters, digits and hyphens: nothing in them has to be escaped.
            let _ = writeln!(text, r#"{name}{{hub="{}"{label}}} {}"#, seen.hub, value(seen));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_told_once_for_each_hub() {
        let workers = Figures { turns_held: 3, activities_held: 4, ..Figures::default() };
        let effort = Effort { syncs: 9, ..Effort::default() };
        let one = |hub: &str| Seen {
            hub: hub.to_owned(),
            workers,
            effort,
            waits: 0,
            has_host: true,
            has_failed: false,
        };
        let text = written(&[one("north"), one("south")]);
        assert!(text.contains("dauer_items_held{hub=\"north\",kind=\"orchestration\"} 3\n"));
        assert!(text.contains("dauer_items_held{hub=\"south\",kind=\"activity\"} 4\n"));
        assert!(text.contains("dauer_store_syncs_total{hub=\"south\"} 9\n"));
        for name in METRICS.iter().map(|metric| metric.name) {
            assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name}");
        }
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 2 * METRICS.len());
    }
}
