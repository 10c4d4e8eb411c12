//! Writing what has changed: entries into their maps, and places into the indexes.

use std::collections::BTreeSet;

use dauer_store::{
    Checkpoint, History, HostId, InstanceId, Item, MessageId, SessionId, StoredBatch, Timestamp,
};

use super::index::Spot;
use super::{Indexed, Lists, Partition, Stored, TaskKey, TaskRow, Tasks};
use crate::instance::{Changes, HeldTask, Instance, Written};
use crate::session::Life;

impl Lists {
    /// Writes the changes of an instance.
    pub(super) fn write(&mut self, id: &InstanceId, stored: &mut Stored) {
        let mut changes = std::mem::take(&mut self.changes);
        if changes.forgets {
            stored.applied = Default::default();
        }
        changes.remembered.drain(..).for_each(|(id, at)| stored.applied.insert(id, at));
        self.write_beside(&mut stored.tasks, &mut changes);
        if let Some((holder, visible_at)) = changes.mail.take() {
            let now = self.beside.now;
            match visible_at <= now {
                true => self.news.mail.push((holder, id.clone())),
                false => self.news.due_at(visible_at, now),
            }
        }
        // The inbox is in the instance.
        changes.added.clear();
        changes.removed.clear();
        (changes.dirty, changes.forgets, changes.history) = Default::default();
        debug_assert!(changes.is_empty(), "all changes are written: {changes:?}");
        self.changes = changes;
        self.settle(id, stored);
    }

    /// Writes what an instance has changed beside itself.
    pub(super) fn write_beside(&mut self, tasks: &mut Tasks, changes: &mut Changes) {
        for task in changes.tasks_gone.drain(..) {
            self.remove_task(tasks, task);
        }
        for held in changes.tasks.drain(..) {
            self.put_task(tasks, held);
        }
        for (session, item) in changes.lost.drain(..) {
            self.lose(session, item);
        }
        for (reason, count) in changes.dropped.drain(..) {
            *self.dropped.entry(reason).or_default() += count;
        }
        let bounds = (self.beside.now, self.limits.removed_starts);
        for (start, at) in changes.gone_starts.drain(..) {
            self.hub.forgotten_starts += self.beside.starts.insert(start, at, bounds);
        }
        self.news.hints.append(&mut changes.hints);
    }

    /// An item is taken from a session, which learns of it at its next renewal.
    fn lose(&mut self, session: SessionId, item: Item) {
        if let Some(holder) = self.beside.sessions.get_mut(session) {
            if let Item::Turn(fence) = &item {
                holder.turns.remove(&fence.instance);
            }
            holder.lost.push(item);
        }
        self.beside.sessions.forget_if_gone(session);
    }

    /// Removes an instance from all lists.
    fn unlist(&mut self, id: &InstanceId, indexed: &Indexed) {
        let Indexed { holder, created, completed, spot, mail } = indexed;
        spot.iter().for_each(|spot| self.ready_turns.remove(spot));
        shift(&mut self.by_created, id, *created, None);
        shift(&mut self.by_completed, id, *completed, None);
        if let Some(session) = holder.and_then(|holder| self.beside.sessions.get_mut(holder)) {
            session.turns.remove(id);
            shift(&mut session.mail, id, *mail, None);
        }
        self.to_relay.remove(id);
    }

    /// Writes the history of a commit.
    pub(super) fn write_history(&mut self, stored: &mut Stored, checkpoint: &Checkpoint, owner: &HostId) {
        let (written, now) = (self.changes.history.take(), self.beside.now);
        let (batches, mut first) = match (&checkpoint.history, written) {
            (History::Append(batch), Some(Written::Appended(first))) => (std::slice::from_ref(batch), first),
            (History::Replace { batches, .. }, _) => (batches.as_slice(), 0),
            (History::Append(batch), _) => (std::slice::from_ref(batch), 0),
        };
        if matches!(checkpoint.history, History::Replace { .. }) {
            stored.history.clear();
        }
        let (revision, epoch) = (stored.instance.record.revision, stored.instance.epoch);
        for batch in batches {
            let (owner, batch) = (owner.clone(), batch.clone());
            let count = batch.count;
            stored.history.push(StoredBatch { first, revision, epoch, owner, at: now, batch });
            first = first.saturating_add(count);
        }
    }

    /// Finds again where an instance stands. After every change of what waits, of the holder, or of the holder's life.
    pub(super) fn settle(&mut self, id: &InstanceId, stored: &mut Stored) {
        self.settle_holder(id, stored);
        self.settle_times(id, stored);
        let (instance, now) = (&stored.instance, self.beside.now);
        let known = self.beside.known(stored);
        let Ok(free_at) = instance.free_at(&known);
        let spot = free_at.map(|time| {
            let Ok(next) = instance.offered_as(&known);
            let sequence = stored.indexed.spot.as_ref().map(|spot| spot.sequence);
            let sequence = sequence.unwrap_or_else(|| next_of(&mut self.sequence));
            Spot { queue: next.queue.clone(), time, sequence }
        });
        let mail = instance.ready_at().filter(|_| instance.is_kept());
        let indexed = &mut stored.indexed;
        if indexed.spot != spot {
            indexed.spot.iter().for_each(|old| self.ready_turns.remove(old));
            if let Some(new) = &spot {
                self.ready_turns.insert(new, id.clone());
                self.news.stands(new, now);
            }
            indexed.spot = spot;
        }
        if indexed.mail != mail {
            let session = indexed.holder.and_then(|holder| self.beside.sessions.get_mut(holder));
            if let Some(session) = session {
                shift(&mut session.mail, id, indexed.mail, mail);
            }
            if let Some(later) = mail.filter(|at| *at > now) {
                self.news.due_at(later, now);
            }
            indexed.mail = mail;
        }
    }

    /// Moves an instance to the list of its holder.
    fn settle_holder(&mut self, id: &InstanceId, stored: &mut Stored) {
        let (holder, indexed) = (stored.instance.holder, &mut stored.indexed);
        if indexed.holder == holder {
            return;
        }
        if let Some(session) = indexed.holder.and_then(|old| self.beside.sessions.get_mut(old)) {
            session.turns.remove(id);
            shift(&mut session.mail, id, indexed.mail, None);
        }
        indexed.mail = None;
        if let Some(session) = holder.and_then(|new| self.beside.sessions.get_mut(new)) {
            session.turns.insert(id.clone());
        }
        indexed.holder = holder;
    }

    /// Moves an instance in the lists by time.
    fn settle_times(&mut self, id: &InstanceId, stored: &mut Stored) {
        let (times, indexed) = (&stored.instance.record.times, &mut stored.indexed);
        let created = Some(times.created);
        shift(&mut self.by_created, id, indexed.created, created);
        shift(&mut self.by_completed, id, indexed.completed, times.completed);
        (indexed.created, indexed.completed) = (created, times.completed);
    }

    /// Adds a task to those of its instance, or takes over what has changed of it.
    pub(super) fn put_task(&mut self, tasks: &mut Tasks, held: HeldTask) {
        let id = held.id();
        if let Some(row) = tasks.get_mut(&id) {
            row.held = held;
            return self.settle_task(row);
        }
        let mut row = Box::new(TaskRow { held, holder: None, spot: None });
        self.settle_task(&mut row);
        tasks.insert(id, row);
    }

    /// Finds again where a task stands.
    pub(super) fn settle_task(&mut self, row: &mut TaskRow) {
        let (now, sessions) = (self.beside.now, &mut self.beside.sessions);
        let holder = row.held.holder;
        if row.holder.map(|(session, _)| session) != holder {
            if let Some((old, place)) = row.holder.take() {
                sessions.get_mut(old).map(|session| session.tasks.remove(&place));
                sessions.forget_if_gone(old);
            }
            if let Some(new) = holder {
                let place = next_of(&mut self.listed);
                sessions.get_mut(new).map(|session| session.tasks.insert(place, row.key()));
                row.holder = Some((new, place));
            }
        }
        let free = holder.is_none_or(|holder| !sessions.lives(holder, now));
        let spot = row.held.offered_at().filter(|_| free).map(|time| {
            let sequence = row.spot.as_ref().map(|spot| spot.sequence);
            let sequence = sequence.unwrap_or_else(|| next_of(&mut self.sequence));
            Spot { queue: row.held.task.queue.clone(), time, sequence }
        });
        if row.spot != spot {
            row.spot.iter().for_each(|old| self.ready_tasks.remove(old));
            if let Some(new) = &spot {
                self.ready_tasks.insert(new, row.key());
                self.news.stands(new, now);
            }
            row.spot = spot;
        }
    }

    /// Removes a task from everywhere; its holder is not told.
    pub(super) fn remove_task(&mut self, tasks: &mut Tasks, id: MessageId) {
        let Some(row) = tasks.remove(&id) else { return };
        row.spot.iter().for_each(|spot| self.ready_tasks.remove(spot));
        if let Some((holder, place)) = row.holder {
            if let Some(session) = self.beside.sessions.get_mut(holder) {
                session.tasks.remove(&place);
            }
            self.beside.sessions.forget_if_gone(holder);
        }
    }

    /// The host of a session.
    pub(super) fn host_of(&self, session: SessionId) -> Option<HostId> {
        let Life { host, .. } = &self.beside.sessions.get(session)?.life;
        Some(host.clone())
    }
}

impl TaskRow {
    fn key(&self) -> TaskKey {
        (self.held.task.instance.clone(), self.held.id())
    }
}

impl Partition {
    /// Adds an instance that is not there, with the tasks that it has already. Its changes are written.
    pub(super) fn insert(&mut self, instance: Instance, tasks: Tasks) -> &mut Stored {
        let id = instance.id().clone();
        let mut stored = Box::new(Stored::new(instance, tasks));
        self.lists.write(&id, &mut stored);
        self.instances.entry(id).insert_entry(stored).into_mut()
    }

    /// Removes an instance with its tasks. Its changes are not written, and the tasks are in their lists still.
    pub(super) fn take_out(&mut self, id: &InstanceId) -> Option<Box<Stored>> {
        let stored = self.instances.remove(id)?;
        self.lists.unlist(id, &stored.indexed);
        Some(stored)
    }

    /// Writes what a task has changed beside itself, and finds again where its instance stands.
    pub(super) fn write_of_task(&mut self, id: &InstanceId) {
        match self.instances.get_mut(id) {
            Some(stored) => self.lists.write(id, stored),
            None => {
                let mut changes = std::mem::take(&mut self.lists.changes);
                self.change_tasks(id, |lists, tasks| lists.write_beside(tasks, &mut changes));
                self.lists.changes = changes;
            }
        }
    }

    /// Changes the tasks of an instance that is there or not.
    pub(super) fn change_tasks<T>(
        &mut self,
        id: &InstanceId,
        change: impl FnOnce(&mut Lists, &mut Tasks) -> T,
    ) -> T {
        if let Some(stored) = self.instances.get_mut(id) {
            return change(&mut self.lists, &mut stored.tasks);
        }
        let mut tasks = self.orphans.remove(id).unwrap_or_default();
        let changed = change(&mut self.lists, &mut tasks);
        if !tasks.is_empty() {
            self.orphans.insert(id.clone(), tasks);
        }
        changed
    }

    /// Finds again where an instance stands, if it is there.
    pub(super) fn settle_one(&mut self, id: &InstanceId) {
        if let Some(stored) = self.instances.get_mut(id) {
            self.lists.settle(id, stored);
        }
    }
}

/// Moves an instance in a list by time.
fn shift(
    list: &mut BTreeSet<(Timestamp, InstanceId)>,
    id: &InstanceId,
    old: Option<Timestamp>,
    new: Option<Timestamp>,
) {
    if old != new {
        old.iter().for_each(|old| {
            list.remove(&(*old, id.clone()));
        });
        list.extend(new.map(|new| (new, id.clone())));
    }
}

fn next_of(sequence: &mut u64) -> u64 {
    *sequence += 1;
    *sequence
}
