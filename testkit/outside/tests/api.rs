//! The public API of `dauer`, as it was agreed on. A change is seen here before a user sees it.

use std::path::PathBuf;

use dauer_outside::api::{exports, listing};

/// Set to anything, the file is written instead of compared.
const BLESS: &str = "DAUER_BLESS";

/// Structs with open fields and enums that others may match or build in full, each with the reason why it may not grow
/// without breaking them.
const CLOSED: &[(&str, &str)] = &[
    (
        "HostOptions",
        "settings: built as `HostOptions { lease, ..HostOptions::default() }`, which the mark forbids",
    ),
    ("TroublePolicy", "settings, as HostOptions"),
    ("TurnLimits", "settings, as HostOptions"),
    ("Reuse", "one list, to be written down where an orchestration is started"),
    ("ExecutionId", "a number with a name, as Timestamp"),
    ("Timestamp", "a number with a name: what it is will not change"),
    ("Record", "what a store keeps of an instance: stores build it, and must notice when it grows"),
    ("Trouble", "part of Record"),
    ("Status", "the protocol's statuses: whoever handles them must notice a new one"),
];

fn file() -> PathBuf {
    dauer_tidy::root().join("testkit/outside/public-api.txt")
}

#[test]
fn the_public_api_is_as_it_was_agreed_on() {
    let now = listing().unwrap();
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(file(), &now).unwrap();
        return;
    }
    let agreed = std::fs::read_to_string(file()).unwrap_or_default();
    let (gone, new) = (difference(&agreed, &now), difference(&now, &agreed));
    assert!(
        now == agreed,
        "the public API of dauer has changed; if that is meant, say so in CHANGELOG.md and run\n\
         {BLESS}=1 cargo test -p dauer-outside --test api\ngone:\n{gone}new:\n{new}"
    );
}

/// The lines of the first that the second does not have, each behind the name it belongs to.
fn difference(first: &str, second: &str) -> String {
    let named = |text: &str| -> Vec<String> {
        let mut name = "";
        let mut lines = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            match line.strip_prefix("# ") {
                Some(next) => name = next,
                None => lines.push(format!("  {name}: {line}\n")),
            }
        }
        lines
    };
    let known = named(second);
    named(first).into_iter().filter(|line| !known.contains(line)).collect()
}

#[test]
fn every_export_is_found_and_described() {
    let exports = exports().unwrap();
    assert!(exports.len() > 50, "only {} exports: the reading is broken", exports.len());
    for name in ["Activity", "Client", "Handle", "Hub", "OrchestrationContext", "TestHub", "Worker"] {
        let export = &exports[name];
        assert!(export.kind == "struct" && export.lines.len() >= 2, "{name}: {export:?}");
    }
    let elsewhere: Vec<_> = exports.iter().filter(|(_, export)| export.kind == "use").collect();
    // Those of the protocol are generated, and the other is of another crate.
    let names: Vec<_> = elsewhere.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["EventType", "HistoryEvent", "Uuid"]);
}

#[test]
fn what_may_grow_says_so() {
    for (name, export) in exports().unwrap() {
        let open = export.kind == "enum" || export.open_fields;
        let excepted = CLOSED.iter().any(|(closed, _)| *closed == name);
        assert!(
            !open || export.non_exhaustive || excepted,
            "{name} is neither #[non_exhaustive] nor in CLOSED"
        );
        assert!(!excepted || !export.non_exhaustive, "{name} is #[non_exhaustive]: take it out of CLOSED");
    }
}
