//! Claims as a caller makes them that wants something now and nothing later: credit, one look, and no credit.

#![allow(dead_code, reason = "every test file uses a part of it")]

use async_trait::async_trait;
use futures::future::BoxFuture;

use dauer_store::{
    Amount, ClaimedTurn, Credit, Env, InstanceId, Next, Queues, Refused, Steady, Tags, TaskLease, Timestamp,
    Until, Work,
};

/// What a claim asks for.
#[derive(Debug, Clone)]
pub(crate) struct Want {
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    pub(crate) queues: Queues,
    pub(crate) tags: Tags,
}

impl Want {
    fn amount(&self) -> Amount {
        Amount { count: self.count, bytes: self.bytes }
    }

    /// Credit for turns, under that number.
    pub(crate) fn turns(&self, number: u64) -> Credit {
        let (queues, tags) = (self.queues.clone(), self.tags.clone());
        Credit { number, turns: self.amount(), queues, tags, ..Credit::default() }
    }

    /// Credit for tasks, under that number.
    pub(crate) fn tasks(&self, number: u64) -> Credit {
        Credit { turns: Amount::default(), tasks: self.amount(), ..self.turns(number) }
    }
}

pub(crate) fn want(count: usize) -> Want {
    Want { count, bytes: usize::MAX, queues: Queues::default(), tags: Tags::new() }
}

/// One look with that credit, which is taken back then.
pub(crate) async fn look(session: &(impl Work + ?Sized), credit: Credit) -> Result<Next, Refused> {
    let none = Credit { turns: Amount::default(), tasks: Amount::default(), ..credit.clone() };
    session.credit(credit);
    let next = session.next(Until::Once).await;
    session.credit(none);
    next
}

/// Claims of a session. All have the same number.
#[async_trait]
pub(crate) trait Claims {
    async fn claim_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused>;
    async fn claim_activities(&self, want: Want) -> Result<Vec<TaskLease>, Refused>;
    /// The kept instances for which messages wait, by a look that brings no older news.
    async fn waiting_mail(&self) -> Result<Vec<InstanceId>, Refused>;
}

#[async_trait]
impl<W: Work + ?Sized> Claims for W {
    async fn claim_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        Ok(look(self, want.turns(1)).await?.turns)
    }

    async fn claim_activities(&self, want: Want) -> Result<Vec<TaskLease>, Refused> {
        Ok(look(self, want.tasks(1)).await?.tasks)
    }

    async fn waiting_mail(&self) -> Result<Vec<InstanceId>, Refused> {
        look(self, want(0).turns(1)).await?;
        Ok(look(self, want(0).turns(1)).await?.mail)
    }
}

/// A monotonic clock that stands still: a wait by it ends only with what it waits for.
pub(crate) struct Still;

impl Env for Still {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn steady(&self) -> Steady {
        Steady(0)
    }

    fn sleep_until(&self, _: Steady) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u64 {
        0
    }
}

/// Waits until there is something.
pub(crate) fn waits(session: &dyn Work) -> BoxFuture<'_, Result<Next, Refused>> {
    session.next(Until::At(&Still, Steady(1)))
}

/// Gives credit and looks, so that what is new from then on is won in the write that makes it. Nothing is ready.
pub(crate) async fn has_looked(session: &dyn Work, credit: Credit) {
    session.credit(credit);
    assert_eq!(session.next(Until::Once).await.expect("a look"), Next::default());
}

/// The names of the instances.
pub(crate) fn names(turns: &[ClaimedTurn]) -> Vec<&str> {
    turns.iter().map(|turn| turn.fence.instance.as_str()).collect()
}
