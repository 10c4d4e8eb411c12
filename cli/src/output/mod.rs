//! How results are shown: a table for people, JSON for programs, ids for pipes.

mod paint;

use std::io::{self, IsTerminal as _, Write};

use clap::{Args, ValueEnum};
use dauer::{HubName, Status};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::program::{self, quoted};
use crate::time::{Dates, TimeStyle, now};
pub(crate) use paint::{Color, Paint};

/// The version of the JSON that the command prints: it changes when a field is renamed, removed or gets another meaning.
pub(crate) const JSON_VERSION: u32 = 1;

/// Where the hub lives when nothing else is said.
const STORE: &str = "sqlite:dauer.db";

/// The variable that names another.
const STORE_VARIABLE: &str = "DAUER_STORE";

/// What all verbs on a store are told.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// The store: `sqlite:FILE`, or just the path of the file; or a server: `http://HOST:PORT`. `?hub=NAME` behind either is
    /// a task hub other than `default`. A token for a server is taken from DAUER_TOKEN.
    #[arg(long, value_name = "URL", env = STORE_VARIABLE, default_value = STORE)]
    pub(crate) store: String,
    /// How to print the result.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t, help_heading = HEADING)]
    pub(crate) output: Format,
    /// How to print times for people. Without it: relative on a terminal, iso elsewhere.
    #[arg(long, value_name = "STYLE", value_enum, help_heading = HEADING)]
    pub(crate) time: Option<TimeStyle>,
    /// When to use colours.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, help_heading = HEADING)]
    pub(crate) color: Color,
    /// Print only data and errors: no notes, no progress, no word that something was done.
    #[arg(short, long, help_heading = HEADING)]
    pub(crate) quiet: bool,
}

/// Where the help lists what is the same for all verbs.
const HEADING: &str = "Output";

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For people, with more columns.
    Wide,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// Only ids, one a line.
    Id,
}

impl Format {
    /// Whether people read it.
    pub(crate) fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

impl Common {
    /// The colours of stdout.
    pub(crate) fn paint(&self) -> Paint {
        Paint::of(self.color, io::stdout().is_terminal())
    }

    /// How times are printed for people, now.
    pub(crate) fn dates(&self) -> Dates {
        let usual = if io::stdout().is_terminal() { TimeStyle::Relative } else { TimeStyle::Iso };
        Dates { style: self.time.unwrap_or(usual), now: now() }
    }

    /// Tells something on stderr that is no data.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            // It is no data: without stderr nothing is lost.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// The option that names the store, with a space before it; empty when the next call has the same store without it.
    pub(crate) fn store_option(&self) -> String {
        let usual = std::env::var(STORE_VARIABLE).unwrap_or_else(|_| STORE.to_owned());
        match self.store == usual {
            true => String::new(),
            false => format!(" --store {}", quoted(&self.store)),
        }
    }

    /// A command on the same store, as it can be typed.
    pub(crate) fn command(&self, words: &str) -> String {
        format!("{} {words}{}", program::word(), self.store_option())
    }

    /// A command on another task hub of the same store.
    pub(crate) fn command_in_hub(&self, words: &str, hub: &HubName) -> String {
        let (place, options) = self.store.split_once('?').unwrap_or((&self.store, ""));
        let options = options.split('&').filter(|option| !option.is_empty() && !option.starts_with("hub="));
        let named = format!("hub={hub}");
        let options: Vec<&str> = options.chain([&*named]).collect();
        let store = quoted(&format!("{place}?{}", options.join("&")));
        format!("{} {words} --store {store}", program::word())
    }

    /// Prints that something was done to an instance.
    pub(crate) fn done(&self, id: &str, sentence: &str, data: &impl Serialize) -> io::Result<()> {
        let out = &mut io::stdout().lock();
        match self.output {
            Format::Table | Format::Wide if self.quiet => Ok(()),
            Format::Table | Format::Wide => writeln!(out, "{}", plain(sentence)),
            Format::Id => writeln!(out, "{}", plain(id)),
            format => write_data(out, format, &Versioned::new(data)),
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

/// Writes a value for programs: as JSON over several lines, or on one.
pub(crate) fn write_data(out: &mut impl Write, format: Format, value: &impl Serialize) -> io::Result<()> {
    match format {
        Format::Jsonl => serde_json::to_writer(&mut *out, value)?,
        Format::Json | Format::Table | Format::Wide | Format::Id => {
            serde_json::to_writer_pretty(&mut *out, value)?;
        }
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
}
