//! Negative controls: faults that were planted, and that the verdict of a storm must name. A run without kills is
//! enough for those that are planted after it.

use crate::support::{Run, storm};

/// A calm run whose file is copied, with one thing changed, before it is verified.
fn tampered(how: &str) -> Run {
    let calm = ["run", "--processes", "2", "--kills", "0", "--stops", "0", "--instances", "40"];
    storm(&[&calm[..], &["--tamper", how]].concat())
}

/// The run is red, and each of these is said of it.
fn red(run: &Run, words: &[&str]) {
    assert!(!run.clean, "{}", run.text);
    assert!(run.figures["verdict"].as_str().unwrap_or_default().starts_with("RED: "), "{}", run.text);
    for word in words {
        assert!(run.wrong().iter().any(|line| line.contains(word)), "nobody says '{word}': {}", run.text);
    }
}

#[test]
fn a_faithful_copy_is_clean() {
    let run = tampered("nothing");
    assert!(run.clean, "{}", run.text);
    assert!(run.number("instances_compared") >= 40 && run.number("audit_checked") > 100, "{}", run.text);
}

#[test]
fn an_acknowledged_start_that_is_gone_is_seen_by_the_outcomes_and_by_the_audit() {
    red(&tampered("lost-instance"), &["it is not there", "I4: "]);
}

#[test]
fn a_lost_checkpoint_is_seen() {
    red(&tampered("lost-checkpoint"), &["I1: "]);
}

#[test]
fn a_checkpoint_that_was_applied_twice_is_seen() {
    red(&tampered("doubled-checkpoint"), &["I5: "]);
}

#[test]
fn a_wrong_output_is_seen() {
    red(&tampered("wrong-output"), &["its output is", "it had ended, and changed"]);
}

#[test]
fn activities_that_are_not_safe_to_run_twice_are_found_by_the_outcomes() {
    let size = ["--processes", "2", "--kills", "5", "--stops", "0", "--lease-ms", "1000"];
    let run = storm(&[&["run", "--attempts-show"], &size[..]].concat());
    assert!(run.number("activities_redone") > 0, "{}", run.text);
    red(&run, &["its output is"]);
    assert_eq!(run.number("audit_violations"), 0, "the engine did nothing wrong: {}", run.text);
}

#[test]
fn a_storm_that_hits_nothing_or_is_too_slow_is_not_clean() {
    let calm = ["run", "--processes", "1", "--kills", "0", "--instances", "40", "--silence-ms-max", "0"];
    let run = storm(&[&calm[..], &["--stops", "0"]].concat());
    assert!(!run.clean && run.wrong().is_empty(), "{}", run.text);
    let verdict = run.figures["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("did nothing for too long"), "{}", run.text);
}
