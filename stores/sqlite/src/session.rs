//! One session of a SQLite store, for a host.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use dauer_store::{
    Changes, Checkpoint, ClaimedTurn, Committed, Completion, Delivered, Fence, Lost, Mail, Queues, Refused,
    Release, SessionId, Slice, TaskLease, WaitingMail, Want, Work,
};

use crate::engine::Ear;
use crate::fail::Fail;
use crate::fault::Call;
use crate::shell::Shell;
use crate::state::View;

/// One session in one hub of a [`crate::SqliteStore`].
pub(crate) struct SqliteSession {
    shell: Shell,
    id: SessionId,
    /// Up to where the caller has heard of what the session lost: the next renewal forgets that and tells the rest, so
    /// that a lost answer loses no report.
    heard: AtomicI64,
}

impl SqliteSession {
    pub(crate) fn new(shell: Shell, id: SessionId) -> Self {
        Self { shell, id, heard: AtomicI64::new(0) }
    }
}

#[async_trait]
impl Work for SqliteSession {
    fn session(&self) -> SessionId {
        self.id
    }

    async fn claim_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        let id = self.id;
        self.shell.claim(Call::ClaimTurns, move |scope| scope.claim_turns(id, &want)).await
    }

    async fn await_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        self.shell.wait(self.id, want).await
    }

    async fn waiting_mail(&self) -> Result<WaitingMail, Refused> {
        let id = self.id;
        self.shell.read(move |view| view.waiting_mail(id)).await
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
        self.shell
            .batch(Some(Call::CommitTurns), batch, move |scope, checkpoint| scope.commit(id, checkpoint))
            .await
    }

    async fn claim_activities(&self, want: Want) -> Result<Vec<TaskLease>, Refused> {
        let id = self.id;
        self.shell.claim(Call::ClaimActivities, move |scope| scope.claim_tasks(id, &want)).await
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        let id = self.id;
        self.shell
            .batch(Some(Call::CompleteActivities), batch, move |scope, done| scope.complete(id, done))
            .await
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        let (id, heard) = (self.id, self.heard.load(Ordering::Acquire));
        let (lost, until) = self.shell.write(None, move |scope| scope.renew(id, heard)).await?;
        self.heard.fetch_max(until, Ordering::AcqRel);
        Ok(lost)
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        let id = self.id;
        self.shell.batch(None, items, move |scope, item| scope.release(id, item)).await
    }

    async fn next_due(&self, queues: &Queues) -> Result<Option<Duration>, Refused> {
        let (id, queues) = (self.id, queues.clone());
        self.shell.read(move |view| view.next_due(id, &queues)).await
    }

    async fn detach(&self) -> Result<(), Refused> {
        let id = self.id;
        self.shell.write(None, move |scope| scope.detach(id)).await?;
        self.shell.shared.lives.end(id);
        Ok(())
    }

    fn changes(&self) -> Changes {
        self.shell.changes(Ear::Host)
    }
}
