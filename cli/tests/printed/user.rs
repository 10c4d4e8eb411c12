//! A new user: a folder of their own, a PATH with the installed program, and a shell.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use crate::support::{Folder, Running};

/// Verbs that serve until they are told to stop.
const SERVERS: [&str; 2] = ["dev", "serve"];

pub(crate) struct User {
    pub(crate) folder: Folder,
    /// Where the program is installed, if it is on the PATH.
    installed: Option<PathBuf>,
}

impl User {
    pub(crate) fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let bin = folder.0.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dauer"), bin.join("dauer")).unwrap();
        let home = folder.0.join("home");
        std::fs::create_dir_all(home).unwrap();
        Self { folder, installed: Some(bin) }
    }

    /// Takes the program off the PATH; the variable DAUER names it.
    pub(crate) fn uninstall(&mut self) {
        self.installed = None;
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        // Not the ports that other tests, or a server of this machine, may have.
        command.env_clear().env("DAUER_GRPC", "127.0.0.1:0").env("DAUER_HTTP", "off");
        let bin = self.installed.as_ref().map(|bin| format!("{}:", bin.display())).unwrap_or_default();
        command
            .env("PATH", format!("{bin}/usr/local/bin:/usr/bin:/bin"))
            .env("HOME", self.folder.0.join("home"));
        command.env("DAUER", env!("CARGO_BIN_EXE_dauer")).env("COLUMNS", "100");
        command.current_dir(self.folder.0.join("home"));
        command.args(["-e", "-c", &format!("exec 2>&1\n{script}")]);
        command
    }

    /// Starts a command that goes on.
    pub(crate) fn start(&self, line: &str) -> Running {
        Running::of(self.shell(&format!("exec {line}")))
    }

    /// Runs a script to its end; one that serves or watches until it has said something. What it said, as an error if it failed.
    pub(crate) fn run(&self, script: &str) -> Result<String, String> {
        let one = script.trim().lines().count() == 1;
        let words: Vec<&str> = script.split_whitespace().filter(|_| one).collect();
        let serves = words.get(1).is_some_and(|verb| SERVERS.contains(verb)) && !words.contains(&"--help");
        let watches = words.get(1) == Some(&"list") && words.contains(&"--watch");
        if !serves && !watches {
            let (status, said) = Running::of(self.shell(script)).end();
            let said = said.join("\n");
            return if status.success() { Ok(said) } else { Err(format!("{said}\n{status}")) };
        }
        let mut running = self.start(script);
        running.until(if serves { "grpc http" } else { "ID " });
        let (status, said) = stop(running);
        // A list that is watched has no other end than a signal.
        if status.success() || watches && status.code().is_none() { Ok(said) } else { Err(said) }
    }
}

/// Tells a command to stop, and waits until it has.
pub(crate) fn stop(running: Running) -> (ExitStatus, String) {
    running.signal("TERM");
    let (status, said) = running.end();
    (status, said.join("\n"))
}
