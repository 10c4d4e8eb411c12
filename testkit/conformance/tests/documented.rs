//! The rules of the suite and the text of the contract name each other.

use std::collections::BTreeSet;

use dauer_conformance::RULES;

const CONTRACT: &str = include_str!("../../../store/src/rules.rs");

/// The text of the contract under a number.
fn section(number: u8) -> &'static str {
    let from =
        CONTRACT.find(&format!("//! # {number}. ")).unwrap_or_else(|| panic!("rule {number} has no text"));
    let rest = &CONTRACT[from..];
    let to = rest[1..].find("//! # ").map_or(rest.len(), |at| at + 1);
    &rest[..to]
}

#[test]
fn every_rule_is_named_under_its_number() {
    for rule in RULES {
        assert!(
            rule.name.starts_with(&format!("r{:02}", rule.number)),
            "{} is listed under {}",
            rule.name,
            rule.number
        );
        let name = format!("`{}`", rule.name);
        assert!(section(rule.number).contains(&name), "rule {} does not name {name}", rule.number);
    }
}

#[test]
fn every_name_in_the_text_is_a_rule() {
    let rules: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    let is_rule =
        |word: &&str| word.len() > 3 && word.starts_with('r') && word.as_bytes()[1].is_ascii_digit();
    let named: Vec<&str> = CONTRACT.split('`').filter(is_rule).collect();
    assert_eq!(named.len(), RULES.len(), "each rule is named once");
    for name in named {
        assert!(rules.contains(name), "{name} is no rule");
    }
}
