//! Writing what an operation of the kit has changed: entries first, then the row of the instance.

use dauer_store::{Item, SessionId};
use dauer_store_kit::codec::write_item;
use dauer_store_kit::instance::{Changes, Dirty, Written};

use super::Scope;
use super::stored::Loaded;
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Lists for changes, empty. [`Self::done_with`] takes them back, so that they need not grow again.
    pub(super) fn changes(&mut self) -> Changes {
        self.group.changes.pop().unwrap_or_default()
    }

    pub(super) fn done_with(&mut self, mut changes: Changes) {
        (changes.dirty, changes.history, changes.mail) = Default::default();
        debug_assert!(changes.is_empty(), "all changes are written: {changes:?}");
        self.group.changes.push(changes);
    }

    /// Writes all that an operation has changed, and holds the instance in memory.
    pub(super) fn finish(&mut self, mut loaded: Box<Loaded>, mut changes: Changes) -> Outcome<()> {
        if changes.history == Some(Written::Replaced) {
            self.remove_history(loaded.stored.key)?;
        }
        self.write_entries(&mut loaded, &mut changes)?;
        if changes.dirty.has(Dirty::READY) {
            let Loaded { instance, stored } = &mut *loaded;
            instance.find_ready(&self.facts(Some(stored)))?;
        }
        self.write_row(&mut loaded, changes.dirty)?;
        self.report_lost(&mut changes)?;
        self.done_with(changes);
        self.put_back(loaded);
        Ok(())
    }

    /// Writes entries of the inbox, tasks and the memory, and what has changed beside the instance.
    pub(super) fn write_entries(&mut self, loaded: &mut Loaded, changes: &mut Changes) -> Outcome<()> {
        self.write_messages(loaded, changes)?;
        for task in changes.tasks_gone.drain(..) {
            self.remove_task_of(loaded, task)?;
        }
        for held in changes.tasks.drain(..) {
            self.put_task(loaded, held)?;
        }
        if std::mem::take(&mut changes.forgets) {
            self.run("DELETE FROM applied WHERE instance = ?1", [loaded.stored.key])?;
            loaded.stored.remembered = 0;
        }
        for (id, at) in changes.remembered.drain(..) {
            self.remember(&mut loaded.stored, id, at)?;
        }
        if let Some((holder, at)) = changes.mail.take() {
            self.mail_at(loaded.instance.id(), holder, at);
        }
        self.write_beside(changes)
    }

    fn write_messages(&mut self, loaded: &mut Loaded, changes: &mut Changes) -> Outcome<()> {
        for waiting in changes.removed.drain(..) {
            self.remove_message(&mut loaded.stored, &waiting)?;
        }
        for waiting in changes.added.drain(..) {
            self.add_message(loaded.stored.owner(), &waiting)?;
        }
        let most = self.group.hot.messages_max();
        if loaded.instance.inbox().is_some_and(|inbox| inbox.len() > most) {
            self.forget_inbox(loaded)?;
        }
        Ok(())
    }

    /// Writes what has changed beside the instance.
    pub(super) fn write_beside(&mut self, changes: &mut Changes) -> Outcome<()> {
        for (reason, count) in changes.dropped.drain(..) {
            self.count_dropped(reason, count)?;
        }
        if !changes.gone_starts.is_empty() {
            for (start, at) in changes.gone_starts.drain(..) {
                self.put_removed_start(start, at)?;
            }
            self.store_hub()?;
        }
        for hint in changes.hints.drain(..) {
            self.hint(hint);
        }
        Ok(())
    }

    /// Notes what was taken from sessions, which learn of it at their next renewal. When nothing is held in its name any more, a
    /// dead session is forgotten: what was taken has its new holder in the file.
    pub(super) fn report_lost(&mut self, changes: &mut Changes) -> Outcome<()> {
        for (session, item) in changes.lost.drain(..) {
            self.lose(session, &item)?;
        }
        Ok(())
    }

    fn lose(&mut self, session: SessionId, item: &Item) -> Outcome<()> {
        let Some(key) = self.session_key(session)? else { return Ok(()) };
        self.tell_lost(key, &write_item(item))?;
        self.forget_if_gone(key)
    }
}
