//! What the command is told.

use std::path::PathBuf;

use clap::{Command, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::{dev, error, serve, verbs};

const EXAMPLES: &str = "\
Examples:
  dauer dev --demo
  dauer start hello --input '\"world\"' --wait
  dauer list --status failed --created-from -24h
  dauer get order-7 --store sqlite:shop.db";

const AUDIT_EXAMPLES: &str = "\
Examples:
  dauer audit sqlite:dauer.db
  dauer audit shop.db --journal told.jsonl
  dauer audit shop.db --again 60";

const BENCH_EXAMPLES: &str = "\
Examples:
  dauer bench fanout --orchestrations 10 --activities 100
  dauer bench latency --orchestrations 100 --store sqlite:new.db";

/// The examples of each benchmark.
const EACH_BENCH: [(&str, &str); 6] = [
    (
        "sequence",
        "\
Examples:
  dauer bench sequence --orchestrations 500 --activities 5
  dauer bench sequence --orchestrations 100 --ids random --json",
    ),
    (
        "fanout",
        "\
Examples:
  dauer bench fanout --orchestrations 10 --activities 100
  dauer bench fanout --orchestrations 10 --activities 100 --window 4 --store memory:",
    ),
    (
        "latency",
        "\
Examples:
  dauer bench latency --orchestrations 100
  dauer bench latency --orchestrations 100 --store sqlite:latency.db --json",
    ),
    (
        "timers",
        "\
Examples:
  dauer bench timers --instances 1000 --idle 2
  dauer bench timers --instances 1000 --idle 1 --json",
    ),
    (
        "waits",
        "\
Examples:
  dauer bench waits --waits 1000 --seconds 5
  dauer bench waits --waits 100 --seconds 2 --json",
    ),
    (
        "history",
        "\
Examples:
  dauer bench history --turns 100
  dauer bench history --turns 1000 --store memory:",
    ),
];

const MAN_EXAMPLES: &str = "\
Examples:
  dauer man
  dauer man man1";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  dauer completions bash
  dauer completions fish";

/// The command with all that its help tells.
pub(crate) fn command() -> Command {
    let command = Arguments::command().after_long_help(format!("{}\n\n{EXAMPLES}", error::EXIT_CODES));
    command.mut_subcommand("bench", |bench| {
        EACH_BENCH.iter().fold(bench, |bench, (name, examples)| {
            bench.mut_subcommand(name, |each| each.after_long_help(*examples))
        })
    })
}

/// Durable orchestrations: ordinary code that survives crashes, restarts and months of waiting.
#[derive(Parser)]
#[command(name = "dauer", version, max_term_width = 100)]
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
    /// Run stalled instances at once, without waiting for their next try.
    ///
    /// A stalled instance is tried again by itself, with growing pauses: after a new worker has been started, too. Nothing of it
    /// is changed or lost.
    #[command(after_long_help = verbs::RETRY_EXAMPLES)]
    Retry(verbs::Retry),
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
    /// List the task hubs of a store or server.
    ///
    /// A task hub is a world of its own, with its instances and workers. `?hub=NAME` behind the URL of a store names one;
    /// without it a verb is about the hub `default`.
    #[command(after_long_help = verbs::HUBS_EXAMPLES)]
    Hubs(verbs::Hubs),
    /// Check everything that a store holds against the invariants.
    ///
    /// For each invariant: how many things were checked, and what was wrong. The last line is the verdict; the exit code
    /// is 0 only when it is clean. Audit a store that rests: while hosts are at work, a violation may be no more than the
    /// time between two reads. All task hubs of the store are checked, one after the other, or the one that the URL names.
    #[command(after_long_help = AUDIT_EXAMPLES)]
    Audit {
        /// The store: `sqlite:FILE`, or just the path of the file; `sqlite:FILE?hub=NAME` is one task hub of it. It is never
        /// created.
        #[arg(value_name = "STORE")]
        store: String,
        /// What clients were told, one JSON object a line; shows whether anything acknowledged is lost.
        ///
        /// The first line is {"dauer_journal":1}, the others are like
        /// {"at":1700000000000,"instance":"order-1","did":"start"}. `did` is start, found, ended, raise, terminate,
        /// answer or purge; the documentation of the crate dauer-audit says which fields go with each. It is about the
        /// task hub that the URL names, or the default one.
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
        /// Read the store again after that many seconds, and name what was ready all the time and did not move.
        ///
        /// An instance that a living host holds without a commit is suspicious: its host may have lost it. One that no
        /// host claims is a note. Choose at least twice the lease of the hosts: 60 for the default lease. Neither
        /// changes the verdict.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
        again: Option<u64>,
        /// Print only the report and errors: no notes, no progress.
        #[arg(short, long)]
        quiet: bool,
    },
    /// Serve the Durable Task protocol on this machine, with everything in one folder.
    ///
    /// Programs written with a Durable Task SDK find it by themselves. The SDKs for Python and JavaScript are run by every test
    /// of dauer. Those for Java (29e1391) and Go (812d373) were built from source and run by hand; that for .NET was not run.
    /// What the server knows is kept in the folder: end it, or kill it, and start it again.
    #[command(after_long_help = dev::EXAMPLES)]
    Dev(dev::Dev),
    /// Serve the Durable Task protocol on a store.
    ///
    /// For workers and clients of Durable Task SDKs; `dauer help dev` says which of them were run. Prints where it listens, then
    /// serves until a signal: the first one lets what is in flight be finished, a second one ends it at once. An address that
    /// others can reach needs TLS and tokens.
    #[command(after_long_help = serve::EXAMPLES)]
    Serve(serve::Serve),
    /// Measure what this machine, its disk and a store reach.
    #[command(after_long_help = BENCH_EXAMPLES)]
    Bench(dauer_measure::Bench),
    /// Print the manual page of this command, or write those of all verbs into a folder.
    #[command(after_long_help = MAN_EXAMPLES)]
    Man {
        /// A folder that is there: it gets `dauer.1` and a page for each verb.
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Print a script that completes this command in a shell.
    #[command(after_long_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell.
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
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

    /// The command and all verbs of verbs, with the words that lead to each.
    fn all(command: &Command, path: &[String], into: &mut Vec<(Vec<String>, Command)>) {
        into.push((path.to_vec(), command.clone()));
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            all(verb, &[path, &[verb.get_name().to_owned()]].concat(), into);
        }
    }

    #[test]
    fn the_arguments_are_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn every_help_ends_with_two_to_four_examples_that_the_verb_takes() {
        let mut verbs = Vec::new();
        all(&command(), &["dauer".to_owned()], &mut verbs);
        assert_eq!(verbs.len(), 1 + 19 + EACH_BENCH.len());
        for (path, mut verb) in verbs {
            let help = verb.render_long_help().to_string();
            let (_, examples) =
                help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{path:?} has none: {help}"));
            let examples: Vec<&str> = examples.trim_end().lines().collect();
            assert!((2..=4).contains(&examples.len()), "{path:?}: {examples:?}");
            for example in examples {
                let words = words(example);
                assert!(words.starts_with(&path), "{path:?}: {example}");
                if let Err(error) = command().try_get_matches_from(words) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
