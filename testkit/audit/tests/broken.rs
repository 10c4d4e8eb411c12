//! The auditor itself is tested: each mistake is found, by the invariant it breaks and by no other.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its hub has failed")]

mod mutants;
mod support;

use std::collections::BTreeSet;

use dauer_audit::{Finding, Invariant};
use mutants::{Mutant, history, journals, messages};
use support::healthy;

fn all() -> impl Iterator<Item = &'static Mutant> {
    let groups = [
        history::LINEAR,
        history::COMMITTER,
        history::ONCE,
        history::CAUSALITY,
        history::TERMINAL,
        history::TIMERS,
        history::IDENTITY,
        history::BOUNDED,
        history::CONTINUED,
        messages::ATOMIC,
        messages::WAITING,
        messages::FAMILIES,
        messages::READINESS,
        messages::ORDER,
        messages::ORPHANS,
        journals::DURABILITY,
        journals::ENDS,
        journals::COMMITTER,
        journals::RESURRECTION,
        journals::CONSERVATION,
        journals::ORDER,
    ];
    groups.into_iter().flatten()
}

#[test]
fn every_mistake_is_found_by_the_invariant_it_breaks_and_by_no_other() {
    let mut wrong = Vec::new();
    for mutant in all() {
        let mut world = healthy();
        (mutant.make)(&mut world);
        let report = world.audit();
        let found: BTreeSet<_> = report.violations().map(|(invariant, _)| invariant).collect();
        let said = report.violations().any(|(_, violation)| violation.to_string().contains(mutant.says));
        if found != BTreeSet::from([mutant.breaks]) || !said || report.is_clean() {
            let told: Vec<_> = report.violations().map(|(i, v)| format!("  {}: {v}", i.code())).collect();
            wrong.push(format!(
                "{} ({}, {:?}):\n{}",
                mutant.name,
                mutant.breaks,
                mutant.says,
                told.join("\n")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_invariant_that_can_be_checked_has_a_mistake() {
    let report = healthy().audit();
    let checkable = report.findings().filter(|(_, finding)| !matches!(finding, Finding::NotChecked(_)));
    let broken: BTreeSet<_> = all().map(|mutant| mutant.breaks).collect();
    let missing: Vec<Invariant> = checkable.map(|(i, _)| i).filter(|i| !broken.contains(i)).collect();
    assert_eq!(missing, []);
}
