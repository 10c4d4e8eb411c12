//! What the store writes in each phase of an orchestration, statement by statement: the one place to change when the
//! store's statements change. The command itself says when this no longer agrees with the store.

use rusqlite::types::Value as Cell;

use super::sample::{Row, Sample, Stage, unknown};
use super::schedule::TURN_1;
use crate::Error;

/// Statements of the store, about one instance.
enum Write {
    /// As many rows as the sampled instance has in that table at a stage.
    Insert(&'static str, Stage),
    /// The row of the history that this turn writes.
    InsertHistory,
    /// Columns of the instance's row, with their values at a stage.
    Update(Stage, &'static [&'static [&'static str]]),
}

/// What a claim writes: who holds the instance, and where claims look for it.
const HOLD: &[&str] = &["epoch", "holder", "ready_at", "not_before", "place", "offered"];
/// What a turn writes of its instance, if the row of its history does not say it.
const TURN: &[&str] = &[
    "epoch",
    "not_before",
    "execution",
    "generation",
    "revision",
    "status",
    "hold",
    "stalled",
    "attempts",
    "updated",
    "history_len",
    "history_bytes",
    "remembered",
    "last",
    "taken",
    "start",
];
/// What a turn writes when nothing waits any more.
const READY: &[&str] = &["ready_at"];
/// What the turn writes that ends the run.
const END: &[&str] = &["holder", "place", "offered", "completed"];

/// A client's start.
const START: &[Write] =
    &[Write::Insert("instances", Stage::Started), Write::Insert("details", Stage::Started)];
/// The host takes the instance.
const CLAIM: &[Write] = &[Write::Update(Stage::Running, &[HOLD])];
/// A client's start, where a host waits for it: its row is written as the host holds it. Until the run ends it stays so.
const TAKEN: &[Write] =
    &[Write::Insert("instances", Stage::Running), Write::Insert("details", Stage::Started)];
/// A turn that schedules an activity: how it leaves the instance is in the same row.
const TURN_ALONE: &[Write] = &[Write::InsertHistory];
/// The turn that consumes the last result and ends the run.
const LAST_TURN: &[Write] = &[
    Write::InsertHistory,
    Write::Update(Stage::Ended, &[TURN, READY, END]),
    Write::Insert("details", Stage::Ended),
];
/// What every transaction ends with.
pub(super) const STAMP: &str = "UPDATE meta SET latest = ?1";

/// Columns that are the time of the write. Where a row lies in an index depends on it.
const TIMES: &[&str] = &["updated", "completed", "ready_at", "place", "position", "visible", "at"];

/// What a parameter of a statement is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Parameter {
    /// The same for all.
    Fixed(Cell),
    /// The key of the instance.
    Key,
    /// The id of the instance.
    Id,
    /// The time.
    Now,
    /// When the instance was started.
    Created,
    /// So many bytes that look like chance, and that nobody else has.
    Token { phase: usize, bytes: usize },
}

/// A statement, ready to be prepared.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) parameters: Vec<Parameter>,
}

/// The statements of every phase of one orchestration: start and claim, or both at once, turn by turn.
pub(super) fn plan(sample: &Sample) -> Result<Vec<Vec<Statement>>, Error> {
    let turns = sample.turns();
    let mut phases = vec![START, CLAIM, TAKEN];
    phases.extend((1..=turns).map(|turn| if turn == turns { LAST_TURN } else { TURN_ALONE }));
    let statements = |(phase, writes): (usize, &&[Write])| {
        let mut all = Vec::new();
        for write in *writes {
            all.extend(statements(sample, phase, write)?);
        }
        Ok(all)
    };
    phases.iter().enumerate().map(statements).collect()
}

fn statements(sample: &Sample, phase: usize, write: &Write) -> Result<Vec<Statement>, Error> {
    match write {
        Write::Insert(table, stage) => {
            Ok(sample.rows(table, *stage)?.iter().map(|row| insert(table, row, phase)).collect())
        }
        Write::InsertHistory => Ok(vec![insert("history", sample.history(phase + 1 - TURN_1)?, phase)]),
        Write::Update(stage, columns) => {
            let rows = sample.rows("instances", *stage)?;
            let row = rows.first().ok_or_else(|| unknown("the instance is not there"))?;
            Ok(vec![update(row, &columns.concat())?])
        }
    }
}

/// Inserts a row like the sampled one. Its own key is left to SQLite, but for instances, which the others point at.
fn insert(table: &str, row: &Row, phase: usize) -> Statement {
    let columns: Vec<_> = row.iter().filter(|(name, _)| table == "instances" || *name != "key").collect();
    let parameters = columns.iter().map(|(name, cell)| match name.as_str() {
        "key" | "instance" => Parameter::Key,
        "id" => Parameter::Id,
        name => parameter(name, cell, phase),
    });
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let marks: Vec<String> = (1..=names.len()).map(|number| format!("?{number}")).collect();
    Statement {
        sql: format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), marks.join(", ")),
        parameters: parameters.collect(),
    }
}

fn update(row: &Row, columns: &[&str]) -> Result<Statement, Error> {
    let mut parameters = vec![Parameter::Key];
    let mut changes = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let cell = row.get(*column).ok_or_else(|| unknown(&format!("there is no column {column}")))?;
        changes.push(format!("{column} = ?{}", index + 2));
        parameters.push(parameter(column, cell, 0));
    }
    let sql = format!("UPDATE instances SET {} WHERE key = ?1", changes.join(", "));
    Ok(Statement { sql, parameters })
}

/// What stands in a column: mostly what stood there in the sample.
fn parameter(name: &str, cell: &Cell, phase: usize) -> Parameter {
    match (name, cell) {
        ("message" | "task" | "execution", Cell::Blob(blob)) => Parameter::Token { phase, bytes: blob.len() },
        ("created", Cell::Integer(_)) => Parameter::Created,
        // A time of 0 is none.
        (name, Cell::Integer(1..)) if TIMES.contains(&name) => Parameter::Now,
        _ => Parameter::Fixed(cell.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(&str, Cell)]) -> Row {
        cells.iter().map(|(name, cell)| ((*name).to_owned(), cell.clone())).collect()
    }

    #[test]
    fn an_insert_has_the_columns_of_the_sample_and_keys_of_its_own() {
        let message = row(&[
            ("key", Cell::Integer(9)),
            ("instance", Cell::Integer(3)),
            ("message", Cell::Blob(vec![1; 16])),
            ("visible", Cell::Integer(1_700_000_000_000)),
            ("class", Cell::Integer(1)),
        ]);
        let statement = insert("history", &message, 4);
        assert_eq!(
            statement.sql,
            "INSERT INTO history (class, instance, message, visible) VALUES (?1, ?2, ?3, ?4)"
        );
        let token = Parameter::Token { phase: 4, bytes: 16 };
        let expected = [Parameter::Fixed(Cell::Integer(1)), Parameter::Key, token, Parameter::Now];
        assert_eq!(statement.parameters, expected);
    }

    #[test]
    fn an_update_names_its_columns_and_refuses_one_that_is_gone() {
        let instance =
            row(&[("epoch", Cell::Integer(1)), ("place", Cell::Null), ("created", Cell::Integer(5))]);
        let statement = update(&instance, &["epoch", "place", "created"]).unwrap();
        assert_eq!(statement.sql, "UPDATE instances SET epoch = ?2, place = ?3, created = ?4 WHERE key = ?1");
        assert_eq!(statement.parameters[2], Parameter::Fixed(Cell::Null));
        assert_eq!(statement.parameters[3], Parameter::Created);
        assert!(update(&instance, &["gone"]).unwrap_err().to_string().contains("gone"));
    }
}
