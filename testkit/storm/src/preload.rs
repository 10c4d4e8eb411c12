//! Libraries that are preloaded into the processes of a storm.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::record::{FOLDER, LOG, PLAN};

/// The name of the library that makes a disk fail: `testkit/power/shim`.
const DISK: &str = "libdauer_power_shim.so";

/// Finds a library that Cargo has built together with this program.
pub(crate) fn library(name: &str) -> Result<PathBuf, Error> {
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("."));
    // Where Cargo builds it as a part of something else comes first: that is the newest.
    let places = [folder.join("deps").join(name), folder.join(name)];
    let found = places.iter().find(|place| place.is_file()).cloned();
    found.ok_or_else(|| Error::NoLibrary(folder.join("deps").join(name)))
}

/// What a process is started with whose disk does what a plan says: see `testkit/power/shim/src/plan.rs`. The library
/// writes down everything that is done to the folder, in the file `log`.
pub(crate) fn failing_disk(
    folder: &Path,
    log: &Path,
    plan: &str,
) -> Result<Vec<(&'static str, OsString)>, Error> {
    Ok(vec![
        ("LD_PRELOAD", library(DISK)?.into()),
        (FOLDER, folder.canonicalize()?.into()),
        (LOG, log.into()),
        (PLAN, plan.into()),
    ])
}
