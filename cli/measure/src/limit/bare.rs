//! The bare loop: one thread, one connection, prepared statements, nothing else.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Statement as Prepared, ToSql};

use super::compare::Effort;
use super::plan::{Parameter, STAMP, Statement, plan};
use super::sample::{Sample, unknown, unusable};
use super::schedule::Schedule;
use super::tags::IndexOfTags;
use crate::process::{Meter, Spent};
use crate::{Error, sequence};

/// Writes what a store did into another file that a store has made; gives what that took, and what one orchestration
/// costs the disk.
pub(crate) fn write(file: &Path, sample: &Sample, schedule: &Schedule) -> Result<(Spent, Effort), Error> {
    let plan = plan(sample)?;
    let db = dauer_sqlite::bare::connect(file).map_err(unusable)?;
    let mut prepared =
        plan.iter().map(|phase| Phase::prepare(&db, phase)).collect::<Result<Vec<_>, Error>>()?;
    let mut instances = Instances::new(schedule);
    let orchestrations = schedule.ids.len() as u64;
    let tally = dauer_sqlite::bare::Count::new(file);
    let mut counted = dauer_store::Effort::default();
    let (mut begin, mut commit) = (db.prepare("BEGIN IMMEDIATE")?, db.prepare("COMMIT")?);
    let mut stamp = db.prepare(STAMP)?;
    let mut tags = IndexOfTags::new(&db)?;
    let meter = Meter::start();
    for batch in &schedule.batches {
        begin.execute([])?;
        let now = now();
        for (place, phase) in batch {
            let phase =
                prepared.get_mut(*phase).ok_or_else(|| unknown("an orchestration took more turns"))?;
            for (statement, of) in &mut phase.statements {
                counted.rows += instances.write((statement, of), (*place, now))?;
                counted.statements += 1;
            }
        }
        let written = tags.catch_up(&db, (schedule, &instances.created), batch)?;
        counted.rows += written;
        counted.statements += written;
        counted.rows += stamp.execute([now])? as u64;
        counted.statements += 1;
        commit.execute([])?;
        counted.commits += 1;
    }
    let spent = meter.stop();
    tally.add(&counted);
    let effort = Effort::new(&tally.read(), spent.written_bytes, orchestrations);
    drop((prepared, begin, commit, stamp));
    verify(&db, orchestrations)?;
    Ok((spent, effort))
}

/// Milliseconds, as the store writes them.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The file must look as after the store: all instances, and nothing left to do.
fn verify(db: &Connection, orchestrations: u64) -> Result<(), Error> {
    for (table, expected) in [("instances", orchestrations), ("inbox", 0), ("tasks", 0)] {
        let found: i64 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
        if u64::try_from(found) != Ok(expected) {
            return Err(unknown(&format!("{found} rows are left in {table} instead of {expected}")));
        }
    }
    Ok(())
}

/// The statements of one phase.
struct Phase<'c> {
    statements: Vec<(Prepared<'c>, &'c Statement)>,
}

impl<'c> Phase<'c> {
    fn prepare(db: &'c Connection, statements: &'c [Statement]) -> Result<Self, Error> {
        let prepare = |statement: &'c Statement| Ok((db.prepare(&statement.sql)?, statement));
        Ok(Self { statements: statements.iter().map(prepare).collect::<Result<_, Error>>()? })
    }
}

/// What differs between the instances.
struct Instances<'s> {
    schedule: &'s Schedule,
    created: Vec<i64>,
}

impl<'s> Instances<'s> {
    fn new(schedule: &'s Schedule) -> Self {
        Self { schedule, created: vec![0; schedule.ids.len()] }
    }

    /// Carries out one statement for one instance; gives the rows that it changed.
    fn write(
        &mut self,
        (prepared, statement): (&mut Prepared<'_>, &Statement),
        (place, now): (usize, i64),
    ) -> Result<u64, Error> {
        if self.created[place] == 0 {
            self.created[place] = now;
        }
        for (position, parameter) in statement.parameters.iter().enumerate() {
            prepared.raw_bind_parameter(position + 1, Bound { parameter, of: self, place, now })?;
        }
        Ok(prepared.raw_execute()? as u64)
    }
}

/// A parameter for one instance.
struct Bound<'b> {
    parameter: &'b Parameter,
    of: &'b Instances<'b>,
    place: usize,
    now: i64,
}

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let (place, schedule) = (self.place, self.of.schedule);
        Ok(match self.parameter {
            Parameter::Fixed(cell) => ToSqlOutput::Borrowed(cell.into()),
            Parameter::Key => ((place as u64).cast_signed() + 1).into(),
            Parameter::Id => ToSqlOutput::Borrowed(schedule.ids[place].as_str().into()),
            Parameter::Now => self.now.into(),
            Parameter::Created => self.of.created[place].into(),
            Parameter::Token { phase, bytes } => {
                let token = token(place, *phase).to_be_bytes();
                token.into_iter().cycle().take(*bytes).collect::<Vec<u8>>().into()
            }
        })
    }
}

/// A number that looks like chance: identities in the store do, and where a row lies in an index depends on it.
fn token(place: usize, phase: usize) -> u64 {
    sequence::scatter((place as u64) << 16 | phase as u64)
}
