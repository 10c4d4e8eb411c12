//! Each mistake that is planted in the kit breaks the rule that it is about: the plants are where the rules are.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use dauer_conformance::{RULES, bounded};
use dauer_memory::Defect;
use support::MemoryFixture;

/// The rules that a store with that mistake fails.
fn failed_rules(defect: Defect) -> Vec<&'static str> {
    let failed = RULES.iter().filter(|rule| {
        let fixture = MemoryFixture::with(1, |store| store.with_defect(defect));
        catch_unwind(AssertUnwindSafe(|| bounded((rule.run)(&fixture)))).is_err()
    });
    failed.map(|rule| rule.name).collect()
}

#[test]
fn every_planted_mistake_breaks_a_rule() {
    // The panics are the point; their reports are not.
    let reporting = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let survivors: Vec<Defect> =
        Defect::ALL.iter().copied().filter(|defect| failed_rules(*defect).is_empty()).collect();
    std::panic::set_hook(reporting);
    assert_eq!(survivors, [], "mistakes that no rule finds");
}
