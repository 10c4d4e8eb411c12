//! Whether a session holds an instance as its fence says (rules 2 and 20).

use dauer_store::{Fence, Refused, SessionId};

use crate::instance::Instance;

impl Instance {
    /// Whether a session holds the instance at that run, revision and epoch: for mail and histories.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if one of them differs.
    pub fn check_holder(&self, session: SessionId, fence: &Fence) -> Result<(), Refused> {
        let holds = self.head.holder == Some(session) && *fence == self.fence();
        if holds { Ok(()) } else { Err(Refused::Fenced) }
    }
}
