//! Power losses and failing disks at a few points of the work, and the controls that show what these runs can find.
//! `dauer-power run` and `dauer-power faults` do the same at hundreds of points.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use std::path::PathBuf;

use dauer_power::{Campaign, FaultCampaign, Figures, Plant, Setup};
use dauer_sqlite::Durability;

/// The first calls make the file, and the file's first names; from there on points are spread over all of the work.
const POINTS_FIRST: u64 = 4;
const POINTS_SPREAD: u64 = 16;

/// For each kind of fault.
const POINTS_FAULTS: u64 = 7;

/// For the heirs of processes that died with a failed sync: some of them die while they move the log into the file.
const POINTS_HEIRS: u64 = 45;

/// For the planted faults, which every run of a few points must find.
const POINTS_PLANTED: u64 = 6;

/// A folder of its own, removed with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("power-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn setup(&self, durability: Durability, plant: Option<Plant>) -> Setup {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_dauer-power"));
        Setup { program, place: self.0.canonicalize().unwrap(), durability, plant }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

fn power_losses(name: &str, durability: Durability) -> Figures {
    let place = Place::new(name);
    let setup = place.setup(durability, None);
    run(Campaign { setup, points: POINTS_FIRST, spread: POINTS_SPREAD, seed: 7 }.run()).unwrap()
}

fn planted(plant: Plant) -> Figures {
    let place = Place::new(&format!("{plant:?}"));
    let setup = place.setup(Durability::Full, Some(plant));
    run(Campaign { setup, points: 0, spread: POINTS_PLANTED, seed: 7 }.run()).unwrap()
}

#[test]
fn with_full_durability_a_power_loss_takes_nothing_that_was_acknowledged() {
    let figures = power_losses("full", Durability::Full);
    assert!(figures.is_clean(), "{figures}");
    assert!(figures.untouched * 4 < figures.children, "most children were never disturbed: {figures}");
}

#[test]
fn with_normal_durability_a_power_loss_takes_acknowledged_work_and_never_the_file() {
    let figures = power_losses("normal", Durability::Normal);
    assert!(figures.loses_and_stays_whole(), "{figures}");
}

#[test]
fn disks_that_fail_or_are_full_are_told_take_nothing_and_heal() {
    let place = Place::new("faults");
    let setup = place.setup(Durability::Full, None);
    let figures =
        run(FaultCampaign { setup, points: POINTS_FAULTS, seed: 7, heirs_die: false }.run()).unwrap();
    assert!(figures.is_clean(), "{figures}");
    assert!(figures.failed > 2 * POINTS_FAULTS, "hardly any call failed: {figures}");
    let answers = |how: &str| figures.refused.keys().any(|answer| answer.ends_with(how));
    assert!(answers("unknown") && answers("refused"), "the faults were not felt: {figures}");
}

#[test]
fn a_log_that_a_failed_sync_has_left_is_made_durable_before_it_is_believed() {
    let place = Place::new("heirs");
    let setup = place.setup(Durability::Full, None);
    let figures = run(FaultCampaign { setup, points: POINTS_HEIRS, seed: 1, heirs_die: true }.run()).unwrap();
    assert!(figures.is_clean(), "{figures}");
}

#[test]
fn a_store_that_answers_before_its_commit_would_be_found() {
    let figures = planted(Plant::Hasty);
    assert!(figures.lost > 0 && !figures.is_clean(), "{figures}");
}

#[test]
fn a_sync_that_is_skipped_would_be_found() {
    let figures = planted(Plant::LyingDisk);
    assert!(figures.lost > 0 && !figures.is_clean(), "{figures}");
}

#[test]
fn a_file_that_is_damaged_would_be_found() {
    let figures = planted(Plant::Damage);
    assert!(figures.wrong > 0 && !figures.is_clean(), "{figures}");
}
