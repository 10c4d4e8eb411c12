//! Changing the rows of waiting messages.

use std::sync::Arc;

use rusqlite::params;

use dauer_store::{Kind, Message};
use dauer_store_kit::codec::{class_code, write_message};
use dauer_store_kit::instance::{Place, Waiting};

use super::Scope;
use super::inbox::{DELAYED, Owner, PLAIN, PROLOGUE, key_at, sequence};
use super::stored::{Columns, Loaded, Stored};
use crate::fail::Outcome;

/// In place of a key: the message lies in the row of its instance.
pub(super) const IN_ROW: i64 = i64::MIN;

/// The message that an instance was made by, in its row.
pub(super) fn in_row(message: Message) -> Waiting {
    let place = Place { follows: true, at: message.visible_at, sequence: sequence(IN_ROW) };
    Waiting { place, message: Arc::new(message) }
}

impl Loaded {
    /// The message in its row, for that.
    pub(super) fn write_start(&self) -> Option<Vec<u8>> {
        let start = self.instance.inbox()?.get(self.stored.start?)?;
        Some(write_message(start))
    }
}

impl Scope<'_, '_> {
    /// The key of the next row of an inbox. It is chosen before the row is written: it says where the message stands.
    pub(super) fn next_inbox_key(&mut self) -> Outcome<i64> {
        let last = match self.group.known.inbox_key {
            Some(last) => last,
            None => {
                let mut last = self.view.db.prepare_cached("SELECT coalesce(max(key), 0) FROM inbox")?;
                last.query_row([], |row| row.get::<_, i64>(0))?.max(0)
            }
        };
        self.group.known.inbox_key = Some(last + 1);
        Ok(last + 1)
    }

    /// Adds the row of a message in its place.
    pub(super) fn add_message(&mut self, owner: Owner, waiting: &Waiting) -> Outcome<()> {
        let Waiting { place, message } = waiting;
        let (key, kind) = match place.follows {
            false => (self.next_inbox_key()?, PROLOGUE),
            true if place.at > self.now => (key_at(place), DELAYED),
            true => (key_at(place), PLAIN),
        };
        self.insert_row(owner, (key, kind, place.at.0), message)
    }

    /// Adds the row of a message. Only entities take messages by their sender.
    fn insert_row(
        &mut self,
        owner: Owner,
        (key, kind, position): (i64, i64, i64),
        message: &Message,
    ) -> Outcome<()> {
        let sender = message.origin.sender().filter(|_| owner.kind == Kind::Entity);
        self.run(
            "INSERT INTO inbox (key, instance, kind, message, position, visible, class, sender, execution, bytes, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                key,
                owner.key,
                kind,
                message.id.0,
                position,
                message.visible_at.0,
                class_code(&message.class),
                sender.map(|sender| sender.as_str()),
                message.execution.map(|execution| execution.0.to_be_bytes()),
                super::signed(message.event.len() as u64),
                write_message(message),
            ],
        )?;
        Ok(())
    }

    /// Removes a message from the file. One that lies in the row of its instance goes when the caller writes that.
    pub(super) fn remove_message(&mut self, stored: &mut Stored, waiting: &Waiting) -> Outcome<()> {
        let Waiting { place, message } = waiting;
        if stored.start.take_if(|start| *start == message.id).is_some() {
            return Ok(());
        }
        match place.follows {
            true => self.run("DELETE FROM inbox WHERE key = ?1", [key_at(place)])?,
            false => self.run(
                "DELETE FROM inbox WHERE instance = ?1 AND kind = 0 AND message = ?2",
                params![stored.key, message.id.0],
            )?,
        };
        Ok(())
    }

    /// Drops the inbox of an instance from memory. From now on parts of it are read from the file.
    pub(super) fn forget_inbox(&mut self, loaded: &mut Loaded) -> Outcome<()> {
        let inbox = loaded.instance.forget_inbox();
        let start = loaded.stored.start.take().and_then(|start| inbox?.get(start).cloned());
        match start {
            Some(start) => self.spill(loaded.stored.owner(), &mut loaded.stored.row, &start),
            None => Ok(()),
        }
    }

    /// Moves the message in the row of an instance into the inbox. Its key is unique and less than all others, so that it stays
    /// before messages of the same time.
    pub(super) fn spill(&mut self, owner: Owner, row: &mut Columns, start: &Message) -> Outcome<()> {
        self.run("UPDATE instances SET start = NULL WHERE key = ?1", [owner.key])?;
        row.standing.start_in_row = false;
        let kind = if start.visible_at > row.created { DELAYED } else { PLAIN };
        self.insert_row(owner, (-owner.key, kind, start.visible_at.0), start)
    }
}
