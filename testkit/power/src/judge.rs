//! What must hold after a power loss: the store opens, the file is whole, everything acknowledged is there, the auditor
//! finds nothing, and the work goes on to the right end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dauer::{InstanceId, Status, Timestamp};
use dauer_audit::{Evidence, Invariant, Settings, Snapshot, audit, collect};
use dauer_sqlite::{Clock, Durability, Options, SqliteStore, SystemClock};
use dauer_store::{ExecutionId, HubName, Manage};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::error::Error;
use crate::life::{purge, work};
use crate::observed::{Honesty, observe};
use crate::programs::cases;
use crate::told::{Tell, Told, digest, journal};

/// How long the machine was down: longer than any lease, so that nobody waits for one.
const DOWN: Duration = Duration::from_secs(120);

/// The clock of the machine when it is up again.
struct Later(SystemClock);

impl Clock for Later {
    fn now(&self) -> Timestamp {
        self.0.now().after(DOWN)
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Acknowledged, and not there.
    pub(crate) lost: Vec<String>,
    /// Wrong in any other way: not to be opened, damaged, half done, or ended otherwise than it must.
    pub(crate) wrong: Vec<String>,
    /// How many acknowledgements were looked for.
    pub(crate) acknowledged: u64,
    /// What the auditor compared.
    pub(crate) audited: u64,
}

/// Judges the file that a power loss has left, with all that the child was told before it; then goes on with the work.
pub(crate) async fn judge(file: &Path, durability: Durability, told: &[Told]) -> Result<Findings, Error> {
    let mut findings = Findings::default();
    let complaints = told.iter().filter_map(|told| match told {
        Told::Complaint(text) => Some(format!("before the loss: {text}")),
        _ => None,
    });
    findings.wrong.extend(complaints);
    let clock = Arc::new(Later(SystemClock::new()));
    let store = match SqliteStore::open(file, Options { durability, clock, ..Options::default() }) {
        Ok(store) => store,
        Err(error) => {
            findings.wrong.push(format!("the store could not be opened: {error:?}"));
            return Ok(findings);
        }
    };
    let judged = inspect(&store, file, told, &mut findings).await;
    store.close();
    if let Err(error) = judged {
        findings.wrong.push(format!("the store failed: {error:?}"));
    }
    findings.wrong.extend(integrity(file).into_iter().map(|line| format!("at the end: {line}")));
    Ok(findings)
}

async fn inspect(
    store: &SqliteStore,
    file: &Path,
    told: &[Told],
    findings: &mut Findings,
) -> Result<(), Error> {
    findings.wrong.extend(integrity(file));
    let hub = store.hub(HubName::default());
    let snapshot = collect(&*hub).await?;
    findings.look_for(&snapshot, told);
    findings.audit(&snapshot, told);
    let lost = !findings.lost.is_empty();
    let gone_on = go_on(&hub, told).await?;
    for complaint in &gone_on {
        if let Told::Complaint(text) = complaint {
            findings.wrong.push(format!("after the loss: {text}"));
        }
    }
    let snapshot = collect(&*hub).await?;
    findings.compare(&snapshot, told);
    // What is known to be lost would be found again.
    let before = if lost { &[][..] } else { told };
    let all: Vec<Told> = before.iter().chain(&gone_on).cloned().collect();
    findings.audit(&snapshot, &all);
    Ok(())
}

/// Asks for the same again and works until all has ended; gives what was told meanwhile.
async fn go_on(hub: &Arc<dyn Manage>, told: &[Told]) -> Result<Vec<Told>, Error> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let tell: Tell = Arc::new(move |told| ear.lock().unwrap_or_else(PoisonError::into_inner).push(told));
    let observed = observe(Arc::clone(hub), Arc::clone(&tell), Honesty::Honest);
    let (purged, rest): (Vec<_>, Vec<_>) = cases().into_iter().partition(|case| was_purged(told, case.id));
    for case in purged {
        purge(&observed, &case, &tell).await?;
    }
    work(observed, &rest, &tell).await?;
    Ok(std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Whether the child has asked for the end of an instance: then it is not started again.
fn was_purged(told: &[Told], id: &str) -> bool {
    told.iter().any(|told| matches!(told, Told::Purging { instance, .. } if instance == id))
}

impl Findings {
    /// Looks for every acknowledged commit in the history.
    fn look_for(&mut self, snapshot: &Snapshot, told: &[Told]) {
        let by_text: BTreeMap<&str, _> =
            snapshot.instances.iter().map(|(id, dump)| (id.as_str(), dump)).collect();
        for told_one in told {
            let Told::Committed { instance, revision, execution, digest: events } = told_one else {
                continue;
            };
            self.acknowledged += 1;
            let Some(dump) = by_text.get(instance.as_str()) else {
                if !was_purged(told, instance) {
                    self.lost
                        .push(format!("{instance}: commit {revision} was acknowledged, it is not there"));
                }
                continue;
            };
            let found = dump.record.revision.0;
            if found < *revision {
                self.lost.push(format!("{instance}: commit {revision} was acknowledged, it is at {found}"));
            } else if dump.record.execution == ExecutionId(*execution)
                && let Some(events) = events
            {
                let batch = dump.history.iter().find(|batch| batch.revision.0 == *revision);
                if batch.map(|batch| digest(batch.batch.events.stored())) != Some(*events) {
                    self.lost.push(format!("{instance}: the events of commit {revision} are not there"));
                }
            }
        }
    }

    /// Has the auditor look at everything, with what was told.
    fn audit(&mut self, snapshot: &Snapshot, told: &[Told]) {
        let journal = journal(told);
        let evidence = Evidence { client: Some(&journal), commits: None };
        let report = audit(snapshot, &evidence, &Settings::default());
        self.audited += report.checked();
        self.acknowledged += report.finding(Invariant::Durability).checked();
        for (invariant, violation) in report.violations() {
            let line = format!("{}: {violation}", invariant.code());
            match invariant {
                Invariant::Durability | Invariant::NoResurrection => self.lost.push(line),
                _ => self.wrong.push(line),
            }
        }
    }

    /// Compares how everything ended with how it must.
    fn compare(&mut self, snapshot: &Snapshot, told: &[Told]) {
        let mut expected = BTreeMap::new();
        for case in cases().iter().filter(|case| !was_purged(told, case.id)) {
            expected.extend(case.expected());
        }
        for (id, dump) in &snapshot.instances {
            let record = &dump.record;
            let output =
                record.details.output().and_then(|output| serde_json::from_str(output.as_str()).ok());
            let must: Option<Value> = expected.remove(id.as_str());
            if must.is_none() || record.status != Status::Completed || output != must {
                let status = record.status;
                self.wrong.push(format!("{id}: it is {status:?} with {output:?} instead of {must:?}"));
            }
        }
        self.wrong.extend(expected.keys().map(|id| format!("{id}: it is not there at the end")));
        self.wrong.extend(snapshot.tasks.values().map(|task| left_over(&task.task.instance)));
    }
}

fn left_over(instance: &InstanceId) -> String {
    format!("{instance}: a task of it is left over")
}

/// What SQLite says of the file; empty when it is whole.
fn integrity(file: &Path) -> Vec<String> {
    let check = || -> rusqlite::Result<Vec<String>> {
        let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut check = connection.prepare("PRAGMA integrity_check")?;
        check.query_map([], |row| row.get::<_, String>(0))?.collect()
    };
    match check() {
        Ok(lines) => lines.into_iter().filter(|line| line != "ok").collect(),
        Err(error) => vec![format!("the file cannot be checked: {error}")],
    }
}
