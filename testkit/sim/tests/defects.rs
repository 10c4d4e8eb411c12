//! How sharp the simulator is: stores that break one rule of the contract each, found by some seed. What is missing
//! here costs only time (hints, leases), is out of these programs' reach (entities, queries), or is hidden by
//! identity on purpose (a message sent twice is applied once), or by the core, which judges again (an answer for another
//! run: the planted bug `stale-execution` takes away both protections).

use dauer_memory::Defect;
use dauer_sim::Config;
use dauer_sim::batch::cores;
use dauer_sim::hunt::hunt;

/// How many seeds a defect may hide from.
const SEEDS: u64 = 1_000;

const FOUND: [Defect; 27] = [
    Defect::AcceptRepeatInInbox,
    Defect::CompleteTwice,
    Defect::EndedDropsWhatFollowsAStart,
    Defect::EndedHidesStart,
    Defect::EndedKeepsMessages,
    Defect::ExistsIgnored,
    Defect::FusedTaskStays,
    Defect::Lifo,
    Defect::LoseMessages,
    Defect::LoseTasks,
    Defect::LoseTimers,
    Defect::MemoryClearedByReplace,
    Defect::MemoryOff,
    Defect::NoEpochCheck,
    Defect::PrologueAfterInbox,
    Defect::PurgeLiving,
    Defect::PurgeTakesWaitingStart,
    Defect::RecallForgets,
    Defect::RemovalForgetsStart,
    Defect::RemovalKeepsEpochFloor,
    Defect::RemovalKeepsRevisionFloor,
    Defect::RenewBumpsEpoch,
    Defect::RepeatNamesOwnExecution,
    Defect::RepeatedStartCreatesAgain,
    Defect::ReplaceKeepsInbox,
    Defect::ReplaceResetsRevision,
    Defect::StaleGet,
];

#[test]
fn broken_stores_are_found() {
    let mut missed = Vec::new();
    for defect in FOUND {
        let config = Config { defect: Some(defect), ..Config::default() };
        match hunt(&config, SEEDS, cores()) {
            Some(outcome) => eprintln!("{defect:?}: seed {}: {}", outcome.seed, outcome.violations[0]),
            None => missed.push(defect),
        }
    }
    assert!(missed.is_empty(), "no seed below {SEEDS} finds {missed:?}");
}
