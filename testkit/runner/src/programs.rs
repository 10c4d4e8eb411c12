//! What cargo says it has built.

use std::io::{self, BufRead};
use std::path::PathBuf;

use serde::Deserialize;

/// One program of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What selects it, as arguments of `cargo test`.
    pub name: String,
    /// The folder of its package, where tests expect to be.
    pub folder: PathBuf,
    /// What to run.
    pub executable: PathBuf,
}

/// A line of `cargo test --no-run --message-format=json`, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The programs of tests among what cargo has built, in its order.
///
/// # Errors
/// When the messages cannot be read, or are not cargo's.
pub fn programs(messages: impl BufRead) -> io::Result<Vec<Program>> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(&line?)?;
        found.extend(program(message));
    }
    Ok(found)
}

fn program(message: Message) -> Option<Program> {
    let (target, executable) = (message.target?, message.executable?);
    if message.reason != "compiler-artifact" || !message.profile?.test {
        return None;
    }
    let name = selection(package(&message.package_id), &target);
    Some(Program { name, folder: message.manifest_path.parent()?.to_owned(), executable })
}

/// `path+file:///…/sdk#dauer@0.1.0`; where the folder has the name of the package, `path+file:///…/dauer#0.1.0`.
fn package(id: &str) -> &str {
    let (place, rest) = id.rsplit_once('#').unwrap_or(("", id));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(id),
    }
}

/// What selects it.
fn selection(package: &str, target: &Target) -> String {
    match target.kind.first().map(String::as_str) {
        Some(kind @ ("test" | "bin" | "example" | "bench")) => {
            format!("-p {package} --{kind} {}", target.name)
        }
        _ => format!("-p {package} --lib"),
    }
}
