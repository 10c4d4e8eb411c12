//! The loop that claims, takes and commits turns: one explicit state, one kind of input at a time.
//!
//! Whatever is under way is a future in one set, and each ends as one [`Step`]. All steps that are ready are taken
//! before anything new is begun, so that checkpoints made together are committed together.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};

use dauer_core::InstanceId;
use dauer_core::model::{Checkpoint, History, Kind, Then, Trouble, TroubleKind};
use dauer_core::turn::Stalled;
use dauer_store::{Cause, ClaimedTurn, Committed, Fence, Hint, Item, Record, Refused, Release};

use crate::cache::Cache;
use crate::demand::Demand;
use crate::session::{Session, Stop};
use crate::turn::{self, Prepared, Setback};

/// A turn whose checkpoint waits for the store's word.
struct Pending {
    prepared: Prepared,
    /// The store once did not know the outcome; what is cached of the instance is dropped in the end.
    unknown: bool,
    attempts: u32,
    /// Which retry this is, in [`Turns::doubtful`]; 0 before the first.
    ticket: u64,
}

enum Step {
    Hinted,
    Woken,
    Claimed(Result<Vec<ClaimedTurn>, Refused>),
    Idle(Option<Duration>),
    Turned {
        fence: Fence,
        record: Box<Record>,
        more: bool,
        suspect: bool,
        result: Box<Result<Prepared, Setback>>,
    },
    Committed(Vec<(Pending, Result<Committed, Refused>)>),
    Again(Box<Pending>),
    Released,
    Stopped,
}

struct Turns {
    session: Arc<Session>,
    cache: Cache,
    steps: FuturesUnordered<BoxFuture<'static, Step>>,
    ready: Vec<Pending>,
    suspects: VecDeque<ClaimedTurn>,
    suspect_runs: bool,
    /// Instances whose last commit is to be sent again. A new claim of one settles the matter: what the old commit
    /// did is in the claimed record, and the retry is dropped, so that at most one commit per instance is in flight.
    doubtful: BTreeMap<InstanceId, u64>,
    tickets: u64,
    in_flight: usize,
    demand: Demand,
    stopping: bool,
}

/// Claims and commits turns until told to stop, then finishes what is in flight.
pub(crate) async fn run(session: Arc<Session>, stop: Stop) {
    let cache = Cache::new(session.options.cache_instances_max);
    let steps = FuturesUnordered::new();
    let mut turns = Turns {
        cache,
        steps,
        ready: Vec::new(),
        suspects: VecDeque::new(),
        suspect_runs: false,
        doubtful: BTreeMap::new(),
        tickets: 0,
        in_flight: 0,
        demand: Demand::new(),
        stopping: false,
        session,
    };
    turns.steps.push(stop.map(|()| Step::Stopped).boxed());
    let mut hints = turns.session.work.changes().fuse();
    loop {
        if turns.is_done() {
            return;
        }
        turns.begin_what_can();
        let step = futures::select_biased! {
            step = turns.steps.select_next_some() => step,
            hint = hints.select_next_some() => match hint {
                Hint::Ready(Kind::Orchestration | Kind::Entity) => Step::Hinted,
                _ => continue,
            },
        };
        turns.take(step);
        // All that is ready now goes into the same batch.
        while let Some(Some(step)) = turns.steps.next().now_or_never() {
            turns.take(step);
        }
    }
}

impl Turns {
    fn is_done(&self) -> bool {
        self.session.is_over() || self.stopping && self.in_flight == 0 && self.ready.is_empty()
    }

    fn begin_what_can(&mut self) {
        if !self.ready.is_empty() {
            let batch = std::mem::take(&mut self.ready);
            let session = Arc::clone(&self.session);
            self.steps.push(commit(session, batch).boxed());
        }
        if !self.suspect_runs
            && let Some(claimed) = self.suspects.pop_front()
        {
            self.suspect_runs = true;
            self.begin(claimed, true);
        }
        let free = self.session.options.turns_max.saturating_sub(self.in_flight);
        if self.demand.begin(!self.stopping && free > 0) {
            self.steps.push(claim(Arc::clone(&self.session), free).boxed());
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Hinted => self.demand.hint(),
            Step::Woken => self.demand.wake(),
            Step::Claimed(result) => self.claimed(result),
            Step::Idle(due) => self.idle(due),
            Step::Turned { fence, record, more, suspect, result } => {
                if suspect {
                    self.suspect_runs = false;
                }
                match *result {
                    Ok(prepared) => self.prepared(prepared, more),
                    Err(setback) => self.setback(fence, &record, setback),
                }
            }
            Step::Committed(results) => {
                for (pending, result) in results {
                    self.committed(pending, result);
                }
            }
            Step::Again(pending) if self.is_settled(&pending) => {}
            Step::Again(pending) => self.ready.push(*pending),
            Step::Released => {
                self.in_flight -= 1;
                self.demand.ask();
            }
            Step::Stopped => self.stopping = true,
        }
    }

    fn claimed(&mut self, result: Result<Vec<ClaimedTurn>, Refused>) {
        self.demand.end(matches!(&result, Ok(claimed) if !claimed.is_empty()));
        match result {
            Ok(claimed) if claimed.is_empty() => self.ask_when(),
            Ok(claimed) => {
                for claimed in claimed {
                    if self.doubtful.remove(&claimed.fence.instance).is_none() {
                        self.in_flight += 1;
                    }
                    if claimed.record.attempts >= self.session.options.suspect_attempts {
                        self.suspects.push_back(claimed);
                    } else {
                        self.begin(claimed, false);
                    }
                }
            }
            Err(Refused::Fenced) => self.session.end(),
            Err(refused) => {
                tracing::warn!(error = %refused, "turns could not be claimed; trying again");
                self.idle(None);
            }
        }
    }

    fn ask_when(&mut self) {
        let session = Arc::clone(&self.session);
        let ask =
            async move { Step::Idle(session.work.next_due(&session.executor.queues()).await.ok().flatten()) };
        self.steps.push(ask.boxed());
    }

    fn idle(&mut self, due: Option<Duration>) {
        let sleep = self.demand.idle(&self.session, due);
        self.steps.extend(sleep.map(|sleep| sleep.map(|()| Step::Woken).boxed()));
    }

    fn begin(&mut self, claimed: ClaimedTurn, suspect: bool) {
        let cached = self.cache.take(&claimed.fence.instance, &claimed.record);
        let session = Arc::clone(&self.session);
        let (fence, record, more) = (claimed.fence.clone(), Box::new(claimed.record.clone()), claimed.more);
        let turn = async move {
            let result = Box::new(turn::take(&session, claimed, cached).await);
            Step::Turned { fence, record, more, suspect, result }
        };
        self.steps.push(turn.boxed());
    }

    fn prepared(&mut self, mut prepared: Prepared, more: bool) {
        let continued = matches!(prepared.checkpoint.history, History::Replace { ref prologue, .. } if !prologue.is_empty());
        if more || continued {
            prepared.checkpoint.then = Then::Keep;
        }
        self.ready.push(Pending { prepared, unknown: false, attempts: 0, ticket: 0 });
    }

    fn committed(&mut self, pending: Pending, result: Result<Committed, Refused>) {
        if self.is_settled(&pending) {
            return;
        }
        let instance = pending.prepared.checkpoint.fence.instance.clone();
        self.doubtful.remove(&instance);
        match result {
            Ok(committed) => self.continued(pending, committed),
            Err(Refused::Fenced) => {
                tracing::warn!(%instance, "a turn was fenced: another host has the instance");
                self.in_flight -= 1;
                self.demand.ask();
            }
            Err(refused @ (Refused::Unknown(_) | Refused::NotExecuted(_))) => {
                // The same again: the store answers whether it had happened (rule 3).
                let unknown = pending.unknown || matches!(refused, Refused::Unknown(_));
                let attempts = pending.attempts + 1;
                let delay = self.session.retry_delay(attempts).min(self.session.options.poll_max);
                self.tickets += 1;
                self.doubtful.insert(instance, self.tickets);
                let again = Box::new(Pending { unknown, attempts, ticket: self.tickets, ..pending });
                self.steps.push(self.session.sleep(delay).map(|()| Step::Again(again)).boxed());
            }
            Err(refused) => {
                let Checkpoint { fence, record, .. } = pending.prepared.checkpoint;
                let kind = match refused {
                    Refused::TooLarge(_) => TroubleKind::TooLarge,
                    _ => TroubleKind::Undecodable,
                };
                self.setback(fence, &record, Setback::Stalled(Stalled::new(kind, refused.to_string())));
            }
        }
    }

    /// Whether a claim has settled what this retry was to find out.
    fn is_settled(&self, pending: &Pending) -> bool {
        let instance = &pending.prepared.checkpoint.fence.instance;
        pending.ticket > 0 && self.doubtful.get(instance) != Some(&pending.ticket)
    }

    fn continued(&mut self, pending: Pending, committed: Committed) {
        let Pending { prepared: Prepared { checkpoint, entry }, unknown, .. } = pending;
        let Checkpoint { fence, mut record, then, history, .. } = checkpoint;
        let kept = then == Then::Keep;
        let entry = entry.filter(|_| !unknown);
        if !kept {
            self.in_flight -= 1;
            if let Some(entry) = entry {
                self.cache.put(fence.instance, entry);
            }
            return;
        }
        record.revision = committed.revision;
        record.times.updated = committed.now;
        grown(&mut record, &history);
        let fence = Fence { execution: record.execution, revision: committed.revision, ..fence };
        if let Some(entry) = entry {
            self.cache.put(fence.instance.clone(), entry);
        }
        let Committed { arrived: messages, now, .. } = committed;
        if messages.is_empty() {
            // What was there is not for now (the instance was suspended, say): anyone may have it when it is.
            self.give_back(Release {
                item: Item::Turn(fence),
                delay: Duration::ZERO,
                trouble: None,
                failed: false,
            });
            return;
        }
        self.begin(ClaimedTurn { fence, record, messages, more: false, history: None, now }, false);
    }

    fn setback(&mut self, fence: Fence, record: &Record, setback: Setback) {
        let stalled = match setback {
            Setback::Stalled(stalled) => stalled,
            Setback::Refused(refused @ Refused::Corrupt(_)) => {
                Stalled::new(TroubleKind::Undecodable, refused.to_string())
            }
            Setback::Refused(refused) => {
                // The store is in trouble, not the instance: give it back without blame.
                tracing::warn!(instance = %fence.instance, error = %refused, "a history could not be loaded");
                return self.release(fence, None);
            }
        };
        let Stalled { kind, reason } = stalled;
        tracing::warn!(instance = %fence.instance, ?kind, %reason, "a turn is stalled; it is tried again");
        let attempts = record.attempts + 1;
        self.release(fence, Some(Trouble { kind, reason, since: self.session.env.now(), attempts }));
    }

    fn release(&mut self, fence: Fence, trouble: Option<Trouble>) {
        self.cache.forget(&fence.instance);
        let attempts = trouble.as_ref().map_or(1, |trouble| trouble.attempts);
        let delay = self.session.retry_delay(attempts);
        let failed = trouble.is_some();
        self.give_back(Release { item: Item::Turn(fence), delay, trouble, failed });
    }

    fn give_back(&mut self, release: Release) {
        let session = Arc::clone(&self.session);
        self.steps.push(give_back(session, release).map(|()| Step::Released).boxed());
    }
}

/// The record a kept instance goes on with; the store has set the same.
fn grown(record: &mut Record, history: &History) {
    let batches = match history {
        History::Append(batch) => std::slice::from_ref(batch),
        History::Replace { batches, .. } => {
            (record.history_len, record.history_bytes) = (0, 0);
            batches.as_slice()
        }
    };
    for batch in batches {
        record.history_len += batch.count;
        record.history_bytes += batch.events.len() as u64;
    }
}

async fn claim(session: Arc<Session>, free: usize) -> Step {
    if !session.may_claim() {
        return Step::Claimed(Err(Refused::NotExecuted(Cause::new("the session could not be renewed"))));
    }
    Step::Claimed(session.work.claim_turns(session.want(free)).await)
}

async fn commit(session: Arc<Session>, batch: Vec<Pending>) -> Step {
    let checkpoints = batch.iter().map(|pending| pending.prepared.checkpoint.clone()).collect();
    let results = session.work.commit_turns(checkpoints).await;
    Step::Committed(batch.into_iter().zip(results).collect())
}

/// Gives an item back; if the store does not take it, the end of the session will.
async fn give_back(session: Arc<Session>, release: Release) {
    for attempts in 1..=3 {
        let results = session.work.release(vec![release.clone()]).await;
        match results.into_iter().next() {
            Some(Err(Refused::NotExecuted(_) | Refused::Unknown(_))) => {
                session.sleep(session.retry_delay(attempts)).await;
            }
            _ => return,
        }
    }
}
