//! The turns of the loop: each begins with messages, with results, or with both, and comes to a checkpoint or a
//! setback.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use dauer_core::model::{Checkpoint, Completion, History, Status, Task, Then, Trouble, TroubleKind};
use dauer_core::turn::Stalled;
use dauer_core::{InstanceId, Timestamp};
use dauer_store::{Fence, Item, Refused, Release};

use super::commits::Pending;
use super::hold::{Begin, Ticket};
use super::turn::{self, Prepared, Progress, Setback};
use super::{Dispatch, Step};

/// A turn that has come to its end.
pub(super) struct Turned {
    ticket: Ticket,
    fence: Fence,
    /// The trouble that the instance had before.
    before: Option<Box<Trouble>>,
    /// The results it was given; the checkpoint has those that it used.
    given: Vec<Completion>,
    result: Result<Prepared, Setback>,
}

/// Kept instances for which results wait.
#[derive(Default)]
pub(super) struct Due(Vec<InstanceId>);

impl Due {
    pub(super) fn add(&mut self, instance: InstanceId) {
        self.0.push(instance);
    }
}

impl Dispatch {
    /// Begins the turns that results wait for.
    pub(super) fn begin_due(&mut self) {
        if self.due.0.is_empty() {
            return;
        }
        // Turns that begin together begin at the same time.
        let now = self.clock.now(&*self.session.env);
        for instance in std::mem::take(&mut self.due.0) {
            match now {
                Some(now) => self.begin_kept(&instance, now),
                // A turn needs the store's time, and only an answer of the store tells it.
                None => self.give_up_due(&instance),
            }
        }
    }

    /// Begins the turn that results wait for, if the instance is kept and idle. During a trial the results go to the inbox: a death
    /// would take them along.
    pub(super) fn begin_kept(&mut self, instance: &InstanceId, now: Timestamp) {
        if self.suspects.is_closed() {
            return self.give_up_due(instance);
        }
        let bytes_max = self.session.options.claim_bytes_max;
        if let Some(begin) = self.slots.begin_due(instance, now, bytes_max) {
            self.begin(begin);
        }
    }

    /// The results that wait for the next turn of a kept instance go to its inbox.
    fn give_up_due(&mut self, instance: &InstanceId) {
        let results = self.slots.give_up_due(instance);
        self.answer_all(results);
        self.release_if_useless(instance);
    }

    pub(super) fn begin(&mut self, begin: Begin) {
        self.suspects.begins(self.session.env.steady());
        let Begin { ticket, claimed, completions, entry } = begin;
        let known = self.cache.take(&claimed.fence.instance, &claimed.record);
        let cached = entry.or(known);
        let (fence, before, given) =
            (claimed.fence.clone(), claimed.record.trouble.clone(), completions.clone());
        match turn::take(&self.session, claimed, completions, cached) {
            Progress::Done(result) => {
                self.turned(Turned { ticket, fence, before, given, result });
            }
            Progress::Waits(rest) => {
                let turned = rest.map(move |result| {
                    Step::Turned(Box::new(Turned { ticket, fence, before, given, result }))
                });
                self.steps.push(turned.boxed());
            }
        }
    }

    pub(super) fn turned(&mut self, turned: Turned) {
        let Turned { ticket, fence, before, given, result } = turned;
        self.suspects.turn_ended(ticket);
        if !self.slots.is_current(&fence.instance, ticket) {
            return self.answer_all(given);
        }
        match result {
            Ok(prepared) => self.prepared(ticket, given, prepared, before),
            Err(setback) => {
                self.answer_all(given);
                self.setback(ticket, fence, before.as_deref(), setback);
            }
        }
    }

    fn prepared(
        &mut self,
        ticket: Ticket,
        given: Vec<Completion>,
        prepared: Prepared,
        before: Option<Box<Trouble>>,
    ) {
        let Prepared { mut checkpoint, details, entry, receipt } = prepared;
        if given.len() > checkpoint.completions.len() {
            let used =
                |result: &Completion| checkpoint.completions.iter().any(|used| used.fence == result.fence);
            let left: Vec<_> = given.into_iter().filter(|result| !used(result)).collect();
            self.answer_all(left);
        }
        // Nobody else has it yet: nothing is copied.
        self.keep_or_release(Arc::make_mut(&mut checkpoint));
        self.slots.commits(&checkpoint.fence.instance, checkpoint.then == Then::Keep);
        self.tasks.take(checkpoint.take);
        let (unknown, attempts) = (false, 0);
        self.commit_soon(Pending { ticket, checkpoint, details, entry, receipt, before, unknown, attempts });
    }

    /// Decides what becomes of the instance after the commit. It is kept while tasks of it run here, for their results
    /// to go into its next turn; and when the next run begins with what is there. Otherwise whoever has room goes on.
    fn keep_or_release(&self, checkpoint: &mut Checkpoint) {
        // During a trial nothing can begin here.
        if checkpoint.record.status != Status::Running || self.suspects.is_closed() {
            return;
        }
        let keeps = match &checkpoint.history {
            History::Replace { prologue, .. } => {
                !prologue.is_empty() && !self.stopping && self.room.queues().admits(&checkpoint.record.queue)
            }
            History::Append(_) if !self.fuses => false,
            History::Append(_) => {
                checkpoint.take = self.take_of(checkpoint);
                let (instance, execution) = (&checkpoint.fence.instance, checkpoint.record.execution);
                checkpoint.take > 0 || self.slots.has_use_for(instance, execution)
            }
        };
        if keeps {
            checkpoint.then = Then::Keep;
        }
    }

    /// How many of the new tasks this host takes. Those that it can run come first: tasks of different queues have no
    /// order among each other, and their identities do not depend on it.
    fn take_of(&self, checkpoint: &mut Checkpoint) -> usize {
        if self.stopping {
            return 0;
        }
        // The results of this checkpoint make room with it.
        let free = self.room.for_tasks(self.load()) + checkpoint.completions.len();
        let can_run = |task: &Task| self.room.queues().admits(&task.queue);
        let runnable = checkpoint.tasks.iter().filter(|task| can_run(task)).count();
        if runnable > 0 && runnable < checkpoint.tasks.len() {
            checkpoint.tasks.sort_by_key(|task| !can_run(task));
        }
        runnable.min(free)
    }

    pub(super) fn setback(
        &mut self,
        ticket: Ticket,
        fence: Fence,
        before: Option<&Trouble>,
        setback: Setback,
    ) {
        let stalled = match setback {
            Setback::Stalled(stalled) => stalled,
            Setback::Returned(delay) => {
                self.ask_for_less();
                return self.release(ticket, fence, delay, None);
            }
            Setback::Refused(refused @ Refused::Corrupt(_)) => {
                Stalled::new(TroubleKind::Undecodable, refused.to_string())
            }
            Setback::Refused(refused) => {
                // The store is in trouble, not the instance: give it back without blame.
                tracing::error!(instance = %fence.instance, error = %refused, "a history could not be loaded");
                let delay = self.session.retry_delay(1);
                return self.release(ticket, fence, delay, None);
            }
        };
        let Stalled { kind, reason, build } = stalled;
        let attempts = before.map_or(0, |before| before.attempts_of(kind)).saturating_add(1);
        // Told ever more rarely: it may go on for months, and is in the record all the time.
        if attempts.is_power_of_two() {
            tracing::error!(instance = %fence.instance, ?kind, %reason, attempts, "a turn is stalled; it is tried again");
        }
        let build = build.or_else(|| self.session.build());
        let trouble = Trouble::new(kind, reason, self.session.env.now()).of_build(build);
        // This host does not ask for what it cannot run until it looks for such again; one that can need not wait.
        let waits_for_others = self.session.executor.explains().is_some();
        let delay = match kind {
            TroubleKind::UnknownName if waits_for_others => Duration::ZERO,
            TroubleKind::HostDied => self.session.options.poison_delay,
            _ => self.session.stalled_delay(attempts),
        };
        self.release(ticket, fence, delay, Some(trouble));
    }

    /// Gives an instance back; with a trouble it counts as a failed attempt. Results that wait for it go to its inbox.
    pub(super) fn release(
        &mut self,
        ticket: Ticket,
        fence: Fence,
        delay: Duration,
        trouble: Option<Trouble>,
    ) {
        let released = self.releasing(ticket, fence, delay, trouble);
        self.steps.push(released);
    }

    /// The same; the caller has it done.
    pub(super) fn releasing(
        &mut self,
        ticket: Ticket,
        fence: Fence,
        delay: Duration,
        trouble: Option<Trouble>,
    ) -> BoxFuture<'static, Step> {
        self.cache.forget(&fence.instance);
        let (results, entry) = self.slots.releases(&fence.instance);
        if let Some(entry) = entry {
            self.cache.put(fence.instance.clone(), entry);
        }
        self.answer_all(results);
        let failed = trouble.is_some();
        let (session, instance) = (Arc::clone(&self.session), fence.instance.clone());
        let release = Release { item: Item::Turn(fence), delay, trouble, failed };
        let released = async move {
            session.give_back(release).await;
            Step::TurnReleased(instance, ticket)
        };
        released.boxed()
    }

    /// Gives an instance back that is kept although nothing of it runs here any more.
    pub(super) fn release_if_useless(&mut self, instance: &InstanceId) {
        if let Some((ticket, fence)) = self.slots.useless(instance) {
            self.release(ticket, fence, Duration::ZERO, None);
        }
    }

    /// This host is done with an instance.
    pub(super) fn finish(&mut self, instance: &InstanceId) {
        let (results, win) = self.slots.finish(instance);
        self.answer_all(results);
        win.into_iter().for_each(|win| self.won_turn(*win));
    }
}
