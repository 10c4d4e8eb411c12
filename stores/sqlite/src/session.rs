//! One session of a SQLite store, for a host.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;

use dauer_store::{
    Changes, Checkpoint, Committed, Completion, Credit, Death, Deaths, Delivered, Fence, Lost, Mail, Next,
    Recalled, Refused, Release, SessionId, Slice, TaskLease, TaskName, Trial, Until, Work,
};
use dauer_store_kit::calls::{Desk, Look, next};
use dauer_store_kit::hints::Listener;

use crate::fail::Fail;
use crate::shell::Shell;
use crate::state::View;

/// One session in one hub of a [`crate::SqliteStore`].
pub(crate) struct SqliteSession {
    shell: Shell,
    id: SessionId,
    desk: Arc<Desk>,
    /// Up to where the caller has heard of what the session lost: the next renewal forgets that and tells the rest, so
    /// that a lost answer loses no report.
    heard: AtomicI64,
}

impl SqliteSession {
    pub(crate) fn new(shell: Shell, id: SessionId) -> Self {
        let desk = shell.open_desk(id);
        Self { shell, id, desk, heard: AtomicI64::new(0) }
    }
}

#[async_trait]
impl Work for SqliteSession {
    fn session(&self) -> SessionId {
        self.id
    }

    fn credit(&self, credit: Credit) {
        self.desk.credit(credit);
    }

    async fn next(&self, until: Until<'_>) -> Result<Next, Refused> {
        next(&self.desk, until, |look: Look| self.shell.look(self.id, &self.desk, look)).await
    }

    async fn recall(&self, first: u64, last: u64) -> Result<Recalled, Refused> {
        self.shell.recall(self.id, &self.desk, (first, last)).await
    }

    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>> {
        let (id, limits, count) = (self.id, self.shell.limits(), fences.len());
        let read = move |view: &View<'_>| {
            let one = |fence| view.mail(id, fence, &limits).map_err(Fail::into_refused);
            Ok(fences.iter().map(one).collect())
        };
        let read = self.shell.read(read).await;
        read.unwrap_or_else(|refused: Refused| (0..count).map(|_| Err(refused.clone())).collect())
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        let (id, fence) = (self.id, fence.clone());
        self.shell.read(move |view| view.load_history(id, &fence, (from, max_bytes))).await
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        let id = self.id;
        self.shell.batch(batch, move |scope, checkpoint| scope.commit(id, checkpoint)).await
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        let id = self.id;
        self.shell.batch(batch, move |scope, done| scope.complete(id, done)).await
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        let (id, heard) = (self.id, self.heard.load(Ordering::Acquire));
        let (lost, until) = self.shell.write(move |scope| scope.renew(id, heard)).await?;
        self.heard.fetch_max(until, Ordering::AcqRel);
        Ok(lost)
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        let id = self.id;
        self.shell.batch(items, move |scope, item| scope.release(id, item)).await
    }

    async fn adopt(&self, tasks: Vec<TaskName>) -> Vec<Result<Option<TaskLease>, Refused>> {
        let id = self.id;
        self.shell.batch(tasks, move |scope, name| scope.adopt(id, name)).await
    }

    async fn died(&self, deaths: Vec<Death>) -> Vec<Result<Deaths, Refused>> {
        let id = self.id;
        self.shell.batch(deaths, move |scope, death| scope.died(id, death)).await
    }

    async fn trial(&self, trials: Vec<Trial>) -> Vec<Result<(), Refused>> {
        let id = self.id;
        self.shell.batch(trials, move |scope, trial| scope.trial(id, trial)).await
    }

    async fn detach(&self) -> Result<(), Refused> {
        let id = self.id;
        self.shell.write(move |scope| scope.detach(id)).await?;
        // The session wins nothing from now on.
        let _ = self.desk.recall(0, u64::MAX);
        self.shell.shared.lives.end(id);
        Ok(())
    }

    fn changes(&self) -> Changes {
        self.shell.changes(Listener::Host)
    }
}
