//! The table is whole: every variant of every public error is in it, and nothing that is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use dauer::{ClientError as Sdk, Refused};
use dauer_core::model::BlobError;
use dauer_store::{Cause, Limit};

use super::table::{TABLE, kind_of};
use super::*;
use crate::audit::Unusable;

/// The crates whose errors a user can meet, by the name that the table has for them.
const CRATES: [(&str, &str); 12] = [
    ("proto", "proto/src"),
    ("core", "core/src"),
    ("replay", "replay/src"),
    ("store", "store/src"),
    ("memory", "stores/memory/src"),
    ("sqlite", "stores/sqlite/src"),
    ("hub", "hub/src"),
    ("sdk", "sdk/src"),
    ("server", "server/src"),
    ("audit", "testkit/audit/src"),
    ("measure", "cli/measure/src"),
    ("cli", "cli/src"),
];

fn files(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// What a line declares: its visibility, and the name of a type.
fn declared(line: &str) -> Option<(&str, &str, &str)> {
    ["enum ", "struct "].into_iter().find_map(|word| {
        let (visibility, rest) = line.split_once(word)?;
        let known = matches!(visibility, "" | "pub " | "pub(crate) " | "pub(super) ");
        let end = rest.find(|character: char| !character.is_alphanumeric()).unwrap_or(rest.len());
        known.then_some((visibility, word, &rest[..end]))
    })
}

/// The errors that a file declares by thiserror: the type, or each variant of it.
fn errors(text: &str, everything: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    let mut derived = false;
    while let Some(line) = lines.next() {
        derived |= line.starts_with("#[derive(") && line.contains("thiserror::Error");
        let Some((visibility, word, name)) = declared(line).filter(|_| derived) else { continue };
        derived = false;
        if visibility != "pub " && !everything {
            continue;
        }
        if word == "struct " {
            found.push(name.to_owned());
            continue;
        }
        for line in lines.by_ref().take_while(|line| *line != "}") {
            let variant = line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase));
            let variant = variant.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap());
            found.extend(variant.map(|variant| format!("{name}::{variant}")));
        }
    }
    found
}

#[test]
fn every_variant_of_every_public_error_is_in_the_table_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut declared = BTreeSet::new();
    for (name, folder) in CRATES {
        let mut texts = Vec::new();
        files(&root.join(folder), &mut texts);
        for error in texts.iter().flat_map(|text| errors(text, name == "cli")) {
            declared.insert(format!("{name}::{error}"));
        }
    }
    assert!(declared.len() > 100, "only {} errors were found", declared.len());
    let mut rows: Vec<&str> = TABLE.iter().flat_map(|kind| kind.errors).copied().collect();
    rows.sort_unstable();
    let unique: BTreeSet<String> = rows.iter().map(|&row| row.to_owned()).collect();
    assert_eq!(unique.len(), rows.len(), "an error is in the table twice: {rows:?}");
    let missing: Vec<_> = declared.difference(&unique).collect();
    assert!(missing.is_empty(), "give these errors a row in cli/src/error/table.rs: {missing:?}");
    let stale: Vec<_> = unique.difference(&declared).collect();
    assert!(stale.is_empty(), "these errors of the table do not exist: {stale:?}");
}

#[test]
fn rows_are_complete_and_codes_are_one_kind_each() {
    const GRPC: [&str; 16] = [
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let mut codes = BTreeMap::new();
    for kind in TABLE {
        assert!(codes.insert(kind.code, kind.exit).is_none(), "{} is there twice", kind.code);
        assert!(kind.code.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", kind.code);
        assert!(GRPC.contains(&kind.grpc), "{}", kind.code);
        let help = format!("\n  {}  ", kind.exit);
        assert!(kind.exit > 0 && EXIT_CODES.contains(&help), "{}", kind.code);
        assert!(kind.hint.len() > 20 && !kind.hint.ends_with('.'), "{}", kind.code);
        assert!(!kind.errors.is_empty(), "{}", kind.code);
    }
    // What scripts rely on: these never change.
    for (code, exit) in [
        ("invalid_name", 2),
        ("invalid_json", 2),
        ("not_found", 3),
        ("already_exists", 4),
        ("already_ended", 5),
        ("not_ended", 5),
        ("instance_failed", 6),
        ("timed_out", 7),
        ("store_missing", 8),
        ("store_newer", 8),
    ] {
        assert_eq!(codes[code], exit, "{code}");
    }
}

fn id() -> InstanceId {
    InstanceId::new("order-1").unwrap()
}

fn refusals() -> Vec<(Refused, &'static str)> {
    let limit = Limit { name: "message bytes", found: 2, allowed: 1 };
    vec![
        (Refused::Fenced, "moved_on"),
        (Refused::NotExecuted(Cause::new("busy")), "unavailable"),
        (Refused::Unknown(Cause::new("gone")), "unknown_outcome"),
        (Refused::TooLarge(limit), "too_large"),
        (Refused::Exists(Status::Running), "already_exists"),
        (Refused::Cursor("x".to_owned()), "invalid_argument"),
        (Refused::Newer(9), "store_newer"),
        (Refused::Corrupt(Cause::new("zeros")), "damaged"),
    ]
}

#[test]
fn errors_have_the_code_of_the_innermost_that_says_something() {
    let name = || InstanceId::new("").unwrap_err();
    let json = || serde_json::from_str::<u8>("x").unwrap_err();
    let payload = || InvalidRequest::Payload { field: "input", bytes: 2, limit: 1 };
    let missing = || OpenError::Missing { url: "sqlite:x".to_owned() };
    let newer = dauer_sqlite::OpenError::Newer { path: "x".into(), format: 9 };
    let closed = Unusable::Closed { path: "x".into(), source: io::Error::other("x") };
    let blob = LedgerError::Blob(BlobError::Format(9));
    let mut cases: Vec<(Failure, &str)> = vec![
        (name().into(), "invalid_name"),
        (ClientError::Invalid(name().into()).into(), "invalid_name"),
        (ClientError::Invalid(payload()).into(), "too_large"),
        (payload().into(), "too_large"),
        (InvalidRequest::Time { field: "start" }.into(), "invalid_argument"),
        (ClientError::Absent(id()).into(), "not_found"),
        (ClientError::TimedOut(id()).into(), "timed_out"),
        (missing().into(), "store_missing"),
        (OpenError::UnknownStore { url: "x:".to_owned() }.into(), "unknown_store"),
        (OpenError::UnknownOption { url: "x?y".to_owned(), option: "y".to_owned() }.into(), "unknown_store"),
        (OpenError::NoRuntime.into(), "program"),
        (OpenError::Sqlite { url: "x".to_owned(), source: newer }.into(), "store_newer"),
        (Failure::History { id: id(), source: blob }, "store_newer"),
        (Failure::Unwritable { id: id(), source: JsonError::Newer { found: 9 } }, "store_newer"),
        (Failure::Unwritable { id: id(), source: JsonError::Syntax(json()) }, "invalid_history"),
        (Failure::Moved(id()), "moved_on"),
        (Failure::Repeated(id()), "repeat"),
        (Failure::Ended { id: id(), status: Status::Failed }, "already_ended"),
        (ClientError::NotEnded { instance: id(), status: Status::Running }.into(), "not_ended"),
        (ClientError::NotStalled { instance: id(), status: Status::Running }.into(), "not_stalled"),
        (ClientError::Engaged(id()).into(), "engaged"),
        (ClientError::MovedOn(id()).into(), "moved_on"),
        (Failure::Stopped { id: id(), status: Status::Terminated }, "instance_failed"),
        (Failure::Json { what: "input", source: json() }, "invalid_json"),
        (Failure::TooLong { what: "input", limit: 1 }, "too_large"),
        (Failure::Usage("no"), "invalid_argument"),
        (io::Error::other("full").into(), "failed"),
        (Failure::Folder { path: "x".into(), source: io::Error::other("x") }, "unwritable_folder"),
        (closed.into(), "invalid_journal"),
        (dauer_measure::Error::Open(missing()).into(), "store_missing"),
        (dauer_measure::Error::WorkerGone.into(), "failed"),
        (dauer_measure::Error::NotEmpty { path: "x".into() }.into(), "not_empty"),
        (dauer_measure::Error::Running { path: "x".into() }.into(), "bench_running"),
        (dauer_measure::Error::Foreign { path: "x".into() }.into(), "foreign_folder"),
        (Failure::Demo(missing().into()), "store_missing"),
        (Failure::Demo(Sdk::Undecodable { what: "output", source: json().into() }.into()), "wrong_type"),
        (Failure::Demo(Sdk::Client(ClientError::TimedOut(id())).into()), "timed_out"),
        (Failure::Demo(Sdk::PageSize { found: 0, limit: 1 }.into()), "invalid_argument"),
        (Failure::Demo(Sdk::Living { status: Status::Running }.into()), "invalid_argument"),
        (
            Failure::Demo(Sdk::PurgeStopped { count: 1, source: ClientError::TimedOut(id()) }.into()),
            "timed_out",
        ),
        (Failure::Demo("anything else".into()), "failed"),
    ];
    cases.extend(refusals().into_iter().map(|(refused, code)| (Failure::Refused(refused), code)));
    cases.extend(refusals().into_iter().map(|(refused, code)| (ClientError::Refused(refused).into(), code)));
    for (failure, code) in cases {
        let key = failure.key();
        assert!(TABLE.iter().any(|kind| kind.errors.contains(&key)), "{key} is not in the table");
        assert_eq!(kind_of(key).code, code, "{key}: {failure}");
    }
}

#[test]
fn only_a_reader_that_is_gone_is_no_failure() {
    let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
    assert!(Failure::Output(broken()).is_unread());
    assert!(Failure::Demo(broken().into()).is_unread());
    assert!(Failure::Bench(broken().into()).is_unread());
    assert!(!Failure::Output(io::Error::other("full")).is_unread());
    assert!(!Failure::Moved(id()).is_unread());
}
