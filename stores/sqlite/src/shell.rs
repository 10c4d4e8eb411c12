//! One hub of a store, as seen by a caller: makes jobs and reads of calls, and waits for their answers.

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::join_all;

use dauer_store::{Cause, HubName, Refused, StoreLimits};

use crate::engine::{Delivery, Order, Write, answer_of, write_job};
use crate::fail::Outcome;
use crate::fault::{Call, Strike};
use crate::state::{Scope, View, Won};
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

    pub(crate) fn changes(&self) -> dauer_store::Changes {
        let changes = self.shared.listeners.subscribe(&self.hub);
        // A writer that is gone has nothing to tell either.
        let _ = self.shared.writer.send(Order::Wake);
        changes
    }

    /// A write. A call with a name may meet a planned fault.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        call: Option<Call>,
        operation: impl FnMut(&mut Scope<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T, Refused> {
        self.send_off(call, Box::new(operation), |_| {}).await
    }

    /// A claim: what it wins finds its way back when the caller is gone.
    pub(crate) async fn claim<T: Send + 'static>(
        &self,
        call: Call,
        mut operation: impl FnMut(&mut Scope<'_>) -> Outcome<Won<T>> + Send + 'static,
    ) -> Result<Vec<T>, Refused> {
        let undelivered = Arc::clone(&self.shared.undelivered);
        let operation: Write<Delivery<T>> =
            Box::new(move |scope| operation(scope).map(|won| Delivery::new(won, Arc::clone(&undelivered))));
        Ok(self.send_off(Some(call), operation, Delivery::send_off).await?.receive())
    }

    async fn send_off<T: Send + 'static>(
        &self,
        call: Option<Call>,
        operation: Write<T>,
        send_off: fn(&mut T),
    ) -> Result<T, Refused> {
        let strike = call.and_then(|call| self.shared.faults.next(call));
        let (job, answer) = write_job(self.hub.clone(), operation, send_off);
        self.order(vec![job], strike.as_ref())?;
        let answer = answer_of(answer).await;
        match after(strike).await {
            Some(refused) => Err(refused),
            None => answer,
        }
    }

    /// A batch: every element is a job of its own, so that one that breaks does not take the others with it.
    pub(crate) async fn batch<A, T>(
        &self,
        call: Option<Call>,
        batch: Vec<A>,
        each: impl Fn(&mut Scope<'_>, A) -> Outcome<T> + Clone + Send + 'static,
    ) -> Vec<Result<T, Refused>>
    where
        A: Clone + Send + 'static,
        T: Send + 'static,
    {
        let (count, mut jobs, mut answers) = (batch.len(), Vec::new(), Vec::new());
        for element in batch {
            let each = each.clone();
            // A job may have to run again, after a rollback: the element stays.
            let operation: Write<T> = Box::new(move |scope| each(scope, element.clone()));
            let (job, answer) = write_job(self.hub.clone(), operation, |_| {});
            jobs.push(job);
            answers.push(answer_of(answer));
        }
        let strike = call.and_then(|call| self.shared.faults.next(call));
        if let Err(refused) = self.order(jobs, strike.as_ref()) {
            return (0..count).map(|_| Err(refused.clone())).collect();
        }
        let answers = join_all(answers).await;
        match after(strike).await {
            Some(refused) => (0..count).map(|_| Err(refused.clone())).collect(),
            None => answers,
        }
    }

    fn order(&self, jobs: Vec<Box<dyn crate::engine::Job>>, strike: Option<&Strike>) -> Result<(), Refused> {
        let order = Order::Jobs(jobs, strike.and_then(Strike::instead));
        self.shared.writer.send(order).map_err(|_| closed())
    }

    /// A read.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&View<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T, Refused> {
        let (caller, answer) = oneshot::channel();
        let hub = self.hub.clone();
        let read: crate::engine::Read = Box::new(move |file| {
            let answer = file.and_then(|(db, now)| {
                let view = View::of(db, &hub, now);
                view.and_then(|view| operation(&view)).map_err(crate::fail::Fail::into_refused)
            });
            // A caller who is gone does not need it.
            let _ = caller.send(answer);
        });
        self.shared.reader.send(Some(read)).map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

async fn after(strike: Option<Strike>) -> Option<Refused> {
    match strike {
        Some(strike) => strike.after().await,
        None => None,
    }
}

fn closed() -> Refused {
    Refused::NotExecuted(Cause::new("the store is closed; open it again"))
}
