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
use dauer_core::model::{Checkpoint, History, Kind, Status, Then, Trouble, TroubleKind};
use dauer_core::turn::Stalled;
use dauer_store::{Cause, ClaimedTurn, Committed, Fence, Hint, Item, Record, Refused, Release};

use crate::cache::Cache;
use crate::demand::Demand;
use crate::session::{Session, Stop};
use crate::turn::{self, Prepared, Setback};

/// A turn whose checkpoint waits for the store's word.
struct Pending {
    ticket: Ticket,
    prepared: Prepared,
    /// The store once did not know the outcome; what is cached of the instance is dropped in the end.
    unknown: bool,
    attempts: u32,
}

impl Pending {
    fn instance(&self) -> &InstanceId {
        &self.prepared.checkpoint.fence.instance
    }
}

/// One claim of one instance, from the moment it is handed out until this host is done with it.
type Ticket = u64;

enum Step {
    Hinted,
    Woken,
    Claimed(Result<Vec<ClaimedTurn>, Refused>),
    Idle(Option<Duration>),
    Turned {
        ticket: Ticket,
        fence: Fence,
        record: Box<Record>,
        suspect: bool,
        result: Box<Result<Prepared, Setback>>,
    },
    Committed(Vec<(Pending, Result<Committed, Refused>)>),
    Again(Box<Pending>),
    Released(InstanceId, Ticket),
    Stopped,
}

struct Turns {
    session: Arc<Session>,
    cache: Cache,
    steps: FuturesUnordered<BoxFuture<'static, Step>>,
    ready: Vec<Pending>,
    suspects: VecDeque<(Ticket, ClaimedTurn)>,
    suspect_runs: bool,
    /// The instances in flight, each with its current claim. A later claim of the same instance settles whatever the
    /// earlier one was still waiting for: what became of it is in the claimed record. Every step of an earlier claim
    /// is ignored, so that at most one commit per instance is in flight (rule 3).
    current: BTreeMap<InstanceId, Ticket>,
    tickets: Ticket,
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
        current: BTreeMap::new(),
        tickets: 0,
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
        self.session.is_over() || self.stopping && self.current.is_empty()
    }

    fn begin_what_can(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        let batch: Vec<_> = ready.into_iter().filter(|p| self.is_current(p.instance(), p.ticket)).collect();
        if !batch.is_empty() {
            let session = Arc::clone(&self.session);
            self.steps.push(commit(session, batch).boxed());
        }
        while !self.suspect_runs
            && let Some((ticket, claimed)) = self.suspects.pop_front()
        {
            if self.is_current(&claimed.fence.instance, ticket) {
                self.suspect_runs = true;
                self.begin(ticket, claimed, true);
            }
        }
        let free = self.session.options.turns_max.saturating_sub(self.current.len());
        if self.demand.begin(!self.stopping && free > 0) {
            self.steps.push(claim(Arc::clone(&self.session), free).boxed());
        }
    }

    fn is_current(&self, instance: &InstanceId, ticket: Ticket) -> bool {
        self.current.get(instance) == Some(&ticket)
    }

    /// This host is done with a claim.
    fn finish(&mut self, instance: &InstanceId) {
        self.current.remove(instance);
        self.demand.room();
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Hinted => self.demand.hint(),
            Step::Woken => self.demand.wake(),
            Step::Claimed(result) => self.claimed(result),
            Step::Idle(due) => self.idle(due),
            Step::Turned { ticket, fence, record, suspect, result } => {
                if suspect {
                    self.suspect_runs = false;
                }
                if self.is_current(&fence.instance, ticket) {
                    match *result {
                        Ok(prepared) => self.prepared(ticket, prepared),
                        Err(setback) => self.setback(ticket, fence, &record, setback),
                    }
                }
            }
            Step::Committed(results) => {
                for (pending, result) in results {
                    if self.is_current(pending.instance(), pending.ticket) {
                        self.committed(pending, result);
                    }
                }
            }
            Step::Again(pending) => self.ready.push(*pending),
            Step::Released(instance, ticket) => {
                if self.is_current(&instance, ticket) {
                    self.finish(&instance);
                }
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
                    self.tickets += 1;
                    self.current.insert(claimed.fence.instance.clone(), self.tickets);
                    if claimed.record.attempts >= self.session.options.suspect_attempts {
                        self.suspects.push_back((self.tickets, claimed));
                    } else {
                        self.begin(self.tickets, claimed, false);
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

    fn begin(&mut self, ticket: Ticket, claimed: ClaimedTurn, suspect: bool) {
        let cached = self.cache.take(&claimed.fence.instance, &claimed.record);
        let session = Arc::clone(&self.session);
        let (fence, record) = (claimed.fence.clone(), Box::new(claimed.record.clone()));
        let turn = async move {
            let result = Box::new(turn::take(&session, claimed, cached).await);
            Step::Turned { ticket, fence, record, suspect, result }
        };
        self.steps.push(turn.boxed());
    }

    fn prepared(&mut self, ticket: Ticket, mut prepared: Prepared) {
        // The next run begins with its prologue, which is there: the session goes on with it. All else that may wait
        // is claimed again, by whoever has room.
        let next_run =
            matches!(&prepared.checkpoint.history, History::Replace { prologue, .. } if !prologue.is_empty());
        if next_run && prepared.checkpoint.record.status == Status::Running {
            prepared.checkpoint.then = Then::Keep;
        }
        self.ready.push(Pending { ticket, prepared, unknown: false, attempts: 0 });
    }

    fn committed(&mut self, pending: Pending, result: Result<Committed, Refused>) {
        match result {
            Ok(committed) => self.continued(pending, committed),
            Err(Refused::Fenced) => {
                let instance = pending.instance();
                tracing::warn!(%instance, "a turn was fenced: another host has the instance");
                self.finish(&instance.clone());
            }
            Err(refused @ (Refused::Unknown(_) | Refused::NotExecuted(_))) => {
                // The same again: the store answers whether it had happened (rule 3).
                let unknown = pending.unknown || matches!(refused, Refused::Unknown(_));
                let attempts = pending.attempts + 1;
                let delay = self.session.retry_delay(attempts).min(self.session.options.poll_max);
                let again = Box::new(Pending { unknown, attempts, ..pending });
                self.steps.push(self.session.sleep(delay).map(|()| Step::Again(again)).boxed());
            }
            Err(refused) => {
                let kind = match refused {
                    Refused::TooLarge(_) => TroubleKind::TooLarge,
                    _ => TroubleKind::Undecodable,
                };
                let setback = Setback::Stalled(Stalled::new(kind, refused.to_string()));
                let Checkpoint { fence, record, .. } = pending.prepared.checkpoint;
                self.setback(pending.ticket, fence, &record, setback);
            }
        }
    }

    fn continued(&mut self, pending: Pending, committed: Committed) {
        let Pending { ticket, prepared: Prepared { checkpoint, entry }, unknown, .. } = pending;
        let Checkpoint { fence, mut record, .. } = checkpoint;
        if let Some(entry) = entry.filter(|_| !unknown) {
            self.cache.put(fence.instance.clone(), entry);
        }
        let Committed { revision, arrived: messages, now, .. } = committed;
        if messages.is_empty() {
            return self.finish(&fence.instance);
        }
        record.revision = revision;
        record.times.updated = now;
        let fence = Fence { execution: record.execution, revision, ..fence };
        let claimed = ClaimedTurn { fence, record, messages, more: false, history: None, now };
        self.begin(ticket, claimed, false);
    }

    fn setback(&mut self, ticket: Ticket, fence: Fence, record: &Record, setback: Setback) {
        let stalled = match setback {
            Setback::Stalled(stalled) => stalled,
            Setback::Refused(refused @ Refused::Corrupt(_)) => {
                Stalled::new(TroubleKind::Undecodable, refused.to_string())
            }
            Setback::Refused(refused) => {
                // The store is in trouble, not the instance: give it back without blame.
                tracing::warn!(instance = %fence.instance, error = %refused, "a history could not be loaded");
                return self.release(ticket, fence, None);
            }
        };
        let Stalled { kind, reason } = stalled;
        tracing::warn!(instance = %fence.instance, ?kind, %reason, "a turn is stalled; it is tried again");
        let attempts = record.attempts + 1;
        let trouble = Trouble { kind, reason, since: self.session.env.now(), attempts };
        self.release(ticket, fence, Some(trouble));
    }

    fn release(&mut self, ticket: Ticket, fence: Fence, trouble: Option<Trouble>) {
        self.cache.forget(&fence.instance);
        let attempts = trouble.as_ref().map_or(1, |trouble| trouble.attempts);
        let delay = self.session.retry_delay(attempts);
        let failed = trouble.is_some();
        let (session, instance) = (Arc::clone(&self.session), fence.instance.clone());
        let release = Release { item: Item::Turn(fence), delay, trouble, failed };
        let released = async move {
            session.give_back(release).await;
            Step::Released(instance, ticket)
        };
        self.steps.push(released.boxed());
    }
}

async fn claim(session: Arc<Session>, free: usize) -> Step {
    if !session.may_claim() {
        return Step::Claimed(Err(Refused::NotExecuted(Cause::new("the session could not be renewed"))));
    }
    let claimed = session.work.claim_turns(session.want(free)).await;
    if matches!(claimed, Err(Refused::NotExecuted(_))) {
        // The store may hold the session for expired, after a jump of its clock, say: a renewal mends that.
        session.renew().await;
    }
    Step::Claimed(claimed)
}

async fn commit(session: Arc<Session>, batch: Vec<Pending>) -> Step {
    let checkpoints = batch.iter().map(|pending| pending.prepared.checkpoint.clone()).collect();
    let results = session.work.commit_turns(checkpoints).await;
    Step::Committed(batch.into_iter().zip(results).collect())
}
