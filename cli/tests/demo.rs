//! The demo, as a user runs it.

use std::process::Command;

#[test]
fn the_demo_shows_chain_fan_out_race_and_child() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_dauer")).args(["demo", "--store", "memory:"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "nothing went wrong");
    let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
    // The chain, the fan-out, the race that the approval wins, the child.
    assert_eq!((count("holds stock"), count("charges reservation"), count("packs the")), (1, 1, 5), "{text}");
    assert_eq!((count("TimerCreated"), count("TimerFired"), count("EventRaised")), (1, 0, 1), "{text}");
    assert_eq!(count("SubOrchestrationInstanceCompleted"), 1, "{text}");
    assert!(text.contains("Output: payment 8001, 2070 g, approved by the demo, tracking D02070"), "{text}");
}

#[test]
fn a_store_that_is_none_is_refused_with_what_to_do() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_dauer")).args(["demo", "--store", "redis:"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: 'redis:' names no store; use sqlite:FILE or memory:\n"
    );
    assert!(output.stdout.is_empty());
}
