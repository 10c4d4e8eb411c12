//! Every command that documents, help, errors and the demo print is run as it is printed: by the built program, through a shell, with
//! a new user's PATH. The commands are taken from the texts, so that a new one is run without a word here.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Also in what the tests share.

mod demo;
#[allow(dead_code)] // The program uses the rest.
#[path = "../../src/error/hint.rs"]
mod hint;
#[allow(dead_code)] // The program uses the rest.
#[path = "../../src/error/kind.rs"]
mod kind;
#[path = "../support/mod.rs"]
mod support;
#[allow(dead_code)] // The program uses the rest.
#[path = "../../src/error/table.rs"]
mod table;
mod texts;
mod user;
mod world;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use texts::{backquoted, blocks, document, examples, helps, inline, product_strings};
use user::User;
use world::World;

/// Commands that are run at once: each mostly waits for its disk.
const AT_ONCE: usize = 4;

/// The lines of a script that are no commands of ours and are run elsewhere, with where.
const ELSEWHERE: [(&str, &str); 5] = [
    // What it installs is what is tested here.
    ("cargo install --locked --path cli", "cli/Cargo.toml"),
    ("pip install durabletask", "testkit/interop/python/test_readme.py"),
    ("cargo new count", "testkit/outside/tests/readme.rs"),
    ("cd count", "testkit/outside/tests/readme.rs"),
    ("cargo run", "testkit/outside/tests/readme.rs"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs each in a world of its own; all that failed are told together.
fn run_all(source: &str, commands: BTreeSet<String>) {
    let (left, failures) = (Mutex::new(commands.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(line) = left.lock().unwrap().next() else { return };
                    let world = World::for_script(source, &line);
                    if let Err(said) = world.user.run(&line) {
                        failures.lock().unwrap().push(format!("{line}\n{said}"));
                    }
                    world.end();
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "these commands are printed and fail:\n\n{}", failures.join("\n"));
}

#[test]
fn help_commands_run_as_printed() {
    let user = User::new("printed-help");
    let helps = helps(&user);
    assert!(helps.len() > 20, "{} helps", helps.len());
    let mut commands = BTreeSet::new();
    for help in &helps {
        let found = examples(help);
        assert!(found.len() >= 2, "no examples: {help}");
        commands.extend(found);
        commands.extend(backquoted(help));
    }
    run_all("help", commands);
}

#[test]
fn document_commands_run_as_printed() {
    let mut commands = BTreeSet::new();
    for name in ["README.md", "docs/GUIDE.md", "docs/SERVER.md"] {
        let text = document(name);
        let found = inline(&text);
        assert!(!found.is_empty(), "{name}");
        commands.extend(found);
        if name != "README.md" {
            commands.extend(blocks(&text));
        }
    }
    run_all("document", commands);
}

/// The blocks of the README belong together: the server of the first runs while the last is typed.
#[test]
fn readme_blocks_run_as_printed() {
    let user = User::new("printed-readme");
    let (mut server, mut commands) = (None, 0);
    for block in blocks(&document("README.md")) {
        let ours: Vec<&str> = block.lines().filter(|line| !is_elsewhere(line)).collect();
        match ours.as_slice() {
            [] => {}
            ["dauer dev --demo"] => {
                let mut running = user.start("dauer dev --demo");
                running.until("rewind payment");
                server = Some(running);
            }
            lines => {
                assert!(server.is_some(), "the server comes first: {block}");
                commands += lines.iter().filter(|line| line.starts_with("dauer ")).count();
                let said = user.run(&block).unwrap_or_else(|said| panic!("{block}\n{said}"));
                for expected in ["demo  ", "approval", "payment", "raise sent", "is rewound", "clean: "] {
                    assert!(said.contains(expected), "{expected} is not in:\n{said}");
                }
            }
        }
    }
    assert!(commands >= 5, "only {commands} commands");
    let (status, said) = user::stop(server.unwrap());
    assert!(status.success(), "{said}");
}

fn is_elsewhere(line: &str) -> bool {
    ELSEWHERE.iter().any(|(known, place)| {
        assert!(root().join(place).is_file(), "{place}");
        *known == line
    })
}

#[test]
fn hint_commands_run_as_printed() {
    let mut commands = BTreeSet::new();
    for kind in table::TABLE {
        for store in ["", " --store sqlite:shop.db"] {
            let audit = if store.is_empty() { "sqlite:dauer.db" } else { "sqlite:shop.db" };
            let words = hint::Words {
                program: "dauer".to_owned(),
                verb: Some("list".to_owned()),
                id: Some("order-7".to_owned()),
                store: store.to_owned(),
                audit: Some(audit.to_owned()),
            };
            let hint = hint::complete(kind.hint, &words);
            assert!(!hint.contains("{store}") && !hint.contains('['), "{hint}");
            commands.extend(backquoted(&hint));
        }
    }
    assert!(commands.len() >= 15, "{commands:?}");
    run_all("hint", commands);
}

/// Texts of all crates, beside the hints: commands without words of the call stand there as they are printed.
#[test]
fn error_text_commands_run_as_printed() {
    let commands: BTreeSet<String> = product_strings().iter().flat_map(|text| backquoted(text)).collect();
    assert!(commands.contains("dauer serve"), "{commands:?}");
    run_all("error", commands);
}

/// A hint of a real failure, and the notes that name a command: all of them, by the calls that make them.
#[test]
fn notes_and_waiting_lines_name_commands_that_run() {
    let made = product_strings()
        .iter()
        .filter(|text| text.contains(".command(") || text.contains(".command_in_hub("))
        .count();
    assert_eq!(made, 2, "a new note: run its command here");
    let mut world = World::for_script("hint", "dauer suspend order-7 --store shop.db");
    let user = &world.user;
    user.run("dauer suspend order-7 --store shop.db").unwrap();
    world.settles("shop.db", "order-7", dauer::Status::Suspended);
    let said = user.run("dauer get order-7 --store shop.db").unwrap();
    assert_eq!(backquoted(&said), ["dauer resume order-7 --store shop.db"]);
    user.run(&backquoted(&said)[0]).unwrap();

    let said = user.run("dauer start later --store 'shop.db?hub=north' --id n1").unwrap();
    assert!(said.contains("note: there was no task hub 'north'; it is new"), "{said}");
    user.run("dauer start later --store 'new.db?hub=north' --id n1").unwrap();
    let said = user.run("dauer list --store new.db").unwrap();
    let commands = backquoted(&said);
    assert_eq!(commands, ["dauer list --store 'new.db?hub=north'"], "{said}");
    assert!(user.run(&commands[0]).unwrap().contains("n1"));

    // A failure whose hint has the words of its call: with the program's path, as it is not on this PATH.
    world.user.uninstall();
    let user = &world.user;
    let said = user.run("$DAUER get nobody --store shop.db").unwrap_err();
    let commands = backquoted(&said);
    let program = env!("CARGO_BIN_EXE_dauer");
    assert_eq!(commands, [format!("{program} list --store shop.db")], "{said}");
    user.run(&commands[0]).unwrap();
    world.end();
}
