//! One child under the shim: what it told, and what its disk is like.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use dauer_sqlite::Durability;

use crate::disk::Disk;
use crate::error::Error;
use crate::record::{FOLDER, LOG, PLAN};
use crate::told::Told;

/// The name of the library that Cargo builds.
const SHIM: &str = "libdauer_power_shim.so";

/// A child that is not over by then hangs: far longer than any takes, also while the machine is busy with others.
const CHILD_MAX: Duration = Duration::from_secs(180);

/// How often to look whether it is over.
const LOOK: Duration = Duration::from_millis(1);

/// A fault of the harness itself, to show that a run can be red.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// Starts and commits are told before they are carried out.
    Hasty,
    /// The disk says that it has synced, and has not.
    LyingDisk,
    /// The file of the store is damaged after the loss.
    Damage,
}

/// Where and how children are run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The program that has the role of a child.
    pub program: PathBuf,
    /// A folder for all files of a run, which this run may empty.
    pub place: PathBuf,
    /// What the store promises.
    pub durability: Durability,
    /// What is planted, if anything.
    pub plant: Option<Plant>,
}

/// What came of one child.
pub(crate) struct Trial {
    pub(crate) told: Vec<Told>,
    pub(crate) disk: Disk,
    /// Whether it has done all its work.
    pub(crate) done: bool,
    /// Whether it was killed before or after that.
    pub(crate) killed: bool,
}

impl Setup {
    /// The folder that is watched.
    pub(crate) fn folder(&self) -> PathBuf {
        self.place.join("disk")
    }

    fn log(&self) -> PathBuf {
        self.place.join("records")
    }

    /// The file of the store.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder().join("hub.db")
    }

    /// Runs a child on an empty disk, with that plan for the shim.
    pub(crate) fn child(&self, plan: &str, leave_open: bool) -> Result<Trial, Error> {
        for old in [self.folder(), self.log()] {
            let removed = if old.is_dir() { std::fs::remove_dir_all(old) } else { std::fs::remove_file(old) };
            match removed {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        std::fs::create_dir_all(self.folder())?;
        self.run(Vec::new(), plan, &[("--leave-open", leave_open)])
    }

    /// Runs a child on the disk as the last one has left it, without a loss of power: it does all work in one life, and
    /// ends with the store open. What the last one was told is given.
    pub(crate) fn heir(&self, told: Vec<Told>, plan: &str) -> Result<Trial, Error> {
        self.run(told, plan, &[("--one-life", true), ("--leave-open", true)])
    }

    fn run(&self, mut told: Vec<Told>, plan: &str, flags: &[(&str, bool)]) -> Result<Trial, Error> {
        let purged = told.iter().any(|told| matches!(told, Told::Purging { .. }));
        let (folder, log) = (self.folder().canonicalize()?, self.log());
        let mut command = Command::new(&self.program);
        command.arg("child").arg("--file").arg(folder.join("hub.db"));
        command.env("LD_PRELOAD", shim(&self.program)?);
        command.env(FOLDER, &folder).env(LOG, &log).env(PLAN, plan);
        for (flag, given) in [
            ("--normal", self.durability == Durability::Normal),
            ("--hasty", self.plant == Some(Plant::Hasty)),
            ("--purged", purged),
        ] {
            command.args(given.then_some(flag));
        }
        command.args(flags.iter().filter_map(|(flag, given)| given.then_some(flag)));
        let (status, text) = run(command)?;
        told.extend(text.lines().map(serde_json::from_str).collect::<Result<Vec<Told>, _>>()?);
        let records = std::fs::read(&log)?;
        let honest = Disk::play(&records, false)?;
        let differences = honest.differences(&folder)?;
        if let Some(difference) = differences.first() {
            return Err(Error::Unseen(difference.clone()));
        }
        let done = told.last() == Some(&Told::Done);
        let killed = signal(status) == Some(SIGKILL);
        let lying = self.plant == Some(Plant::LyingDisk);
        let disk = if lying { Disk::play(&records, true)? } else { honest };
        Ok(Trial { told, disk, done, killed })
    }
}

/// The signal that nobody can catch.
const SIGKILL: i32 = 9;

fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

/// The library to be preloaded. Where Cargo builds it as a part of something else comes first: that is the newest.
fn shim(program: &Path) -> Result<PathBuf, Error> {
    let folder = program.parent().unwrap_or(Path::new("."));
    let places = [folder.join("deps").join(SHIM), folder.join(SHIM)];
    let found = places.iter().find(|place| place.is_file()).cloned();
    found.ok_or_else(|| Error::NoShim(folder.join("deps").join(SHIM)))
}

/// Runs a child to its end and gives what it told.
fn run(mut command: Command) -> Result<(ExitStatus, String), Error> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take();
    let ear = std::thread::spawn(move || {
        let mut text = String::new();
        output.map_or(Ok(0), |mut output| output.read_to_string(&mut text)).map(|_| text)
    });
    let deadline = Instant::now() + CHILD_MAX;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Err(Error::Child(format!("it was not over after {CHILD_MAX:?}")));
        }
        std::thread::sleep(LOOK);
    };
    match ear.join() {
        Ok(text) => Ok((status, text?)),
        Err(_) => Err(Error::Child("what it told could not be read".to_owned())),
    }
}
