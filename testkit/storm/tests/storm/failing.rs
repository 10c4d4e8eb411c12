//! Disks that fail under some workers, small.

use crate::support::storm;

#[test]
fn syncs_and_writes_that_fail_lose_nothing_and_nothing_counts_twice() {
    let run = storm(&["failing", "--faults", "10", "--instances", "64"]);
    assert!(run.clean, "{}", run.text);
    for name in ["syncs_failed_met", "writes_failed_met", "kills_at_a_system_call"] {
        assert!(run.number(name) > 0, "{name}: {}", run.text);
    }
    assert!(run.number("turns_redone") > 0, "{}", run.text);
    assert!(run.number("audit_checked") > 1_000 && run.wrong().is_empty(), "{}", run.text);
}

#[test]
fn a_disk_that_does_not_fail_is_not_taken_for_one() {
    let size = ["--faults", "1", "--processes", "1", "--instances", "8", "--patience-ms", "500"];
    let run = storm(&[&["failing", "--harmless"], &size[..]].concat());
    let verdict = run.figures["verdict"].as_str().unwrap_or_default();
    assert!(!run.clean && verdict.contains("too few faults were met"), "{}", run.text);
    assert!(run.text.contains("stuck: too few faults were met"), "{}", run.text);
}
