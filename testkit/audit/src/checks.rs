//! The invariants, one file each, and the audit that runs them all.

mod atomic;
mod bounded;
mod causality;
mod committer;
mod conservation;
mod durability;
mod families;
mod identity;
mod linear;
mod once;
mod order;
mod orphans;
mod readiness;
mod resurrection;
mod terminal;
mod timers;

use std::collections::BTreeSet;

use crate::report::{Finding, Invariant, Report};
use crate::view::Views;
use crate::{Evidence, Settings, Snapshot};

const NO_CLIENT: &str = "needs the journal of a client";
const NO_COMMITS: &str = "needs the journal of all commits";
const LIVENESS: &str = "says what happens once faults stop: a dump shows one moment";

/// Checks every invariant that the material can show.
#[must_use]
pub fn audit(snapshot: &Snapshot, evidence: &Evidence<'_>, settings: &Settings) -> Report {
    let views = &Views::new(snapshot);
    let client = evidence.client;
    let commits = evidence.commits;
    let finding = |invariant| match invariant {
        Invariant::LinearHistory => linear::check(views, &snapshot.damaged),
        Invariant::SingleCommitter => committer::check(views, commits),
        Invariant::AtomicTurn => atomic::check(views, settings),
        Invariant::Durability => {
            client.map_or(Finding::NotChecked(NO_CLIENT), |c| durability::check(views, c, settings))
        }
        Invariant::AppliedOnce => once::check(views),
        Invariant::Causality => causality::check(views),
        Invariant::TerminalIsFinal => terminal::check(views),
        Invariant::Timers => timers::check(views),
        Invariant::Replay => Finding::NotChecked("needs the code: run the replay tool on the histories"),
        Invariant::Identity => identity::check(views),
        Invariant::Isolation => {
            Finding::NotChecked("needs two hubs and a principal of each: the security suite has them")
        }
        Invariant::ClientView => {
            Finding::NotChecked("needs the times of all calls and a linearizability checker")
        }
        Invariant::Bounded => bounded::check(views, settings),
        Invariant::Entities => Finding::NotChecked("needs the journal of all entity operations"),
        Invariant::Families => families::check(views),
        Invariant::Readiness => readiness::check(views),
        Invariant::SenderOrder => order::check(views, commits),
        Invariant::NoResurrection if client.is_none() && snapshot.removed_starts.is_empty() => {
            Finding::NotChecked(NO_CLIENT)
        }
        Invariant::NoResurrection => resurrection::check(views, client),
        Invariant::Conservation => {
            commits.map_or(Finding::NotChecked(NO_COMMITS), |c| conservation::check(views, c))
        }
        Invariant::NoOrphans => orphans::check(views, settings),
        Invariant::Progress | Invariant::DueTimers | Invariant::Poison => Finding::NotChecked(LIVENESS),
    };
    let damaged = snapshot.damaged.iter().map(|(id, _)| id);
    let instances: BTreeSet<_> = snapshot.instances.keys().chain(damaged).collect();
    Report::new(
        instances.len(),
        Invariant::ALL.into_iter().map(|invariant| (invariant, finding(invariant))).collect(),
    )
}
