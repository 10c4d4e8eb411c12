//! The house rules. Each names the file and says what to do; each was seen red on a file that breaks it.

#![allow(clippy::unwrap_used)] // A repository that cannot be read is not tidy.

use dauer_tidy::{Source, root, sources};

/// Beyond this a file has more than one thing in it.
const FILE_LINES_MAX: usize = 900;

/// What half of all files stay below.
const FILE_LINES_MEDIAN: usize = 250;

fn rust() -> Vec<Source> {
    let files = sources(&[".rs"]).unwrap();
    assert!(files.len() > 100, "only {} Rust files were found: the walk is broken", files.len());
    files
}

fn none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let mute = rust().into_iter().filter(|file| !file.text.starts_with("//!")).map(|file| file.path);
    none("files that do not begin with //!", &mute.collect::<Vec<_>>());
}

#[test]
fn files_are_short() {
    let mut lengths: Vec<_> = rust().into_iter().map(|file| (file.text.lines().count(), file.path)).collect();
    lengths.sort();
    let long =
        lengths.iter().filter(|(lines, _)| *lines > FILE_LINES_MAX).map(|(n, path)| format!("{n} {path}"));
    none("files to be split", &long.collect::<Vec<_>>());
    let (median, _) = lengths[lengths.len() / 2];
    assert!(median <= FILE_LINES_MEDIAN, "half of the files have more than {median} lines");
}

#[test]
fn nothing_is_left_unfinished_or_skipped() {
    // Put together here, so that this file does not break its own rule.
    let words = [["to", "do!("], ["unimple", "mented!("], ["FIX", "ME"], ["#[ign", "ore"], ["db", "g!("]];
    let mut found = Vec::new();
    for file in rust() {
        for word in words.map(|parts| parts.concat()) {
            found.extend(file.text.contains(&word).then(|| format!("{}: {word}", file.path)));
        }
    }
    none("unfinished or skipped", &found);
}

#[test]
fn tests_never_sleep() {
    let word = ["::sle", "ep("].concat();
    let tests = rust().into_iter().filter(|file| file.path.contains("/tests/"));
    let sleeping = tests.flat_map(|file| {
        // The first tests the guard against sleeping; the second is the virtual clock of the hub's tests.
        let allowed = ["replay/tests/guards.rs", "hub/tests/support/env.rs"].contains(&file.path.as_str());
        let lines: Vec<_> = file.text.lines().map(str::to_owned).collect();
        let hits = lines.into_iter().filter(|line| line.contains(&word)).collect::<Vec<_>>();
        hits.into_iter().filter(move |_| !allowed).map(move |line| format!("{}: {}", file.path, line.trim()))
    });
    none("tests that sleep; wait for a condition instead", &sleeping.collect::<Vec<_>>());
}

#[test]
fn no_path_of_a_machine_is_committed() {
    let mut found = Vec::new();
    for file in sources(&[".rs", ".md", ".toml", ".proto", "test", "run"]).unwrap() {
        for word in ["/wo", "/ro", "/ho"].iter().zip(["rk/", "ot/", "me/"]).map(|(a, b)| format!("{a}{b}")) {
            found.extend(file.text.contains(&word).then(|| format!("{}: {word}", file.path)));
        }
    }
    none("paths of one machine", &found);
}

/// Which of our crates each may use, tests aside. The rim may use the middle, never the other way.
const ALLOWED: &[(&str, &[&str])] = &[
    ("proto", &[]),
    ("core", &["dauer-proto"]),
    ("replay", &["dauer-core", "dauer-proto"]),
    ("store", &["dauer-core"]),
    ("stores/kit", &["dauer-core", "dauer-store"]),
    ("stores/memory", &["dauer-core", "dauer-store", "dauer-store-kit"]),
    ("stores/sqlite", &["dauer-core", "dauer-store", "dauer-store-kit"]),
    ("hub", &["dauer-core", "dauer-proto", "dauer-store"]),
    ("remote", &["dauer-core", "dauer-hub", "dauer-proto", "dauer-store"]),
    ("rpc", &["dauer-proto"]),
    (
        "server",
        &["dauer", "dauer-core", "dauer-hub", "dauer-proto", "dauer-remote", "dauer-rpc", "dauer-store"],
    ),
    (
        "sdk",
        &[
            "dauer-core",
            "dauer-hub",
            "dauer-memory",
            "dauer-proto",
            "dauer-replay",
            "dauer-rpc",
            "dauer-sqlite",
            "dauer-store",
            "dauer-testhub",
        ],
    ),
    ("testhub", &["dauer-core", "dauer-proto", "dauer-replay", "dauer-store-kit"]),
    (
        "cli",
        &[
            "dauer",
            "dauer-audit",
            "dauer-core",
            "dauer-heap",
            "dauer-hub",
            "dauer-measure",
            "dauer-proto",
            "dauer-server",
            "dauer-sqlite",
            "dauer-store",
        ],
    ),
    ("cli/heap", &[]),
    ("cli/measure", &["dauer", "dauer-audit", "dauer-sqlite", "dauer-store"]),
    ("bench", &["dauer-core", "dauer-proto", "dauer-replay"]),
    ("testkit/audit", &["dauer-core", "dauer-proto", "dauer-store"]),
    ("testkit/conformance", &["dauer-core", "dauer-proto", "dauer-store"]),
    ("testkit/deaths", &["dauer"]),
    ("testkit/faults", &["dauer-store"]),
    ("testkit/fuzz", &["dauer", "dauer-core", "dauer-proto", "dauer-replay"]),
    ("testkit/model", &["dauer-core", "dauer-store"]),
    ("testkit/outside", &["dauer-tidy"]),
    ("testkit/runner", &[]),
    ("testkit/tidy", &[]),
    (
        "testkit/sim",
        &[
            "dauer",
            "dauer-audit",
            "dauer-core",
            "dauer-faults",
            "dauer-hub",
            "dauer-memory",
            "dauer-proto",
            "dauer-remote",
            "dauer-replay",
            "dauer-store",
        ],
    ),
    (
        "testkit/storm",
        &[
            "dauer",
            "dauer-audit",
            "dauer-core",
            "dauer-hub",
            "dauer-power-shim",
            "dauer-proto",
            "dauer-sim",
            "dauer-sqlite",
            "dauer-store",
            "dauer-storm-clock",
        ],
    ),
    ("testkit/storm/clock", &[]),
    (
        "testkit/power",
        &[
            "dauer",
            "dauer-audit",
            "dauer-core",
            "dauer-faults",
            "dauer-hub",
            "dauer-power-shim",
            "dauer-replay",
            "dauer-sim",
            "dauer-sqlite",
            "dauer-store",
        ],
    ),
    ("testkit/power/shim", &[]),
    ("testkit/power/vfs", &[]),
];

#[test]
fn dependencies_point_one_way() {
    let manifests = sources(&["Cargo.toml"]).unwrap();
    let mut seen = 0;
    for manifest in manifests.iter().filter(|file| file.path != "Cargo.toml") {
        let folder = manifest.path.trim_end_matches("/Cargo.toml");
        let allowed = ALLOWED.iter().find(|(name, _)| *name == folder);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{folder} is not on the map: add it to ALLOWED"));
        let ours = dependencies(&manifest.text).into_iter().filter(|name| name.starts_with("dauer"));
        for name in ours {
            assert!(allowed.contains(&name.as_str()), "{folder} must not depend on {name}");
        }
        seen += 1;
    }
    assert_eq!(seen, ALLOWED.len(), "a crate of ALLOWED is gone");
}

/// The names under `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    lines.map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn pure_crates_forbid_clocks_chance_and_tokio() {
    for folder in ["core", "replay", "stores/kit", "testhub"] {
        let path = root().join(folder).join("clippy.toml");
        let lints = std::fs::read_to_string(&path).unwrap();
        for word in
            ["SystemTime::now", "Instant::now", "thread::sleep", "HashMap", "tokio::spawn", "rand::random"]
        {
            assert!(lints.contains(word), "{folder}/clippy.toml does not forbid {word}");
        }
    }
}

#[test]
fn documents_name_only_files_that_exist() {
    for document in sources(&[".md"]).unwrap() {
        for word in document.text.split('`').skip(1).step_by(2) {
            let is_path = word.contains('/') && (word.ends_with(".rs") || word.ends_with(".md"));
            let plain = !word.contains([' ', '*', '{', '<', ':', '…']) && !word.starts_with("../");
            if is_path && plain {
                assert!(root().join(word).exists(), "{}: `{word}` is not there", document.path);
            }
        }
    }
}

/// A word that can only be the name of a test: lower case, and at least three words long.
fn is_test_name(word: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    plain && word.bytes().filter(|b| *b == b'_').count() >= 2
}

#[test]
fn the_proof_names_only_tests_that_exist_and_every_behaviour() {
    let proof = std::fs::read_to_string(root().join("docs/PROOF.md")).unwrap();
    let code: String = rust().into_iter().map(|file| file.text).collect();
    let names: Vec<_> = proof.split('`').skip(1).step_by(2).filter(|word| is_test_name(word)).collect();
    assert!(names.len() > 150, "only {} tests are named: the reading is broken", names.len());
    for name in &names {
        assert!(code.contains(&format!("fn {name}(")), "docs/PROOF.md names {name}, which is not there");
    }
    for behaviour in 12..=36 {
        let row = proof.lines().find(|line| line.starts_with(&format!("| {behaviour} |")));
        let row = row.unwrap_or_else(|| panic!("behaviour {behaviour} has no row in docs/PROOF.md"));
        assert!(
            row.split('`').skip(1).step_by(2).any(is_test_name),
            "behaviour {behaviour} has no test: {row}"
        );
    }
}

/// The claims that a test shows; the ones behind them are documentation.
const CLAIMS_TESTED: u32 = 43;
const CLAIMS: u32 = 49;

#[test]
fn every_claim_about_leases_has_a_test_that_exists_and_a_red_change() {
    let claims = std::fs::read_to_string(root().join("docs/CLAIMS.md")).unwrap();
    let code: String = rust().into_iter().map(|file| file.text).collect();
    for claim in 1..=CLAIMS_TESTED {
        let row = claims.lines().find(|line| line.starts_with(&format!("| A{claim} |")));
        let row = row.unwrap_or_else(|| panic!("lease-A{claim} has no row in docs/CLAIMS.md"));
        let columns: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert!(columns.len() == 4 && columns.iter().all(|column| !column.is_empty()), "{row}");
        let words = columns[2].split('`').skip(1).step_by(2);
        let tests: Vec<_> = words.filter_map(|word| word.split_once("::")).collect();
        assert!(!tests.is_empty(), "lease-A{claim} has no test: {row}");
        for (path, name) in tests {
            assert!(root().join(path).exists(), "docs/CLAIMS.md names {path}, which is not there");
            assert!(code.contains(&format!("fn {name}(")), "docs/CLAIMS.md names {name}, which is not there");
        }
    }
    for claim in CLAIMS_TESTED + 1..=CLAIMS {
        assert!(claims.contains(&format!("(lease-A{claim})\n")), "lease-A{claim} is not documented");
    }
}
