//! A rule of the store contract is written once, in the kit: stores decide nothing by a hold, a class or a reason for a drop.

#![allow(clippy::unwrap_used)] // A repository that cannot be read is not tidy.

use dauer_tidy::{Source, sources};

/// What a decision of the contract is made by.
const TYPES: [&str; 3] = ["Hold::", "Class::", "DropReason::"];

/// Columns that have such a value. A number beside them in SQL is a rule, too.
const COLUMNS: [&str; 3] = ["hold", "class", "reason"];

/// File, a part of the line, and why it is no rule.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("stores/sqlite/src/schema.rs", "inbox_in_order", ORDER),
    ("stores/sqlite/src/state/lanes.rs", "(class = 6 AND kind <> 0)", ORDER),
    ("stores/sqlite/src/state/tail.rs", "Hold::Open", TAIL),
];

/// An index can only compare with a constant. `lanes.rs` asserts that it is the code of ordinary messages.
const ORDER: &str = "the index that keeps ordinary messages behind the others";

/// What one bit of the row format stands for.
const TAIL: &str = "a tail with that bit says that the instance runs, and takes everything";

/// The product code of the stores, the kit aside.
fn stores() -> Vec<Source> {
    let is_store = |path: &str| {
        path.starts_with("stores/")
            && path.contains("/src/")
            && !path.starts_with("stores/kit/")
            && !["/tests.rs", "/turn_cost.rs"].iter().any(|tests| path.ends_with(tests))
    };
    let files: Vec<_> =
        sources(&[".rs", ".sql"]).unwrap().into_iter().filter(|file| is_store(&file.path)).collect();
    assert!(files.len() > 10, "only {} files of stores were found: the walk is broken", files.len());
    files
}

/// The lines that name a variant of one of the types, or compare one of the columns with a number.
fn rules_in(text: &str) -> Vec<&str> {
    let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    lines.filter(|line| !line.trim_start().starts_with("//") && is_rule(line)).collect()
}

fn is_rule(line: &str) -> bool {
    TYPES.iter().any(|name| names_variant(line, name)) || COLUMNS.iter().any(|column| compares(line, column))
}

/// `Hold::Ended`, but neither `Threshold::Ended` nor `Hold::of(…)`.
fn names_variant(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && after.is_some_and(char::is_uppercase)
    })
}

/// `hold = 3`, `class IN (0, 1)`, `reason <> 2`, but not `hold = ?3`.
fn compares(line: &str, column: &str) -> bool {
    line.match_indices(column).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let rest = line[at + column.len()..].trim_start();
        let value = ["<>", "!=", "<=", ">=", "=", "<", ">", "IN (", "IN("]
            .iter()
            .find_map(|sign| rest.strip_prefix(sign));
        let number = value.is_some_and(|value| value.trim_start().starts_with(|c: char| c.is_ascii_digit()));
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && number
    })
}

#[test]
fn stores_decide_nothing_by_hold_class_or_drop_reason() {
    let mut found = Vec::new();
    let mut used = vec![false; EXCEPTIONS.len()];
    for file in stores() {
        for line in rules_in(&file.text) {
            let exception =
                EXCEPTIONS.iter().position(|(path, part, _)| file.path == *path && line.contains(part));
            match exception {
                Some(at) => used[at] = true,
                None => found.push(format!("{}: {}", file.path, line.trim())),
            }
        }
    }
    assert!(found.is_empty(), "rules outside the kit:\n{}", found.join("\n"));
    let unused = EXCEPTIONS
        .iter()
        .zip(&used)
        .filter(|(_, used)| !**used)
        .map(|((path, part, _), _)| format!("{path}: {part}"));
    let unused: Vec<_> = unused.collect();
    assert!(unused.is_empty(), "exceptions that are gone:\n{}", unused.join("\n"));
}

#[test]
fn lines_with_a_rule_are_recognised() {
    for line in [
        "if hold == Hold::Ended {",
        "Class::Start(start) => 1,",
        "\"WHERE hold = 3\"",
        "AND class IN (0, 1)",
        "reason<>2",
    ] {
        assert!(is_rule(line), "{line}");
    }
    for line in [
        "hold_code(&record.hold)",
        "Threshold::Ended",
        "hold = ?14",
        "class IN (?2, ?3)",
        "Class::decode(x)",
        "a_class = 3",
    ] {
        assert!(!is_rule(line), "{line}");
    }
    assert_eq!(rules_in("// Hold::Ended\n#[cfg(test)]\nHold::Ended\n"), Vec::<&str>::new());
}
