//! What must hold once the storm is over: every instance has ended as its program says, nothing is left lying, the
//! auditor finds nothing, and the file is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dauer::{Record, Status};
use dauer_audit::{Evidence, Report, Settings, Snapshot, audit};
use dauer_proto::TaskFailureDetails;
use dauer_store::InstanceDump;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::case::Expected;
use crate::clients::{Clients, Ended};
use crate::error::Error;
use crate::held::process_of;

/// How many instances a stuck run shows: the first ones say what the matter is.
const STUCK_SHOWN_MAX: usize = 20;

/// What is wrong, as sentences, and what the auditor says.
pub(crate) struct Findings {
    pub(crate) wrong: Vec<String>,
    /// How many outcomes were compared.
    pub(crate) compared: u64,
    pub(crate) report: Report,
}

/// Compares everything that the store holds with everything that clients asked for and were told.
pub(crate) fn verify(snapshot: &Snapshot, clients: &Clients) -> Findings {
    let journal = clients.journal();
    let evidence = Evidence { client: Some(&journal), commits: None };
    let report = audit(snapshot, &evidence, &Settings::default());
    let mut wrong = clients.take_complaints();
    for Ended { id, record } in clients.take_ended() {
        if record.status.is_ended()
            && let Some(dump) = snapshot.instances.get(&id)
            && facts(&dump.record) != facts(&record)
        {
            wrong.push(format!("{id}: it had ended, and changed"));
        }
    }
    let mut expected = BTreeMap::new();
    for case in clients.begun() {
        expected.extend(case.expected().into_iter().map(|each| (each.id.clone(), each)));
    }
    let known: BTreeSet<&str> = expected.keys().map(String::as_str).collect();
    for id in snapshot.instances.keys().filter(|id| !known.contains(id.as_str())) {
        wrong.push(format!("{id}: nobody started it"));
    }
    let by_text: BTreeMap<&str, &InstanceDump> =
        snapshot.instances.iter().map(|(id, dump)| (id.as_str(), dump)).collect();
    for each in expected.values() {
        wrong.extend(mistake(each, by_text.get(each.id.as_str()).map(|dump| &dump.record)));
    }
    for (id, task) in &snapshot.tasks {
        wrong.push(format!("{}: its task {id} is left over", task.task.instance));
    }
    Findings { wrong, compared: expected.len() as u64, report }
}

/// What never changes once an instance has ended.
fn facts(record: &Record) -> impl PartialEq + use<> {
    let details = &record.details;
    let end = (details.output().cloned(), details.failure().cloned());
    (record.status, end, record.execution, record.times.completed)
}

/// What is wrong with the end of one instance, if anything is.
fn mistake(expected: &Expected, record: Option<&Record>) -> Option<String> {
    let id = &expected.id;
    let Some(record) = record else {
        return (!expected.optional).then(|| format!("{id}: it is not there"));
    };
    if record.status != expected.status {
        return Some(format!("{id}: it is {:?} instead of {:?}", record.status, expected.status));
    }
    if record.status == Status::Failed {
        let details =
            record.details.failure().and_then(|failure| failure.decode::<TaskFailureDetails>().ok());
        let message = details.map(|details| details.error_message);
        return (message != expected.failure)
            .then(|| format!("{id}: it failed with {message:?} instead of {:?}", expected.failure));
    }
    let output = record.details.output().map_or("null", |output| output.as_str());
    let output = serde_json::from_str::<Value>(output).ok();
    let fits = output.as_ref().is_some_and(|output| expected.outputs.contains(output));
    (!fits).then(|| format!("{id}: its output is {output:?} instead of one of {:?}", expected.outputs))
}

/// Whether everything has come to rest: what has not ended is held by nobody and has nothing to do now.
pub(crate) fn rests(snapshot: &Snapshot) -> bool {
    let rests = |dump: &InstanceDump| {
        let idle = dump.holder.is_none() && dump.ready_at.is_none_or(|at| at > snapshot.now);
        dump.record.status.is_ended() || dump.record.status == Status::Running && idle
    };
    snapshot.instances.values().all(rests) && snapshot.tasks.is_empty()
}

/// What a run that does not come to an end waits for.
pub(crate) fn stuck(snapshot: &Snapshot) -> Vec<String> {
    let now = snapshot.now;
    let holder = |holder: &Option<dauer_store::SessionId>| match holder {
        None => "nobody".to_owned(),
        Some(id) => match snapshot.sessions.get(id) {
            None => "a session that is gone".to_owned(),
            Some(session) => {
                let process = process_of(&session.host).unwrap_or_default();
                format!("process {process} (lease until {:+} ms)", session.expires_at.0 - now.0)
            }
        },
    };
    let open = snapshot.instances.values().filter(|dump| !dump.record.status.is_ended());
    let mut lines = Vec::new();
    for dump in open.take(STUCK_SHOWN_MAX) {
        let ready = dump.ready_at.map_or("never".to_owned(), |at| format!("{:+} ms", at.0 - now.0));
        lines.push(format!(
            "{} {} is {:?}: held by {}, ready at {ready}, not before {:+} ms, inbox {}, prologue {}, outbox {}, revision {:?}, attempts {}, trouble {:?}",
            dump.id,
            dump.record.queue.name,
            dump.record.status,
            holder(&dump.holder),
            dump.not_before.0 - now.0,
            dump.inbox.len(),
            dump.prologue.len(),
            dump.outbox.len(),
            dump.record.revision,
            dump.record.attempts,
            dump.record.trouble,
        ));
    }
    for task in snapshot.tasks.values().take(STUCK_SHOWN_MAX) {
        lines.push(format!(
            "task {} of {}: held by {}, not before {:+} ms, attempts {}, withdrawn {}",
            task.task.id,
            task.task.instance,
            holder(&task.holder),
            task.not_before.0 - now.0,
            task.attempts,
            task.withdrawn,
        ));
    }
    lines
}

/// What SQLite itself says about the file; empty when it is whole.
pub(crate) fn integrity(file: &Path) -> Result<Vec<String>, Error> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut check = connection.prepare("PRAGMA integrity_check")?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}
