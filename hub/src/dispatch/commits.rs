//! Commits of turns: in batches, more than one at a time, each until the store has said what became of it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;

use dauer_core::model::{Checkpoint, Details, TaskFence, Then, Trouble, TroubleKind};
use dauer_core::planted::{self, Bug};
use dauer_core::turn::Stalled;
use dauer_core::{Epoch, InstanceId};
use dauer_store::{Cause, Committed, Fence, Item, Mail, Refused, Release};

use super::cache::Entry;
use super::hold::{Kept, Ticket};
use super::slots::After;
use super::suspects::Suspect;
use super::turn::Setback;
use super::{Dispatch, Step};
use crate::executor::Receipt;
use crate::options::COMMITS_MAX;
use crate::session::Session;

/// The epoch of a task that a commit has leased: nobody had it before.
const TAKEN: Epoch = Epoch(1);

/// A turn whose checkpoint waits for the store's word.
pub(super) struct Pending {
    pub(super) ticket: Ticket,
    pub(super) checkpoint: Arc<Checkpoint>,
    /// The details that the instance has after the commit.
    pub(super) details: Details,
    /// What to remember once it is committed.
    pub(super) entry: Option<Box<Entry>>,
    /// Dropped, with the rest of this, when the store has said what became of it.
    #[allow(dead_code, reason = "kept for its end")]
    pub(super) receipt: Option<Receipt>,
    /// The trouble that the instance had before.
    pub(super) before: Option<Box<Trouble>>,
    /// The store once did not know the outcome; what is known of the instance is dropped in the end.
    pub(super) unknown: bool,
    pub(super) attempts: u32,
}

impl Pending {
    fn instance(&self) -> &InstanceId {
        &self.checkpoint.fence.instance
    }
}

/// Checkpoints for the next commit.
#[derive(Default)]
pub(super) struct Commits {
    ready: Vec<Pending>,
}

impl Commits {
    /// The same again, with the next batch.
    pub(super) fn again(&mut self, pending: Pending) {
        self.ready.push(pending);
    }
}

impl Dispatch {
    /// Commits with the next batch, which is sent at once when it is full: the store works while more is made.
    pub(super) fn commit_soon(&mut self, pending: Pending) {
        self.commits.ready.push(pending);
        if self.commits.ready.len() >= COMMITS_MAX {
            self.send_commits();
        }
    }

    pub(super) fn send_commits(&mut self) {
        if self.commits.ready.is_empty() {
            return;
        }
        let ready = std::mem::take(&mut self.commits.ready);
        let is_current = |p: &Pending| self.slots.is_current(p.instance(), p.ticket);
        let (batch, stale): (Vec<_>, Vec<_>) = ready.into_iter().partition(is_current);
        for pending in stale {
            self.abandon(pending);
        }
        if !batch.is_empty() {
            self.steps.push(commit(Arc::clone(&self.session), batch).boxed());
        }
    }

    pub(super) fn committed(&mut self, pending: Pending, result: Result<Committed, Refused>) {
        let current = self.slots.is_current(pending.instance(), pending.ticket);
        match result {
            Ok(mut committed) => {
                let Checkpoint { fence, record, completions, take, .. } = &*pending.checkpoint;
                let now = (record.execution, record.status);
                self.settled(&fence.instance, fence.execution, now);
                self.tasks.settle(completions.len() + take.saturating_sub(committed.taken.len()));
                for lease in std::mem::take(&mut committed.taken) {
                    // They are new: nothing has died with them.
                    self.begin_task_or_put_back(lease, true);
                }
                if current {
                    self.continued(pending, committed);
                }
            }
            // A later claim has settled it: what became of it is in the claimed record.
            Err(refused) if !current => {
                let unknown = pending.unknown || matches!(refused, Refused::Unknown(_));
                self.abandon(Pending { unknown, ..pending });
            }
            Err(Refused::Fenced) => {
                let instance = pending.instance();
                tracing::warn!(%instance, "a turn was fenced: another host has the instance, or a task of it");
                self.give_up(pending);
            }
            Err(refused @ (Refused::Unknown(_) | Refused::NotExecuted(_))) => {
                // The same again: the store answers whether it had happened (rule 3).
                tracing::error!(instance = %pending.instance(), error = %refused, "a commit was not possible; trying again");
                let unknown = pending.unknown || matches!(refused, Refused::Unknown(_));
                if !self.slots.doubts(pending.instance()) {
                    let instance = pending.instance().clone();
                    self.abandon(Pending { unknown, ..pending });
                    return self.finish(&instance);
                }
                let attempts = pending.attempts + 1;
                let mut pending = pending;
                if planted::is_on(Bug::BlindRetry) && unknown {
                    let checkpoint = Arc::make_mut(&mut pending.checkpoint);
                    checkpoint.fence.revision = checkpoint.fence.revision.next();
                }
                let delay = self.session.retry_delay(attempts).min(self.session.options.poll_max);
                let again = Box::new(Pending { unknown, attempts, ..pending });
                self.steps.push(self.session.sleep(delay).map(|()| Step::CommitAgain(again)).boxed());
            }
            Err(refused) if !pending.checkpoint.completions.is_empty() => {
                // It may be a result that the store does not take. As a message it is judged alone.
                tracing::warn!(instance = %pending.instance(), error = %refused, "a turn with results was refused");
                self.give_up(pending);
            }
            Err(refused) => {
                let kind = match refused {
                    Refused::TooLarge(_) => TroubleKind::TooLarge,
                    _ => TroubleKind::Undecodable,
                };
                let stalled = Stalled::new(kind, refused.to_string());
                let (ticket, fence) = (pending.ticket, pending.checkpoint.fence.clone());
                let mut pending = pending;
                let before = pending.before.take();
                self.abandon(pending);
                self.setback(ticket, fence, before.as_deref(), Setback::Stalled(stalled));
            }
        }
    }

    /// The commit did not happen and never will. The instance may still be this host's, if only a result was stale.
    fn give_up(&mut self, pending: Pending) {
        let (ticket, fence) = (pending.ticket, pending.checkpoint.fence.clone());
        self.abandon(pending);
        self.release(ticket, fence, Duration::ZERO, None);
    }

    /// Nothing comes of a commit as far as this host is concerned. Its results go to the inbox: if it did happen, their
    /// tasks are gone and the store drops them. The tasks it may have taken are given back: nobody here runs them, and
    /// as long as the session lives nobody else could.
    fn abandon(&mut self, pending: Pending) {
        let Pending { checkpoint, unknown, entry, .. } = pending;
        let Checkpoint { fence, completions, tasks, take, .. } = Arc::unwrap_or_clone(checkpoint);
        let kept = entry.filter(|_| planted::is_on(Bug::CacheAfterFailure));
        kept.into_iter().for_each(|entry| self.cache.put(fence.instance.clone(), entry));
        self.tasks.settle(take);
        self.answer_all(completions);
        if unknown {
            for task in tasks.into_iter().take(take) {
                let fence = TaskFence { task: task.id, instance: fence.instance.clone(), epoch: TAKEN };
                let (session, item) = (Arc::clone(&self.session), Item::Task(fence));
                let release = Release { item, delay: Duration::ZERO, trouble: None, failed: false };
                self.tasks.take(1);
                let released = async move { session.give_back(release).await };
                self.steps.push(released.map(|()| Step::TaskReleased).boxed());
            }
        }
    }

    fn continued(&mut self, pending: Pending, committed: Committed) {
        let Pending { checkpoint, details, entry, unknown, .. } = pending;
        let Checkpoint { fence, record, then, .. } = Arc::unwrap_or_clone(checkpoint);
        let mut record = record.after(&details);
        let entry = entry.filter(|_| !unknown);
        // The store never keeps what has ended. One that was won again meanwhile is no longer kept.
        let ended = then != Then::Keep || record.status.is_ended();
        if ended || self.slots.has_waiting_win(&fence.instance) {
            if let Some(entry) = entry {
                self.cache.put(fence.instance.clone(), entry);
            }
            return self.finish(&fence.instance);
        }
        let Committed { revision, arrived, more, now, .. } = committed;
        record.revision = revision;
        record.times.updated = now;
        let fence = Fence { execution: record.execution, revision, ..fence };
        let instance = fence.instance.clone();
        let kept = Kept { record, entry: entry.filter(|_| self.cache.is_on()) };
        let bytes_max = self.session.options.claim_bytes_max;
        let (after, orphans) = self.slots.keep(fence, kept, Mail { messages: arrived, more, now }, bytes_max);
        self.answer_all(orphans);
        match after {
            After::Begin(begin) => self.begin_or_put_back(Suspect::Turn(begin), true),
            // At once, while what it needs is at hand.
            After::Due => self.begin_kept(&instance, now),
            After::Mail => self.mail_waits(instance),
            After::Idle => {}
            After::Useless(ticket, fence) => self.release(ticket, fence, Duration::ZERO, None),
        }
    }
}

async fn commit(session: Arc<Session>, batch: Vec<Pending>) -> Step {
    let checkpoints = batch.iter().map(|pending| Arc::clone(&pending.checkpoint)).collect();
    let results = session.work.commit_turns(checkpoints).await;
    // What a store does not answer it leaves unknown; none should.
    let missing = || Err(Refused::Unknown(Cause::new("the store gave no answer")));
    let results = results.into_iter().chain(std::iter::repeat_with(missing));
    Step::Committed(batch.into_iter().zip(results).collect())
}
