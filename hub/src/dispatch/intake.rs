//! Learning of work: credit, the one wait, and the recall after a lost answer.
//!
//! Invariants:
//! - One call of `next`, or one recall, or one rest is in progress. A call of `next` is never dropped while the session lives.
//! - The store has the credit `sent`. While the host rests or recalls, that is none.
//! - Numbers below `first` are recalled, or all that they won was received. A recall names the numbers from `first` on.

use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;

use dauer_core::model::{Queues, Tags};
use dauer_core::planted::{self, Bug};
use dauer_store::{Amount, Cause, Credit, Next, Recalled, Refused, Steady, Until};

use super::room::Grant;
use super::{Dispatch, Step};
use crate::options::{EXPLAIN_BUSY, EXPLAINED_MAX, NUMBER_WINS_MAX};
use crate::session::Session;

/// What the host waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// For nothing: it asks next.
    Nothing,
    Next,
    Recall,
    /// The store was in trouble.
    Rest,
}

pub(super) struct Intake {
    waiting: Waiting,
    /// Of the current credit.
    number: u64,
    /// See the invariants.
    first: u64,
    /// The number and size of the credit that the store has.
    sent: Option<(u64, Grant)>,
    /// An answer was lost: what it contained is recalled before anything else.
    is_lost: bool,
    /// The next call looks once.
    looks_once: bool,
    /// Refused calls in a row.
    failures: u32,
    /// The last call found nothing.
    is_quiet: bool,
    /// The credit is for what the executor can only say something about.
    explains: bool,
    explained_at: Steady,
}

impl Intake {
    pub(super) fn new(now: Steady) -> Self {
        Self {
            waiting: Waiting::Nothing,
            number: 1,
            first: 1,
            sent: None,
            is_lost: false,
            looks_once: false,
            failures: 0,
            is_quiet: false,
            explains: false,
            explained_at: now,
        }
    }

    /// The rest is over.
    pub(super) fn rested(&mut self) {
        self.waiting = Waiting::Nothing;
    }

    fn next_number(&mut self, first: u64) {
        self.first = first;
        self.number += 1;
    }
}

impl Dispatch {
    /// Renews the credit, and asks the store for what it wins.
    pub(super) fn ask(&mut self) {
        let load = self.load();
        if self.room.refresh(&*self.session.executor, load) {
            self.intake.sent = None;
        }
        let idle = self.intake.waiting == Waiting::Nothing && !self.stopping;
        if idle && self.intake.is_lost {
            return self.recall();
        }
        if self.stopping || !idle && self.intake.waiting != Waiting::Next {
            return self.credit(Grant::default());
        }
        let env = &self.session.env;
        let (grant, timer) = self.room.grant(load, || env.steady());
        let grant = if self.suspects.is_full(env.steady()) { Grant::default() } else { grant };
        if let Some(until) = timer {
            self.wait_for_tasks(until);
        }
        if !idle {
            // The call that looks for what it can only explain has credit of its own.
            if !self.intake.explains {
                self.credit(grant);
            }
            return;
        }
        if self.wins.received() >= NUMBER_WINS_MAX {
            self.wins.next_number();
            self.intake.next_number(self.intake.number);
        }
        match self.explained(grant) {
            Some(queues) => self.explain(grant, queues),
            None => self.credit(grant),
        }
        self.intake.waiting = Waiting::Next;
        let once = std::mem::take(&mut self.intake.looks_once);
        self.steps.push(next(Arc::clone(&self.session), once).boxed());
    }

    /// The executor does not run what it was given. The credit follows at once: before that is given back, or the session would
    /// win it again.
    pub(super) fn ask_for_less(&mut self) {
        self.room.executor_changed();
        self.ask();
    }

    pub(super) fn wait_for_tasks(&mut self, until: Steady) {
        self.steps.push(self.session.env.sleep_until(until).map(|()| Step::RanOut).boxed());
    }

    /// Sets the credit, unless the store has just this one.
    fn credit(&mut self, grant: Grant) {
        let sent = Some((self.intake.number, grant));
        if self.intake.sent != sent {
            self.intake.sent = sent;
            self.send_credit(grant, self.room.queues().clone());
        }
    }

    fn send_credit(&self, grant: Grant, queues: Queues) {
        let bytes = self.session.options.claim_bytes_max;
        let amount = |count| Amount { count, bytes };
        let (turns, tasks) = (amount(grant.turns), amount(grant.tasks));
        self.session.work.credit(Credit {
            number: self.intake.number,
            first: self.intake.first,
            turns,
            tasks,
            queues,
            tags: Tags::new(),
        });
    }

    /// The queues of what no host seems to be able to run, if it is time to look for it. A host that is at rest looks at every
    /// poll.
    fn explained(&mut self, grant: Grant) -> Option<Queues> {
        let (now, pause) = (self.session.env.steady(), self.session.options.poll_max);
        let pause = if self.intake.is_quiet { pause } else { pause * EXPLAIN_BUSY };
        if grant.turns == 0 || now.since(self.intake.explained_at) < pause {
            return None;
        }
        self.intake.explained_at = now;
        self.session.executor.explains()
    }

    /// Has the next call look once for a few turns of those queues.
    fn explain(&mut self, grant: Grant, queues: Queues) {
        (self.intake.explains, self.intake.looks_once, self.intake.sent) = (true, true, None);
        self.send_credit(Grant { turns: grant.turns.min(EXPLAINED_MAX), ..grant }, queues);
    }

    fn recall(&mut self) {
        self.credit(Grant::default());
        self.intake.waiting = Waiting::Recall;
        let (session, first, last) = (Arc::clone(&self.session), self.intake.first, self.intake.number);
        self.steps.push(async move { Step::Recalled(session.work.recall(first, last).await) }.boxed());
    }

    pub(super) fn returned(&mut self, result: Result<Next, Refused>) {
        self.intake.waiting = Waiting::Nothing;
        if std::mem::take(&mut self.intake.explains) {
            // Before anything is given back that this host can only explain: it would win it again.
            self.credit(Grant::default());
        }
        match result {
            Ok(next) => {
                (self.intake.failures, self.intake.is_quiet) = (0, next.is_empty());
                if !next.turns.is_empty() || !next.tasks.is_empty() {
                    // They have spent their credit.
                    self.intake.sent = None;
                }
                self.won(next.turns, next.tasks);
                next.mail.into_iter().for_each(|instance| self.mail_waits(instance));
            }
            Err(refused) => {
                self.intake.is_lost |= matches!(refused, Refused::Unknown(_));
                self.not_asked(&refused);
            }
        }
    }

    pub(super) fn recalled(&mut self, result: Result<Recalled, Refused>) {
        self.intake.waiting = Waiting::Nothing;
        match result {
            Ok(Recalled { turns, tasks }) => {
                tracing::info!(
                    turns = turns.len(),
                    tasks = tasks.len(),
                    "the wins of a lost answer were recalled"
                );
                let intake = &mut self.intake;
                // The lost answer may have named mail: a look names it again.
                (intake.is_lost, intake.looks_once, intake.failures) = (false, true, 0);
                intake.next_number(intake.number + 1);
                self.won_again(turns, tasks);
            }
            Err(refused) => self.not_asked(&refused),
        }
    }

    /// The store did not answer as it should: it is asked again after a rest.
    fn not_asked(&mut self, refused: &Refused) {
        if matches!(refused, Refused::Fenced) {
            return self.session.end();
        }
        tracing::error!(error = %refused, "the store could not be asked for work; trying again");
        self.intake.failures += 1;
        self.intake.waiting = Waiting::Rest;
        let delay = self.session.retry_delay(self.intake.failures).min(self.session.options.poll_max);
        self.steps.push(self.session.sleep(delay).map(|()| Step::RestOver).boxed());
    }
}

/// Asks for what was won. The session is renewed first when its lease has run out by this host's clock, or when the wall clock
/// has leapt: the store's clock may have leapt with it. It is renewed afterwards when the store refuses, which may hold the
/// session for expired. The call ends with the lease: a host that cannot renew takes no more.
async fn next(session: Arc<Session>, once: bool) -> Step {
    if (session.lease_left().is_zero() || session.wall_clock_leapt()) && !session.renew().await {
        let cause = Cause::new("the session could not be renewed");
        return Step::Next(Err(Refused::NotExecuted(cause)));
    }
    let poll = match planted::is_on(Bug::NoPolling) {
        true => Duration::from_secs(u64::from(u32::MAX)),
        false => session.options.poll_max.min(session.lease_left()),
    };
    let until = if once { Until::Once } else { Until::At(&*session.env, session.env.steady().after(poll)) };
    let found = session.work.next(until).await;
    if matches!(found, Err(Refused::NotExecuted(_))) {
        session.renew().await;
    }
    Step::Next(found)
}
