//! L1 to L4: once the faults have stopped, everything comes to its end within a bound, timers fire, nothing is left over,
//! and all of that in spite of an instance that nobody can run.

use std::time::Duration;

use dauer_audit::Snapshot;
use dauer_proto::{EventType, HistoryEvent, time};
use dauer_store::{InstanceDump, Status, Timestamp};

/// How long, beyond what the programs sleep, everything may take after the chaos: leases and pauses run out, delayed
/// calls arrive, clocks that jumped are caught up with.
pub(crate) const RECOVERY_MAX: Duration = Duration::from_secs(300);

/// How late a timer may fire after the chaos: the longest lease and the longest delay of a call, three times.
pub(crate) const TIMER_LATE_MAX: Duration = Duration::from_secs(165);

/// Whether a run has nothing left to do: every instance has ended, nothing is to be executed.
pub(crate) fn is_drained(snapshot: &Snapshot) -> bool {
    let ended = |dump: &InstanceDump| {
        let status: Status = dump.record.status;
        status.is_ended() && dump.ready_at.is_none() && dump.holder.is_none()
    };
    snapshot.tasks.is_empty() && snapshot.instances.values().all(ended)
}

/// L1: what an unfinished hub waits for.
pub(crate) fn waits(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, dump) in &snapshot.instances {
        if dump.record.status.is_ended() && dump.holder.is_none() {
            continue;
        }
        let tasks = snapshot.tasks.values().filter(|task| task.task.instance == *id).count();
        let (status, revision) = (dump.record.status, dump.record.revision.0);
        let trouble =
            dump.record.trouble.as_ref().map(|trouble| format!(", {:?}: {}", trouble.kind, trouble.reason));
        let holder = dump.holder.map_or(String::new(), |holder| {
            let left = snapshot.sessions.get(&holder).map(|session| session.expires_at.0 - snapshot.now.0);
            format!(", held by a session that expires in {left:?} ms")
        });
        let ready = dump.ready_at.map(|at| at.0 - snapshot.now.0);
        lines.push(format!(
            "{id} is {status:?} at revision {revision}, {} messages wait, ready in {ready:?} ms, {tasks} tasks{holder}{}",
            dump.prologue.len() + dump.inbox.len(),
            trouble.unwrap_or_default()
        ));
    }
    for dump in snapshot.tasks.values() {
        let (task, withdrawn) = (&dump.task, if dump.withdrawn { ", withdrawn" } else { "" });
        let left = dump.holder.and_then(|holder| snapshot.sessions.get(&holder));
        let left = left.map(|session| session.expires_at.0 - snapshot.now.0);
        let (id, held) = (&task.instance, dump.holder.is_some());
        lines.push(format!(
            "task {} of {id}, held: {held}, by a session that expires in {left:?} ms, attempts {}{withdrawn}",
            task.event_id, dump.attempts
        ));
    }
    lines
}

/// L2: timers that fired too late, of those that fired after the chaos; and how many were looked at.
pub(crate) fn late_timers(
    dump: &InstanceDump,
    events: &[(Timestamp, HistoryEvent)],
    healed: Timestamp,
) -> (u64, Vec<String>) {
    // Who is suspended wants nothing to happen.
    let suspended = |(_, event): &(Timestamp, HistoryEvent)| {
        matches!(event.event_type, Some(EventType::ExecutionSuspended(_)))
    };
    if events.iter().any(suspended) {
        return (0, Vec::new());
    }
    let mut late = Vec::new();
    let mut checked = 0;
    for (committed, event) in events {
        let Some(EventType::TimerFired(fired)) = &event.event_type else { continue };
        let Some(due) = fired.fire_at.as_ref().and_then(|at| time::to_millis_ceil(at).ok()) else { continue };
        checked += 1;
        let after = committed.since(Timestamp(due).max(healed));
        if after > TIMER_LATE_MAX {
            late.push(format!("L2 {}: a timer fired {} s late", dump.id, after.as_secs()));
        }
    }
    (checked, late)
}

/// L3: what is left over when all hosts have gone.
pub(crate) fn left_over(snapshot: &Snapshot) -> Vec<String> {
    let mut left = Vec::new();
    for dump in snapshot.instances.values() {
        let messages = dump.inbox.len() + dump.prologue.len() + dump.outbox.len();
        if messages > 0 || dump.holder.is_some() {
            let held = dump.holder.is_some();
            left.push(format!("L3 {}: {messages} messages are left, held: {held}", dump.id));
        }
    }
    if !snapshot.tasks.is_empty() {
        left.push(format!("L3: {} tasks are left", snapshot.tasks.len()));
    }
    left
}
