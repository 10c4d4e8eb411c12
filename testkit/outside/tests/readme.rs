//! The README, followed to the letter: its blocks are what is run here, in the order in which they stand. Those of the server
//! and Python are run by `testkit/interop/python/test_readme.py`, which has the package that they install; those of the command by
//! `cli/tests/printed`, which has the command.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use dauer_outside::{Block, Outside, blocks};

/// Two screens.
const LINES_MAX: usize = 120;

/// When the program is killed: when it has said so. It is in the middle then, with steps behind it and before it.
const KILLED_AT: &str = "step 3";

const SIGKILL: i32 = 9;

fn readme() -> String {
    fs::read_to_string(dauer_tidy::root().join("README.md")).unwrap()
}

fn of(blocks: &[Block], language: &str) -> Vec<String> {
    blocks.iter().filter(|block| block.language() == language).map(|block| block.text.clone()).collect()
}

/// Runs a block of shell commands as it is.
fn shell(mut command: Command, block: &str) -> String {
    let output = command.args(["-e", "-c", block]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{block}{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Kills the shell, cargo and the program, all at once, as the loss of power would.
fn kill(child: &mut Child) {
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-9", "--", &group]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL));
}

#[test]
fn the_readme_fits_two_screens_and_has_only_blocks_that_are_run() {
    let text = readme();
    assert!(text.lines().count() <= LINES_MAX, "{} lines", text.lines().count());
    let languages: Vec<_> = blocks(&text).iter().map(|block| block.language().to_owned()).collect();
    assert_eq!(languages, ["sh", "sh", "python", "sh", "toml", "rust", "sh", "sh"]);
}

#[test]
fn the_program_of_the_readme_is_killed_and_goes_on() {
    let blocks = blocks(&readme());
    let (commands, outside) = (of(&blocks, "sh"), Outside::new().unwrap());
    let project = outside.project("count").unwrap();
    shell(outside.command("bash"), &commands[2]);

    // What the README leaves to an editor. The versions are the workspace's, so that nothing is fetched.
    let manifest = fs::read_to_string(project.folder().join("Cargo.toml")).unwrap();
    let dependencies = &of(&blocks, "toml")[0];
    assert!(manifest.contains("[dependencies]\n"), "{manifest}");
    project.write("Cargo.toml", &manifest.replace("[dependencies]\n", dependencies)).unwrap();
    project.write("src/main.rs", &of(&blocks, "rust")[0]).unwrap();
    project.lock().unwrap();

    let mut first = project.command("bash");
    first.args(["-e", "-c", &commands[3]]).process_group(0).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut first = first.spawn().unwrap();
    let said = BufReader::new(first.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut before: Vec<_> = said.take_while(|line| line != KILLED_AT).collect();
    kill(&mut first);
    before.push(KILLED_AT.to_owned());
    assert_eq!(before, ["step 1", "step 2", "step 3"]);

    let after = shell(project.command("bash"), &commands[3]);
    let after: Vec<_> = after.lines().filter(|line| *line != KILLED_AT).collect();
    // Only the step that was in flight may be said again, and the sum has all of them.
    assert_eq!(after, ["step 4", "step 5", "sum 15"]);

    // It has ended: once more changes nothing.
    assert_eq!(shell(project.command("bash"), &commands[3]), "sum 15\n");
}

/// SQLite may be linked once only: a program that has it already (by sqlx, say) leaves the feature of dauer off.
#[test]
fn without_its_feature_nothing_of_sqlite_is_built() {
    let project = Outside::new().unwrap().project("without").unwrap();
    project.write("src/main.rs", "fn main() {\n    let _ = dauer::open(\"memory:\");\n}\n").unwrap();
    let built = |default: bool| {
        let dauer = format!("dauer = {{ path = \"../dauer/sdk\", default-features = {default} }}\n");
        project.manifest(&dauer).unwrap();
        let tree = ["tree", "--quiet", "--edges", "normal,build", "--prefix", "none"];
        let output = project.command("cargo").args(tree).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let packages = String::from_utf8(output.stdout).unwrap();
        let sqlite = packages.lines().filter(|package| package.contains("sqlite")).count();
        (packages.lines().count(), sqlite)
    };
    let (with, without) = (built(true), built(false));
    assert!(with.1 > 0, "with the feature it is there: {with:?}");
    assert!(without.1 == 0 && without.0 > 20, "{without:?}");
    let check = project.command("cargo").args(["check", "--quiet"]).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}
