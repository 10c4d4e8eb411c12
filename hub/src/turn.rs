//! One turn: load what is not known, decide what the messages are worth, execute, make the checkpoint.

use dauer_core::ledger::Ledger;
use dauer_core::model::{Checkpoint, Record, Trouble, TroubleKind};
use dauer_core::turn::{self, Finished, Input, Plan, Stalled};
use dauer_proto::failure;
use dauer_store::{ClaimedTurn, Fence, Refused};

use crate::cache::Entry;
use crate::executor::{Past, TurnDone, TurnWork};
use crate::session::Session;

/// A turn that is ready to be committed.
pub(crate) struct Prepared {
    pub(crate) checkpoint: Checkpoint,
    /// What to remember once it is committed.
    pub(crate) entry: Option<Entry>,
}

/// Why a turn did not come to a checkpoint.
pub(crate) enum Setback {
    /// The turn cannot run now.
    Stalled(Stalled),
    /// The store refused to give the history.
    Refused(Refused),
}

impl From<Stalled> for Setback {
    fn from(stalled: Stalled) -> Self {
        Self::Stalled(stalled)
    }
}

impl From<dauer_core::ledger::LedgerError> for Setback {
    fn from(error: dauer_core::ledger::LedgerError) -> Self {
        Self::Stalled(error.into())
    }
}

/// Takes one turn of a claimed instance.
pub(crate) async fn take(
    session: &Session,
    claimed: ClaimedTurn,
    cached: Option<Entry>,
) -> Result<Prepared, Setback> {
    let (ledger, past) = catch_up(session, &claimed, cached).await?;
    let ClaimedTurn { fence, record, messages, now, .. } = claimed;
    let given_up = given_up(session, &record);
    let plan = turn::begin(Input { fence, record, messages, completions: Vec::new(), now }, &ledger)?;
    if !plan.is_run() {
        let finished = turn::settle(plan, ledger)?;
        return Ok(prepared(finished, Some(past)));
    }
    if let Some(trouble) = given_up {
        let text = format!("gave up after {} attempts: {}", trouble.attempts, trouble.reason);
        let details = failure::failure(kind_name(trouble.kind), text).non_retriable();
        return Ok(prepared(turn::fail(plan, ledger, details)?, None));
    }
    run(session, plan, ledger, past).await
}

async fn run(session: &Session, plan: Plan, ledger: Ledger, past: Past) -> Result<Prepared, Setback> {
    let past = if plan.is_fresh() { Past::History(Vec::new()) } else { past };
    let instance = ledger.instance().clone();
    let work = TurnWork { instance, record: plan.record().clone(), past, new: plan.new_events() };
    let TurnDone { answer, live, mut past } = session.executor.turn(work).await?;
    let mut finished = turn::finish(plan, ledger, answer, &session.options.limits)?;
    let past = match live {
        Some(live) => Past::Live(live),
        None => {
            past.append(&mut finished.events);
            Past::History(past)
        }
    };
    Ok(prepared(finished, Some(past)))
}

/// What is worth remembering: nothing of a run that has ended, and no future of one that has been replaced.
fn prepared(finished: Finished, past: Option<Past>) -> Prepared {
    let Finished { checkpoint, ledger, .. } = finished;
    let revision = checkpoint.fence.revision.next();
    let begun = ledger.events() > 0;
    let past = match past {
        Some(past) if begun => past,
        _ => Past::History(Vec::new()),
    };
    let keep = !checkpoint.record.status.is_ended();
    Prepared { entry: keep.then_some(Entry { revision, ledger, past }), checkpoint }
}

/// Reads what of the history is not known yet.
async fn catch_up(
    session: &Session,
    claimed: &ClaimedTurn,
    cached: Option<Entry>,
) -> Result<(Ledger, Past), Setback> {
    let fence: &Fence = &claimed.fence;
    let (mut ledger, mut events) = match cached {
        Some(Entry { ledger, past: Past::History(events), .. }) => (ledger, events),
        // Live is only ever a hit as it is: there is nothing to catch up with.
        Some(Entry { ledger, past, .. }) => return Ok((ledger, past)),
        None => (Ledger::new(fence.instance.clone(), fence.execution), Vec::new()),
    };
    let expected = claimed.record.history_len;
    let mut next = (ledger.events() < expected).then(|| ledger.events());
    while let Some(from) = next {
        let slice = session.work.load_history(fence, from, session.options.history_page_bytes).await;
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
    Ok((ledger, Past::History(events)))
}

/// The trouble of an instance that a setting says has been tried often enough.
fn given_up(session: &Session, record: &Record) -> Option<Trouble> {
    // Attempts without a trouble on record: the hosts that had it died before they could say anything.
    let died = Trouble {
        kind: TroubleKind::HostDied,
        reason: "every host that ran this turn died with it".into(),
        since: record.times.updated,
        attempts: 0,
    };
    let trouble = record.trouble.as_ref().unwrap_or(&died);
    let max = session.options.trouble.attempts_max(trouble.kind)?;
    (record.attempts >= max).then(|| Trouble { attempts: record.attempts, ..trouble.clone() })
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
