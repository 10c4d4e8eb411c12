//! One hub of a store, as seen by a caller: makes jobs and reads of calls, and waits for their answers.

use std::sync::Arc;

use futures::channel::oneshot;

use dauer_store::{Cause, Effort, HubName, Recalled, Refused, SessionId, StoreLimits};
use dauer_store_kit::calls::{Desk, Look, Looked};
use dauer_store_kit::hints::Listener;

use crate::engine::{Answers, Job, Order, Read, answers_of, batch_job, look_job};
use crate::fail::Outcome;
use crate::state::{Scope, View};
use crate::store::Shared;

/// One hub of a store.
#[derive(Clone)]
pub(crate) struct Shell {
    pub(crate) shared: Arc<Shared>,
    pub(crate) hub: HubName,
}

impl Shell {
    pub(crate) fn limits(&self) -> StoreLimits {
        self.shared.limits.clone()
    }

    pub(crate) fn effort(&self) -> Effort {
        self.shared.tally.read()
    }

    pub(crate) fn changes(&self, listener: Listener) -> dauer_store::Changes {
        let changes = self.shared.listeners.subscribe(&self.hub, listener);
        self.wake();
        changes
    }

    /// The desk of a session.
    pub(crate) fn open_desk(&self, session: SessionId) -> Arc<Desk> {
        let desk = self.shared.desks.open(self.hub.clone(), session);
        self.wake();
        desk
    }

    /// The writer may wait for orders alone until a caller waits for changes of the file.
    fn wake(&self) {
        // A writer that is gone has nothing to tell either.
        let _ = self.shared.writer.send(Order::Wake);
    }

    /// A write.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        mut operation: impl FnMut(&mut Scope<'_, '_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T, Refused> {
        one(self.batch(vec![()], move |scope, ()| operation(scope)).await)
    }

    /// A look. What it wins goes to the desk.
    pub(crate) async fn look(
        &self,
        session: SessionId,
        desk: &Arc<Desk>,
        look: Look,
    ) -> Result<Looked, Refused> {
        let (job, answers) = look_job(self.hub.clone(), (session, Arc::clone(desk)), look);
        let found = one(self.carry_out((job, answers), 1).await)?;
        // By now some of that time has passed.
        let due = found.due.map(|at| self.shared.time.until(at));
        Ok(Looked { mail: found.mail, due })
    }

    /// What a session has won and still holds. Behind all writes that were ordered before: what they win is among it.
    pub(crate) async fn recall(
        &self,
        session: SessionId,
        desk: &Arc<Desk>,
        (first, last): (u64, u64),
    ) -> Result<Recalled, Refused> {
        let (desk, limits) = (Arc::clone(desk), self.limits());
        let recall = move |view: &View<'_>| view.recalled(session, &desk.recall(first, last), &limits);
        self.read_by(recall, |read| self.shared.writer.send(Order::Read(read)).is_ok()).await
    }

    /// A batch: every element is judged on its own, so that one that breaks does not take the others with it.
    pub(crate) async fn batch<A, T>(
        &self,
        batch: Vec<A>,
        each: impl FnMut(&mut Scope<'_, '_>, &A) -> Outcome<T> + Send + 'static,
    ) -> Vec<Result<T, Refused>>
    where
        A: Send + 'static,
        T: Send + 'static,
    {
        let count = batch.len();
        self.carry_out(batch_job(self.hub.clone(), batch, each), count).await
    }

    /// Orders a job of `count` parts and waits for its answers.
    async fn carry_out<T>(
        &self,
        (job, answers): (Box<dyn Job>, Answers<T>),
        count: usize,
    ) -> Vec<Result<T, Refused>> {
        if self.shared.writer.send(Order::Job(job)).is_err() {
            return (0..count).map(|_| Err(closed())).collect();
        }
        answers_of(answers, count).await
    }

    /// A read.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&View<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T, Refused> {
        self.read_by(operation, |read| self.shared.reader.send(Some(read)).is_ok()).await
    }

    /// A read by the thread that `order` sends it to.
    async fn read_by<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&View<'_>) -> Outcome<T> + Send + 'static,
        order: impl FnOnce(Read) -> bool + Send,
    ) -> Result<T, Refused> {
        let (caller, answer) = oneshot::channel();
        let hub = self.hub.clone();
        let read: Read = Box::new(move |file| {
            let answer = file.and_then(|(db, now)| {
                let view = View::of(db, &hub, now);
                view.and_then(|view| operation(&view)).map_err(crate::fail::Fail::into_refused)
            });
            // A caller who is gone does not need it.
            let _ = caller.send(answer);
        });
        if !order(read) {
            return Err(closed());
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// The answer to a batch of one.
fn one<T>(answers: Vec<Result<T, Refused>>) -> Result<T, Refused> {
    answers.into_iter().next().unwrap_or_else(|| Err(closed()))
}

fn closed() -> Refused {
    Refused::NotExecuted(Cause::new("the store is closed; open it again"))
}
