//! The benchmarks as a user runs them, at a tiny size: what they print, not how fast they are.

#![allow(clippy::unwrap_used)] // A test that cannot run the command has failed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn dauer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dauer")).arg("bench").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The figures of a benchmark that succeeded, which are all that it printed.
fn figures(arguments: &[&str]) -> Value {
    let output = dauer(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    parse(&output)
}

fn parse(output: &Output) -> Value {
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().count(), 1, "one object: {printed}");
    serde_json::from_str(printed).unwrap()
}

fn number(figures: &Value, name: &str) -> f64 {
    figures[name].as_f64().unwrap_or_else(|| panic!("{name} is no number: {figures}"))
}

fn positive(figures: &Value, names: &[&str]) {
    for name in names {
        assert!(number(figures, name) > 0.0, "{name}: {figures}");
    }
}

/// A folder of this test alone, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn url(&self, name: &str) -> String {
        format!("sqlite:{}", self.0.join(name).display())
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_sequence_is_measured_beside_its_limit() {
    let size = ["--orchestrations", "300", "--activities", "3", "--window", "50", "--runs", "2", "--json"];
    // The bytes of so few orchestrations are mostly the same few pages, so only the fields are looked at here; that a
    // limit which does less work is refused is tested beside the comparison.
    let output = dauer(&[&["sequence"][..], &size].concat());
    let figures = parse(&output);
    assert_eq!(
        (&figures["bench"], &figures["orchestrations"], &figures["activities"], &figures["window"]),
        (&"sequence".into(), &300.into(), &3.into(), &50.into())
    );
    positive(&figures, &["orchestrations_per_second", "turns_per_second", "p50_ms", "p99_ms", "commits"]);
    positive(
        &figures,
        &["checkpoints_per_commit", "cpu_seconds", "limit_per_second", "limit_ratio", "audited"],
    );
    assert!(number(&figures, "p50_ms") <= number(&figures, "p99_ms"));
    assert!(number(&figures, "fsync_ms") > 0.0);
    if cfg!(target_os = "linux") {
        assert!(number(&figures, "peak_rss_bytes") > 1e6, "{figures}");
        let cores = number(&figures, "cores");
        for name in ["cores_free", "limit_cores_free"] {
            assert!((0.0..=cores).contains(&number(&figures, name)), "{name}: {figures}");
        }
    }
    assert_eq!(figures["disturbed"], Value::Array(Vec::new()), "all runs count: {figures}");
    let turns = number(&figures, "commits") * number(&figures, "checkpoints_per_commit");
    assert!((1100.0..=1300.0).contains(&turns), "300 orchestrations of 4 turns: {figures}");
    let runs = figures["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let median = &runs[usize::try_from(figures["median_run"].as_u64().unwrap()).unwrap()];
    assert_eq!(median["orchestrations_per_second"], figures["orchestrations_per_second"]);
    for run in runs {
        // The same instances were written, statement by statement.
        let (store, limit) = (&run["comparison"]["store"], &run["comparison"]["limit"]);
        for name in ["rows", "statements"] {
            let (store, limit) = (number(store, name), number(limit, name));
            assert!((store - limit).abs() <= store / 10.0, "{name}: {store} and {limit}");
        }
    }
    let comparable = runs.iter().all(|run| run["comparison"]["comparable"] == true);
    assert_eq!(output.status.code(), Some(if comparable { 0 } else { 1 }), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).contains("the limit is not comparable"), !comparable);
}

#[test]
fn a_sequence_without_a_file_has_no_limit() {
    let figures = figures(&[
        "sequence",
        "--store",
        "memory:",
        "--orchestrations",
        "20",
        "--runs",
        "1",
        "--payload",
        "100",
        "--ids",
        "random",
        "--json",
    ]);
    positive(&figures, &["orchestrations_per_second", "audited"]);
    assert_eq!((&figures["payload_bytes"], &figures["ids"]), (&100.into(), &"random".into()));
    for name in ["limit_per_second", "limit_ratio", "comparison", "fsync_ms"] {
        assert!(figures[name].is_null(), "{name}: {figures}");
    }
}

#[test]
fn latency_is_told_with_its_allowance() {
    let figures = figures(&["latency", "--orchestrations", "5", "--json"]);
    assert_eq!((&figures["bench"], &figures["orchestrations"]), (&"latency".into(), &5.into()));
    positive(&figures, &["p50_ms", "p99_ms", "fsync_ms", "cpu_ms_per_orchestration", "audited"]);
    let allowance = 1.0 + 3.0 * number(&figures, "fsync_ms");
    assert!((number(&figures, "allowance_ms") - allowance).abs() < 0.001, "{figures}");
    let within = number(&figures, "p50_ms") <= allowance;
    assert_eq!(figures["within_allowance"], within);
}

#[test]
fn a_fan_out_counts_its_tasks() {
    let figures =
        figures(&["fanout", "--orchestrations", "3", "--activities", "20", "--window", "2", "--json"]);
    assert_eq!((&figures["orchestrations"], &figures["activities"]), (&3.into(), &20.into()));
    let tasks = number(&figures, "tasks_per_second") * number(&figures, "seconds");
    assert!((55.0..=65.0).contains(&tasks), "60 tasks: {figures}");
    positive(&figures, &["p50_ms", "p99_ms", "cpu_seconds", "audited"]);
}

#[test]
fn a_history_compares_late_with_early_turns() {
    let figures = figures(&["history", "--turns", "40", "--json"]);
    assert_eq!((&figures["bench"], &figures["turns"]), (&"history".into(), &40.into()));
    positive(&figures, &["early_turn_ms", "late_turn_ms", "late_turn_cpu_ms", "seconds", "audited"]);
    let ratio = number(&figures, "late_turn_ms") / number(&figures, "early_turn_ms");
    assert!((number(&figures, "ratio") - ratio).abs() <= 0.01 * ratio.max(1.0), "{figures}");
    assert_eq!(figures["within_ratio"], number(&figures, "ratio") <= 1.5);
}

#[test]
fn sleepers_survive_a_restart_of_the_process() {
    let folder = Folder::new("timers");
    let url = folder.url("hub.db");
    let figures = figures(&["timers", "--store", &url, "--instances", "30", "--idle", "0.1", "--json"]);
    assert_eq!((&figures["bench"], &figures["instances"]), (&"timers".into(), &30.into()));
    positive(&figures, &["start_seconds", "starts_per_second", "audited"]);
    positive(&figures["restart"], &["restart_seconds"]);
    assert!(number(&figures["restart"], "restarted_idle_cpu_percent") >= 0.0);
    assert!(folder.files().contains(&"hub.db".to_owned()), "a store that was named stays");
    assert!(!folder.files().iter().any(|file| file.ends_with(".bench")), "{:?}", folder.files());
    // All of them are there, asleep, and the one that the restarted process ran.
    let db = rusqlite::Connection::open(folder.0.join("hub.db")).unwrap();
    let ended = |condition: &str| -> u32 {
        let sql = format!("SELECT count(*) FROM instances WHERE completed IS {condition}");
        db.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((ended("NULL"), ended("NOT NULL")), (30, 1));
}

#[test]
fn text_says_what_each_figure_is() {
    let output = dauer(&["fanout", "--orchestrations", "1", "--activities", "5", "--store", "memory:"]);
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}");
    for word in ["tasks ", "/s", "p50 ", "processor ", "every output checked", "store memory:"] {
        assert!(printed.contains(word), "{word:?} is missing: {printed}");
    }
    assert!(!printed.contains('{'), "{printed}");
}

#[test]
fn a_store_that_is_not_new_is_refused_untouched() {
    let folder = Folder::new("not-new");
    std::fs::write(folder.0.join("mine.txt"), "mine").unwrap();
    for bench in ["sequence", "fanout", "latency", "timers", "history"] {
        let output = dauer(&[bench, "--store", &folder.url("mine.txt"), "--json"]);
        assert_eq!(output.status.code(), Some(1), "{bench}");
        let complaint = text(&output.stderr);
        assert!(complaint.contains("not empty") && complaint.contains("leave --store out"), "{complaint}");
        assert!(!complaint.contains("run the same again") && !complaint.contains("killed"), "{complaint}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(folder.files(), ["mine.txt"]);
    assert_eq!(std::fs::read(folder.0.join("mine.txt")).unwrap(), b"mine");
}

#[test]
fn nonsense_is_refused_with_what_to_do() {
    let output = dauer(&["latency", "--store", "redis:"]);
    assert_eq!(output.status.code(), Some(2));
    let first = "error: 'redis:' names no store; use sqlite:FILE, memory: or http://HOST:PORT\nhint: ";
    assert!(text(&output.stderr).starts_with(first), "{}", text(&output.stderr));
    let folder = Folder::new("nonsense");
    let output = dauer(&["latency", "--store", &folder.url("missing/hub.db")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("in a folder that exists"), "{}", text(&output.stderr));
    for call in [&["sequence", "--window", "0"][..], &["sequence", "--orchestrations", "many"], &["nothing"]]
    {
        assert_eq!(dauer(call).status.code(), Some(2), "{call:?}");
    }
}

/// The deadline for a benchmark to begin: only a broken one reaches it.
const SOON: Duration = Duration::from_secs(60);

/// As by `kill -9`, in the middle. The file stays, because anything may have used it since, and the error says what to do.
#[test]
fn killed_benchmark_leaves_a_file_that_can_be_removed() {
    let folder = Folder::new("killed");
    let (url, file) = (folder.url("k.db"), folder.0.join("k.db"));
    let mut killed = Command::new(env!("CARGO_BIN_EXE_dauer"));
    killed.args(["bench", "latency", "--orchestrations", "1000000", "--store", &url]);
    let mut killed = killed.stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let is_written = || std::fs::metadata(&file).is_ok_and(|found| found.len() > 0);
    while !is_written() && began.elapsed() < SOON {
        std::thread::yield_now();
    }
    let running = dauer(&["latency", "--orchestrations", "1", "--store", &url]);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let said = text(&running.stderr);
    assert!(said.contains("runs now") && said.contains("\nhint: wait for the end of the other"), "{said}");
    assert!(is_written(), "it has not begun");
    let again = dauer(&["latency", "--orchestrations", "5", "--store", &url]);
    let said = text(&again.stderr);
    assert!(said.contains("not empty") && said.contains("\nhint: a benchmark overwrites no file"), "{said}");
    for file in folder.files() {
        std::fs::remove_file(folder.0.join(file)).unwrap();
    }
    let figures = figures(&["latency", "--orchestrations", "5", "--store", &url, "--json"]);
    assert_eq!(figures["orchestrations"], 5);
    assert!(!folder.0.join("k.db.bench").exists(), "{:?}", folder.files());
}

#[test]
fn foreign_folder_is_refused_with_a_fitting_hint() {
    let folder = Folder::new("foreign");
    std::fs::create_dir(folder.0.join("k.db.bench")).unwrap();
    std::fs::write(folder.0.join("k.db.bench/letter"), "mine").unwrap();
    let refused = dauer(&["latency", "--store", &folder.url("k.db")]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("\nhint: a benchmark removes only its own folders: "), "{said}");
    assert!(folder.0.join("k.db.bench/letter").exists());
}
