//! Benchmarks of the pure crates: what a turn costs, and that a live turn's cost does not grow with its history.
//!
//! `cargo run --release -p dauer-bench`. Each figure is the median of three runs, beside a bare limit measured in the
//! same run: encoding and decoding the same events without any engine.

mod instance;

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use dauer_core::model::Encoded;
use dauer_proto::HistoryEvent;

use instance::Bench;

/// Turns measured per run: enough that the clock's resolution and a stray interrupt vanish.
const TURNS: u32 = 20_000;

/// Runs per figure; the median is reported.
const RUNS: usize = 3;

/// A turn into a checkpoint may cost so much on a history of five events (issue 2).
const TURN_NANOS_MAX: u128 = 10_000;

/// A live turn on the longest history may cost so many times what it costs on the shortest. The work is the same; what
/// is left for noise and colder caches is a factor of two.
const GROWTH_MAX: f64 = 2.0;

fn main() -> Result<(), Box<dyn Error>> {
    let out = &mut io::stdout().lock();
    let turn = turn_to_checkpoint(out)?;
    let growth = live_turns(out)?;
    writeln!(out)?;
    if turn > TURN_NANOS_MAX || growth > GROWTH_MAX {
        return Err(
            format!("over the target: {turn} ns (at most {TURN_NANOS_MAX}), growth {growth:.2}").into()
        );
    }
    writeln!(
        out,
        "within the targets: turn {turn} ns of {TURN_NANOS_MAX}, growth {growth:.2} of {GROWTH_MAX}"
    )?;
    Ok(())
}

/// begin + finish on a history of five events: one task answered, the next scheduled.
fn turn_to_checkpoint(out: &mut impl Write) -> Result<u128, Box<dyn Error>> {
    let bench = Bench::with_history(5)?;
    let nanos = median(|| {
        let began = Instant::now();
        for _ in 0..TURNS {
            black_box(bench.turn()?);
        }
        Ok(began.elapsed().as_nanos() / u128::from(TURNS))
    })?;
    let events = bench.sample_events();
    let bare = median(|| {
        let began = Instant::now();
        for _ in 0..TURNS {
            black_box(bare(&events)?);
        }
        Ok(began.elapsed().as_nanos() / u128::from(TURNS))
    })?;
    writeln!(out, "one turn into a checkpoint, history of 5 events: {nanos} ns")?;
    writeln!(
        out,
        "the same events encoded and decoded, no engine:  {bare} ns (ratio {:.1})",
        ratio(nanos, bare)
    )?;
    Ok(nanos)
}

fn bare(events: &[HistoryEvent]) -> Result<usize, Box<dyn Error>> {
    let mut bytes = 0;
    for event in events {
        let encoded = Encoded::new(event);
        bytes += encoded.len();
        black_box(encoded.event()?);
    }
    Ok(bytes)
}

/// A whole turn of a live instance (begin, code, finish) on ever longer histories.
fn live_turns(out: &mut impl Write) -> Result<f64, Box<dyn Error>> {
    writeln!(out, "\na live turn (begin, user code, finish) by length of history:")?;
    let mut first = None;
    let mut last = 1.0;
    for events in [10_u32, 100, 1_000, 10_000, 100_000] {
        let nanos = median(|| Bench::with_history(events)?.run(TURNS / 10))?;
        let base = *first.get_or_insert(nanos);
        last = ratio(nanos, base);
        writeln!(out, "{events:>8} events  {nanos:>8} ns  {last:>5.2} times the shortest")?;
    }
    Ok(last)
}

fn median(mut run: impl FnMut() -> Result<u128, Box<dyn Error>>) -> Result<u128, Box<dyn Error>> {
    let mut runs = (0..RUNS).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
    runs.sort_unstable();
    Ok(runs[RUNS / 2])
}

#[allow(clippy::cast_precision_loss)] // Nanoseconds of a few digits.
fn ratio(part: u128, whole: u128) -> f64 {
    part as f64 / whole.max(1) as f64
}
