//! What a running host holds, for operators: compared with a dump of the store, it shows a host that has lost something.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::channel::oneshot;

use dauer_core::SessionId;
use dauer_store::Fence;

use crate::session::{News, Session};

/// Asks a host what it holds. Clones ask the same host.
#[derive(Clone, Default)]
pub struct Inspector {
    session: Arc<Mutex<Weak<Session>>>,
}

/// What a host held at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The session that it held it with.
    pub session: SessionId,
    /// The instances, by id.
    pub turns: Vec<HeldTurn>,
    /// How many tasks it ran, or had results of that the store did not have.
    pub tasks: usize,
}

/// An instance that a host holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTurn {
    /// The fence of the turn that runs, or of the last commit.
    pub fence: Fence,
    /// What the host does with the instance.
    pub phase: HeldPhase,
}

/// What a host does with an instance that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldPhase {
    /// A turn runs, or waits for its place.
    Turning,
    /// The store is asked to commit a turn.
    Committing,
    /// The instance is kept for the tasks of it that run here.
    Kept,
    /// The store is asked to take the instance back.
    Releasing,
}

impl Inspector {
    /// Asks for the state of the current session. `None` when the host has no session, or left while it was asked.
    pub async fn inspect(&self) -> Option<Inspection> {
        let (answer, answered) = oneshot::channel();
        self.session.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?.tell(News::Inspect(answer));
        answered.await.ok()
    }

    /// From now on this is the session to ask.
    pub(crate) fn follow(&self, session: &Arc<Session>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(session);
    }
}
