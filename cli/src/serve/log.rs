//! What a server logs: on stderr, as text for people and as JSON for programs.

use std::io::{self, IsTerminal as _};

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::filter::LevelFilter;

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    /// Nothing.
    Off,
    /// What somebody has to look at.
    Error,
    /// What may become a trouble.
    Warn,
    /// What happens to sessions and streams.
    #[default]
    Info,
    /// Each claim and commit.
    Debug,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
        }
    }
}

/// Logs from now on.
pub(crate) fn begin(level: Level) {
    let log = tracing_subscriber::fmt().with_max_level(LevelFilter::from(level)).with_writer(io::stderr);
    // A second one would change nothing: there is one log in a process.
    let _ = match io::stderr().is_terminal() {
        true => log.with_target(false).try_init(),
        false => log.json().flatten_event(true).try_init(),
    };
}
