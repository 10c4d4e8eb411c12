//! A process that opens a file when it is told to, and says when it has.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use dauer_sqlite::SqliteStore;

use crate::error::Error;

/// What it says when it is about to be told, and when the file is open.
const READY: &str = "ready";
const OPENED: &str = "opened";

/// The role of such a process.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Opener {
    /// The file.
    #[arg(long)]
    store: PathBuf,
}

impl Opener {
    /// Opens the file at the first byte of standard input, and closes it at its end.
    pub(crate) fn run(&self) -> Result<(), Error> {
        let tell = |word: &str| writeln!(std::io::stdout().lock(), "{word}");
        tell(READY)?;
        std::io::stdin().lock().read_exact(&mut [0])?;
        let store = SqliteStore::open(&self.store, dauer_sqlite::Options::default())?;
        tell(OPENED)?;
        std::io::stdin().lock().read_to_end(&mut Vec::new())?;
        store.close();
        Ok(())
    }
}

/// Such a process, as its parent has it.
pub(crate) struct Opening {
    child: Child,
    input: Option<ChildStdin>,
    /// Ends with the moment at which the file was open, if it ever was.
    ear: JoinHandle<Option<Instant>>,
}

impl Opening {
    /// Starts it and waits until it can be told.
    pub(crate) fn start(file: &Path, environment: &[(&'static str, OsString)]) -> Result<Self, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("opener").arg("--store").arg(file);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let mut output = child.stdout.take().map(BufReader::new);
        if let Some(output) = &mut output {
            output.read_line(&mut String::new())?;
        }
        let ear = std::thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| output.lines().map_while(Result::ok));
            lines.filter(|line| line == OPENED).map(|_| Instant::now()).next()
        });
        Ok(Self { child, input, ear })
    }

    /// Tells it to open the file.
    pub(crate) fn go(&mut self) -> Result<(), Error> {
        Ok(self.input.as_mut().map_or(Ok(()), |input| input.write_all(b"g"))?)
    }

    /// Kills it, whatever it does.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        Ok(self.child.kill()?)
    }

    /// When it had opened the file, if it ever had, and how it has ended. One that lives is told to end when it has.
    pub(crate) fn end(self) -> Result<(Option<Instant>, ExitStatus), Error> {
        let Self { mut child, input, ear } = self;
        // It is told to end only then: a thread that panicked has heard nothing.
        let opened = ear.join().unwrap_or_default();
        drop(input);
        Ok((opened, child.wait()?))
    }
}
