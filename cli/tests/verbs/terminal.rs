//! What only a terminal gets: colours and a progress bar.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::Folder;
use crate::world::filled;

/// Runs the command on a terminal of its own, both for data and for the rest; all that it showed there.
fn on_terminal(arguments: &[&str], folder: &Folder, variables: &[(&str, &str)]) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let side = || OpenOptions::new().read(true).write(true).open(&name).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dauer"));
    command.args(arguments).current_dir(&folder.0).env_remove("DAUER_STORE").env_remove("NO_COLOR");
    command.env_remove("CLICOLOR_FORCE");
    command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(side()).stderr(side());
    let mut child = command.spawn().unwrap();
    // This side's copies: the terminal ends with the last of them.
    drop(command);
    let mut shown = Vec::new();
    let mut terminal = File::from(terminal);
    let mut part = [0; 4096];
    // A terminal that nobody has open any more ends with an error.
    while let Ok(count @ 1..) = terminal.read(&mut part) {
        shown.extend_from_slice(&part[..count]);
    }
    assert!(child.wait().unwrap().code().is_some());
    String::from_utf8(shown).unwrap()
}

#[test]
fn colours_are_for_terminals_that_are_not_told_otherwise() {
    let folder = filled("colours");
    let cases: [(&[&str], &str); 3] = [
        (&["list"], "\x1b[31mfailed    \x1b[0m"),
        (&["get", "done"], "\x1b[32mcompleted\x1b[0m"),
        (&["get", "nobody"], "\x1b[31merror:\x1b[0m there is no instance"),
    ];
    for (arguments, coloured) in cases {
        let text = on_terminal(arguments, &folder, &[]);
        assert!(text.contains(coloured), "{text:?}");
        let text = on_terminal(arguments, &folder, &[("NO_COLOR", "1")]);
        assert!(!text.contains('\x1b') && text.lines().count() > 1, "{text:?}");
    }
    let text = on_terminal(&["list"], &folder, &[("NO_COLOR", "")]);
    assert!(text.contains("\x1b[31m"), "empty is not set: {text:?}");
    let elsewhere = |variables: &[(&str, &str)]| {
        let output = crate::support::dauer_with(&["list"], &folder, "", variables);
        crate::support::stdout(&output).contains("\x1b[31m")
    };
    assert!(elsewhere(&[("CLICOLOR_FORCE", "1")]), "a pipe may be given colours");
    assert!(!elsewhere(&[("CLICOLOR_FORCE", "0")]) && !elsewhere(&[]));
    assert!(!elsewhere(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    let text = on_terminal(&["list", "-o", "json"], &folder, &[]);
    assert!(!text.contains('\x1b') && text.contains("\"dauer\":1"), "{text:?}");
}

#[test]
fn a_purge_shows_how_far_it_is() {
    let folder = filled("bar");
    let text = on_terminal(&["purge", "--older-than", "0s", "--yes"], &folder, &[]);
    let bar = "\rpurging [..............................] 0 of 3\r\x1b[K";
    assert!(text.starts_with(bar) && text.ends_with("purged 3 instances\r\n"), "{text:?}");
}
