//! The hands of a worker's clock, in the hands of its parent.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::Error;
use crate::preload::library;
use crate::share::FILE;

/// The name of the library that Cargo builds.
const LIBRARY: &str = "libdauer_storm_clock.so";

/// What moves a clock.
#[derive(Debug, Clone)]
pub(crate) enum Mover {
    /// Our own library.
    Own(PathBuf),
    /// libfaketime.
    Faketime(PathBuf),
}

impl Mover {
    /// libfaketime if its path is given; our own otherwise.
    pub(crate) fn find(faketime: Option<PathBuf>) -> Result<Self, Error> {
        if let Some(path) = faketime {
            return if path.is_file() { Ok(Self::Faketime(path)) } else { Err(Error::NoLibrary(path)) };
        }
        library(LIBRARY).map(Self::Own)
    }
}

/// The clock of one worker.
#[derive(Debug)]
pub(crate) struct Hands {
    mover: Mover,
    file: PathBuf,
    /// By how many milliseconds it is moved.
    offset: i64,
}

impl Hands {
    /// A clock that is moved by so many milliseconds, with a file of that name to move it further.
    pub(crate) fn new(mover: &Mover, file: PathBuf, offset: i64) -> Result<Self, Error> {
        let mut hands = Self { mover: mover.clone(), file, offset };
        hands.set(offset)?;
        Ok(hands)
    }

    /// By how many milliseconds it is moved.
    pub(crate) fn offset(&self) -> i64 {
        self.offset
    }

    /// Moves it, whatever its process is doing.
    pub(crate) fn set(&mut self, offset: i64) -> Result<(), Error> {
        self.offset = offset;
        match &self.mover {
            // In place: the process has the file mapped. Eight bytes in one write are there as a whole.
            Mover::Own(_) => {
                use std::os::unix::fs::FileExt as _;
                let mut options = std::fs::OpenOptions::new();
                let file = options.write(true).create(true).truncate(false).open(&self.file)?;
                file.write_all_at(&offset.to_ne_bytes(), 0)?;
            }
            // Under another name first: the process reads the file anew each time, and must find it whole.
            Mover::Faketime(_) => {
                let fresh = self.file.with_extension("fresh");
                std::fs::write(&fresh, format!("{:+.3}\n", offset as f64 / 1e3))?;
                std::fs::rename(fresh, &self.file)?;
            }
        }
        Ok(())
    }

    /// What a worker with this clock is started with.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let file = self.file.clone().into_os_string();
        match &self.mover {
            Mover::Own(library) => vec![("LD_PRELOAD", library.into()), (FILE, file)],
            Mover::Faketime(library) => vec![
                ("LD_PRELOAD", library.into()),
                ("FAKETIME_TIMESTAMP_FILE", file),
                // Read at every call, so that a move counts at once.
                ("FAKETIME_NO_CACHE", "1".into()),
                // Nobody can set the monotonic clock of a machine.
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ],
        }
    }
}
