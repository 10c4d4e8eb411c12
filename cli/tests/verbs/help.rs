//! What the command tells of itself.

use crate::support::Folder;
use crate::world::{fails, succeeds};

const VERBS: [&str; 15] = [
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
    "purge",
    "audit",
    "demo",
    "bench",
    "completions",
];

#[test]
fn every_verb_is_in_the_help_and_has_an_example() {
    let folder = Folder::new("help");
    let help = succeeds(&["--help"], &folder);
    assert!(help.contains("Exit codes:\n  0  done\n  1  failed"), "{help}");
    for verb in VERBS {
        assert!(help.lines().any(|line| line.split_whitespace().next() == Some(verb)), "{verb}: {help}");
        let long = succeeds(&["help", verb], &folder);
        assert!(long.contains(&format!("\nExample:\n  dauer {verb}")), "{verb}: {long}");
        assert_eq!(succeeds(&[verb, "--help"], &folder), long);
    }
    assert_eq!(folder.names(), Vec::<String>::new());
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
