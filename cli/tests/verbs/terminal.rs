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
    assert!(text.starts_with("\rlooking for what is to be removed: 0 s\x1b[K"), "{text:?}");
    assert!(text.ends_with(&format!("\r\x1b[K{bar}purged 3 instances\r\n")), "{text:?}");
    let quiet = filled("bar-quiet");
    assert_eq!(on_terminal(&["purge", "--older-than", "0s", "--yes", "-q"], &quiet, &[]), "");
}

#[test]
fn a_history_and_an_audit_show_how_far_they_are() {
    let folder = filled("bars");
    let events = crate::world::record(&folder, "done").unwrap().history_len;
    let text = on_terminal(&["history", "done", "-o", "json"], &folder, &[]);
    let bar = format!("\rreading [..............................] 0 of {events}");
    assert!(text.starts_with(&bar) && text.contains("\r\x1b[K{\r\n  \"dauer_history\": 1"), "{text:?}");
    // The events themselves are seen to come.
    let text = on_terminal(&["history", "done"], &folder, &[]);
    assert!(!text.contains('\x1b') && text.lines().count() == usize::try_from(events).unwrap(), "{text:?}");
    let text = on_terminal(&["audit", "dauer.db"], &folder, &[]);
    assert!(
        text.starts_with("\rreading the store: 0 s\x1b[K") && text.contains("\rchecking: 0 s"),
        "{text:?}"
    );
    let text = on_terminal(&["audit", "dauer.db", "-q"], &folder, &[]);
    assert!(!text.contains('\x1b') && text.contains("clean"), "{text:?}");
}

#[test]
fn times_are_relative_and_pictures_are_drawn_anew() {
    let folder = filled("drawn");
    let text = on_terminal(&["list", "--name", "hello"], &folder, &[("NO_COLOR", "1")]);
    assert!(text.contains(" ago  ") && !text.contains('Z'), "{text:?}");
    let text = on_terminal(&["list", "--name", "hello", "--time", "iso"], &folder, &[]);
    assert!(!text.contains(" ago"), "{text:?}");
    let text = on_terminal(&["get", "done", "--watch"], &folder, &[("NO_COLOR", "1")]);
    assert!(text.starts_with("\x1b[Hid             done\x1b[K\r\nname  "), "{text:?}");
    assert!(text.ends_with("\x1b[K\r\n\x1b[J") && text.contains("nothing, it is completed"), "{text:?}");
}
