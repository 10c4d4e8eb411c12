//! A hub that nothing is wrong with is clean, and every invariant that can be checked was.

#![allow(clippy::unwrap_used, reason = "a test that cannot build its hub has failed")]

mod support;

use dauer_audit::{Evidence, Finding, Invariant, Repeated, Settings, Snapshot, audit};
use dauer_core::Timestamp;
use dauer_core::model::DropReason;
use dauer_store::DumpItem;
use support::healthy;

/// These need more than a dump and two journals.
const BEYOND: [Invariant; 7] = [
    Invariant::Replay,
    Invariant::Isolation,
    Invariant::ClientView,
    Invariant::Entities,
    Invariant::Progress,
    Invariant::DueTimers,
    Invariant::Poison,
];

#[test]
fn a_healthy_hub_is_clean_and_all_of_it_was_looked_at() {
    let report = healthy().audit();
    assert!(report.is_clean(), "{report}");
    for (invariant, finding) in report.findings() {
        let beyond = BEYOND.contains(&invariant);
        assert_eq!(matches!(finding, Finding::NotChecked(_)), beyond, "{invariant}");
        assert_eq!(finding.is_clean(), !beyond, "{invariant}: {finding:?}");
    }
}

#[test]
fn without_journals_what_needs_them_is_not_checked() {
    let world = healthy();
    let report = audit(&world.snapshot, &Evidence::default(), &Settings::default());
    assert!(report.is_clean(), "{report}");
    for invariant in [Invariant::Durability, Invariant::NoResurrection, Invariant::Conservation] {
        assert!(
            matches!(report.finding(invariant), Finding::NotChecked(reason) if reason.contains("journal"))
        );
        assert!(!report.finding(invariant).is_clean());
    }
}

#[test]
fn an_empty_hub_is_not_clean_but_not_checked() {
    let report = audit(&Snapshot::default(), &Evidence::default(), &Settings::default());
    assert!(!report.is_clean());
    let text = report.to_string();
    assert!(text.ends_with("not checked: 0 instances, and nothing to compare"), "{text}");
    assert!(!text.contains("clean"), "{text}");
}

#[test]
fn the_table_is_aligned_and_ends_with_the_verdict() {
    let report = healthy().audit();
    let text = report.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), Invariant::ALL.len() + 1);
    assert_eq!(
        *lines.last().unwrap(),
        format!("clean: {} instances, {} checks", report.instances(), report.checked())
    );
    for (line, invariant) in lines.iter().zip(Invariant::ALL) {
        let (head, outcome) = line.split_at(37);
        assert!(head.starts_with(invariant.code()) && head.contains(invariant.title()), "{line}");
        assert!(outcome == "clean" || outcome.starts_with("not checked: "), "{line}");
    }
}

#[test]
fn many_violations_are_counted_and_the_first_are_shown() {
    let mut world = healthy();
    let dump = world.instance("idle");
    for _ in 0..30 {
        let copy = dump.inbox[0].clone();
        dump.inbox.push(copy);
    }
    let report = world.audit();
    let total = report.violations().count();
    assert!(total > 30, "{report}");
    let text = report.to_string();
    assert!(text.ends_with(&format!("and {} more\nNOT CLEAN: {total} violations", total - 20)), "{text}");
}

#[test]
fn a_snapshot_keeps_the_first_of_what_comes_twice_and_says_so() {
    let world = healthy();
    let dump = world.snapshot.instances.values().next().unwrap().clone();
    let mut second = dump.clone();
    second.record.attempts = 9;
    let task = world.snapshot.tasks.values().next().unwrap().clone();
    let items = vec![
        DumpItem::Now(Timestamp(5)),
        DumpItem::Instance(Box::new(dump.clone())),
        DumpItem::Instance(Box::new(second)),
        DumpItem::Task(Box::new(task.clone())),
        DumpItem::Task(Box::new(task.clone())),
        DumpItem::Dropped(DropReason::Ended, 2),
        DumpItem::Dropped(DropReason::Ended, 3),
        DumpItem::Now(Timestamp(6)),
    ];
    let snapshot = Snapshot::from_items(items);
    assert_eq!(snapshot.now, Timestamp(5));
    assert_eq!(snapshot.instances.values().collect::<Vec<_>>(), [&dump]);
    assert_eq!(snapshot.repeated, [Repeated::Instance(dump.id), Repeated::Task(task.task.id)]);
    assert_eq!(snapshot.dropped[&DropReason::Ended], 5);
}
