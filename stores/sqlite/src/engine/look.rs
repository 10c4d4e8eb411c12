//! A look as a job: it reads first, and writes only if there may be something to win.

use std::sync::Arc;

use dauer_store::{HubName, Refused, SessionId};
use dauer_store_kit::calls::{Desk, Look};
use futures::channel::oneshot;

use super::job::{Answers, Job, Snapshot, unanswered};
use super::transaction::Transaction;
use crate::fail::Fail;
use crate::state::{Found, View};

struct LookJob {
    hub: HubName,
    session: SessionId,
    desk: Arc<Desk>,
    look: Look,
    answer: Option<Result<Found, Refused>>,
    caller: oneshot::Sender<Vec<Result<Found, Refused>>>,
}

/// A look of a session, and where its answer comes. What it wins goes to the desk.
pub(crate) fn look_job(
    hub: HubName,
    (session, desk): (SessionId, Arc<Desk>),
    look: Look,
) -> (Box<dyn Job>, Answers<Found>) {
    let (caller, answers) = oneshot::channel();
    (Box::new(LookJob { hub, session, desk, look, answer: None, caller }), answers)
}

impl Job for LookJob {
    fn parts(&self) -> usize {
        1
    }

    fn run(&mut self, _part: usize, transaction: &mut Transaction<'_>) -> Result<(), Refused> {
        let scope = transaction.scope(&self.hub);
        match scope.and_then(|mut scope| scope.look(self.session, &self.desk, self.look)) {
            Ok(found) => self.answer = Some(Ok(found)),
            Err(Fail::Refused(refused)) => self.answer = Some(Err(refused)),
            Err(Fail::Broken(refused)) => return Err(refused),
        }
        Ok(())
    }

    fn fail(&mut self, _part: usize, refused: Refused) {
        self.answer = Some(Err(refused));
    }

    fn answer(self: Box<Self>) {
        // A caller who is gone looks again.
        let _ = self.caller.send(vec![self.answer.unwrap_or_else(|| Err(unanswered()))]);
    }

    fn is_look(&self) -> bool {
        true
    }

    /// A look for work alone is made when there is some, as a rule.
    fn peek(&mut self, (db, now, lives): Snapshot<'_>) -> bool {
        if !self.look.mail {
            return false;
        }
        let offer = self.desk.offer();
        let view = View::of(db, &self.hub, now);
        let found = view.and_then(|view| view.peek(self.session, offer.as_ref(), (self.look, lives)));
        self.answer = found.map_err(Fail::into_refused).transpose();
        self.answer.is_some()
    }
}
