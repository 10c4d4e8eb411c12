//! Whether one state of a hub is an earlier one of another.

use dauer_audit::Snapshot;
use dauer_store::InstanceDump;

/// What an earlier state lacks, and what is in it that never was.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    pub(crate) wrong: Vec<String>,
    /// Instances that are in both.
    pub(crate) compared: u64,
    pub(crate) instances_lost: u64,
    /// Commits of instances that are in both.
    pub(crate) revisions_lost: u64,
}

/// Compares what may be an earlier state with a later one. Nothing is purged in a storm, so all that was is still there.
pub(crate) fn compare(earlier: &Snapshot, later: &Snapshot) -> Earlier {
    let mut found = Earlier::default();
    for (id, was) in &earlier.instances {
        let Some(is) = later.instances.get(id) else {
            found.wrong.push(format!("{id}: it is there, and never was"));
            continue;
        };
        found.compared += 1;
        found.revisions_lost += is.record.revision.0.saturating_sub(was.record.revision.0);
        found.wrong.extend(mistake(was, is).map(|what| format!("{id}: {what}")));
    }
    let lost = later.instances.keys().filter(|id| !earlier.instances.contains_key(*id));
    found.instances_lost = lost.count() as u64;
    found
}

/// Why one state of an instance cannot have been before the other.
fn mistake(was: &InstanceDump, is: &InstanceDump) -> Option<&'static str> {
    if was.record.revision > is.record.revision || was.epoch > is.epoch {
        return Some("it is ahead of what it became");
    }
    if was.record.execution != is.record.execution {
        let before = was.record.generation < is.record.generation;
        return (!before).then_some("it is another run than it was");
    }
    if !is.history.starts_with(&was.history) {
        return Some("its history is no beginning of what it became");
    }
    if was.record.revision == is.record.revision && was.history != is.history {
        return Some("it has the same revision and another history");
    }
    (was.record.status.is_ended() && was.record != is.record).then_some("it had ended, and went on")
}
