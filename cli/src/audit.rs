//! `dauer audit`: everything that a store holds, checked against the invariants.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dauer_audit::{ClientJournal, Evidence, JournalError, Report, Settings, Snapshot, audit, collect};
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

/// Audits the default hub of a store. The last line on stdout is the verdict, whatever happens.
pub(crate) async fn run(store: String, journal: Option<PathBuf>, quiet: bool) -> Result<ExitCode, Failure> {
    let report = match examine(&url_of(&store), journal.as_deref(), quiet).await {
        Ok(report) => report,
        Err(error) => {
            writeln!(io::stdout(), "not checked: {}", with_causes(&error))?;
            return Err(error);
        }
    };
    writeln!(io::stdout(), "{report}")?;
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

async fn examine(url: &str, journal: Option<&Path>, quiet: bool) -> Result<Report, Failure> {
    let journal = journal.map(read).transpose()?;
    if is_server(url) {
        return Err(Failure::Usage(
            "an audit reads the store itself; give the URL of the store that the server has",
        ));
    }
    let hub = dauer::open_existing(url)?;
    let busy = Busy::new("reading the store", !quiet);
    let snapshot = collect(&**hub.manage()).await;
    hub.close().await;
    drop(busy);
    let snapshot = snapshot?;
    if !quiet {
        warn_of_hosts(&snapshot);
    }
    let _busy = Busy::new("checking", !quiet);
    let evidence = Evidence { client: journal.as_ref(), commits: None };
    Ok(audit(&snapshot, &evidence, &Settings::default()))
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
