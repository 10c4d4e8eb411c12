//! What has changed in an instance, by entry.

use dauer_store::{DropReason, Hint, Item, MessageId, SessionId, Timestamp};

use crate::instance::{HeldTask, Waiting};

/// Which fields of the head have changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dirty(u8);

impl Dirty {
    /// The record, beside the fields that every turn changes, and whether a trial is open.
    pub const RECORD: Self = Self(1);
    /// Revision, time of change, length of the history, and the last commit.
    pub const TURN: Self = Self(2);
    /// The holder or the epoch.
    pub const HOLDER: Self = Self(4);
    /// The time before which it is not won.
    pub const NOT_BEFORE: Self = Self(8);
    /// When it is ready, or what it is offered as.
    pub const READY: Self = Self(16);
    /// The fields of the record that stay for a run, as [`same_base`](crate::codec::same_base) has them.
    pub const BASE: Self = Self(32);
    /// The details of the record, and its trouble.
    pub const DETAILS: Self = Self(64);

    /// All fields.
    pub const ALL: Self = Self(127);

    /// Whether one of those has changed.
    #[must_use]
    pub fn has(self, fields: Self) -> bool {
        self.0 & fields.0 != 0
    }

    /// Both.
    #[must_use]
    pub const fn and(self, fields: Self) -> Self {
        Self(self.0 | fields.0)
    }

    pub(super) fn add(&mut self, fields: Self) {
        self.0 |= fields.0;
    }
}

/// What a commit has done to the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Its batch begins with that event.
    Appended(u32),
    /// Its batches take the place of the history.
    Replaced,
}

/// What has changed. A store keeps one, writes what is in it, and clears it.
#[derive(Debug, Default)]
pub struct Changes {
    /// Fields of the head.
    pub dirty: Dirty,
    /// Messages that wait now.
    pub added: Vec<Waiting>,
    /// Messages that wait no longer.
    pub removed: Vec<Waiting>,
    /// Tasks that are new or have changed.
    pub tasks: Vec<HeldTask>,
    /// Tasks that are gone.
    pub tasks_gone: Vec<MessageId>,
    /// Ids of applied messages, with the time of each.
    pub remembered: Vec<(MessageId, Timestamp)>,
    /// All that was remembered before is forgotten.
    pub forgets: bool,
    /// Starts that no instance names any more, with the time each was accepted.
    pub gone_starts: Vec<(MessageId, Timestamp)>,
    /// The history.
    pub history: Option<Written>,
    /// Items that were taken from sessions, which learn of it at their next renewal.
    pub lost: Vec<(SessionId, Item)>,
    /// Messages and answers without effect, by reason.
    pub dropped: Vec<(DropReason, u64)>,
    /// For those who watch the instance.
    pub hints: Vec<Hint>,
    /// When a message that has arrived for an instance which a session keeps becomes visible.
    pub mail: Option<(SessionId, Timestamp)>,
}

impl Changes {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { dirty, added, removed, tasks, tasks_gone, remembered, .. } = self;
        let Self { forgets, gone_starts, history, lost, dropped, hints, mail, .. } = self;
        *dirty == Dirty::default()
            && added.is_empty()
            && removed.is_empty()
            && tasks.is_empty()
            && tasks_gone.is_empty()
            && remembered.is_empty()
            && !forgets
            && gone_starts.is_empty()
            && history.is_none()
            && lost.is_empty()
            && dropped.is_empty()
            && hints.is_empty()
            && mail.is_none()
    }

    /// Messages wait no longer. One that this change has added has never waited.
    pub(super) fn removes(&mut self, gone: Vec<Waiting>) {
        if self.added.is_empty() {
            self.removed.extend(gone);
            return;
        }
        for waiting in gone {
            match self.added.iter().position(|added| added.place == waiting.place) {
                Some(at) => _ = self.added.remove(at),
                None => self.removed.push(waiting),
            }
        }
    }

    pub(super) fn drops(&mut self, reason: DropReason, count: usize) {
        if count > 0 {
            self.dropped.push((reason, count as u64));
        }
    }
}
