//! `dauer-power`: power loss, failing and full disks under a real store, and what must hold after it. Figures go to
//! stdout, everything else to stderr; the last line is the verdict.

use std::error::Error as StdError;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand, ValueEnum};
use dauer_power::{Campaign, Child, Error, FaultCampaign, Figures, Plant, Setup};

/// The exit code when something was found or could not be done; 2 is clap's, for a call that makes no sense.
const FAILED: u8 = 1;

/// Power loss and failing disks.
#[derive(Parser)]
#[command(name = "dauer-power", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Lose power at the k-th durable system call, for k from 1 on; then verify everything.
    ///
    /// With full durability nothing acknowledged may be lost. With normal durability something must be, or the run says
    /// nothing; and the file must stay whole.
    Run {
        /// The first so many calls.
        #[arg(long, default_value_t = 300)]
        points: u64,
        /// So many more, spread over the rest of the work.
        #[arg(long, default_value_t = 60)]
        spread: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Have syncs and writes fail, and the disk be full, at points spread over the work; then lose power and verify
    /// everything.
    Faults {
        /// So many points for each kind of fault.
        #[arg(long, default_value_t = 100)]
        points: u64,
        /// Only this: kill those too who go on after a process that died with a failed sync.
        #[arg(long)]
        heirs_die: bool,
        #[command(flatten)]
        common: Common,
    },
    /// One child, as the other roles start it.
    #[command(hide = true)]
    Child(Child),
}

#[derive(clap::Args)]
struct Common {
    /// What the store promises.
    #[arg(long, value_enum, default_value = "full")]
    durability: Durability,
    /// What the losses are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A planted fault: the run must be red.
    #[arg(long, value_enum)]
    plant: Option<Plant>,
    /// Where to put the files; a new folder of the system's temporary one if not given. It is emptied.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Durability {
    Full,
    Normal,
}

impl Common {
    fn setup(&self) -> Result<Setup, Error> {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let own = || std::env::temp_dir().join(format!("dauer-power-{}-{nanos}", std::process::id()));
        let place = self.folder.clone().unwrap_or_else(own);
        std::fs::create_dir_all(&place)?;
        let durability = match self.durability {
            Durability::Full => dauer_sqlite::Durability::Full,
            Durability::Normal => dauer_sqlite::Durability::Normal,
        };
        Ok(Setup {
            program: std::env::current_exe()?,
            place: place.canonicalize()?,
            durability,
            plant: self.plant,
        })
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error),
    };
    let result = runtime.block_on(async {
        match arguments.role {
            Role::Run { points, spread, common } => {
                let setup = common.setup()?;
                let campaign = Campaign { setup: setup.clone(), points, spread, seed: common.seed };
                finish(&common, &setup, &campaign.run().await?)
            }
            Role::Faults { points, heirs_die, common } => {
                let setup = common.setup()?;
                let campaign = FaultCampaign { setup: setup.clone(), points, seed: common.seed, heirs_die };
                finish(&common, &setup, &campaign.run().await?)
            }
            Role::Child(child) => child.run().await.map(|()| true),
        }
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => complain(&error),
    }
}

/// Prints the figures; whether they are as they must be.
fn finish(common: &Common, setup: &Setup, figures: &Figures) -> Result<bool, Error> {
    let text = if common.json { serde_json::to_string_pretty(figures)? } else { figures.to_string() };
    // Nothing is left to do when even that is gone.
    let _ = writeln!(std::io::stdout(), "{text}");
    let right = match common.durability {
        Durability::Full => figures.is_clean(),
        Durability::Normal => figures.loses_and_stays_whole(),
    };
    let verdict = match (common.durability, right) {
        (Durability::Full, true) => "clean: nothing acknowledged was lost",
        (Durability::Full, false) => "RED",
        (Durability::Normal, true) => "as documented: acknowledged work was lost, the file stayed whole",
        (Durability::Normal, false) => "RED: nothing was lost, or more than acknowledged work",
    };
    let _ = writeln!(std::io::stdout(), "{verdict}");
    if common.folder.is_none() {
        // A folder that cannot be removed is in nobody's way.
        let _ = std::fs::remove_dir_all(&setup.place);
    }
    Ok(right)
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
