//! How results are shown: a table for people, JSON for programs. Colours only on a terminal.

use std::env;
use std::io::{self, IsTerminal as _};

use clap::{Args, ValueEnum};
use dauer::Status;
use serde::Serialize;
use serde_json::value::RawValue;

/// The version of the JSON that the command prints: it changes when a field is renamed, removed or gets another meaning.
pub(crate) const JSON_VERSION: u32 = 1;

/// Where the hub lives when nothing else is said.
const STORE: &str = "sqlite:dauer.db";

/// What all verbs on a store are told.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// The store: `sqlite:FILE`, or just the path of the file.
    #[arg(long, value_name = "URL", env = "DAUER_STORE", default_value = STORE)]
    pub(crate) store: String,
    /// How to print the result: for people, as one JSON document, or as JSON a line.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    Jsonl,
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For a stream that is a terminal, or is not. NO_COLOR, if it is set to anything, forbids colours; CLICOLOR_FORCE,
    /// unless it is 0, asks for them everywhere.
    pub(crate) fn of(terminal: bool) -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let forced = set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        Self((terminal || forced) && set("NO_COLOR").is_none())
    }

    pub(crate) fn stdout() -> Self {
        Self::of(io::stdout().is_terminal())
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

/// The word for a status, the same everywhere: what is printed can be typed.
pub(crate) fn status_name(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::Running => "running",
        Status::Suspended => "suspended",
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Terminated => "terminated",
        Status::Canceled => "canceled",
    }
}

/// Text that cannot do anything to a terminal: control characters are written out, so that it is also one line.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Something to print as JSON, with the version beside its own fields.
#[derive(Serialize)]
pub(crate) struct Versioned<T: Serialize> {
    dauer: u32,
    #[serde(flatten)]
    value: T,
}

impl<T: Serialize> Versioned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { dauer: JSON_VERSION, value }
    }
}

/// Writes a value as JSON: over several lines, or as one.
pub(crate) fn write_json(out: &mut impl io::Write, format: Format, value: &impl Serialize) -> io::Result<()> {
    match format {
        Format::Jsonl => serde_json::to_writer(&mut *out, value)?,
        Format::Json | Format::Table => serde_json::to_writer_pretty(&mut *out, value)?,
    }
    writeln!(out)
}

/// A payload inside JSON: as it is if it is JSON, and as a text if it is not.
pub(crate) fn embedded(payload: &str) -> Option<Box<RawValue>> {
    let raw = match serde_json::from_str::<&RawValue>(payload) {
        Ok(_) => RawValue::from_string(compact(payload)),
        Err(_) => serde_json::value::to_raw_value(payload),
    };
    // What is valid stays so without its spaces, and a text can always be written.
    raw.ok()
}

/// Valid JSON without the space between its parts, so that it stays on one line. Numbers and the order of fields stay as
/// they are, which decoding would not leave alone.
fn compact(json: &str) -> String {
    let mut kept = String::with_capacity(json.len());
    let (mut in_text, mut escaped) = (false, false);
    for character in json.chars() {
        if in_text {
            in_text = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if character.is_ascii_whitespace() {
            continue;
        } else {
            in_text = character == '"';
        }
        kept.push(character);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_stay_as_they_are_on_one_line() {
        let cases = [
            ("{ \"b\" : 1.50,\n \"a\":[ ] }", r#"{"b":1.50,"a":[]}"#),
            (r#""a \" b\\""#, r#""a \" b\\""#),
            (" 123456789012345678901234567890 ", "123456789012345678901234567890"),
            ("not JSON\n", r#""not JSON\n""#),
            ("", r#""""#),
            ("1 2", r#""1 2""#),
        ];
        for (payload, shown) in cases {
            assert_eq!(embedded(payload).unwrap().get(), shown);
        }
    }

    #[test]
    fn no_text_reaches_the_terminal_as_a_command() {
        assert_eq!(plain("a\x1b[2Jb\nc\u{9b}d"), "a\\u{1b}[2Jb\\nc\\u{9b}d");
    }

    #[test]
    fn colours_are_only_for_terminals() {
        assert_eq!(Paint(true).red("x"), "\x1b[31mx\x1b[0m");
        assert_eq!(Paint(false).red("x"), "x");
        assert_eq!(Paint::of(false).status(Status::Failed, false, "failed"), "failed");
        assert_eq!(Paint(true).status(Status::Running, true, "running"), "\x1b[33mrunning\x1b[0m");
    }
}
