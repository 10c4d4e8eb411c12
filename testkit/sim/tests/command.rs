//! The command: what it prints and how it ends.

#![allow(clippy::unwrap_used, reason = "a command that cannot be run has failed")]

use std::process::{Command, Output};

fn dauer_sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dauer-sim")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_replay_prints_the_same_to_the_last_byte() {
    let (first, second) = (dauer_sim(&["replay", "7", "--trace"]), dauer_sim(&["replay", "7", "--trace"]));
    assert!(first.status.success());
    assert!(first.stdout == second.stdout, "two replays differ");
    let trace = text(&first);
    // What may come out is said before anything has happened.
    let allowed = trace.lines().position(|line| line.contains(" allowed: ")).unwrap();
    let happened = trace.lines().position(|line| line.contains("poll task")).unwrap();
    assert!(allowed < happened, "{trace}");
}

#[test]
fn a_violation_is_a_failure_that_names_its_seed() {
    // One that is noticed at once. What is lost is noticed when time is up, and each of the smaller runs takes that long.
    let failed = dauer_sim(&["run", "--seeds", "10", "--planted", "no-fence"]);
    assert_eq!(failed.status.code(), Some(1));
    let report = text(&failed);
    let seed = report.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(':')).unwrap().0;
    assert!(report.contains(&format!("replay {seed} --trace")), "{report}");
    // The smallest configuration is a command that fails as well.
    let line = report.lines().find_map(|line| line.split_once("runs: dauer-sim ")).unwrap().1;
    let again = dauer_sim(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(again.status.code(), Some(1), "dauer-sim {line}");
    assert!(text(&again).contains("violation: "));
}

#[test]
fn a_clean_run_ends_with_what_it_tested() {
    let clean = dauer_sim(&["run", "--seeds", "4", "--threads", "2"]);
    assert!(clean.status.success());
    let report = text(&clean);
    for word in ["CommitTurns", "lose-answer-late", "TimerFired", "Suspended", "4 seeds", "faults a seed"] {
        assert!(report.contains(word), "{word} is missing in\n{report}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for arguments in [["replay", "1", "--without", "earthquake"], ["replay", "1", "--without-steps", "three"]]
    {
        let refused = dauer_sim(&arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(refused.stdout.is_empty() && !refused.stderr.is_empty());
    }
}
