//! The storm of migrations: several processes open a copy of a golden file of an older format at once, and some of them
//! are killed while they do. Whoever is left finds all that was in it, in the current format, and so does the next.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauer_audit::{Evidence, Settings, Snapshot, audit};
use dauer_sim::random::Random;
use dauer_sqlite::{ManualClock, SqliteStore};
use dauer_store::{DumpItem, HubName, Message, Payload, StoredBatch, Timestamp};
use rusqlite::Connection;
use serde::Serialize;

use crate::error::Error;
use crate::opener::Opening;
use crate::preload::failing_disk;
use crate::verify;
use crate::{folder, say, tidy_up};

/// The hub in the golden files.
const HUB: &str = "golden";

/// When the golden files were written, by their own clock: a dump says what time it is.
const WRITTEN_AT: Timestamp = Timestamp(1_700_000_000_000);

/// Kills come within this part more than the longest undisturbed opening took: some find it open already.
const LATE: f64 = 1.2;

/// Changes that the opening of a golden file is sure not to need.
const POINTS_MAX: u64 = 2_000;

/// The undisturbed openings of each file that tell how long one takes.
const CALM_ROUNDS: u64 = 2;

/// What is asked for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Migrate {
    /// Processes that open each copy at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=64))]
    processes: u64,
    /// Copies of each golden file.
    #[arg(long, default_value_t = 50)]
    rounds: u64,
    /// Kill also one that opens a copy alone, before each change that it makes to a file.
    #[arg(long)]
    points: bool,
    /// Decides who is killed, and when.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the golden files are, each with a text that says what is in it.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../stores/sqlite/tests/golden"))]
    golden: PathBuf,
    /// Where to put the copies; a new folder of the system's temporary one if not given. Kept when the verdict is red.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// A negative control: an instance is taken from the file after it was migrated.
    #[arg(long, hide = true)]
    damage: bool,
}

/// What came of it. The names are those of the JSON.
#[derive(Debug, Default, Serialize)]
struct Figures {
    processes: u64,
    seed: u64,
    /// The format of new files.
    current_format: i64,
    /// Changes of a file before which a process was killed that opened one alone, and those of them before it was open.
    points: u64,
    points_before_open: u64,
    /// Copies by golden file.
    copies: BTreeMap<String, u64>,
    openings: u64,
    kills: u64,
    /// Those of them that found the process before it had the file open.
    kills_while_opening: u64,
    /// Copies of older formats whose processes were all killed.
    copies_left_alone: u64,
    /// Those of these that were then still of their old format, or already of the current one.
    left_old: u64,
    left_current: u64,
    opening_ms_longest: u128,
    instances_compared: u64,
    audit_checked: u64,
    duration_ms: u128,
    wrong: Vec<String>,
    verdict: String,
}

/// A golden file.
struct Golden {
    name: String,
    file: PathBuf,
    text: String,
    /// What the auditor finds in it.
    found: OnceCell<Vec<String>>,
}

impl Migrate {
    /// All of it; whether the verdict is clean.
    pub(crate) async fn run(self) -> Result<bool, Error> {
        let began = Instant::now();
        let folder = folder(self.folder.clone(), "migrate")?;
        let fresh = folder.join("new.db");
        SqliteStore::open(&fresh, dauer_sqlite::Options::default())?.close();
        let (processes, seed, current_format) = (self.processes, self.seed, format_of(&fresh)?);
        let mut figures = Figures { processes, seed, current_format, ..Figures::default() };
        for golden in self.goldens()? {
            self.every_point(&golden, &folder, &mut figures).await?;
            let mut longest = Duration::ZERO;
            for round in 0..CALM_ROUNDS + self.rounds {
                let mut random = Random::stream(self.seed, figures.copies.values().sum());
                *figures.copies.entry(golden.name.clone()).or_default() += 1;
                let place = folder.join(format!("{}-{round}", golden.name));
                std::fs::create_dir_all(&place)?;
                let file = place.join("hub.db");
                std::fs::copy(&golden.file, &file)?;
                let kill_within = (round >= CALM_ROUNDS).then(|| longest.mul_f64(LATE));
                let took = self.open(&file, (kill_within, &mut random), &mut figures)?;
                if kill_within.is_none() {
                    longest = longest.max(took);
                }
                figures.opening_ms_longest = figures.opening_ms_longest.max(took.as_millis());
                let wrong = self.judge(&golden, &file, &mut figures).await?;
                if wrong.is_empty() {
                    std::fs::remove_dir_all(&place)?;
                }
                figures.wrong.extend(wrong.into_iter().map(|what| format!("{}: {what}", place.display())));
            }
        }
        figures.duration_ms = began.elapsed().as_millis();
        figures.verdict = judge(&figures, self.rounds);
        let clean = figures.verdict == "clean";
        let text = if self.json { serde_json::to_string_pretty(&figures)? } else { table(&figures) };
        say(&text, &mut std::io::stdout());
        tidy_up(&folder, clean && self.folder.is_none());
        Ok(clean)
    }

    fn goldens(&self) -> Result<Vec<Golden>, Error> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.golden)? {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "db") {
                let text = std::fs::read_to_string(file.with_extension("txt"))?;
                let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                found.push(Golden { name, file, text, found: OnceCell::new() });
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Has all processes open the file at once, and kills some within that time. How long the slowest took that lived.
    fn open(
        &self,
        file: &Path,
        (kill_within, random): (Option<Duration>, &mut Random),
        figures: &mut Figures,
    ) -> Result<Duration, Error> {
        let before = format_of(file)?;
        let mut openings =
            (0..self.processes).map(|_| Opening::start(file, &[])).collect::<Result<Vec<_>, _>>()?;
        // Sometimes all of them, so that nobody is left to finish.
        let all = random.chance(3_000);
        let mut doomed: Vec<(Duration, usize)> = Vec::new();
        if let Some(within) = kill_within {
            let chosen = (0..openings.len()).filter(|_| all || random.chance(5_000)).collect::<Vec<_>>();
            doomed = chosen.into_iter().map(|index| (random.duration(within), index)).collect();
        }
        doomed.sort_unstable();
        let began = Instant::now();
        for opening in &mut openings {
            opening.go()?;
        }
        for (at, index) in &doomed {
            // Too short for a sleep to be exact.
            while began.elapsed() < *at {
                std::hint::spin_loop();
            }
            openings[*index].kill()?;
        }
        let mut longest = Duration::ZERO;
        figures.openings += self.processes;
        for (index, opening) in openings.into_iter().enumerate() {
            let killed = doomed.iter().any(|(_, doomed)| *doomed == index);
            let (opened, status) = opening.end()?;
            figures.kills += u64::from(killed);
            figures.kills_while_opening += u64::from(killed && opened.is_none());
            if !killed {
                longest = longest.max(opened.map_or(Duration::ZERO, |at| at.duration_since(began)));
                if opened.is_none() || !status.success() {
                    figures
                        .wrong
                        .push(format!("{}: one that lived could not open it: {status}", file.display()));
                }
            }
        }
        if doomed.len() as u64 == self.processes && before != figures.current_format {
            figures.copies_left_alone += 1;
            let old = format_of(file)? == before;
            *(if old { &mut figures.left_old } else { &mut figures.left_current }) += 1;
        }
        Ok(longest)
    }

    /// Kills a process that opens a copy, alone, before each of the system calls that change a file, up to the first
    /// that it does not come to.
    async fn every_point(&self, golden: &Golden, folder: &Path, figures: &mut Figures) -> Result<(), Error> {
        for point in 1..=if self.points { POINTS_MAX } else { 0 } {
            let (place, log) = (folder.join("point"), folder.join("records"));
            std::fs::create_dir_all(&place)?;
            // As the library sees it.
            let file = place.canonicalize()?.join("hub.db");
            std::fs::copy(&golden.file, &file)?;
            let environment = failing_disk(&place, &log, &format!("kill-before={point}"))?;
            let mut opening = Opening::start(&file, &environment)?;
            opening.go()?;
            let (opened, status) = opening.end()?;
            let wrong = self.judge(golden, &file, figures).await?;
            let label = format!("{}, killed before change {point}", golden.name);
            figures.wrong.extend(wrong.into_iter().map(|what| format!("{label}: {what}")));
            std::fs::remove_dir_all(&place)?;
            std::fs::remove_file(&log)?;
            if status.success() {
                return Ok(());
            }
            figures.points += 1;
            figures.points_before_open += u64::from(opened.is_none());
        }
        if self.points {
            figures.wrong.push(format!("{}: it was not open after {POINTS_MAX} changes", golden.name));
        }
        Ok(())
    }

    /// What is wrong with a file after that: it opens, is whole, and has all that its text says.
    async fn judge(&self, golden: &Golden, file: &Path, figures: &mut Figures) -> Result<Vec<String>, Error> {
        if self.damage {
            drop(SqliteStore::open(file, dauer_sqlite::Options::default())?);
            let database = Connection::open(file)?;
            database.execute("DELETE FROM instances WHERE key = (SELECT min(key) FROM instances)", [])?;
        }
        let clock = Arc::new(ManualClock::new(WRITTEN_AT));
        let store = SqliteStore::open(file, dauer_sqlite::Options { clock, ..Default::default() })?;
        // A short name is one.
        let hub = store.hub(HubName::new(HUB).unwrap_or_default());
        let mut items = Vec::new();
        let mut after = None;
        loop {
            let part = hub.dump(after).await?;
            items.extend(part.items);
            after = part.next;
            if after.is_none() {
                break;
            }
        }
        let mut wrong = Vec::new();
        if describe(&items) != golden.text {
            wrong.push("it does not have what its text says".to_owned());
        }
        let snapshot = Snapshot::from_items(items);
        figures.instances_compared += snapshot.instances.len() as u64;
        let report = audit(&snapshot, &Evidence { client: None, commits: None }, &Settings::default());
        figures.audit_checked += report.checked();
        // The golden files have something of everything, and not all of that could have happened: what the auditor finds
        // in an undisturbed one it may find in every one.
        let found = report.violations().map(|(invariant, found)| format!("{}: {found}", invariant.code()));
        let found: Vec<String> = found.collect();
        if golden.found.get_or_init(|| found.clone()) != &found {
            wrong.push(format!("the auditor finds something else than in an undisturbed one: {found:?}"));
        }
        store.close();
        wrong.extend(verify::integrity(file)?);
        Ok(wrong)
    }
}

/// The format that a file says it has.
fn format_of(file: &Path) -> Result<i64, Error> {
    let database = Connection::open(file)?;
    Ok(database.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

fn judge(figures: &Figures, rounds: u64) -> String {
    let mut faults = Vec::new();
    let mut demand = |holds: bool, fault: String| {
        if !holds {
            faults.push(fault);
        }
    };
    demand(figures.wrong.is_empty(), format!("{} things are wrong", figures.wrong.len()));
    demand(!figures.copies.is_empty() && figures.instances_compared > 0, "nothing was compared".into());
    let hit = figures.kills_while_opening > 0 || rounds == 0;
    demand(hit, "no kill found a process that was opening the file".into());
    if faults.is_empty() { "clean".to_owned() } else { format!("RED: {}", faults.join("; ")) }
}

/// Everything in a hub, with the bytes that a dump does not print: as the golden texts were written.
fn describe(items: &[DumpItem]) -> String {
    let mut text = String::new();
    let bytes = |bytes: &[u8]| -> String { String::from_utf8_lossy(bytes).escape_debug().collect() };
    for item in items {
        text += &format!("{item:#?}\n");
        match item {
            DumpItem::Instance(dump) => {
                let messages =
                    dump.prologue.iter().chain(&dump.inbox).map(|Message { event, .. }| event.stored());
                let batches = dump.history.iter().map(|StoredBatch { batch, .. }| batch.events.stored());
                for content in messages.chain(batches) {
                    text += &format!("bytes {}\n", bytes(content));
                }
                let details = &dump.record.details;
                let payloads = [details.custom_status(), details.output()];
                text += &format!("payloads {:?}\n", payloads.map(|p| p.map(Payload::as_str)));
            }
            DumpItem::Task(dump) => text += &format!("bytes {}\n", bytes(dump.task.event.stored())),
            _ => {}
        }
    }
    text
}

fn table(figures: &Figures) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| text += &format!("{name:<46} {value}\n");
    row("processes, seed", format!("{}, {}", figures.processes, figures.seed));
    row("current format", figures.current_format.to_string());
    row(
        "killed before each change, of them not yet open",
        format!("{}, {}", figures.points, figures.points_before_open),
    );
    row("copies", format!("{:?}", figures.copies));
    row("openings", figures.openings.to_string());
    row("kills, of them while opening", format!("{}, {}", figures.kills, figures.kills_while_opening));
    row(
        "copies left alone: of the old, current format",
        format!("{}: {}, {}", figures.copies_left_alone, figures.left_old, figures.left_current),
    );
    row("longest opening", format!("{} ms", figures.opening_ms_longest));
    row("instances compared", figures.instances_compared.to_string());
    row("audit checked", figures.audit_checked.to_string());
    row("duration", format!("{} ms", figures.duration_ms));
    for wrong in &figures.wrong {
        text += &format!("wrong: {wrong}\n");
    }
    text + &format!("storm of migrations: {}", figures.verdict)
}
