//! One turn: load what is not known, decide what the messages are worth, execute, make the checkpoint.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use dauer_core::ledger::Ledger;
use dauer_core::model::{Checkpoint, Completion, Deaths, Details, Record, Trouble, TroubleKind};
use dauer_core::planted::{self, Bug};
use dauer_core::turn::{self, Finished, Input, Plan, Stalled};
use dauer_proto::{HistoryEvent, failure};
use dauer_store::{ClaimedTurn, Fence, Item, Refused};

use super::cache::Entry;
use super::suspects::counted;
use crate::executor::{Attempt, Past, Receipt, TurnDone, TurnWork, Unfinished};
use crate::holding::Holding;
use crate::session::Session;

/// A turn that is ready to be committed. Shared: it goes through many hands, and the store works on the same one that is
/// kept for another try.
pub(super) struct Prepared {
    pub(super) checkpoint: Arc<Checkpoint>,
    /// The details that the instance has after it.
    pub(super) details: Details,
    /// What to remember once it is committed.
    pub(super) entry: Option<Box<Entry>>,
    /// Dropped when the commit is settled.
    pub(super) receipt: Option<Receipt>,
}

/// How far a turn has come at once.
pub(super) enum Progress {
    /// To its end.
    Done(Result<Prepared, Setback>),
    /// It has to wait: for its history, or for its worker.
    Waits(BoxFuture<'static, Result<Prepared, Setback>>),
}

/// Why a turn did not come to a checkpoint.
pub(super) enum Setback {
    /// The turn cannot run now.
    Stalled(Stalled),
    /// The store refused to give the history.
    Refused(Refused),
    /// Nobody here can run it now.
    Returned(Duration),
}

impl From<Stalled> for Setback {
    fn from(stalled: Stalled) -> Self {
        Self::Stalled(stalled)
    }
}

impl From<Unfinished> for Setback {
    fn from(unfinished: Unfinished) -> Self {
        match unfinished {
            Unfinished::Stalled(stalled) => Self::Stalled(stalled),
            Unfinished::Returned { delay } => Self::Returned(delay),
            Unfinished::Poison(deaths) => Self::Stalled(killer(counted(deaths))),
        }
    }
}

impl From<dauer_core::ledger::LedgerError> for Setback {
    fn from(error: dauer_core::ledger::LedgerError) -> Self {
        Self::Stalled(error.into())
    }
}

/// Takes one turn of a claimed instance, with the results of tasks that this host holds. Most turns wait for nothing,
/// and then no future is made.
pub(super) fn take(
    session: &Arc<Session>,
    claimed: ClaimedTurn,
    completions: Vec<Completion>,
    cached: Option<Box<Entry>>,
) -> Progress {
    let Entry { ledger, past, .. } = match cached {
        Some(entry) => *entry,
        None => {
            let Fence { instance, execution, revision, .. } = &claimed.fence;
            let ledger = Ledger::new(instance.clone(), *execution);
            Entry { revision: *revision, ledger, past: Past::History(Vec::new()) }
        }
    };
    let expected = claimed.record.history_len;
    match past {
        // Live is only ever a hit as it is: there is nothing to catch up with.
        Past::History(events) if ledger.events() != expected => {
            let session = Arc::clone(session);
            let caught_up = async move {
                let (ledger, events) = catch_up(&session, &claimed, (ledger, events)).await?;
                match begin(&session, claimed, completions, (ledger, Past::History(events))) {
                    Progress::Done(result) => result,
                    Progress::Waits(rest) => rest.await,
                }
            };
            Progress::Waits(caught_up.boxed())
        }
        past => begin(session, claimed, completions, (ledger, past)),
    }
}

fn begin(
    session: &Arc<Session>,
    claimed: ClaimedTurn,
    completions: Vec<Completion>,
    (ledger, past): (Ledger, Past),
) -> Progress {
    let ClaimedTurn { fence, record, messages, now, .. } = claimed;
    let now = if planted::is_on(Bug::HostClock) { session.env.now() } else { now };
    let (given_up, poison) = (given_up(session, &record), poison(session, &record));
    // As the store counts them. The plan of a new run has another record.
    let (deaths, stalled) = (record.deaths, stalled_as_poison(&record));
    let plan = match turn::begin(Input { fence, record, messages, completions, now }, &ledger) {
        Ok(plan) => plan,
        Err(stalled) => return Progress::Done(Err(stalled.into())),
    };
    if plan.is_rewind() {
        return Progress::Done(obey(plan, &ledger, past));
    }
    if !plan.is_run() {
        let settled = turn::settle(plan, ledger).map(|finished| prepared(finished, Some(past)));
        return Progress::Done(settled.map_err(Setback::from));
    }
    if let Some(stalled) = poison {
        return Progress::Done(Err(stalled.into()));
    }
    if let Some(trouble) = given_up {
        let text = format!("gave up after {} attempts: {}", trouble.attempts, trouble.reason);
        let details = failure::failure(kind_name(trouble.kind), text).non_retriable();
        let failed = turn::fail(plan, ledger, details).map(|finished| prepared(finished, None));
        return Progress::Done(failed.map_err(Setback::from));
    }
    run(session, plan, ledger, past, (deaths, stalled))
}

/// A run that has ended is never live, so that its history is at hand.
fn obey(plan: Plan, ledger: &Ledger, past: Past) -> Result<Prepared, Setback> {
    let Past::History(events) = past else {
        let text = "a run that has ended is kept live; run this instance on another host";
        return Err(Stalled::new(TroubleKind::InvalidAnswer, text).into());
    };
    let mut finished = turn::obey(plan, ledger, &events)?;
    let events = std::mem::take(&mut finished.events);
    Ok(prepared(finished, Some(Past::History(events))))
}

fn run(
    session: &Arc<Session>,
    plan: Plan,
    ledger: Ledger,
    past: Past,
    (deaths, stalled): (Deaths, u32),
) -> Progress {
    let past = if plan.is_fresh() { Past::History(Vec::new()) } else { past };
    let instance = ledger.instance().clone();
    let holding = (!session.executor.runs_code()).then(|| {
        let poison_from = session.options.trial_deaths_max.saturating_add(stalled);
        Holding::new(session, Item::Turn(plan.fence().clone()), poison_from)
    });
    let record = Record { deaths, ..plan.record().clone() };
    let work = TurnWork { instance, record, past, new: plan.new_events(), holding };
    match session.executor.turn_at_once(work) {
        Attempt::Done(done) => {
            Progress::Done(finish(session, plan, ledger, done.map_err(Unfinished::Stalled)))
        }
        Attempt::Later(work) => {
            let session = Arc::clone(session);
            let rest = async move {
                let done = session.executor.turn(*work).await;
                finish(&session, plan, ledger, done)
            };
            Progress::Waits(rest.boxed())
        }
    }
}

fn finish(
    session: &Session,
    plan: Plan,
    ledger: Ledger,
    done: Result<TurnDone, Unfinished>,
) -> Result<Prepared, Setback> {
    let TurnDone { answer, live, mut past, receipt, build } = done?;
    let finished = turn::finish(plan, ledger, answer, &session.options.limits);
    let mut finished = finished.map_err(|stalled| stalled.of_build(build))?;
    let past = match live {
        Some(live) => Past::Live(live),
        None => {
            past.append(&mut finished.events);
            Past::History(past)
        }
    };
    Ok(Prepared { receipt, ..prepared(finished, Some(past)) })
}

/// What is worth remembering: nothing of a run that has ended, and no future of one that has been replaced.
fn prepared(finished: Finished, past: Option<Past>) -> Prepared {
    let Finished { checkpoint, details, ledger, .. } = finished;
    let revision = checkpoint.fence.revision.next();
    let begun = ledger.events() > 0;
    let past = match past {
        Some(past) if begun => past,
        _ => Past::History(Vec::new()),
    };
    let keep = !checkpoint.record.status.is_ended();
    let entry = keep.then(|| Box::new(Entry { revision, ledger, past }));
    Prepared { checkpoint: Arc::new(checkpoint), details, entry, receipt: None }
}

/// Reads what of the history is not known yet.
async fn catch_up(
    session: &Session,
    claimed: &ClaimedTurn,
    (mut ledger, mut events): (Ledger, Vec<HistoryEvent>),
) -> Result<(Ledger, Vec<HistoryEvent>), Setback> {
    let expected = claimed.record.history_len;
    let mut next = (ledger.events() < expected).then(|| ledger.events());
    while let Some(from) = next {
        let max_bytes = session.options.history_page_bytes;
        let slice = session.work.load_history(&claimed.fence, from, max_bytes).await;
        let slice = slice.map_err(Setback::Refused)?;
        for batch in &slice.batches {
            events.extend(ledger.absorb(batch)?);
        }
        next = slice.next;
    }
    if ledger.events() != expected {
        let text = format!("the history has {} events where {expected} are recorded", ledger.events());
        return Err(Stalled::new(TroubleKind::Undecodable, text).into());
    }
    Ok((ledger, events))
}

/// The trouble of an instance that a setting says has been tried often enough.
fn given_up(session: &Session, record: &Record) -> Option<Trouble> {
    let trouble = record.trouble.as_deref()?;
    let max = session.options.trouble.attempts_max(trouble.kind)?;
    (trouble.attempts >= max).then(|| trouble.clone())
}

/// Why a turn is not run: too many workers died in its trials. Each time that it is stalled for this, it may run once more.
pub(super) fn poison(session: &Session, record: &Record) -> Option<Stalled> {
    let deaths = counted(record.deaths);
    let allowed = session.options.trial_deaths_max.saturating_add(stalled_as_poison(record));
    (deaths >= allowed).then(|| killer(deaths))
}

/// How often the turn was stalled as poison. Each time it may run once more.
fn stalled_as_poison(record: &Record) -> u32 {
    record.trouble.as_ref().map_or(0, |trouble| trouble.attempts_of(TroubleKind::HostDied))
}

/// Of a turn whose workers died in its trials.
fn killer(deaths: u32) -> Stalled {
    let text = format!(
        "{deaths} processes died when this turn had begun and nothing else; mend its code: the turn is tried again \
         after a rest"
    );
    Stalled::new(TroubleKind::HostDied, text)
}

fn kind_name(kind: TroubleKind) -> &'static str {
    match kind {
        TroubleKind::Mismatch => "NonDeterminism",
        TroubleKind::Panic => "Panic",
        TroubleKind::UnknownName => "UnknownName",
        TroubleKind::Undecodable => "Undecodable",
        TroubleKind::NotDurable => "NotDurable",
        TroubleKind::InvalidAnswer => "InvalidAnswer",
        TroubleKind::TooLarge => "TooLarge",
        TroubleKind::HostDied => "HostDied",
        _ => "Trouble",
    }
}
