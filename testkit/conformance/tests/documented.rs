//! The rules of the suite and the text of the contract name each other.

use std::collections::BTreeSet;

use dauer_conformance::{RULES, Rule};

const CONTRACT: &str = include_str!("../../../store/src/rules.rs");

/// Ends the text of a rule: the checks follow, as the first and the last prefix.
const CHECKS: &str = " Checks: ";

/// The text of the contract under a number, in one line.
fn section(number: u8) -> String {
    let text =
        CONTRACT.lines().map(|line| line.trim_start_matches("//!").trim()).collect::<Vec<_>>().join(" ");
    let from = text.find(&format!(" # {number}. ")).unwrap_or_else(|| panic!("rule {number} has no text"));
    let rest = &text[from..];
    let to = rest[1..].find(" # ").map_or(rest.len(), |at| at + 1);
    rest[..to].to_owned()
}

/// The part of a function's name that the contract has: the number of its rule, and a letter.
fn prefix(rule: &Rule) -> &'static str {
    rule.name.split('_').next().unwrap_or_default()
}

/// The prefixes that the contract names under a number: `r02a`, or all from `r02a` to `r02g`.
fn named(number: u8) -> Vec<String> {
    let section = section(number);
    let (_, checks) = section.split_once(CHECKS).unwrap_or_else(|| panic!("rule {number} names no checks"));
    let ends: Vec<&str> = checks.split('`').filter(|word| word.starts_with('r')).collect();
    let letter = |end: &str| *end.as_bytes().last().unwrap_or_else(|| panic!("rule {number}: {checks}"));
    let (first, last) = match ends[..] {
        [only] => (only, only),
        [first, last] => (first, last),
        _ => panic!("rule {number} names its first and its last check, not {checks}"),
    };
    assert_eq!(first[..3], last[..3], "{checks} are the checks of one rule");
    (letter(first)..=letter(last)).map(|at| format!("{}{}", &first[..3], char::from(at))).collect()
}

#[test]
fn every_check_is_named_under_its_rule_and_no_other() {
    let numbers: BTreeSet<u8> = RULES.iter().map(|rule| rule.number).collect();
    for number in &numbers {
        let mut checks: Vec<&str> = RULES.iter().filter(|rule| rule.number == *number).map(prefix).collect();
        checks.sort_unstable();
        assert_eq!(named(*number), checks, "rule {number} names its checks");
    }
    assert_eq!(CONTRACT.matches("//! # ").count(), numbers.len(), "each rule of the contract has a check");
}

#[test]
fn every_prefix_finds_one_function() {
    for rule in RULES {
        let letter = prefix(rule).strip_prefix(&format!("r{:02}", rule.number));
        let is_letter = letter.is_some_and(|letter| matches!(letter.as_bytes(), [b'a'..=b'z']));
        assert!(is_letter, "{} begins with the number of rule {} and a letter", rule.name, rule.number);
    }
    let prefixes: BTreeSet<&str> = RULES.iter().map(prefix).collect();
    assert_eq!(prefixes.len(), RULES.len(), "no two functions share a prefix");
}
