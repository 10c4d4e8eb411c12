//! The figures of many seeds as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use dauer_faults::Op;

use crate::coverage::{ACTIONS, Coverage, EVENTS, HINTS, STATUSES, impossible, ops, uncalled};
use crate::kinds::{Kind, Target};
use crate::outcome::Statistics;

/// The width of the first column: the longest name of a call.
const FIRST: usize = 18;

/// Everything there is to say about these seeds.
#[must_use]
pub fn render(statistics: &Statistics) -> String {
    let mut text = String::new();
    let coverage = &statistics.coverage;
    // Writing to a string cannot fail.
    let _ = calls(&mut text, coverage);
    let _ = hints(&mut text, coverage);
    let others = Kind::ALL.iter().filter(|kind| !matches!(kind.target(), Target::Call | Target::Hint));
    let others: Vec<(&str, u64)> = others.map(|kind| (kind.name(), coverage.of(*kind))).collect();
    let _ = words(&mut text, "faults of other kinds", &others);
    let named = |names: &[&'static str], counts: &BTreeMap<&'static str, u64>| -> Vec<(&'static str, u64)> {
        names.iter().map(|name| (*name, counts.get(name).copied().unwrap_or_default())).collect()
    };
    let _ = words(&mut text, "actions asked for", &named(&ACTIONS, &coverage.actions));
    let _ = words(&mut text, "events in histories", &named(&EVENTS, &coverage.events));
    let _ = words(&mut text, "commits by the status they lead to", &named(&STATUSES, &coverage.statuses));
    let _ = figures(&mut text, statistics);
    text
}

fn calls(text: &mut String, coverage: &Coverage) -> std::fmt::Result {
    let kinds: Vec<Kind> = Kind::of(Target::Call).collect();
    writeln!(text, "faults between a call and its answer, by operation; '-' cannot be")?;
    write!(text, "  {:FIRST$} {:>10}", "", "calls")?;
    for kind in &kinds {
        write!(text, " {:>width$}", kind.name(), width = kind.name().len().max(8))?;
    }
    writeln!(text)?;
    for op in ops() {
        let made = coverage.made.get(&op).copied().unwrap_or_default();
        write!(text, "  {op:FIRST$} {made:>10}")?;
        for kind in &kinds {
            let count = coverage.calls.get(&(*kind, op)).copied().unwrap_or_default();
            let cell = if impossible(*kind, op).is_none() { count.to_string() } else { "-".into() };
            write!(text, " {cell:>width$}", width = kind.name().len().max(8))?;
        }
        writeln!(text)?;
    }
    reasons(text, &kinds)
}

/// Why some cells cannot have anything, and why some operations are missing.
fn reasons(text: &mut String, kinds: &[Kind]) -> std::fmt::Result {
    for op in Op::ALL {
        if let Some(reason) = uncalled(*op) {
            writeln!(text, "  no {op}: {reason}")?;
        }
    }
    let mut reasons: BTreeMap<&str, (BTreeSet<Kind>, BTreeSet<Op>)> = BTreeMap::new();
    for (kind, op) in kinds.iter().flat_map(|kind| ops().map(move |op| (*kind, op))) {
        if let Some(reason) = impossible(kind, op) {
            let (kinds, ops) = reasons.entry(reason).or_default();
            kinds.insert(kind);
            ops.insert(op);
        }
    }
    for (reason, (kinds, ops)) in reasons {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let ops: Vec<&str> = ops.iter().map(|op| op.name()).collect();
        writeln!(text, "  no {} x {}: {reason}", kinds.join(", "), ops.join(", "))?;
    }
    Ok(())
}

fn hints(text: &mut String, coverage: &Coverage) -> std::fmt::Result {
    writeln!(text, "faults by the hint they hit")?;
    for hint in HINTS {
        write!(text, "  {hint:FIRST$}")?;
        for kind in Kind::of(Target::Hint) {
            let count = coverage.hints.get(&(kind, hint)).copied().unwrap_or_default();
            write!(text, " {kind} {count}")?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn words(text: &mut String, title: &str, counts: &[(&str, u64)]) -> std::fmt::Result {
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    writeln!(text, "{title}\n  {}", counts.join(", "))
}

fn figures(text: &mut String, statistics: &Statistics) -> std::fmt::Result {
    let s = statistics;
    let faults = s.coverage.faults();
    let seeds = s.seeds.max(1);
    writeln!(text, "{} seeds, {} instances, {} with one ending only", s.seeds, s.instances, s.certain)?;
    writeln!(text, "  {faults} faults, {}.{} faults a seed", faults / seeds, faults * 10 / seeds % 10)?;
    writeln!(text, "  {} turns, {} commits, {} of them fused", s.turns, s.commits, s.fused)?;
    writeln!(text, "  {} fenced commits, {} fenced in all", s.fenced_commits, s.fenced)?;
    let (unknown, committed) = (s.unknown_commits, s.unknown_committed);
    writeln!(text, "  {unknown} commits of unknown outcome, {committed} of them had happened")?;
    writeln!(text, "  {} answers of unknown outcome in all, {} hosts died", s.unknown, s.crashes)?;
    writeln!(text, "  {} turns and tasks won, {} kept instances named", s.won, s.named)?;
    writeln!(text, "  {} recalls returned {} turns and tasks", s.recalls, s.recalled)?;
    writeln!(text, "  {} instances restarted or started again under their id", s.begun_again)?;
    writeln!(text, "  {} activities executed, {} of them repeatedly", s.effects, s.effects_repeated)?;
    writeln!(text, "  {} turns of poison tried in vain", s.poisoned)?;
    let churned: Vec<String> =
        s.churned.figures().iter().map(|(what, count)| format!("{count} {what}")).collect();
    writeln!(text, "  of instances that come and go: {}", churned.join(", "))?;
    let hours = s.duration.as_secs() / 3_600;
    writeln!(text, "  {} store calls, {} polls, {hours} h of virtual time", s.calls, s.polls)?;
    writeln!(
        text,
        "checked: {} client calls in one order, {} things audited, {} histories replayed, {} timers",
        s.client_calls, s.audited, s.replayed, s.timers
    )
}
