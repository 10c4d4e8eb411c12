//! Writing the row of an instance: as few columns and indexes as have changed.

use rusqlite::params;

use dauer_store::{Hint, Item, Record};
use dauer_store_kit::codec::{
    hold_code, same_base, same_details, status_code, write_base, write_details, write_item,
};
use dauer_store_kit::judge::is_shown;

use super::instance::{Instance, Placement, Standing};
use super::{Scope, signed};
use crate::fail::Outcome;

/// What a turn always changes; the rest of the columns is added where it has changed. Numbered so that each statement has
/// the values of the one before and more: the same list is bound to all of them, as far as it is wanted.
macro_rules! update_turn {
    ($($more:literal),*) => {
        concat!(
            "UPDATE instances SET revision = ?1, updated = ?2, history_len = ?3, history_bytes = ?4, last = ?5,
                taken = ?6, start = ?7",
            $($more,)*
            " WHERE key = ?8"
        )
    };
}

macro_rules! update_standing {
    ($($more:literal),*) => {
        update_turn!(
            ", epoch = ?9, not_before = ?10, execution = ?11, generation = ?12, status = ?13, hold = ?14, stalled = ?15,
                attempts = ?16, remembered = ?17"
            $(, $more)*
        )
    };
}

macro_rules! update_hold {
    ($($more:literal),*) => {
        update_standing!(
            ", ready_at = ?18, holder = ?19, place = ?20, offered = ?21"
            $(, $more)*
        )
    };
}

/// How much of the row of an instance has changed. Each is all that comes before it, and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// What every turn changes.
    Turn,
    /// What most turns leave as it is.
    Standing,
    /// When its next message is visible.
    Ready,
    /// Who holds it, and where claims look for it.
    Hold,
    /// It has ended.
    End,
    /// It is another run.
    Run,
}

impl Change {
    /// The statement that writes it, and how many values that takes.
    fn update(self) -> (&'static str, usize) {
        match self {
            Self::Turn => (update_turn!(), 8),
            Self::Standing => (update_standing!(), 17),
            Self::Ready => (update_standing!(", ready_at = ?18"), 18),
            Self::Hold => (update_hold!(), 21),
            Self::End => (update_hold!(", completed = ?22"), 22),
            Self::Run => (update_hold!(", completed = ?22, queue = ?23, created = ?24, base = ?25"), 25),
        }
    }
}

impl Scope<'_, '_> {
    /// Adds an instance that is not there, ready from when it says.
    pub(super) fn insert_instance(&mut self, instance: &mut Instance) -> Outcome<()> {
        self.settle(instance)?;
        let record = &instance.record;
        let hub = self.view.hub;
        self.run(
            "INSERT INTO instances (hub, id, queue, offered, execution, generation, revision, epoch, status, hold,
                stalled, attempts, created, updated, completed, history_len, history_bytes, ready_at, not_before, place,
                base, holder, start, remembered)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
                ?23, 0)",
            params![
                hub,
                instance.id.as_str(),
                instance.queue,
                instance.offered,
                record.execution.0.to_be_bytes(),
                record.generation,
                signed(record.revision.0),
                signed(instance.epoch.0),
                status_code(record.status),
                hold_code(&record.hold),
                record.trouble.is_some(),
                record.attempts,
                record.times.created.0,
                record.times.updated.0,
                record.times.completed.map(|time| time.0),
                record.history_len,
                signed(record.history_bytes),
                instance.ready_at.map(|time| time.0),
                instance.not_before.0,
                instance.place.map(|time| time.0),
                write_base(record),
                instance.holder,
                instance.write_start(),
            ],
        )?;
        instance.key = self.db.last_insert_rowid();
        instance.stored = instance.placement();
        self.add_instance_tags(instance)?;
        self.write_details_of(instance)?;
        self.hint(Hint::Status(instance.id.clone(), instance.record.status));
        Ok(())
    }

    /// Takes a record over; the caller stores the instance.
    pub(super) fn put_record(&mut self, instance: &mut Instance, record: Record) -> Outcome<()> {
        let old = std::mem::replace(&mut instance.record, record);
        let new = &instance.record;
        instance.details_changed |= !same_details(&old, new);
        instance.base_changed |= !same_base(&old, new);
        if old.queue != new.queue {
            instance.queue = self.queue_key(&instance.record.queue)?;
        }
        let new = &instance.record;
        if (&old.tags, old.times.created) != (&new.tags, new.times.created) {
            self.remove_tags(instance.key, old.times.created, &old.tags)?;
            self.add_tags(instance.key, new.times.created, &new.tags)?;
        }
        if is_shown(&old, new) {
            self.hint(Hint::changed(&instance.id, new));
        }
        Ok(())
    }

    /// Writes what claims look at: who holds it, and from when it may be taken.
    pub(super) fn store_hold(&mut self, instance: &mut Instance) -> Outcome<()> {
        if instance.row_is_behind {
            return self.store_all(instance);
        }
        self.settle(instance)?;
        let (now, stored) = (instance.placement(), instance.stored);
        if (now.holder, now.place, now.offered) == (stored.holder, stored.place, stored.offered) {
            self.run(
                "UPDATE instances SET epoch = ?2, ready_at = ?3, not_before = ?4 WHERE key = ?1",
                params![
                    instance.key,
                    signed(instance.epoch.0),
                    instance.ready_at.map(|time| time.0),
                    instance.not_before.0,
                ],
            )?;
        } else {
            self.run(
                "UPDATE instances SET epoch = ?2, holder = ?3, ready_at = ?4, not_before = ?5, place = ?6,
                    offered = ?7 WHERE key = ?1",
                params![
                    instance.key,
                    signed(instance.epoch.0),
                    instance.holder,
                    instance.ready_at.map(|time| time.0),
                    instance.not_before.0,
                    instance.place.map(|time| time.0),
                    instance.offered,
                ],
            )?;
        }
        let Placement { holder, ready_at, place, offered, .. } = now;
        let Standing { epoch, not_before, .. } = now.standing;
        let standing = Standing { epoch, not_before, ..stored.standing };
        instance.stored = Placement { holder, ready_at, place, offered, standing, ..stored };
        Ok(())
    }

    /// Writes all that may have changed.
    pub(super) fn store_all(&mut self, instance: &mut Instance) -> Outcome<()> {
        let change = self.change_of(instance)?;
        self.write_row(instance, change)
    }

    /// Writes which tasks lie in the row of the instance, and how it stands: whatever the tail of its history says, the row is
    /// right then.
    pub(super) fn store_taken(&mut self, instance: &mut Instance) -> Outcome<()> {
        if instance.row_is_behind {
            return self.store_all(instance);
        }
        self.update_row(instance, Change::Turn)
    }

    /// Finds where claims look for an instance, and how much of its row has changed.
    pub(super) fn change_of(&mut self, instance: &mut Instance) -> Outcome<Change> {
        self.settle(instance)?;
        let (now, stored) = (instance.placement(), instance.stored);
        let run = |p: &Placement| (p.queue, p.created);
        let hold = |p: &Placement| (p.holder, p.place, p.offered);
        Ok(if run(&now) != run(&stored) || instance.base_changed {
            Change::Run
        } else if now.completed != stored.completed {
            Change::End
        } else if hold(&now) != hold(&stored) {
            Change::Hold
        } else if now.ready_at != stored.ready_at {
            Change::Ready
        } else if now.standing != stored.standing {
            Change::Standing
        } else {
            Change::Turn
        })
    }

    /// Writes what has changed of an instance.
    pub(super) fn write_row(&mut self, instance: &mut Instance, change: Change) -> Outcome<()> {
        self.update_row(instance, change)?;
        if instance.details_changed {
            self.write_details_of(instance)?;
        }
        instance.stored = instance.placement();
        (instance.row_is_behind, instance.base_changed, instance.details_changed) = (false, false, false);
        Ok(())
    }

    fn update_row(&mut self, instance: &Instance, change: Change) -> Outcome<()> {
        let record = &instance.record;
        let base = if change == Change::Run { write_base(record) } else { Vec::new() };
        let (update, count) = change.update();
        let values = params![
            signed(record.revision.0),
            record.times.updated.0,
            record.history_len,
            signed(record.history_bytes),
            instance.last.as_ref().map(|last| last.write(record.execution)),
            instance.write_taken(),
            instance.write_start(),
            instance.key,
            signed(instance.epoch.0),
            instance.not_before.0,
            record.execution.0.to_be_bytes(),
            record.generation,
            status_code(record.status),
            hold_code(&record.hold),
            record.trouble.is_some(),
            record.attempts,
            instance.remembered,
            instance.ready_at.map(|time| time.0),
            instance.holder,
            instance.place.map(|time| time.0),
            instance.offered,
            record.times.completed.map(|time| time.0),
            instance.queue,
            record.times.created.0,
            base,
        ];
        self.run(update, &values[..count])?;
        Ok(())
    }

    fn write_details_of(&mut self, instance: &Instance) -> Outcome<()> {
        match write_details(&instance.record) {
            Some(details) => self.run(
                "INSERT INTO details VALUES (?1, ?2) ON CONFLICT DO UPDATE SET body = ?2",
                params![instance.key, details],
            )?,
            None if instance.details_changed => {
                self.run("DELETE FROM details WHERE instance = ?1", [instance.key])?
            }
            None => 0,
        };
        Ok(())
    }

    /// Finds where claims look for it.
    fn settle(&mut self, instance: &mut Instance) -> Outcome<()> {
        let opening = self.opening_of(instance)?;
        let kind = opening.as_ref().unwrap_or(&instance.record).queue.kind;
        let offered = match &opening {
            Some(next) => self.queue_key(&next.queue)?,
            None => instance.queue,
        };
        let free = match instance.holder {
            None => true,
            Some(session) => !self.lives(session)?,
        };
        let place = instance.ready_at.filter(|_| free).map(|ready_at| ready_at.max(instance.not_before));
        if (place, offered) != (instance.place, instance.offered)
            && let Some(place) = place
        {
            self.hint_of(kind, place);
        } else if let Some(ready_at) = instance.ready_at.filter(|ready_at| *ready_at > self.now)
            && instance.holder.is_some()
        {
            // The holder is to look when its time has come.
            self.hint_of(kind, ready_at);
        }
        (instance.place, instance.offered) = (place, offered);
        Ok(())
    }

    /// Takes an instance from whoever holds it; its host is told at the next renewal. The caller stores the instance.
    pub(super) fn take_from_holder(&mut self, instance: &mut Instance) -> Outcome<()> {
        let Some(session) = instance.holder.take() else { return Ok(()) };
        self.tell_lost(session, &write_item(&Item::Turn(instance.fence())))?;
        self.run("UPDATE instances SET holder = NULL WHERE key = ?1", [instance.key])?;
        instance.stored.holder = None;
        self.forget_if_gone(session)
    }

    /// Removes an instance and all that belongs to it but the tasks; whoever holds it has lost it.
    pub(super) fn remove_instance(&mut self, mut instance: Box<Instance>) -> Outcome<()> {
        self.take_from_holder(&mut instance)?;
        self.erase_rows(&instance)
    }

    /// Removes the rows of an instance, all but those of its tasks, without a word to anyone.
    pub(super) fn erase_rows(&mut self, instance: &Instance) -> Outcome<()> {
        self.remove_tags(instance.key, instance.stored.created, &instance.record.tags)?;
        for sql in [
            "DELETE FROM inbox WHERE instance = ?1",
            "DELETE FROM history WHERE instance = ?1",
            "DELETE FROM applied WHERE instance = ?1",
            "DELETE FROM details WHERE instance = ?1",
            "DELETE FROM instances WHERE key = ?1",
        ] {
            self.run(sql, [instance.key])?;
        }
        let hub = self.view.hub;
        self.run("DELETE FROM outbox WHERE hub = ?1 AND instance = ?2", params![hub, instance.key])?;
        Ok(())
    }
}
