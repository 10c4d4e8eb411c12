//! Clocks that are moved under running workers, small.

use crate::support::{Run, storm};

fn clocks(more: &[&str]) -> Run {
    let size = ["clocks", "--moves", "8", "--jumps", "1", "--lease-ms", "4000", "--instances", "48"];
    storm(&[&size[..], more].concat())
}

#[test]
fn clocks_that_are_wrong_or_put_right_cost_nobody_a_lease() {
    let run = clocks(&[]);
    assert!(run.clean, "{}", run.text);
    for name in ["clocks_set_back", "clocks_behind_and_put_right"] {
        assert!(run.number(name) > 0, "{}", run.text);
    }
    assert_eq!(run.number("leases_stolen_by_these"), 0, "{}", run.text);
    // The jump of at least two leases was seen by the file: the workers did have these clocks.
    assert!(run.number("ahead_ms_in_the_file") > 7_000, "{}", run.text);
    assert!(run.number("audit_checked") > 1_000 && run.wrong().is_empty(), "{}", run.text);
}

#[test]
fn a_jump_that_costs_leases_is_seen() {
    let run = clocks(&["--jumps-for-moves"]);
    assert!(!run.clean && run.wrong().is_empty(), "{}", run.text);
    let verdict = run.figures["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("a lease was stolen from the living"), "{}", run.text);
    assert!(run.number("leases_stolen_by_these") > 0, "{}", run.text);
}
