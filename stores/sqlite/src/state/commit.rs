//! Commits: everything one turn changes, in one transaction or not at all.

use dauer_store::{Checkpoint, Committed, History, Message, SessionId};
use dauer_store_kit::instance::{Changes, Commit, Committer, Verdict, Written};
use dauer_store_kit::judge;

use super::inbox::sequence;
use super::stored::Loaded;
use super::{Scope, fenced};
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Commits the turn of a session.
    pub(crate) fn commit(&mut self, session: SessionId, checkpoint: &Checkpoint) -> Outcome<Committed> {
        let host = self.actor(session)?;
        self.commit_by((Committer::Session(session), host), checkpoint)
    }

    /// Commits a change from outside, over the head of the holder.
    pub(crate) fn amend(&mut self, checkpoint: &Checkpoint) -> Outcome<Committed> {
        let host = self.host_key(&judge::amender())?;
        self.commit_by((Committer::Amendment, host), checkpoint)
    }

    fn commit_by(&mut self, by: (Committer, i64), checkpoint: &Checkpoint) -> Outcome<Committed> {
        let Some(loaded) = self.fetch(&checkpoint.fence.instance)? else { return fenced() };
        let (instance, context) = (&loaded.instance, self.context());
        let facts = self.facts(Some(&loaded.stored));
        match instance.check_commit(by.0, checkpoint, context, &facts)? {
            Ok(Verdict::Commit(commit)) => self.apply(by, loaded, (checkpoint, commit)),
            Ok(Verdict::Repeat) => {
                let committed = instance.answer_again(by.0, context, &facts)?;
                self.put_back(loaded);
                Ok(committed)
            }
            Err(refused) => {
                self.put_back(loaded);
                Err(refused.into())
            }
        }
    }

    fn apply(
        &mut self,
        (by, host): (Committer, i64),
        mut loaded: Box<Loaded>,
        (checkpoint, commit): (&Checkpoint, Commit<'_>),
    ) -> Outcome<Committed> {
        self.touch()?;
        let (context, mut changes) = (self.context(), self.changes());
        let taken = loaded.instance.commit(commit, context, &mut changes);
        self.write_entries(&mut loaded, &mut changes)?;
        if loaded.instance.holder.is_some() && loaded.stored.start.is_some() {
            // A look for mail passes over instances whose start lies in their row.
            self.forget_inbox(&mut loaded)?;
        }
        self.deliver_all(&mut loaded, &mut changes, checkpoint.timers.iter().chain(&checkpoint.messages))?;
        let Loaded { instance, stored } = &mut *loaded;
        instance.find_ready(&self.facts(Some(stored)))?;
        let committed = instance.answer(by, taken, context, &self.facts(Some(stored)))?;
        self.write_commit(&mut loaded, (host, &checkpoint.history), &mut changes)?;
        self.report_lost(&mut changes)?;
        self.done_with(changes);
        self.group.effort.turns += 1;
        // One that waits for time or others is not needed soon.
        let place = loaded.stored.row.place;
        if loaded.instance.holder.is_some() || place.is_some_and(|place| place <= self.now) {
            self.put_back(loaded);
        }
        Ok(committed)
    }

    /// Writes the history of a commit, and the row of the instance as far as the history does not say how it stands.
    fn write_commit(
        &mut self,
        loaded: &mut Loaded,
        (host, history): (i64, &History),
        changes: &mut Changes,
    ) -> Outcome<()> {
        let first = match changes.history.take() {
            Some(Written::Appended(first)) => first,
            Some(Written::Replaced) | None => 0,
        };
        match history {
            History::Append(batch) => self.write_turn((loaded, changes.dirty), host, (first, batch)),
            History::Replace { batches, .. } => {
                self.replace_history(loaded, host, batches)?;
                self.write_row(loaded, changes.dirty)
            }
        }
    }

    /// Delivers what a turn sends. What it sends to itself goes into the instance at hand, whose row the caller writes.
    fn deliver_all<'m>(
        &mut self,
        loaded: &mut Loaded,
        changes: &mut Changes,
        messages: impl Iterator<Item = &'m Message>,
    ) -> Outcome<()> {
        for message in messages {
            if message.to != *loaded.instance.id() {
                self.deliver(message.clone())?;
                continue;
            }
            let (context, facts) = (self.context(), self.facts(Some(&loaded.stored)));
            let delivery = loaded.instance.check_delivery(message.clone(), context, &facts)?;
            let sequence = sequence(self.next_inbox_key()?);
            loaded.instance.deliver_own(delivery, sequence, context, changes);
            self.write_entries(loaded, changes)?;
        }
        Ok(())
    }
}
