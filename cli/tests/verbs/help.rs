//! What the command tells of itself.

use crate::support::Folder;
use crate::world::{fails, succeeds};

const VERBS: [&str; 16] = [
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
    "man",
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
        assert!(page.contains("Example:") && page.contains(&format!("dauer {verb}")), "{verb}: {page}");
    }
    assert!(into.join("dauer-bench-sequence.1").is_file(), "verbs of verbs too");
}
