//! `dauer audit`: everything that a store holds, checked against the invariants.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use dauer::{HubName, Store};
use dauer_audit::{
    ClientJournal, Evidence, Incomparable, JournalError, LEASES_APART, Progress, Report, Settings, Snapshot,
    all_clean, audit, collect, progress, verdict_of_all,
};
use dauer_hub::with_causes;

use crate::FAILED;
use crate::error::Failure;
use crate::progress::Busy;
use crate::verbs::{is_server, url_of};

/// Why a journal could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("the journal {path:?} could not be opened")]
    Closed { path: PathBuf, source: io::Error },
    #[error("{path:?} is no journal that can be used")]
    Nonsense { path: PathBuf, source: JournalError },
}

/// Audits a store: the hub that its URL names, or all that are in it. The last line on stdout is the verdict, whatever happens.
pub(crate) async fn run(
    store: String,
    (journal, again): (Option<PathBuf>, Option<Duration>),
    quiet: bool,
) -> Result<ExitCode, Failure> {
    let audited = match examine(&url_of(&store), (journal.as_deref(), again), quiet).await {
        Ok(audited) => audited,
        Err(error) => {
            writeln!(io::stdout(), "not checked: {}", with_causes(&error))?;
            return Err(error);
        }
    };
    let count = audited.len();
    let mut reports = Vec::new();
    for Audited { hub, report, progress } in audited {
        if count > 1 {
            writeln!(io::stdout(), "hub {hub}")?;
        }
        match &progress {
            Ok(progress) => tell_of_standstills(progress, quiet)?,
            Err(incomparable) => {
                writeln!(io::stdout(), "note: the two reads were not compared: {incomparable}")?
            }
        }
        reports.push(report);
        let report = &reports[reports.len() - 1];
        writeln!(io::stdout(), "{report}")?;
    }
    if reports.len() > 1 {
        writeln!(io::stdout(), "{}", verdict_of_all(&reports))?;
    }
    Ok(if all_clean(&reports) { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// What was found in one hub.
struct Audited {
    hub: HubName,
    report: Report,
    /// What two reads have shown; empty after one.
    progress: Result<Progress, Incomparable>,
}

fn tell_of_standstills(progress: &Progress, quiet: bool) -> io::Result<()> {
    for standstill in &progress.suspicious {
        writeln!(io::stdout(), "suspicious: {standstill}")?;
    }
    for standstill in progress.unclaimed.iter().filter(|_| !quiet) {
        writeln!(io::stdout(), "note: {standstill}")?;
    }
    Ok(())
}

async fn examine(
    url: &str,
    (journal, again): (Option<&Path>, Option<Duration>),
    quiet: bool,
) -> Result<Vec<Audited>, Failure> {
    let journal = journal.map(read).transpose()?;
    if is_server(url) {
        return Err(Failure::Usage(
            "an audit reads the store itself; give the URL of the store that the server has",
        ));
    }
    let store = Store::open_existing(url)?;
    let audited = Box::pin(audit_hubs(&store, (journal.as_ref(), again), quiet)).await;
    store.close().await;
    audited
}

/// One hub after the other: the whole of it is in memory meanwhile.
async fn audit_hubs(
    store: &Store,
    (journal, again): (Option<&ClientJournal>, Option<Duration>),
    quiet: bool,
) -> Result<Vec<Audited>, Failure> {
    // What a journal tells is about one hub.
    let told = store.named_hub().cloned().unwrap_or_default();
    let mut hubs = match store.named_hub() {
        Some(named) => vec![named.clone()],
        None => store.hubs().await?,
    };
    // A store where nothing was ever done has no hub yet; and a journal may speak of one that is not there.
    if hubs.is_empty() || journal.is_some() && !hubs.contains(&told) {
        hubs.push(told.clone());
    }
    let mut before = BTreeMap::new();
    if let Some(pause) = again {
        let _busy = Busy::new("reading the store, and waiting", !quiet);
        for hub in &hubs {
            before.insert(hub.clone(), ready(collect(&**store.hub(hub.clone()).manage()).await?));
        }
        tokio::time::sleep(pause).await;
    }
    let mut audited = Vec::new();
    for hub in hubs {
        let busy = Busy::new("reading the store", !quiet);
        let snapshot = collect(&**store.hub(hub.clone()).manage()).await?;
        drop(busy);
        if !quiet {
            warn_of_hosts(&snapshot);
        }
        let _busy = Busy::new("checking", !quiet);
        let evidence = Evidence { client: journal.filter(|_| hub == told), commits: None };
        let report = audit(&snapshot, &evidence, &Settings::default());
        // The pause was chosen for the lease of the hosts, so that the dumps are far enough apart.
        let lease = again.unwrap_or_default() / LEASES_APART;
        let progress =
            before.remove(&hub).map_or(Ok(Progress::default()), |before| progress(&before, &snapshot, lease));
        audited.push(Audited { hub, report, progress });
    }
    Ok(audited)
}

/// The part of a dump that a later one is compared with: all hubs are in memory meanwhile.
fn ready(mut snapshot: Snapshot) -> Snapshot {
    snapshot.tasks.clear();
    snapshot.instances.retain(|_, dump| dump.ready_at.is_some());
    snapshot.instances.values_mut().for_each(|dump| dump.history = Vec::new());
    snapshot
}

fn read(path: &Path) -> Result<ClientJournal, Unusable> {
    let file = File::open(path).map_err(|source| Unusable::Closed { path: path.into(), source })?;
    let journal = ClientJournal::read(BufReader::new(file));
    journal.map_err(|source| Unusable::Nonsense { path: path.into(), source })
}

/// The parts of a dump are not of one moment: with hosts at work, the hub may have moved on between two of them.
fn warn_of_hosts(snapshot: &Snapshot) {
    let live = snapshot.sessions.values().filter(|session| session.expires_at > snapshot.now);
    for session in live {
        // The verdict is what counts; without stderr it still comes.
        let _ = writeln!(
            io::stderr(),
            "note: the host {} was at work a moment ago; if it still is, a violation may be the time between two reads",
            session.host
        );
    }
}
