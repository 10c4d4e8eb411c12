//! How figures are shown: lines of text that say what each figure is, or one JSON object.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::place::Place;
use super::{Common, Error, Program};

/// What the figures were measured with.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Setting {
    pub(super) dauer_version: &'static str,
    pub(super) build: &'static str,
    pub(super) cores: usize,
    pub(super) runtime: &'static str,
    pub(super) allocator: &'static str,
    pub(super) store: String,
    /// The median time to write a page and make it durable, in the folder of the store.
    pub(super) fsync_ms: Option<f64>,
}

impl Setting {
    /// Looks around, and tries the disk.
    pub(super) fn look(common: &Common, program: &Program, place: &Place) -> Result<Self, Error> {
        let folder = place.scratch();
        let sync = || {
            super::process::sync_ms(folder).map_err(|source| Error::Folder { path: folder.into(), source })
        };
        Ok(Self {
            dauer_version: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            cores: super::process::available_cores(),
            runtime: common.runtime.name(),
            allocator: program.allocator,
            store: place.name(),
            fsync_ms: place.is_file().then(sync).transpose()?.map(|ms| super::statistics::rounded(ms, 4)),
        })
    }

    /// What the reader should know before the figures.
    pub(super) fn lines(&self, lines: &mut Lines) {
        let Self { dauer_version, build, cores, runtime, allocator, store, .. } = self;
        lines.text(format!(
            "dauer {dauer_version}, {build} build, {cores} cores, {runtime} runtime, {allocator} allocator"
        ));
        lines.text(format!("store {store}"));
        if *build == "debug" {
            lines.text("This is a debug build: the figures say nothing. Use cargo run --release.");
        }
        if let Some(sync) = self.fsync_ms {
            lines.line(
                "fsync",
                format!("{sync:.3} ms"),
                "median of writing a page and making it durable, same folder",
            );
            if sync < super::process::SYNC_MS_MIN {
                lines.text("Hardly a disk: give --store a file on the disk that counts.");
            }
        }
    }
}

/// The text, line by line.
#[derive(Default)]
pub(super) struct Lines(Vec<String>);

impl Lines {
    /// A sentence.
    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }

    /// A figure and what it is.
    pub(super) fn line(&mut self, name: &str, value: impl std::fmt::Display, what: &str) {
        self.0.push(format!("{name:<22} {:>12}  {what}", value.to_string()).trim_end().to_owned());
    }

    /// A figure that may not have been measured.
    pub(super) fn maybe(&mut self, name: &str, value: Option<String>, what: &str) {
        self.line(name, value.unwrap_or_else(|| "not measured".to_owned()), what);
    }
}

/// Says what is being done, to whoever sits before a terminal.
pub(super) fn progress(common: &Common, what: &str) {
    let mut out = io::stderr();
    if !common.json && out.is_terminal() {
        // The figures are what counts; without stderr they still come.
        let _ = writeln!(out, "{what} ...");
    }
}

/// Prints the figures: the object when JSON was asked for, the text otherwise.
pub(super) fn show(common: &Common, figures: &impl Serialize, lines: &Lines) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    if common.json {
        serde_json::to_writer(&mut out, figures)?;
        writeln!(out)?;
    } else {
        for line in &lines.0 {
            writeln!(out, "{line}")?;
        }
    }
    Ok(out.flush()?)
}

/// Bytes as megabytes, for people.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", super::statistics::count(bytes) / 1e6)
}
