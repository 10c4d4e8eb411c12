//! Many seeds: no violation, everything finishes, and whatever can happen did happen.
//!
//! `DAUER_SIM_SEEDS` is how many, `DAUER_SIM_FIRST` where they begin. New seeds come with every commit: those of a commit
//! are derived from its id, so that whoever runs its tests runs the same.

mod support;

use std::process::Command;

use dauer_sim::batch::{Batch, cores, run_all};
use dauer_sim::coverage::SEEDS_MIN;
use dauer_sim::{Config, Statistics, run, shrink};
use support::setting;

/// How many seeds each commit brings. A minute of every machine that builds it adds up over the years.
const NEW_SEEDS: u64 = 200;

/// Seeds of commits begin here, far above those that people count from 0.
const NEW_FROM: u64 = 1 << 32;

fn clean(seeds: impl IntoIterator<Item = u64>) -> Batch {
    let seeds: Vec<u64> = seeds.into_iter().collect();
    let count = seeds.len();
    let batch = run_all(seeds, &Config::default(), cores(), |_, _| {});
    let report: Vec<String> = batch.failed.iter().map(ToString::to_string).collect();
    assert!(batch.failures == 0, "{} of {count} seeds failed\n{}", batch.failures, report.join("\n"));
    assert_eq!(batch.statistics.seeds, count as u64);
    batch
}

#[test]
fn seeds_are_clean_and_whatever_can_happen_happens() {
    let first = setting("DAUER_SIM_FIRST").unwrap_or(0);
    let count = setting("DAUER_SIM_SEEDS").unwrap_or(SEEDS_MIN);
    let Statistics {
        coverage,
        churned,
        fused,
        arrived,
        read,
        met,
        won,
        named,
        recalls,
        recalled,
        fenced_commits,
        begun_again,
        seeds,
        ..
    } = clean(first..first + count).statistics;
    // A handful of seeds, when somebody asks for so few, need not have everything.
    if seeds >= SEEDS_MIN {
        assert_eq!(coverage.empty(), Vec::<String>::new(), "nothing was tested there");
        assert!(coverage.faults() >= 20 * seeds, "{} faults are too few", coverage.faults());
        assert!(churned.figures().iter().all(|(_, count)| *count > 0), "{churned:?}");
        let counts = [fused, arrived, read, met, won, named, recalls, recalled, fenced_commits, begun_again];
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}

/// The id of the commit, from the environment or from git; without either always the same one.
#[expect(
    clippy::disallowed_methods,
    reason = "which seeds are new is a setting; a run is a function of its seed"
)]
fn commit() -> String {
    let git = || {
        let root = env!("CARGO_MANIFEST_DIR");
        let found = Command::new("git").args(["-C", root, "rev-parse", "HEAD"]).output().ok()?;
        found.status.success().then(|| String::from_utf8_lossy(&found.stdout).trim().to_owned())
    };
    std::env::var("DAUER_SIM_COMMIT").ok().or_else(git).unwrap_or_else(|| "no commit".into())
}

#[test]
fn new_seeds_of_this_commit_are_clean() {
    let commit = commit();
    let hash = commit.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let first = NEW_FROM + u64::from(hash) * NEW_SEEDS;
    eprintln!("commit {commit}: seeds {first} to {}", first + NEW_SEEDS - 1);
    clean(first..first + NEW_SEEDS);
}

/// Seeds that once found something, or nearly did. They must stay clean for ever.
#[test]
fn regressions() {
    let seeds: Vec<u64> = include_str!("../regressions.txt")
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .map(|line| line.parse().unwrap())
        .collect();
    assert!(!seeds.is_empty());
    clean(seeds);
}

/// Without faults nothing is repeated, fenced or lost: what the simulator finds elsewhere comes from the faults.
#[test]
fn calm_seeds() {
    for seed in 0..20 {
        let outcome = run(seed, &Config { calm: true, ..Config::default() });
        assert!(outcome.violations.is_empty(), "{outcome}");
        let Statistics { fenced, unknown, crashes, effects_repeated, turns, commits, coverage, .. } =
            outcome.statistics;
        assert_eq!((fenced, unknown, crashes, coverage.faults()), (0, 0, 0, 0), "seed {seed}");
        assert_eq!(effects_repeated, 0, "seed {seed}");
        assert!(turns > 0 && commits > 0, "seed {seed}: {turns} turns, {commits} commits");
    }
}

/// What is left of a failing seed fails too, and is less than before.
#[test]
fn a_failing_seed_is_made_smaller() {
    use dauer_memory::Defect;
    let config = Config { defect: Some(Defect::LoseTimers), ..Config::default() };
    let failing = (0..50).find(|seed| !run(*seed, &config).violations.is_empty()).expect("no seed fails");
    let shrunk = shrink(failing, &config).expect("it fails");
    assert!(!run(failing, &shrunk.config).violations.is_empty(), "{}", shrunk.config);
    let left_out =
        shrunk.config.without.len() + shrunk.config.without_cases.len() + shrunk.config.without_hosts;
    assert!(left_out > 3, "hardly anything was left out:{}", shrunk.config);
    assert!(
        shrink(failing, &Config::default()).is_none(),
        "without the defect there is nothing to make smaller"
    );
}
