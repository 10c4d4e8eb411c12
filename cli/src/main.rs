//! The `dauer` command. Data goes to stdout, everything else to stderr.

mod arguments;
mod audit;
mod dev;
mod error;
mod history;
mod output;
mod payload;
mod program;
mod progress;
mod serve;
mod time;
mod verbs;
mod view;
mod waiting;

use std::future::Future;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches as _;
#[cfg(feature = "mimalloc")]
use dauer_heap as _;

use arguments::{Arguments, Verb};
use error::{Failure, Words};
use output::Common;

/// What the benchmarks have to know of this program.
const PROGRAM: dauer_measure::Program = dauer_measure::Program {
    allocator: if cfg!(feature = "mimalloc") { "mimalloc" } else { "system" },
    is_server: verbs::is_server,
    connect: verbs::connect,
};

/// The exit code of an audit that is not clean. Those of errors are in the table of errors.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    // As `Arguments::parse` does it, with the help that is complete.
    let matches = arguments::command().get_matches();
    let verb = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).verb;
    let look = verb.common().map(|common| (common.output, common.color));
    let (format, color) = look.unwrap_or_default();
    let words = verb.words(matches.subcommand_name());
    run(verb).unwrap_or_else(|failure| failure.complain(format, color, &words))
}

impl Verb {
    /// What it is told as all verbs on a store are.
    fn common(&self) -> Option<&Common> {
        match self {
            Self::Start(arguments) => Some(&arguments.common),
            Self::Get(arguments) => Some(&arguments.common),
            Self::List(arguments) => Some(&arguments.common),
            Self::History(arguments) => Some(&arguments.common),
            Self::Raise(arguments) => Some(&arguments.common),
            Self::Suspend(arguments) => Some(&arguments.common),
            Self::Resume(arguments) => Some(&arguments.common),
            Self::Terminate(arguments) => Some(&arguments.common),
            Self::Rewind(arguments) => Some(&arguments.common),
            Self::Retry(arguments) => Some(&arguments.common),
            Self::Restart(arguments) => Some(&arguments.common),
            Self::Purge(arguments) => Some(&arguments.common),
            Self::Hubs(arguments) => Some(&arguments.common),
            Self::Audit { .. }
            | Self::Dev(_)
            | Self::Serve(_)
            | Self::Bench(_)
            | Self::Man { .. }
            | Self::Completions { .. } => None,
        }
    }
}

impl Verb {
    /// The instance that it is about, if it is about one.
    fn id(&self) -> Option<&str> {
        match self {
            Self::Start(arguments) => arguments.id.as_deref(),
            Self::Get(arguments) => Some(&arguments.id),
            Self::History(arguments) => Some(&arguments.id),
            Self::Raise(arguments) => Some(&arguments.id),
            Self::Suspend(arguments) => Some(&arguments.id),
            Self::Resume(arguments) => Some(&arguments.id),
            Self::Terminate(arguments) => Some(&arguments.id),
            Self::Rewind(arguments) => Some(&arguments.id),
            Self::Restart(arguments) => Some(&arguments.id),
            _ => None,
        }
    }

    /// The words that the hint of a failure needs.
    fn words(&self, verb: Option<&str>) -> Words {
        let common = self.common();
        let file = common.map(|common| &common.store).filter(|store| !verbs::is_server(store));
        Words {
            program: program::word(),
            verb: verb.map(str::to_owned),
            id: self.id().map(program::quoted),
            store: common.map(Common::store_option).unwrap_or_default(),
            audit: file.map(|store| program::quoted(store)),
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Start(arguments) => block_on(verbs::start(arguments)),
        Verb::Get(arguments) => block_on(verbs::get(arguments)),
        Verb::List(arguments) => block_on(verbs::list(arguments)),
        Verb::History(arguments) => block_on(verbs::history(arguments)),
        Verb::Raise(arguments) => block_on(verbs::raise(arguments)),
        Verb::Suspend(arguments) => block_on(verbs::suspend(arguments)),
        Verb::Resume(arguments) => block_on(verbs::resume(arguments)),
        Verb::Terminate(arguments) => block_on(verbs::terminate(arguments)),
        Verb::Rewind(arguments) => block_on(verbs::rewind(arguments)),
        Verb::Retry(arguments) => block_on(verbs::retry(arguments)),
        Verb::Restart(arguments) => block_on(verbs::restart(arguments)),
        Verb::Purge(arguments) => block_on(verbs::purge(arguments)),
        Verb::Hubs(arguments) => block_on(verbs::hubs(arguments)),
        Verb::Audit { store, journal, again, quiet } => {
            block_on(audit::run(store, (journal, again.map(Duration::from_secs)), quiet))
        }
        Verb::Dev(dev) => dev::run(dev),
        Verb::Serve(serve) => serve::run(serve),
        // It has a runtime of its own choice.
        Verb::Bench(bench) => {
            dauer_measure::run(bench, &PROGRAM).map(|()| ExitCode::SUCCESS).map_err(Failure::Bench)
        }
        Verb::Man { folder } => man(folder),
        Verb::Completions { shell } => {
            // Into memory first: the generator does not expect that nobody reads.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut arguments::command(), "dauer", &mut script);
            io::stdout().lock().write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Prints the manual page, or writes all of them.
fn man(folder: Option<PathBuf>) -> Result<ExitCode, Failure> {
    // As the pages of all verbs have it: there is no page for `help`.
    let mut command = arguments::command().disable_help_subcommand(true);
    command.build();
    match folder {
        Some(folder) => {
            let unwritable = |source| Failure::Folder { path: folder.clone(), source };
            clap_mangen::generate_to(command, &folder).map_err(unwritable)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            io::stdout().lock().write_all(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command that lives on tokio.
fn block_on(command: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    let result = runtime.block_on(command);
    // Whatever still runs has no one left to tell: it must not hold up the end.
    runtime.shutdown_background();
    result
}
