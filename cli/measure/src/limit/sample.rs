//! The rows of one real orchestration, as they lie in the file at each stage of its life.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dauer::{ActivityContext, Client, Handle, Hub};
use futures::channel::oneshot;
use rusqlite::Connection;
use rusqlite::types::Value as Cell;

use crate::Error;
use crate::workload::{self, Running, STEP, Value};

/// Longer than one orchestration takes on any disk.
const PATIENCE: Duration = Duration::from_secs(60);

/// A row, by column.
pub(super) type Row = BTreeMap<String, Cell>;

/// What the rows look like.
pub(crate) struct Sample {
    rows: BTreeMap<(&'static str, Stage), Vec<Row>>,
    history: Vec<Row>,
}

/// When a row was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Started, and no worker has seen it.
    Started,
    /// In its first activity: the worker holds the instance and the task.
    Running,
    /// Its output has been read.
    Ended,
}

impl Sample {
    /// Runs one orchestration in a new file and reads its rows. `begin` starts it.
    pub(crate) async fn take<F, S>(hub: &Hub, file: &Path, begin: F) -> Result<Self, Error>
    where
        F: FnOnce(Client) -> S,
        S: Future<Output = Result<Handle<Value>, Error>>,
    {
        let mut sample = Self { rows: BTreeMap::new(), history: Vec::new() };
        let handle = begin(hub.client()).await?;
        let db = dauer_sqlite::bare::connect(file).map_err(unusable)?;
        sample.read(&db, Stage::Started, &["instances", "details"])?;
        let (entered, gate) = (oneshot::channel(), oneshot::channel::<()>());
        let held = Arc::new(Mutex::new(Some((entered.0, gate.1))));
        let worker =
            workload::orchestrations(hub.worker()).activity(STEP, move |_: ActivityContext, value: Value| {
                let first = held.lock().unwrap_or_else(PoisonError::into_inner).take();
                async move {
                    if let Some((entered, gate)) = first {
                        let _ = entered.send(());
                        // Until the rows are read; when nobody reads them any more, on with it.
                        let _ = gate.await;
                    }
                    Ok(Value { number: value.number + 1, ..value })
                }
            });
        let running = Running::start(worker)?;
        let reached = tokio::time::timeout(PATIENCE, entered.1).await;
        reached
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| unknown("the sample does not come to its activity"))?;
        sample.read(&db, Stage::Running, &["instances"])?;
        drop(gate.0);
        handle.output_within(PATIENCE).await?;
        running.stop().await?;
        sample.read(&db, Stage::Ended, &["instances", "details"])?;
        sample.history = rows(&db, "history")?;
        Ok(sample)
    }

    fn read(&mut self, db: &Connection, stage: Stage, tables: &[&'static str]) -> Result<(), Error> {
        for table in tables {
            self.rows.insert((table, stage), rows(db, table)?);
        }
        Ok(())
    }

    /// The rows of a table at a stage.
    pub(super) fn rows(&self, table: &'static str, stage: Stage) -> Result<&[Row], Error> {
        let rows = self.rows.get(&(table, stage)).map(Vec::as_slice);
        rows.ok_or_else(|| unknown(&format!("{table} was not read at the stage {stage:?}")))
    }

    /// The history that a turn has written; the first has number 1.
    pub(super) fn history(&self, turn: usize) -> Result<&Row, Error> {
        let row = turn.checked_sub(1).and_then(|index| self.history.get(index));
        row.ok_or_else(|| unknown(&format!("turn {turn} has written no history")))
    }

    /// How many turns it took.
    pub(super) fn turns(&self) -> usize {
        self.history.len()
    }
}

/// All rows of a table, in order of their keys.
fn rows(db: &Connection, table: &str) -> Result<Vec<Row>, Error> {
    let mut all = db.prepare(&format!("SELECT * FROM {table} ORDER BY 1"))?;
    let names: Vec<String> = all.column_names().map(str::to_owned).collect();
    let rows = all.query_map([], |row| {
        names.iter().enumerate().map(|(index, name)| Ok((name.clone(), row.get(index)?))).collect()
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn unknown(what: &str) -> Error {
    Error::UnknownTables(what.to_owned())
}

/// A file that the store itself has just opened.
pub(super) fn unusable(source: dauer_sqlite::OpenError) -> Error {
    unknown(&source.to_string())
}
