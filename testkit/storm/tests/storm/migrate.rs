//! Golden files that are opened by several processes at once, some of which are killed, small.

use crate::support::storm;

#[test]
fn older_files_are_whole_after_kills_in_the_middle_of_their_migration() {
    let run = storm(&["migrate", "--rounds", "10"]);
    assert!(run.clean, "{}", run.text);
    assert_eq!(run.figures["copies"]["format8"], 12, "{}", run.text);
    assert!(run.number("kills_while_opening") > 3, "{}", run.text);
    assert!(run.number("instances_compared") > 50 && run.number("audit_checked") > 500, "{}", run.text);
}

#[test]
fn an_older_file_is_whole_after_a_kill_before_any_change_of_its_migration() {
    let run = storm(&["migrate", "--rounds", "0", "--points"]);
    assert!(run.clean, "{}", run.text);
    assert!(run.number("points_before_open") > 50, "{}", run.text);
    assert!(run.number("points") > run.number("points_before_open"), "it was closed too: {}", run.text);
}

#[test]
fn a_migration_that_loses_an_instance_is_seen() {
    let run = storm(&["migrate", "--rounds", "0", "--damage"]);
    assert!(!run.clean, "{}", run.text);
    assert!(run.wrong().iter().any(|line| line.contains("not have what its text says")), "{}", run.text);
}
