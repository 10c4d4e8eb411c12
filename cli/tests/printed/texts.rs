//! The commands that stand in texts.

use std::path::PathBuf;

use crate::root;
use crate::user::User;

/// How every command begins.
const COMMAND: &str = "dauer ";

/// The sources whose texts users can meet. The table of hints is completed first; see the test of hints.
const CRATES: [&str; 13] = [
    "core/src",
    "hub/src",
    "store/src",
    "stores/memory/src",
    "stores/sqlite/src",
    "sdk/src",
    "server/src",
    "remote/src",
    "replay/src",
    "rpc/src",
    "testhub/src",
    "cli/src",
    "cli/measure/src",
];
const HINTS: [&str; 2] = ["table.rs", "hint.rs"];

/// A document of the repository.
pub(crate) fn document(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The commands between backquotes, each on one line. Theirs is the path of the program, or its name.
pub(crate) fn backquoted(text: &str) -> Vec<String> {
    let words = text.split('`').skip(1).step_by(2).map(|code| code.split_whitespace().collect::<Vec<_>>());
    let is_command =
        |words: &Vec<&str>| words.len() > 1 && (words[0] == COMMAND.trim() || words[0].ends_with("/dauer"));
    words.filter(is_command).map(|words| words.join(" ")).collect()
}

/// The commands in the running text of a document.
pub(crate) fn inline(text: &str) -> Vec<String> {
    let (mut kept, mut fenced) = (String::new(), false);
    for line in text.lines() {
        match line.trim_start().starts_with("```") {
            true => fenced = !fenced,
            false if !fenced => kept.extend([line, "\n"]),
            false => {}
        }
    }
    backquoted(&kept)
}

/// The blocks of shell commands of a document, without their comments.
pub(crate) fn blocks(text: &str) -> Vec<String> {
    let (mut found, mut open): (Vec<String>, Option<String>) = (Vec::new(), None);
    for line in text.lines().map(str::trim_start) {
        match (line.strip_prefix("```"), &mut open) {
            (Some("sh"), None) => open = Some(String::new()),
            (Some(""), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => {
                let command = line.split(" #").next().unwrap_or_default().trim_end();
                block.extend([command, "\n"]);
            }
            _ => {}
        }
    }
    found
}

/// The help of the program and of all its verbs.
pub(crate) fn helps(user: &User) -> Vec<String> {
    let (mut found, mut paths) = (Vec::new(), vec![String::new()]);
    while let Some(path) = paths.pop() {
        let help = user.run(&format!("dauer{path} --help")).unwrap();
        let verbs = help.split_once("\nCommands:\n").map(|(_, verbs)| verbs);
        let verbs = verbs.into_iter().flat_map(|verbs| verbs.lines().take_while(|line| !line.is_empty()));
        // The texts of verbs that need more than a line go on further to the right.
        let names = verbs.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
        paths.extend(names.map(|name| format!("{path} {name}")));
        found.push(help);
    }
    found
}

/// The examples at the end of a help.
pub(crate) fn examples(help: &str) -> Vec<String> {
    let examples = help.split_once("\nExamples:\n").map(|(_, examples)| examples).unwrap_or_default();
    examples.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The lines of our sources that are no comments and belong to no test.
pub(crate) fn product_strings() -> Vec<String> {
    let mut folders: Vec<PathBuf> = CRATES.iter().map(|name| root().join(name)).collect();
    let mut lines = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.extend((name != "generated").then_some(path));
            } else if name.ends_with(".rs") && name != "tests.rs" && !HINTS.contains(&name.as_str()) {
                let text = std::fs::read_to_string(path).unwrap();
                let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
                lines.extend(code.map(str::to_owned));
            }
        }
    }
    lines
}
