//! Logs that are torn after all workers were killed, small.

use crate::support::storm;

#[test]
fn a_log_torn_behind_its_last_commit_loses_nothing_and_before_it_leaves_an_earlier_state() {
    let run = storm(&["torn", "--tears", "3", "--cuts", "2", "--instances", "64"]);
    assert!(run.clean, "{}", run.text);
    assert_eq!(run.number("tears"), 3, "{}", run.text);
    assert!(run.number("tails_damaged") > 0, "{}", run.text);
    let (cuts, lost) = (run.number("cuts_before_the_last_commit"), run.number("cuts_that_lost_something"));
    assert!(lost > 0 && lost <= cuts, "{}", run.text);
    assert!(run.number("cuts_instances_compared") > 50, "{}", run.text);
    assert!(run.number("cuts_audit_checked") > 1_000, "{}", run.text);
    // Everyone was killed each time, and what they held was done by others.
    assert_eq!(run.number("restarts"), 9, "{}", run.text);
    assert!(run.number("audit_checked") > 1_000 && run.wrong().is_empty(), "{}", run.text);
}

#[test]
fn a_log_torn_one_byte_too_early_is_seen() {
    let run = storm(&["torn", "--tears", "1", "--cuts", "0", "--instances", "64", "--too-early"]);
    assert!(!run.clean, "{}", run.text);
    assert!(run.wrong().iter().any(|line| line.contains("a hub is not as it was")), "{}", run.text);
}
