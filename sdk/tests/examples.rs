//! Every program in `sdk/examples`, started as a reader starts it and run to its end, on both stores.
//!
//! `cargo test` builds the examples before it runs any test. `cargo test --test all` alone does not: what is missing
//! or older than its source is an error here, never a pass.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::Folder;

/// The program and what it must print.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("approval", &["30 approved by Ada", "3000 rejected by Ada", "300 not decided within 50ms"]),
    ("chain", &["reserve item 7", "charge R-7", "ship R-7, paid by 1000", "tracking number: T-1000"]),
    ("fan_out", &["open Durable Tales", "words: 400"]),
    (
        "monitor",
        &[
            "backup: 0 %",
            "backup: 25 %",
            "backup: 50 %",
            "backup: 75 %",
            "backup: 100 %",
            "backup done after 5 rounds",
            "executions: 5, events in the last history: 6",
        ],
    ),
    (
        "retries",
        &[
            "call 1: Oslo",
            "call 2: Oslo",
            "call 3: Oslo",
            "Oslo: sunny",
            "call 4: Atlantis",
            "Atlantis: no such city",
            "call 5: Bath",
            "Bath: closed today",
        ],
    ),
    (
        "saga",
        &[
            "book a flight to Rome",
            "book a hotel in Rome",
            "book a car in Rome",
            "booked: flight to Rome, hotel in Rome, car in Rome",
            "book a flight to Venice",
            "book a hotel in Venice",
            "book a car in Venice",
            "cancel the hotel in Venice",
            "cancel the flight to Venice",
            "not booked: there are no cars in Venice",
        ],
    ),
    (
        "versioning",
        &["an offer of version 1 waits", "item 3 for 300, by version 1", "item 3 for 270, by version 2"],
    ),
];

/// It takes no store: a test hub has none.
const WITHOUT_STORE: &str = "unit_testing";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The program that was built from the source as it is.
fn program(name: &str) -> PathBuf {
    // This test is target/PROFILE/deps/examples-HASH.
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let built = program.metadata().and_then(|file| file.modified());
    let written = sources().join(format!("{name}.rs")).metadata().unwrap().modified().unwrap();
    assert!(
        built.as_ref().is_ok_and(|built| *built >= written),
        "{} is not built from its source ({built:?}): run `cargo build -p dauer --examples` first",
        program.display()
    );
    program
}

/// What it prints, line by line, in an empty folder.
fn run(name: &str, folder: &Folder, url: Option<&str>) -> Vec<String> {
    let mut command = Command::new(program(name));
    command.current_dir(&folder.0).args(url).stdin(Stdio::null());
    let output = command.output().unwrap();
    let (told, complained) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{name}: {}\n{told}{complained}", output.status);
    assert_eq!(complained, "", "{name} complains");
    told.lines().map(str::to_owned).collect()
}

#[test]
fn every_example_has_its_expected_output_here() {
    let files = std::fs::read_dir(sources()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    found.sort();
    let mut listed: Vec<_> = EXAMPLES.iter().map(|(name, _)| *name).collect();
    listed.push(WITHOUT_STORE);
    listed.sort_unstable();
    assert_eq!(found, listed);
}

#[test]
fn every_example_runs_to_its_end_in_memory() {
    for (name, expected) in EXAMPLES {
        let folder = Folder::new(&format!("example-{name}"));
        assert_eq!(run(name, &folder, None), *expected, "{name}");
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "{name} leaves files behind");
    }
}

#[test]
fn every_example_runs_to_its_end_in_a_file() {
    for (name, expected) in EXAMPLES {
        let folder = Folder::new(&format!("example-file-{name}"));
        // Twice, as a reader does: what the first run left does not disturb the second.
        for _ in 0..2 {
            assert_eq!(run(name, &folder, Some("sqlite:hub.db")), *expected, "{name}");
        }
        assert!(folder.0.join("hub.db").exists(), "{name} was given a file and used none");
    }
}

#[test]
fn the_example_of_unit_tests_runs_all_of_them() {
    let folder = Folder::new("example-unit-testing");
    let told = run(WITHOUT_STORE, &folder, None);
    assert_eq!(told.last().map(String::as_str), Some("all as it should be"), "{told:?}");
    assert!(told.iter().any(|line| line.contains("approved")), "the forgotten event is named: {told:?}");
}
