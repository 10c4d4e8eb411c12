//! What the command tells of itself.

use crate::support::{Folder, dauer_with, stderr, stdout};
use crate::world::{fails, succeeds};

const VERBS: [&str; 19] = [
    "start",
    "get",
    "list",
    "history",
    "raise",
    "suspend",
    "resume",
    "terminate",
    "restart",
    "rewind",
    "retry",
    "purge",
    "hubs",
    "audit",
    "dev",
    "serve",
    "bench",
    "man",
    "completions",
];

/// The verbs of `dauer bench`.
const BENCHES: [&str; 6] = ["sequence", "fanout", "latency", "timers", "waits", "history"];

/// Set to anything, the file is written instead of compared.
const BLESS: &str = "DAUER_BLESS";

/// What the command prints to this, as wide as a terminal may be for it.
fn help(arguments: &[&str], folder: &Folder) -> String {
    let output = dauer_with(arguments, folder, "", &[("COLUMNS", "100"), ("NO_COLOR", "1")]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{arguments:?}");
    stdout(&output).to_owned()
}

/// All help texts, each behind the call that prints it.
fn all_helps(folder: &Folder) -> String {
    let mut calls: Vec<Vec<&str>> = vec![vec![]];
    calls.extend(VERBS.map(|verb| vec![verb]));
    calls.extend(BENCHES.map(|bench| vec!["bench", bench]));
    let mut texts = String::new();
    for call in calls {
        for option in ["-h", "--help"] {
            let arguments = [&call[..], &[option]].concat();
            let text = help(&arguments, folder);
            // The spaces at the end of empty lines are clap's.
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            texts.push_str(&format!("$ dauer {}\n{}\n\n", arguments.join(" "), lines.join("\n")));
        }
    }
    texts
}

/// Whoever changes what users read sees the whole of it.
#[test]
fn the_help_texts_are_as_they_were_agreed_on() {
    let folder = Folder::new("help-texts");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verbs/help.txt");
    let now = all_helps(&folder);
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(path, &now).unwrap();
        return;
    }
    let agreed = std::fs::read_to_string(path).unwrap_or_default();
    let differs = now.lines().zip(agreed.lines().chain(std::iter::repeat(""))).find(|(new, old)| new != old);
    assert!(
        now == agreed,
        "a help text has changed, first at {differs:?}; if that is meant, run\n\
         {BLESS}=1 cargo test -p dauer-cli --test verbs help"
    );
    assert_eq!(folder.names(), Vec::<String>::new(), "help touches no store");
}

/// .NET's SDK was never run: what is claimed of SDKs is what was done.
#[test]
fn sdk_claims_name_what_was_run() {
    let folder = Folder::new("help-sdks");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read = |name: &str| std::fs::read_to_string(format!("{root}/{name}")).unwrap();
    let texts = [read("README.md"), read("docs/SERVER.md"), succeeds(&["dev", "--help"], &folder)];
    for text in &texts {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for claim in
            ["Python and JavaScript", "Java (29e1391) and Go (812d373)", "by hand", ".NET was not run"]
        {
            assert!(text.contains(claim), "'{claim}' is not in:\n{text}");
        }
        assert!(!text.contains("every Durable Task SDK"), "{text}");
    }
    assert!(!succeeds(&["serve", "--help"], &folder).contains("every Durable Task SDK"));
}

#[test]
fn every_verb_is_in_the_help_and_has_examples() {
    let folder = Folder::new("help");
    let all = succeeds(&["--help"], &folder);
    assert!(all.contains("Exit codes:\n  0  done\n  1  failed"), "{all}");
    for verb in VERBS {
        assert!(all.lines().any(|line| line.split_whitespace().next() == Some(verb)), "{verb}: {all}");
        let long = succeeds(&["help", verb], &folder);
        assert!(long.contains(&format!("\nExamples:\n  dauer {verb}")), "{verb}: {long}");
        assert_eq!(succeeds(&[verb, "--help"], &folder), long);
    }
}

#[test]
fn completions_know_every_verb_and_option() {
    let folder = Folder::new("completions");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = succeeds(&["completions", shell], &folder);
        for word in VERBS.into_iter().chain(["reuse-policy", "older-than", "stalled"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    fails(&["completions", "dos"], &folder, 2);
}

#[test]
fn manual_pages_have_every_verb_and_its_examples() {
    let folder = Folder::new("man");
    let page = succeeds(&["man"], &folder);
    assert!(page.contains(".TH dauer 1"), "{page}");
    assert!(page.contains("Exit codes:"), "{page}");
    for verb in VERBS {
        assert!(page.contains(&format!("dauer\\-{verb}(1)")), "{verb}: {page}");
    }
    let into = folder.0.join("man1");
    let path = into.to_str().unwrap();
    let missing = fails(&["man", path], &folder, 2);
    assert!(missing.contains("man1") && missing.contains("folder that is there"), "{missing}");
    std::fs::create_dir(&into).unwrap();
    assert_eq!(succeeds(&["man", path], &folder), "");
    assert_eq!(std::fs::read_to_string(into.join("dauer.1")).unwrap(), page);
    for verb in VERBS {
        let page = std::fs::read_to_string(into.join(format!("dauer-{verb}.1"))).unwrap();
        assert!(page.contains(&format!(".TH dauer-{verb} 1")), "{page}");
        assert!(page.contains("Examples:") && page.contains(&format!("dauer {verb}")), "{verb}: {page}");
    }
    assert!(into.join("dauer-bench-sequence.1").is_file(), "verbs of verbs too");
}

/// A benchmark refuses a file that is there: the examples can be run one after the other.
#[test]
fn bench_examples_each_name_a_file_of_their_own() {
    let folder = Folder::new("bench-examples");
    let kinds = ["", "sequence", "fanout", "latency", "timers", "waits", "history"];
    let mut files = std::collections::BTreeSet::new();
    for kind in kinds {
        let arguments: Vec<&str> =
            ["bench", kind, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let help = succeeds(&arguments, &folder);
        let examples = help.split_once("\nExamples:\n").unwrap().1;
        for file in examples.split_whitespace().filter(|word| word.starts_with("sqlite:")) {
            assert!(files.insert(file.to_owned()), "{kind}: {file} is in two examples");
        }
    }
    assert!(files.len() > 1, "{files:?}");
}
