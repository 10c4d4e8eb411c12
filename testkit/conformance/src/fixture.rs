//! What a store brings to be tested: hubs, sessions that can be killed, a clock that can be moved, faults.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;

use dauer_store::{Host, HubName, Manage, Store, Work};

/// A hub under test, with its name for fixtures that open it a second time from another process.
pub struct Hub {
    /// Its name.
    pub name: HubName,
    /// The client's half, on which the rule works.
    pub manage: Arc<dyn Manage>,
}

/// A store under test. Each rule gets a fixture of its own; nothing here may be left out or answered with "not
/// supported", so that a store either passes a rule or fails it.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The store, empty when the rule begins.
    fn store(&self) -> Arc<dyn Store>;

    /// Opens a session, as another host would. Stores for many processes may do so from another process.
    async fn session(&self, hub: &Hub, host: Host) -> Arc<dyn Work> {
        match hub.manage.attach(host).await {
            Ok(work) => work,
            Err(refused) => panic!("the store refused a session: {refused}"),
        }
    }

    /// The host of that session dies: what it was doing is gone, nothing is given back, its lease runs on.
    async fn kill(&self, session: Arc<dyn Work>);

    /// Moves the store's clock forward by at least that much.
    async fn advance(&self, by: Duration);

    /// The next call of that kind, from any session or client of this store, meets that fault; later ones do not.
    /// The answer is ready once the fault has struck.
    async fn fault(&self, plan: FaultPlan) -> BoxFuture<'static, ()>;
}

/// One fault for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultPlan {
    /// Which call.
    pub call: Call,
    /// What goes wrong.
    pub fault: Fault,
}

/// The calls that faults are planned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// [`Manage::create`].
    Create,
    /// [`Manage::send`].
    Send,
    /// [`Manage::amend`].
    Amend,
    /// [`Work::next`], when it looks.
    Next,
    /// [`Work::commit_turns`].
    CommitTurns,
    /// [`Work::complete_activities`].
    CompleteActivities,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// It fails before anything is done, and says so: `NotExecuted`.
    NotExecuted,
    /// It fails before anything is done, but nobody can know: `Unknown`.
    UnknownNotDone,
    /// It is done, but nobody can know: `Unknown`.
    UnknownDone,
    /// It is done, and its answer never comes: the call stays pending until it is dropped.
    AnswerWithheld,
}
