//! Workers that are stopped for longer than their lease, small.

use crate::support::storm;

const SIZE: [&str; 5] = ["zombies", "--lease-ms", "1500", "--instances", "64"];

#[test]
fn zombies_are_refused_every_time_and_everything_ends_right() {
    let run = storm(&[&SIZE[..], &["--zombies", "4", "--stalls", "1"]].concat());
    assert!(run.clean, "{}", run.text);
    let [turns, activities] = ["zombies_in_a_turn", "zombies_in_an_activity"].map(|name| run.number(name));
    assert_eq!((turns, activities), (3, 1), "{}", run.text);
    let (fenced, dropped) = (run.number("zombies_fenced"), run.number("zombies_dropped"));
    assert!(fenced >= turns && fenced + dropped == turns + activities, "{}", run.text);
    // Longer than the lease, and others have done what they held.
    assert!(run.number("zombies_stopped_ms_longest") > 1_500, "{}", run.text);
    assert!(run.number("turns_redone") >= turns, "{}", run.text);
    assert!(run.number("audit_checked") > 1_000 && run.wrong().is_empty(), "{}", run.text);
}

#[test]
fn a_worker_that_was_not_a_zombie_is_not_taken_for_one() {
    let run = storm(&[&SIZE[..], &["--zombies", "1", "--stalls", "0", "--hasty"]].concat());
    assert!(!run.clean, "{}", run.text);
    assert!(run.wrong().iter().any(|line| line.contains("was not refused")), "{}", run.text);
    let verdict = run.figures["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("the turn of a zombie was not fenced"), "{}", run.text);
}
