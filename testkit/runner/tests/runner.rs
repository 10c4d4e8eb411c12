//! The runner, with small scripts as programs of tests.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dauer_runner::{Limits, Outcome, Program, programs, run_all};

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dauer-runner-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn program(&self, name: &str, text: &str) -> Program {
        Program { name: name.into(), folder: self.0.clone(), executable: self.script(name, text) }
    }

    /// What cargo would say of scripts, and what the command makes of that.
    fn command(&self, scripts: &[(&str, &str)]) -> Output {
        let said: String = scripts.iter().map(|(name, text)| built(name, &self.script(name, text))).collect();
        let file = self.0.join("built");
        fs::write(&file, said).unwrap();
        Command::new(env!("CARGO_BIN_EXE_dauer-runner")).arg(file).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As cargo 1.95 says it, shortened.
fn built(name: &str, executable: &Path) -> String {
    let folder = executable.parent().unwrap().display();
    let executable = executable.display();
    format!(
        r#"{{"reason":"compiler-artifact","package_id":"path+file://{folder}#{name}@0.1.0","manifest_path":"{folder}/Cargo.toml","target":{{"kind":["test"],"name":"{name}"}},"profile":{{"opt_level":"1","test":true}},"executable":"{executable}","fresh":false}}"#
    ) + "\n"
}

fn ran(programs: Vec<Program>, at_once: usize, each: Duration) -> Vec<Outcome> {
    let mut ended = Vec::new();
    run_all(programs, Limits { at_once, each }, |outcome| ended.push(outcome));
    ended
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn the_programs_of_tests_are_found_among_what_was_built() {
    let messages = r#"{"reason":"build-script-executed","package_id":"registry+x#a@1.0.0"}
{"reason":"compiler-artifact","package_id":"path+file:///w/sdk#dauer@0.1.0","manifest_path":"/w/sdk/Cargo.toml","target":{"kind":["lib"],"name":"dauer"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","package_id":"path+file:///w/cli#dauer-cli@0.1.0","manifest_path":"/w/cli/Cargo.toml","target":{"kind":["bin"],"name":"dauer"},"profile":{"test":false},"executable":"/t/dauer"}
{"reason":"compiler-artifact","package_id":"path+file:///w/cli#dauer-cli@0.1.0","manifest_path":"/w/cli/Cargo.toml","target":{"kind":["bin"],"name":"dauer"},"profile":{"test":true},"executable":"/t/dauer-1"}
{"reason":"compiler-artifact","package_id":"path+file:///w/dauer#0.1.0","manifest_path":"/w/dauer/Cargo.toml","target":{"kind":["lib"],"name":"dauer"},"profile":{"test":true},"executable":"/t/dauer-2"}
{"reason":"compiler-artifact","package_id":"path+file:///w/hub#dauer-hub@0.1.0","manifest_path":"/w/hub/Cargo.toml","target":{"kind":["test"],"name":"all"},"profile":{"test":true},"executable":"/t/all-3"}
{"reason":"build-finished","success":true}"#;
    let found = programs(messages.as_bytes()).unwrap();
    let program = |name: &str, folder: &str, executable: &str| Program {
        name: name.into(),
        folder: folder.into(),
        executable: executable.into(),
    };
    let expected = [
        program("-p dauer-cli --bin dauer", "/w/cli", "/t/dauer-1"),
        program("-p dauer --lib", "/w/dauer", "/t/dauer-2"),
        program("-p dauer-hub --test all", "/w/hub", "/t/all-3"),
    ];
    assert_eq!(found, expected);
    assert!(programs("no message of cargo".as_bytes()).is_err());
}

#[test]
fn each_is_run_in_its_folder_and_all_it_says_is_kept() {
    let folder = Folder::new();
    let script = "pwd; echo $CARGO_MANIFEST_DIR; echo complaint >&2";
    let ended = ran(vec![folder.program("one", script)], 1, LONG);
    let place = folder.0.canonicalize().unwrap();
    let expected = format!("{}\n{}\ncomplaint\n", place.display(), folder.0.display());
    assert_eq!((ended[0].said.as_str(), &ended[0].result), (expected.as_str(), &Ok(())));
}

/// Each waits for what the other leaves, so that neither ends alone.
#[test]
fn as_many_run_at_once_as_are_allowed() {
    let folder = Folder::new();
    let meet = |own: &str, other: &str| {
        format!(
            "touch {own}; n=0; while [ ! -e {other} ]; do sleep 0.02; n=$((n+1)); [ $n -lt 1000 ] || exit 1; done"
        )
    };
    let pair = vec![folder.program("one", &meet("a", "b")), folder.program("two", &meet("b", "a"))];
    assert!(ran(pair, 2, LONG).iter().all(|outcome| outcome.result.is_ok()));
    // One at a time, the first is over before the second begins.
    let turns = vec![folder.program("first", "touch over"), folder.program("second", "test -e over")];
    assert!(ran(turns, 1, LONG).iter().all(|outcome| outcome.result.is_ok()));
}

#[test]
fn one_that_hangs_is_killed_and_has_failed_whatever_it_leaves_behind() {
    let folder = Folder::new();
    // What it leaves has its output open, and would hold up whoever waits for the end of that.
    let hangs = folder.program("hangs", "echo here; sleep 30 & exec sleep 30");
    let ended = ran(vec![hangs, folder.program("next", "exit 0")], 1, Duration::from_millis(300));
    assert!(ended[0].result.as_ref().unwrap_err().contains("longer than"), "{:?}", ended[0].result);
    assert_eq!(ended[0].said, "here\n");
    assert!(ended[0].took < Duration::from_secs(20));
    assert!(ended[1].result.is_ok());
}

#[test]
fn the_command_says_what_failed_and_fails() {
    let folder = Folder::new();
    let good = "echo 'test result: ok. 2 passed; 0 failed'";
    let output = folder.command(&[("good", good), ("bad", "echo reason; exit 101"), ("after", good)]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("2 passed").count(), 2, "the others are run all the same: {said}");
    assert!(said.contains("reason\n") && said.contains("FAILED: cargo test -p bad --test bad"), "{said}");

    let output = folder.command(&[("good", good)]);
    assert!(output.status.success());
}

#[test]
fn nothing_to_run_is_an_error() {
    let output = Folder::new().command(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("names no program of tests"));
}
