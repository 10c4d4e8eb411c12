//! `dauer bench history`: one orchestration of many turns, and what a late one costs beside an early one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dauer::ActivityContext;
use serde::Serialize;

use super::place::Place;
use super::process;
use super::report::{self, Lines, Setting};
use super::sequence::audit;
use super::statistics::{count, median, ratio, rounded};
use super::workload::{self, Running, SEQUENCE, STEP, Sequence, Value};
use super::{Common, Error, Program};

/// Turns whose median is one figure: enough that a stray stall of the disk vanishes.
const SPAN: usize = 100;

/// The turn that is early: its history has some length, and everything is warm.
const EARLY: usize = 100;

/// How many times the cost of an early turn a late one may have.
const RATIO_MAX: f64 = 1.5;

/// What to measure.
#[derive(clap::Args, Clone)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// So many turns.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..=60_000))]
    turns: u32,
}

#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    #[serde(flatten)]
    setting: Setting,
    turns: u32,
    early_turn: usize,
    early_turn_ms: f64,
    late_turn: usize,
    late_turn_ms: f64,
    ratio: f64,
    within_ratio: bool,
    early_turn_cpu_ms: f64,
    late_turn_cpu_ms: f64,
    cpu_ratio: f64,
    seconds: f64,
    peak_rss_bytes: Option<u64>,
    audited: u64,
}

/// When an activity began: by the clock, and in processor time of the process.
type Moment = (Instant, Duration);

pub(super) async fn run(arguments: Arguments, program: &Program) -> Result<(), Error> {
    let place = Place::new(arguments.common.store.as_deref())?;
    let setting = Setting::look(&arguments.common, program, &place)?;
    let hub = dauer::open(&place.url(0, true))?;
    let moments: Arc<Mutex<Vec<Moment>>> = Arc::default();
    let noted = Arc::clone(&moments);
    let worker =
        workload::orchestrations(hub.worker()).activity(STEP, move |_: ActivityContext, value: Value| {
            let moment = (Instant::now(), process::processor_time());
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(moment);
            async move { Ok(Value { number: value.number + 1, ..value }) }
        });
    let running = Running::start(worker)?;
    process::forget_peak();
    // The last turn calls nothing, so there is one more turn than activities.
    let input = Sequence { activities: arguments.turns - 1, value: Value::new(0, 0) };
    report::progress(&arguments.common, &format!("{} turns", arguments.turns));
    let began = Instant::now();
    let handle = hub.client().start(SEQUENCE, &input).id("history").await?;
    let output = handle.output().await?;
    let seconds = began.elapsed().as_secs_f64();
    workload::check("history", &output, &workload::sequence_output(&input))?;
    let peak = process::peak_bytes();
    running.stop().await?;
    let audited = audit(&hub).await?;
    hub.close().await;
    let moments = std::mem::take(&mut *moments.lock().unwrap_or_else(PoisonError::into_inner));
    let costs = costs(&moments);
    let (early, late) = (span(&costs, EARLY), span(&costs, costs.len()));
    let growth = ratio(late.cost.0, early.cost.0);
    let figures = Figures {
        bench: "history",
        setting,
        turns: arguments.turns,
        early_turn: early.turn,
        early_turn_ms: rounded(early.cost.0, 4),
        late_turn: late.turn,
        late_turn_ms: rounded(late.cost.0, 4),
        ratio: rounded(growth, 3),
        within_ratio: growth <= RATIO_MAX,
        early_turn_cpu_ms: rounded(early.cost.1, 4),
        late_turn_cpu_ms: rounded(late.cost.1, 4),
        cpu_ratio: rounded(ratio(late.cost.1, early.cost.1), 3),
        seconds: rounded(seconds, 3),
        peak_rss_bytes: peak,
        audited,
    };
    report::show(&arguments.common, &figures, &lines(&figures))
}

/// What each turn cost, in milliseconds by the clock and of processor: the time from one activity to the next.
fn costs(moments: &[Moment]) -> Vec<(f64, f64)> {
    let between = |pair: &[Moment]| {
        let clock = pair[1].0.saturating_duration_since(pair[0].0);
        let processor = pair[1].1.saturating_sub(pair[0].1);
        (clock.as_secs_f64() * 1000.0, processor.as_secs_f64() * 1000.0)
    };
    moments.windows(2).map(between).collect()
}

/// The medians of the turns around one.
struct Span {
    turn: usize,
    cost: (f64, f64),
}

/// At most [`SPAN`] turns with `turn` in their middle, as far as there are any: at the end, those before it.
fn span(costs: &[(f64, f64)], turn: usize) -> Span {
    let length = SPAN.min(costs.len());
    let from = turn.saturating_sub(length / 2).min(costs.len() - length);
    let part = &costs[from..from + length];
    let mut clock: Vec<f64> = part.iter().map(|cost| cost.0).collect();
    let mut processor: Vec<f64> = part.iter().map(|cost| cost.1).collect();
    Span { turn: from + length / 2, cost: (median(&mut clock), median(&mut processor)) }
}

fn lines(figures: &Figures) -> Lines {
    let mut lines = Lines::default();
    figures.setting.lines(&mut lines);
    lines.text(format!("one orchestration of {} turns, one activity each", figures.turns));
    let turn = |number: usize| format!("turn {number}");
    let what = |cpu: f64| format!("median of {SPAN} turns around it; {cpu:.3} ms of processor");
    let Figures { early_turn, late_turn, early_turn_ms, late_turn_ms, .. } = figures;
    lines.line(&turn(*early_turn), format!("{early_turn_ms:.3} ms"), &what(figures.early_turn_cpu_ms));
    lines.line(&turn(*late_turn), format!("{late_turn_ms:.3} ms"), &what(figures.late_turn_cpu_ms));
    let growth =
        format!("late by early; processor alone {:.2}; at most {RATIO_MAX} is wanted", figures.cpu_ratio);
    lines.line("ratio", format!("{:.2}", figures.ratio), &growth);
    let each = 1000.0 * ratio(figures.seconds, count(u64::from(figures.turns)));
    lines.line("all", format!("{:.2} s", figures.seconds), &format!("{each:.3} ms a turn on average"));
    lines.maybe("peak memory", figures.peak_rss_bytes.map(report::megabytes), "resident");
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_turn_in_the_middle_and_stays_inside() {
        let costs: Vec<(f64, f64)> = (0..1000).map(|turn| (f64::from(turn), 1.0)).collect();
        let early = span(&costs, 100);
        assert_eq!((early.turn, early.cost), (100, (99.5, 1.0)));
        let late = span(&costs, 1000);
        assert_eq!((late.turn, late.cost), (950, (949.5, 1.0)));
        let short = span(&costs[..8], 100);
        assert_eq!((short.turn, short.cost.0), (4, 3.5));
    }

    #[test]
    fn a_turn_costs_the_time_between_two_activities() {
        let (now, ms) = (Instant::now(), Duration::from_millis);
        let moments = [(now, ms(10)), (now + ms(5), ms(11)), (now + ms(7), ms(13))];
        assert_eq!(costs(&moments), [(5.0, 1.0), (2.0, 2.0)]);
        assert!(costs(&moments[..1]).is_empty());
    }
}
