//! What the command is told.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::{bench, error, verbs};

/// Durable orchestrations: ordinary code that survives crashes, restarts and months of waiting.
#[derive(Parser)]
#[command(name = "dauer", version, max_term_width = 100, after_long_help = error::EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Start an orchestration.
    ///
    /// Prints the id of the instance; with --wait its output. Once it is printed, the instance runs as soon as a worker
    /// that has its code is there, whatever happens to this command. A store that is not there is created.
    #[command(after_long_help = verbs::START_EXAMPLES)]
    Start(verbs::Start),
    /// Show one instance, and what it is waiting for.
    #[command(after_long_help = verbs::GET_EXAMPLES)]
    Get(verbs::Get),
    /// List instances, newest first.
    ///
    /// All conditions hold together. Only status, name, prefix, tag and creation time are looked up by the store; for the
    /// others it is read through.
    #[command(after_long_help = verbs::LIST_EXAMPLES)]
    List(verbs::List),
    /// Show what happened to an instance, event by event.
    ///
    /// In JSON the events are in the standard JSON of protocol buffers, and can be replayed in a test. As a line each, the
    /// first line says whose they are.
    #[command(after_long_help = verbs::HISTORY_EXAMPLES)]
    History(verbs::History),
    /// Raise an event to an instance.
    ///
    /// It is kept until the orchestration waits for it.
    #[command(after_long_help = verbs::RAISE_EXAMPLES)]
    Raise(verbs::Raise),
    /// Suspend an instance: it goes no further until it is resumed.
    ///
    /// Activities that run are finished, and events are kept.
    #[command(after_long_help = verbs::SUSPEND_EXAMPLES)]
    Suspend(verbs::Suspend),
    /// Resume an instance that was suspended.
    #[command(after_long_help = verbs::RESUME_EXAMPLES)]
    Resume(verbs::Resume),
    /// End an instance from outside, and its children.
    ///
    /// Nothing is undone: the orchestration is not asked.
    #[command(after_long_help = verbs::TERMINATE_EXAMPLES)]
    Terminate(verbs::Terminate),
    /// Start an ended instance again, with the same input, tags and version.
    ///
    /// It takes the place of the ended one, whose history and output are gone. A run that continued as new begins with
    /// the input of its last run. The instance has no parent: nobody waits for its answer.
    #[command(after_long_help = verbs::RESTART_EXAMPLES)]
    Restart(verbs::Restart),
    /// Let a failed instance go on: what failed is done again, what succeeded is not.
    ///
    /// Its failed children are rewound with it. What the code did after it had caught a failure is not undone: an orchestration
    /// that failed by its own decision decides again, by the code of today. `restart` begins from the beginning instead.
    #[command(after_long_help = verbs::REWIND_EXAMPLES)]
    Rewind(verbs::Rewind),
    /// Remove ended instances for good.
    ///
    /// With conditions, they are only counted until --yes is given.
    #[command(after_long_help = verbs::PURGE_EXAMPLES)]
    Purge(verbs::Purge),
    /// Check everything that a store holds against the invariants.
    ///
    /// For each invariant: how many things were checked, and what was wrong. The last line is the verdict; the exit code
    /// is 0 only when it is clean. Audit a store that rests: while hosts are at work, a violation may be no more than the
    /// time between two reads.
    #[command(after_long_help = "Example:\n  dauer audit sqlite:dauer.db")]
    Audit {
        /// The store: `sqlite:FILE`, or just the path of the file. It is never created.
        #[arg(value_name = "STORE")]
        store: String,
        /// What clients were told, one JSON object a line; shows whether anything acknowledged is lost.
        ///
        /// The first line is {"dauer_journal":1}, the others are like
        /// {"at":1700000000000,"instance":"order-1","did":"start"}. `did` is start, found, ended, raise, terminate,
        /// answer or purge; the documentation of the crate dauer-audit says which fields go with each.
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
    },
    /// Watch an order go through: chain, retry, fan-out, a race with a timer, a child.
    ///
    /// Kill it and run it again: the order goes on where it stopped. Ctrl-C finishes what is running first; a second
    /// Ctrl-C ends at once.
    #[command(after_long_help = "Example:\n  dauer demo --store sqlite:demo.db --interactive")]
    Demo {
        /// Where the hub lives: `sqlite:FILE`, or `memory:`, which is gone when the demo ends.
        #[arg(long, default_value = "sqlite:dauer.db", value_name = "URL")]
        store: String,
        /// Ask on the terminal whether the order is approved.
        #[arg(long)]
        interactive: bool,
    },
    /// Measure what this machine, its disk and a store reach.
    #[command(
        subcommand,
        after_long_help = "Example:\n  dauer bench sequence --orchestrations 5000 --activities 5"
    )]
    Bench(bench::Bench),
    /// Print the manual page of this command, or write those of all verbs into a folder.
    #[command(after_long_help = "Example:\n  dauer man\n  dauer man /usr/local/share/man/man1")]
    Man {
        /// A folder that is there: it gets `dauer.1` and a page for each verb.
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Print a script that completes this command in a shell.
    #[command(after_long_help = "Example:\n  dauer completions bash")]
    Completions {
        /// Which shell.
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use super::*;

    /// The words of a line as a shell takes them: single quotes are all that the examples use.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for character in line.trim().chars() {
            match character {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                other => words.last_mut().unwrap().push(other),
            }
        }
        assert!(!quoted, "{line}");
        words
    }

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_verb_has_examples_that_it_takes() {
        let command = Arguments::command();
        let verbs: Vec<&Command> =
            command.get_subcommands().filter(|verb| verb.get_name() != "help").collect();
        assert_eq!(verbs.len(), 16);
        for verb in verbs {
            let name = verb.get_name();
            let help = verb.clone().render_long_help().to_string();
            let (_, examples) =
                help.split_once("\nExample:\n").unwrap_or_else(|| panic!("{name} has none: {help}"));
            let examples: Vec<&str> = examples.lines().filter(|line| line.starts_with("  dauer ")).collect();
            assert!(!examples.is_empty(), "{name}: {help}");
            for example in examples {
                let words = words(example);
                assert_eq!(words[1], name, "{example}");
                if let Err(error) = Arguments::try_parse_from(words) {
                    panic!("{example}: {error}");
                }
            }
        }
    }

    #[test]
    fn the_help_explains_the_exit_codes() {
        let help = Arguments::command().render_long_help().to_string();
        assert!(help.contains("Exit codes:\n  0  done\n"), "{help}");
    }
}
