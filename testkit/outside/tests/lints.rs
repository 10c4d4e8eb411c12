//! The lints that `docs/clippy.toml` gives to users: clippy complains of every line that is planted for it, and of no other.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::collections::{BTreeMap, BTreeSet};

use dauer_outside::{Outside, Project};

const PLANTED: &str = include_str!("../planted/orchestrations.rs");
const LINTS: &str = include_str!("../../../docs/clippy.toml");

/// What marks a line that clippy must complain of.
const MARK: &str = "//~";

/// The real crates where the workspace has them; `chrono` and `rand` are stand-ins with the functions that are named, because
/// nothing here needs them and a test fetches nothing.
const DEPENDENCIES: &str = "\
dauer = { path = \"../dauer/sdk\" }
chrono = { path = \"chrono\" }
futures = { version = \"0.3\", default-features = false, features = [\"std\", \"async-await\", \"executor\"] }
getrandom = \"0.4\"
rand = { path = \"rand\" }
tokio = { version = \"1\", default-features = false, features = [\"macros\", \"rt\", \"rt-multi-thread\", \"time\"] }
uuid = { version = \"1\", features = [\"v4\", \"v7\"] }

[lints.rust]
# What is planted does nothing sensible with what it gets.
unused_must_use = \"allow\"
";

const CHRONO: &str = "pub struct Utc;\nimpl Utc { pub fn now() -> u32 { 0 } }\npub struct Local;\nimpl Local { pub fn now() -> u32 { 0 } }\n";
const RAND: &str = "pub fn random<T: Default>() -> T { T::default() }\npub fn rng() -> u32 { 0 }\n";

fn stand_in(project: &Project, name: &str, code: &str) {
    let package = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n");
    project.write(&format!("{name}/Cargo.toml"), &package).unwrap();
    project.write(&format!("{name}/src/lib.rs"), code).unwrap();
}

/// What clippy says about our lints, by line. Anything else that it says is an error.
fn complaints() -> BTreeMap<usize, String> {
    let project = Outside::new().unwrap().project("lints").unwrap();
    project.write("src/lib.rs", PLANTED).unwrap();
    project.write("clippy.toml", LINTS).unwrap();
    stand_in(&project, "chrono", CHRONO);
    stand_in(&project, "rand", RAND);
    project.manifest(DEPENDENCIES).unwrap();
    let output =
        project.command("cargo").args(["clippy", "--quiet", "--message-format=json"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found: BTreeMap<usize, String> = BTreeMap::new();
    for line in told.lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        // A last line counts the others.
        let Some(code) = message["message"]["code"]["code"].as_str() else { continue };
        let text = message["message"]["rendered"].as_str().unwrap().to_owned();
        assert!(code.starts_with("clippy::disallowed_"), "{text}");
        let spans = message["message"]["spans"].as_array().unwrap();
        let mut span = spans.iter().find(|span| span["is_primary"] == true).unwrap();
        // What a macro has made is blamed on the line that calls the macro.
        while span["expansion"].is_object() {
            span = &span["expansion"]["span"];
        }
        let line = usize::try_from(span["line_start"].as_u64().unwrap()).unwrap();
        found.entry(line).or_default().push_str(&text);
    }
    found
}

#[test]
fn clippy_complains_of_every_planted_line_and_of_no_other() {
    let complaints = complaints();
    let marked = PLANTED.lines().enumerate().filter(|(_, line)| line.ends_with(MARK));
    let marked: BTreeSet<usize> = marked.map(|(number, _)| number + 1).collect();
    assert!(marked.len() > 35, "only {} lines are planted", marked.len());
    let missed: Vec<_> = marked.iter().filter(|line| !complaints.contains_key(line)).collect();
    let extra: Vec<_> = complaints.iter().filter(|(line, _)| !marked.contains(line)).collect();
    assert!(missed.is_empty() && extra.is_empty(), "no complaint of {missed:?}; not planted: {extra:#?}");

    // Every entry has been seen at work, with its reason.
    let all: String = complaints.into_values().collect();
    let quoted = |line: &str, key: &str| {
        let rest = line.split_once(&format!("{key} = \""))?.1;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let entries: Vec<_> = LINTS.lines().filter(|line| line.trim_start().starts_with('{')).collect();
    assert_eq!(entries.len(), marked.len(), "an entry for each planted line");
    for entry in entries {
        let (path, reason) = (quoted(entry, "path").unwrap(), quoted(entry, "reason").unwrap());
        assert!(all.contains(&format!("`{path}`")), "{path} was never complained of");
        assert!(all.contains(&reason), "the reason of {path} is not shown");
    }
}
