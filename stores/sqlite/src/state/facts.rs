//! What the decisions of the kit look up, as rows in the transaction. Each row is read only when a decision depends on it.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use dauer_store::{ExecutionId, MessageId, SessionId, Timestamp};
use dauer_store_kit::instance::{Context, Facts, HeldTask, Part, Waiting};
use dauer_store_kit::session::Fate;

use super::stored::Stored;
use super::{Group, Scope, View};
use crate::fail::{Fail, Outcome};

/// The rows of one instance.
pub(super) struct Rows<'s> {
    view: View<'s>,
    /// None of an absent instance.
    stored: Option<&'s Stored>,
    /// What the writer holds in memory; a reader has nothing.
    group: Option<&'s Group>,
}

impl View<'_> {
    pub(super) fn facts<'s>(&'s self, stored: Option<&'s Stored>) -> Rows<'s> {
        Rows { view: *self, stored, group: None }
    }
}

impl<'g> Scope<'g, '_> {
    pub(super) fn facts<'s>(&'s self, stored: Option<&'s Stored>) -> Rows<'s> {
        Rows { view: self.view, stored, group: Some(self.group) }
    }

    pub(super) fn context(&self) -> Context<'g> {
        Context { now: self.view.now, limits: self.limits }
    }
}

impl Facts for Rows<'_> {
    type Error = Fail;

    fn fate(&self, session: SessionId) -> Outcome<Fate> {
        let known = self.group.and_then(|group| group.hot.fate(self.view.hub, session, self.view.now));
        known.map_or_else(|| self.view.session_fate(session), Ok)
    }

    fn applied_at(&self, id: MessageId) -> Outcome<Option<Timestamp>> {
        self.stored.map_or(Ok(None), |stored| self.view.applied_at(stored.key, id))
    }

    fn removed_start(&self, ids: &RangeInclusive<MessageId>) -> Outcome<Option<Timestamp>> {
        let known = self.group.and_then(|group| group.known.values.get(&self.view.hub));
        if known.is_some_and(|values| values.has_no_removed_starts()) {
            return Ok(None);
        }
        self.view.removed_at(ids)
    }

    fn task(&self, id: MessageId) -> Outcome<Option<Cow<'_, HeldTask>>> {
        self.stored.map_or(Ok(None), |stored| self.view.task_of(stored, id))
    }

    fn tasks(&self, run: Option<ExecutionId>) -> Outcome<Vec<Cow<'_, HeldTask>>> {
        let Some(stored) = self.stored else { return Ok(Vec::new()) };
        Ok(self.view.tasks_of(stored, run)?.into_iter().map(Cow::Owned).collect())
    }

    fn waiting(&self, part: Part<'_>) -> Outcome<Vec<Waiting>> {
        self.stored.map_or(Ok(Vec::new()), |stored| self.view.waiting(stored.owner(), part))
    }
}
