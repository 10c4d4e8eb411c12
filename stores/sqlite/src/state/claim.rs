//! Winning turns and tasks that are ready.

use dauer_store::{Kind, Refused, SessionId};
use dauer_store_kit::calls::Offer;
use dauer_store_kit::instance::{Changes, TaskWin, Win};

use super::Scope;
use super::gather::{Take, What};
use super::stored::Loaded;
use super::task::TaskRow;
use crate::fail::{Fail, Outcome};

impl Scope<'_, '_> {
    /// Wins ready items for a session, as far as there is credit.
    pub(super) fn win(&mut self, what: What, session: SessionId, offer: &mut Offer) -> Outcome<()> {
        self.gather(offer, what, |scope, offer, due| match what {
            What::Turn => match readable(scope.fetch_due(due))?.flatten() {
                Some(loaded) => scope.win_turn(session, offer, loaded),
                None => Ok(Take::Passed),
            },
            What::Task => match readable(scope.task_at(due.key))?.flatten() {
                Some(row) => scope.win_task(session, offer, row),
                None => Ok(Take::Passed),
            },
        })
    }

    /// Wins one instance, if it is ready, wanted, and fits the rest of the credit.
    fn win_turn(&mut self, session: SessionId, offer: &mut Offer, mut loaded: Box<Loaded>) -> Outcome<Take> {
        let context = self.context();
        let facts = self.facts(Some(&loaded.stored));
        let win = readable(loaded.instance.check_win(session, offer, context, &facts))?;
        match win.unwrap_or(Win::Passed) {
            Win::Passed => {
                self.put_back(loaded);
                Ok(Take::Passed)
            }
            Win::Full => {
                offer.leaves(loaded.instance.record.queue.kind);
                self.put_back(loaded);
                Ok(Take::Full)
            }
            Win::Wins(winning) => {
                let mut changes = self.changes();
                offer.win_turn(loaded.instance.win(winning, context, &mut changes));
                self.group.effort.claims += 1;
                self.finish(loaded, changes)?;
                Ok(Take::Taken)
            }
        }
    }

    fn win_task(&mut self, session: SessionId, offer: &mut Offer, mut row: TaskRow) -> Outcome<Take> {
        match row.held.check_win(session, offer, &self.facts(None))? {
            TaskWin::Passed => Ok(Take::Passed),
            TaskWin::Full => {
                offer.leaves(Kind::Activity);
                Ok(Take::Full)
            }
            TaskWin::Wins(take) => {
                let mut changes = Changes::default();
                offer.win_task(row.held.win(take, self.context(), &mut changes));
                self.store_task(row)?;
                self.report_lost(&mut changes)?;
                Ok(Take::Taken)
            }
        }
    }
}

/// Passes over a damaged item, which must not keep a session from all others. A call that names the item is refused.
pub(super) fn readable<T>(read: Outcome<T>) -> Outcome<Option<T>> {
    match read {
        Err(Fail::Broken(Refused::Corrupt(_))) => Ok(None),
        other => other.map(Some),
    }
}
