//! A disk that is full for a while, small. Needs the right to mount one, or to make a user namespace in which it has it.

use crate::support::{Run, storm_under};

fn full(more: &[&str]) -> Run {
    let size = ["full", "--lease-ms", "1500", "--instances", "48", "--disk-mb", "64"];
    // Whoever is not root is, in a namespace of its own.
    let under: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["unshare", "-rm"] };
    storm_under(under, &[&size[..], more].concat())
}

#[test]
fn a_full_disk_is_told_and_everything_goes_on_when_it_is_freed() {
    let run = full(&["--fills", "2"]);
    assert!(run.clean, "{}", run.text);
    assert_eq!(run.number("fills"), 2, "{}", run.text);
    for name in ["refusals_that_say_so", "workers_refused_while_full", "reads_while_full"] {
        assert!(run.number(name) > 0, "{name}: {}", run.text);
    }
    assert_eq!(run.number("workers_started_while_full"), 1, "{}", run.text);
    assert!(run.number("audit_checked") > 1_000 && run.wrong().is_empty(), "{}", run.text);
}

#[test]
fn a_disk_that_stays_full_is_told_with_what_is_waited_for() {
    let run = full(&["--fills", "1", "--stays-full"]);
    assert!(!run.clean, "{}", run.text);
    assert!(run.text.contains("stuck: the disk was not freed"), "{}", run.text);
    assert!(run.text.contains("held by process"), "{}", run.text);
}
