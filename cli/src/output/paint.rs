//! Colours: for terminals, unless somebody says otherwise.

use std::env;

use clap::ValueEnum;
use dauer::Status;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal. NO_COLOR, if it is set to anything, forbids them; CLICOLOR_FORCE, unless it is 0, asks for them
    /// everywhere.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For a stream that is a terminal, or is not.
    pub(crate) fn of(color: Color, terminal: bool) -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let forced = || set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        Self(match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => (terminal || forced()) && set("NO_COLOR").is_none(),
        })
    }

    fn with(self, code: u8, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with(31, text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with(2, text)
    }

    /// A text in the colour of a status: green is done, red is failed, yellow needs somebody.
    pub(crate) fn status(self, status: Status, stalled: bool, text: &str) -> String {
        match status {
            Status::Completed => self.with(32, text),
            Status::Failed => self.with(31, text),
            Status::Suspended | Status::Terminated | Status::Canceled => self.with(33, text),
            Status::Pending | Status::Running if stalled => self.with(33, text),
            Status::Pending | Status::Running => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_only_for_terminals_unless_they_are_asked_for() {
        assert_eq!(Paint(true).red("x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint(false).red("x"), "x");
        assert_eq!(Paint::of(Color::Always, false).red("x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint::of(Color::Never, true).status(Status::Failed, false, "failed"), "failed");
        assert_eq!(Paint(true).status(Status::Running, true, "running"), "\x1b[33mrunning\x1b[0m");
    }
}
