//! `dauer-storm`: real hosts as processes on one SQLite file, killed and stopped at random moments, and what must hold
//! after it. Figures go to stdout, everything else to stderr; the last line is the verdict.

mod board;
mod case;
mod clients;
mod clocks;
mod error;
mod failing;
mod figures;
mod full;
mod hands;
mod held;
mod locks;
mod migrate;
mod opener;
mod options;
mod prefix;
mod preload;
mod process;
mod programs;
#[path = "../../power/shim/src/record.rs"]
#[allow(dead_code)] // Only the names of variables are used here; the records are for testkit/power.
mod record;
#[path = "../clock/src/share.rs"]
mod share;
mod stage;
mod storm;
mod tamper;
mod torn;
mod verify;
mod voice;
mod wake;
mod wal;
mod worker;
mod zombies;

use std::error::Error as StdError;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use clocks::Clocks;
use error::Error;
use failing::Failing;
use full::Full;
use migrate::Migrate;
use opener::Opener;
use options::{Common, Kills};
use stage::Aftermath;
use storm::Storm;
use torn::Torn;
use wake::Wake;
use worker::Worker;
use zombies::Zombies;

/// Storms of processes over one file.
#[derive(Parser)]
#[command(name = "dauer-storm", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Kill and stop workers until enough kills have hit a lease; then verify everything.
    ///
    /// Example: dauer-storm run --processes 3 --kills 100
    Run(Kills),
    /// Stop workers in the middle of what they hold until others have taken over, and let them go on: what they do then
    /// must be refused.
    ///
    /// Example: dauer-storm zombies --zombies 75
    Zombies(Zombies),
    /// Move the clocks of workers back and ahead while they run: no lease may be stolen from the living.
    ///
    /// Example: dauer-storm clocks --moves 60 --jumps 8
    Clocks(Clocks),
    /// Kill all workers at once and tear the log they leave, again and again.
    ///
    /// Example: dauer-storm torn --tears 20 --cuts 5
    Torn(Torn),
    /// Fill the disk under the workers and free it again. Mounts a small disk of its own.
    ///
    /// Example: dauer-storm full --fills 10
    Full(Full),
    /// Have syncs and writes fail under workers, and kill them at exact system calls.
    ///
    /// Example: dauer-storm failing --faults 60
    Failing(Failing),
    /// Open copies of golden files by several processes at once, and kill some of them.
    ///
    /// Example: dauer-storm migrate --rounds 100
    Migrate(Migrate),
    /// Measure how long a result takes from the process that wrote it to the one that waits for it.
    Wake(Wake),
    /// One worker, as the other roles start it.
    #[command(hide = true)]
    Worker(Worker),
    /// One process that opens a file, as the migrations start it.
    #[command(hide = true)]
    Opener(Opener),
}

/// The exit code when something was found or could not be done; 2 is clap's, for a call that makes no sense.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error),
    };
    let result = runtime.block_on(async {
        match arguments.role {
            Role::Run(options) => {
                let common = options.common.clone();
                storm(common, async |file| Storm::new(options, file)?.run().await).await
            }
            Role::Clocks(clocks) => storm(clocks.common.clone(), async |file| clocks.run(file).await).await,
            Role::Torn(torn) => storm(torn.common.clone(), async |file| torn.run(file).await).await,
            Role::Full(full) => storm(full.common.clone(), async |file| full.run(file).await).await,
            Role::Failing(failing) => {
                storm(failing.common.clone(), async |file| failing.run(file).await).await
            }
            Role::Zombies(zombies) => {
                storm(zombies.common.clone(), async |file| zombies.run(file).await).await
            }
            Role::Migrate(migrate) => migrate.run().await,
            Role::Opener(opener) => opener.run().map(|()| true),
            Role::Wake(wake) => wake.run().await,
            Role::Worker(worker) => worker.run().await.map(|()| true),
        }
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => complain(&error),
    }
}

/// Makes a storm and prints its figures; whether its verdict is clean.
async fn storm(
    common: Common,
    make: impl AsyncFnOnce(PathBuf) -> Result<Aftermath, Error>,
) -> Result<bool, Error> {
    let folder = folder(common.folder.clone(), "storm")?;
    let (json, keep) = (common.json, common.folder.is_some());
    let Aftermath { figures, stuck } = make(folder.join("storm.db")).await?;
    for line in &stuck {
        say(line, &mut std::io::stderr());
    }
    let text = if json { serde_json::to_string_pretty(&figures)? } else { figures.to_string() };
    say(&text, &mut std::io::stdout());
    let clean = figures.is_clean() && stuck.is_empty();
    tidy_up(&folder, clean && !keep);
    Ok(clean)
}

/// The folder for the file of a run.
fn folder(given: Option<PathBuf>, name: &str) -> Result<PathBuf, Error> {
    let own = || std::env::temp_dir().join(format!("dauer-{name}-{}-{}", std::process::id(), voice::nanos()));
    let folder = given.unwrap_or_else(own);
    match std::fs::create_dir_all(&folder) {
        Ok(()) => Ok(folder),
        Err(error) => Err(Error::Folder(folder, error)),
    }
}

/// Removes the folder of a run that found nothing; says where it is otherwise.
fn tidy_up(folder: &std::path::Path, remove: bool) {
    // A folder that cannot be removed is in nobody's way.
    if !remove || std::fs::remove_dir_all(folder).is_err() {
        say(&format!("the files are in {}", folder.display()), &mut std::io::stderr());
    }
}

fn say(text: &str, to: &mut dyn std::io::Write) {
    // Nothing is left to do when even that is gone.
    let _ = writeln!(to, "{text}");
}

/// The error and what lies behind it, on one line of stderr.
fn complain(error: &dyn StdError) -> ExitCode {
    let mut text = format!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::from(FAILED)
}
