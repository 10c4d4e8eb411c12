//! Runs the real binary and reads its figures.

#![allow(clippy::unwrap_used)] // A binary that cannot be run, or prints no JSON, fails the test as it should.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// What a run came to.
pub(crate) struct Run {
    /// Whether its exit code was 0.
    pub(crate) clean: bool,
    /// Its figures.
    pub(crate) figures: Value,
    /// All it said, for the message of a failed test.
    pub(crate) text: String,
    folder: PathBuf,
}

impl Drop for Run {
    /// The file of a run is kept for whoever looks into a failed test.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // What cannot be removed lies in the build's own folder, in nobody's way.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

impl Run {
    /// One number of the figures.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.figures[name].as_u64().unwrap_or_else(|| panic!("no number '{name}' in {}", self.text))
    }

    /// How many things were checked of an invariant, and how many violations there were.
    pub(crate) fn audit(&self, code: &str) -> (u64, u64) {
        let finding = &self.figures["audit"][code];
        let number =
            |name: &str| finding[name].as_u64().unwrap_or_else(|| panic!("no {code} in {}", self.text));
        (number("checked"), number("violations"))
    }

    /// What was found to be wrong.
    pub(crate) fn wrong(&self) -> Vec<&str> {
        self.figures["wrong"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
    }
}

/// Runs `dauer-storm` with these arguments and `--json`.
pub(crate) fn storm(arguments: &[&str]) -> Run {
    storm_under(&[], arguments)
}

/// The same, run by another program.
pub(crate) fn storm_under(program: &[&str], arguments: &[&str]) -> Run {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("storm-{}-{number}", std::process::id());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let words = [program, &[env!("CARGO_BIN_EXE_dauer-storm")], arguments].concat();
    let mut command = Command::new(words[0]);
    let output = command.args(&words[1..]).arg("--json").arg("--folder").arg(&folder).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let text = format!("{arguments:?}\n{out}\n{err}");
    let figures = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {text}"));
    Run { clean: output.status.success(), figures, text, folder }
}
