//! SQLite against the memory store in lock-step, with a disk that fails after a countdown, a store that is closed, and a
//! process that dies. A case that fails is shrunk to the fewest and smallest steps; it then belongs below, under a name.
//!
//! `DAUER_MODEL_CASES` and `DAUER_MODEL_SEED` make longer and other runs.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

mod lockstep;
mod support;

use std::cell::Cell;

use dauer_power_vfs::{Access, Failure, Fault};
use lockstep::op::{Op, Step, Trouble, Turn, case};
use lockstep::{Lockstep, Met};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use support::run;

/// Cases of a run that nobody asked to be longer: some ten seconds.
const CASES: u32 = 200;

/// Steps of a case: enough for a few turns of a few instances, and few enough to be read when one fails.
const STEPS_MAX: usize = 40;

/// What a run must have met to say anything.
const MET_MIN: u64 = 5;

fn number(name: &str, otherwise: u32) -> u32 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

fn play(memory: u8, steps: &[Step]) -> Met {
    run(async {
        let mut both = Lockstep::begin(memory).await;
        for step in steps {
            both.step(step).await;
        }
        both.end()
    })
}

#[test]
fn sqlite_follows_the_model_while_its_disk_fails() {
    let seed = number("DAUER_MODEL_SEED", 1).to_be_bytes().repeat(8);
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let config =
        Config { cases: number("DAUER_MODEL_CASES", CASES), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, random);
    let all = Cell::new(Met::default());
    let outcome = runner.run(&case(STEPS_MAX), |(memory, steps)| {
        let met = play(memory, &steps);
        let sum = all.get();
        all.set(Met {
            known: sum.known + met.known,
            not_executed: sum.not_executed + met.not_executed,
            unknown_happened: sum.unknown_happened + met.unknown_happened,
            unknown_not_happened: sum.unknown_not_happened + met.unknown_not_happened,
            ghosts: sum.ghosts + met.ghosts,
            opened: sum.opened + met.opened,
            not_opened: sum.not_opened + met.not_opened,
            failed: sum.failed + met.failed,
        });
        Ok(())
    });
    let met = all.get();
    if let Err(error) = outcome {
        panic!("{error}\nbefore that: {met:?}");
    }
    eprintln!("{met:?}");
    for (what, count) in [
        ("answers", met.known),
        ("calls that did not happen", met.not_executed),
        ("unknown outcomes that had happened", met.unknown_happened),
        ("unknown outcomes that had not happened", met.unknown_not_happened),
        ("files opened again", met.opened),
        ("files that did not open", met.not_opened),
    ] {
        assert!(count >= MET_MIN, "only {count} {what}: {met:?}");
    }
}

fn well(op: Op) -> Step {
    Step { op, trouble: None }
}

/// With the first sync meanwhile failing.
fn unsynced(op: Op) -> Step {
    let fault = Fault { access: Access::Sync, after: 0, count: 1, failure: Failure::Broken };
    Step { op, trouble: Some(Trouble::Disk(fault)) }
}

/// With the disk full from the first write on.
fn full(op: Op) -> Step {
    let fault = Fault { access: Access::ChangeOrSync, after: 0, count: u32::MAX, failure: Failure::Full };
    Step { op, trouble: Some(Trouble::Disk(fault)) }
}

fn unanswered(op: Op) -> Step {
    Step { op, trouble: Some(Trouble::LostAnswer) }
}

/// A turn that schedules two tasks and takes one of them.
fn turn() -> Vec<Turn> {
    vec![Turn { kind: 0, tasks: 2, take: 1, text: 2, messages: 1 }]
}

#[test]
fn a_start_whose_sync_failed_is_not_there_until_another_process_finds_it_in_the_log() {
    let met = play(
        0,
        &[unsynced(Op::Create(0)), well(Op::ClaimTurns(0)), unsynced(Op::Create(1)), well(Op::Crash)],
    );
    assert_eq!((met.unknown_not_happened, met.ghosts), (2, 1), "{met:?}");
    // Once something else was written, it is gone for good.
    let met = play(0, &[unsynced(Op::Create(0)), well(Op::Create(1)), well(Op::Crash)]);
    assert_eq!((met.unknown_not_happened, met.ghosts), (1, 0), "{met:?}");
}

#[test]
fn a_commit_in_doubt_is_settled_by_sending_it_again() {
    for (doubtful, happened) in [(unsynced(Op::Commit(0, turn())), 0), (unanswered(Op::Commit(0, turn())), 1)]
    {
        for memory in 0..3 {
            let before = [well(Op::Create(0)), well(Op::ClaimTurns(0))];
            let after =
                [well(Op::CommitAgain(0)), well(Op::Complete(0)), well(Op::ClaimTasks(1)), well(Op::Reopen)];
            let steps: Vec<Step> = before.into_iter().chain([doubtful.clone()]).chain(after).collect();
            let met = play(memory, &steps);
            assert_eq!((met.unknown_happened, met.unknown_not_happened), (happened, 1 - happened), "{met:?}");
        }
    }
}

#[test]
fn a_claim_in_doubt_is_answered_by_the_next_one() {
    for doubtful in [unsynced(Op::ClaimTurns(0)), unanswered(Op::ClaimTurns(0))] {
        let steps = [well(Op::Create(0)), doubtful, well(Op::ClaimTurns(0)), well(Op::Commit(0, turn()))];
        let met = play(0, &steps);
        assert_eq!(met.unknown_happened + met.unknown_not_happened, 1, "{met:?}");
    }
}

#[test]
fn a_full_disk_refuses_every_write_and_takes_nothing_with_it() {
    let writes = [Op::Create(1), Op::Send(vec![(0, 2), (0, 3)]), Op::Commit(0, turn()), Op::Renew(0)];
    let before = [well(Op::Create(0)), well(Op::ClaimTurns(0))];
    let refused = writes.into_iter().map(full);
    let after = [well(Op::CommitAgain(0)), well(Op::Crash)];
    let met = play(0, &before.into_iter().chain(refused).chain(after).collect::<Vec<_>>());
    assert_eq!(met.not_executed + met.unknown_not_happened, 5, "one of them has two elements: {met:?}");
    assert_eq!((met.unknown_happened, met.ghosts), (0, 0), "{met:?}");
}
