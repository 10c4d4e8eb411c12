//! Small storms with 1, 3 and 8 processes.

use crate::support::{Run, storm};

/// Kills that have to hit a lease.
const KILLS: u64 = 6;

/// What the auditor can check from the dump of a storm and the journal of its clients.
const AUDITED: [&str; 12] = ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I10", "I13", "I15", "I16"];

fn small(processes: &str) -> Run {
    let kills = KILLS.to_string();
    let size = ["--processes", processes, "--kills", &kills, "--stops", "1", "--lease-ms", "1500"];
    let run = storm(&[&["run", "--seed", processes], &size[..]].concat());
    assert!(run.clean, "{}", run.text);
    assert_eq!(run.figures["verdict"], "clean");
    assert!(run.wrong().is_empty(), "{}", run.text);
    assert!(run.number("hits") >= KILLS, "{}", run.text);
    assert!(run.number("hits") <= run.number("kills"));
    assert!(run.number("restarts") >= run.number("kills"), "{}", run.text);
    let (seen, held) = (run.number("hits_in_store"), run.number("turns_held_by_killed"));
    assert!(seen > 0 && held + run.number("tasks_held_by_killed") >= seen, "{}", run.text);
    assert!(run.number("turns_redone") > 0, "{}", run.text);
    assert!(run.number("activities_redone") > 0, "{}", run.text);
    assert!(run.number("stops") > 0 && run.number("commits_fenced") > 0, "{}", run.text);
    assert!(run.number("instances_compared") > 100, "{}", run.text);
    // Each of those that lived from the beginning has done something, and so has at least one that came later.
    assert!(run.number("workers_progressed") > run.number("processes"), "{}", run.text);
    for code in AUDITED {
        let (checked, violations) = run.audit(code);
        assert!(checked > 0, "nothing was checked of {code}: {}", run.text);
        assert_eq!(violations, 0, "{code}: {}", run.text);
    }
    run
}

#[test]
fn one_process_is_killed_again_and_again_and_everything_ends_right() {
    let run = small("1");
    assert_eq!(run.number("processes"), 1);
}

#[test]
fn three_processes_are_killed_at_random_and_everything_ends_right() {
    let run = small("3");
    assert_eq!(run.number("processes"), 3);
}

#[test]
fn eight_processes_are_killed_at_random_and_everything_ends_right() {
    let run = small("8");
    assert_eq!(run.number("processes"), 8);
}
