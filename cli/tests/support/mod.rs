//! The command as a user runs it: real processes, real files.
#![allow(dead_code)] // Each test file uses its own part.
#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use dauer_audit::Snapshot;

/// A deadline that only a broken test reaches.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The deadline for the end of a command: `dauer audit --again 60` itself waits for a minute.
const END: Duration = Duration::from_secs(150);

/// A folder of its own for each test, gone afterwards.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dauer-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("dauer.db")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.file().display())
    }

    /// The names of the files in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap().map(|each| each.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn command(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dauer"));
    command.args(arguments).current_dir(folder);
    // Installed: what is printed names the program by its name.
    let installed = Path::new(env!("CARGO_BIN_EXE_dauer")).parent().unwrap().to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([installed].into_iter().chain(std::env::split_paths(&path)));
    command.env("PATH", path.unwrap());
    // What whoever runs the tests has set is not meant.
    command.env_remove("DAUER_STORE").env_remove("DAUER_TOKEN").env_remove("NO_COLOR");
    command
}

/// Runs the command to its end, without anything to read.
pub(crate) fn dauer(arguments: &[&str], folder: &Folder) -> Output {
    command(arguments, &folder.0).stdin(Stdio::null()).output().unwrap()
}

/// Runs the command to its end, with this to read and these variables set.
pub(crate) fn dauer_with(
    arguments: &[&str],
    folder: &Folder,
    input: &str,
    variables: &[(&str, &str)],
) -> Output {
    let mut command = command(arguments, &folder.0);
    command.envs(variables.iter().copied());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that does not read it has ended before.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Runs the command to its end while nobody reads what it prints.
pub(crate) fn dauer_unread(arguments: &[&str], folder: &Folder) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command(arguments, &folder.0).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// Everything the store holds, as the auditor sees it.
pub(crate) fn snapshot(folder: &Folder) -> Snapshot {
    block_on(async {
        let hub = dauer::open_existing(&folder.url()).unwrap();
        let snapshot = dauer_audit::collect(&**hub.manage()).await.unwrap();
        hub.close().await;
        snapshot
    })
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap()
        .block_on(work)
}

/// The command while it runs.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    pub(crate) said: Vec<String>,
}

impl Running {
    pub(crate) fn start(arguments: &[&str], folder: &Folder) -> Self {
        Self::of(command(arguments, &folder.0))
    }

    /// Any command. What it says on stderr is not kept.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(std::io::Result::ok).try_for_each(|line| said.send(line))
        });
        Self { child, stdin: Some(stdin), lines, said: Vec::new() }
    }

    /// Reads until a line contains that.
    pub(crate) fn until(&mut self, word: &str) {
        loop {
            match self.lines.recv_timeout(SOON) {
                Ok(line) => self.said.push(line),
                Err(error) => {
                    let _ = self.child.kill();
                    panic!("{error} while waiting for '{word}'; it said\n{}", self.said.join("\n"));
                }
            }
            if self.said.last().unwrap().contains(word) {
                return;
            }
        }
    }

    pub(crate) fn answer(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Nothing more comes from the terminal.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// As by `kill -9`; all that it said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.end().1
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<String>) {
        self.hang_up();
        loop {
            match self.lines.recv_timeout(END) {
                Ok(line) => self.said.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return (self.child.wait().unwrap(), std::mem::take(&mut self.said));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.child.kill().unwrap();
                    panic!("it does not end; it said\n{}", self.said.join("\n"));
                }
            }
        }
    }
}

impl Drop for Running {
    /// A test that fails leaves nothing running.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
