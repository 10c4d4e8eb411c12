//! One instance, and all that can happen to it: a file for each.
//!
//! ```text
//! load ──▶ check_*(&self, facts) ──▶ refused: nothing has changed
//!                  │
//!                  └─ token ──▶ apply(&mut self, token) ──▶ Changes ──▶ write
//! ```
//!
//! `check_*` decides and changes nothing. It returns a token with private fields, and the function that applies the token
//! cannot fail. What has changed comes out as [`Changes`]: the head, and entries of the inbox, the tasks and the memory. It is
//! never the whole instance, so that the cost follows what changed and not what waits.
//!
//! A store that has no whole inbox at hand leaves it out of the [`Instance`]. A decision then reads the part that it needs
//! through [`Facts::waiting`].

mod adopt;
mod changes;
mod commit;
mod create;
mod death;
mod deliver;
mod facts;
mod fences;
mod inbox;
mod inspect;
mod release;
mod remove;
mod retry;
mod task;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod turn;
mod win;

use std::borrow::Cow;
use std::ops::Deref;

use dauer_store::{Epoch, Fence, Hold, InstanceId, Message, Record, SessionId, StoreLimits, Timestamp};

use crate::inbox::Admission;
use crate::judge::opens;

pub use adopt::Adopting;
pub use changes::{Changes, Dirty, Written};
pub use commit::{Commit, Committer, Verdict};
pub use create::{Beginning, Creating, REPEATED, Replacement, Starting, check_absent_create, check_start};
pub use death::{Dying, Trying};
pub use deliver::{Absent, Birth, Delivery, check_absent};
pub use facts::{Facts, Part};
pub use inbox::{Inbox, Place, Waiting};
pub use release::Releasing;
pub use retry::Retrying;
pub use task::{Completing, HeldTask, TaskWin, WITHDRAWN, check_complete};
pub use win::{Win, Winning};

/// When and under which limits something happens.
#[derive(Debug, Clone, Copy)]
pub struct Context<'c> {
    /// The store's time.
    pub now: Timestamp,
    /// The store's limits.
    pub limits: &'c StoreLimits,
}

/// What a store keeps of an instance beside its inbox, its history, its tasks and its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The record.
    pub record: Record,
    /// Grows when the instance changes hands.
    pub epoch: Epoch,
    /// The session that holds it.
    pub holder: Option<SessionId>,
    /// A trial of its turn is open. Then a session holds it.
    pub trial: bool,
    /// The instance is not won before this time.
    pub not_before: Timestamp,
    /// The last commit.
    pub last: Option<LastCommit>,
    /// Whether ids of applied messages may be stored.
    pub remembers: bool,
}

/// By which a repeated commit is recognised, and from which it is answered.
pub type LastCommit = crate::codec::LastCommit<SessionId>;

/// One instance, as far as it is loaded. Its [`Head`] is read by dereference; only what is in this module changes it.
#[derive(Debug, Clone)]
pub struct Instance {
    id: InstanceId,
    head: Head,
    /// The earliest time of a waiting, admitted message.
    ready_at: Option<Timestamp>,
    /// None where it is too long to be loaded.
    inbox: Option<Inbox>,
}

impl Deref for Instance {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

impl Instance {
    /// An instance as it is stored. An instance with a long inbox names when it is ready; otherwise that follows from the inbox.
    #[must_use]
    pub fn stored(id: InstanceId, head: Head, ready_at: Option<Timestamp>, mut inbox: Option<Inbox>) -> Self {
        let ready_at = match &mut inbox {
            Some(inbox) => {
                inbox.admit_for(&head.record);
                inbox.earliest()
            }
            None => ready_at,
        };
        Self { id, head, ready_at, inbox }
    }

    /// A new instance, which no session holds and for which nothing waits.
    fn new(id: InstanceId, record: Record, epoch: Epoch) -> Self {
        let not_before = Timestamp::default();
        let head =
            Head { record, epoch, holder: None, trial: false, not_before, last: None, remembers: false };
        let mut inbox = Inbox::default();
        inbox.admit_for(&head.record);
        Self { id, head, ready_at: None, inbox: Some(inbox) }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &InstanceId {
        &self.id
    }

    /// The inbox, if it is loaded.
    #[must_use]
    pub fn inbox(&self) -> Option<&Inbox> {
        self.inbox.as_ref()
    }

    /// Forgets the inbox: it has become too long to be held. The caller has stored all of it.
    pub fn forget_inbox(&mut self) -> Option<Inbox> {
        self.inbox.take()
    }

    /// Takes over the inbox again: it has become short enough to be held.
    pub fn know_inbox(&mut self, mut inbox: Inbox) {
        inbox.admit_for(&self.head.record);
        self.ready_at = inbox.earliest();
        self.inbox = Some(inbox);
    }

    /// Whether an inbox that is not loaded may have become short: no admitted message waits, and all are admitted.
    #[must_use]
    pub fn may_have_short_inbox(&self) -> bool {
        self.inbox.is_none() && self.ready_at.is_none() && self.head.record.hold() == Hold::Open
    }

    /// The earliest time of a waiting, admitted message.
    #[must_use]
    pub fn ready_at(&self) -> Option<Timestamp> {
        self.ready_at
    }

    /// What the next commit must carry.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence {
            instance: self.id.clone(),
            execution: self.head.record.execution,
            revision: self.head.record.revision,
            epoch: self.head.epoch,
        }
    }

    /// Whether the session that holds it has committed under its epoch.
    #[must_use]
    pub fn has_committed(&self) -> bool {
        let head = &self.head;
        head.last.as_ref().is_some_and(|last| last.by.is_some() && last.epoch == head.epoch)
    }

    /// Whether its holder is to learn of messages for it: the holder keeps it since a commit. A loaded instance does not
    /// have its last commit.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        let loaded = self.head.last.is_none() && self.head.record.history_len > 0;
        self.head.holder.is_some() && (loaded || self.has_committed())
    }

    /// From when a session may win it, if none that lives holds it.
    #[must_use]
    pub fn offered_at(&self) -> Option<Timestamp> {
        self.ready_at.map(|ready_at| ready_at.max(self.head.not_before))
    }

    /// From when any session may win it; none while a living session holds it.
    pub fn free_at<F: Facts>(&self, facts: &F) -> Result<Option<Timestamp>, F::Error> {
        let held = self.head.holder.map_or(Ok(false), |holder| facts.lives(holder))?;
        Ok(self.offered_at().filter(|_| !held))
    }

    /// The record under whose queue and tags it is offered. An ended instance is offered as the start that waits for it: the
    /// code of the run that has ended may be gone.
    pub fn offered_as<F: Facts>(&self, facts: &F) -> Result<Cow<'_, Record>, F::Error> {
        let record = &self.head.record;
        if !record.status.is_ended() {
            return Ok(Cow::Borrowed(record));
        }
        let opened = |message: &Message| opens(message).map(|opening| opening.record(message.id));
        match &self.inbox {
            Some(inbox) => Ok(inbox
                .openings()
                .find_map(|message| opened(message))
                .map_or(Cow::Borrowed(record), Cow::Owned)),
            None => {
                let openings = self.part(facts, &[Part::Openings])?;
                Ok(openings
                    .openings()
                    .find_map(|message| opened(message))
                    .map_or(Cow::Borrowed(record), Cow::Owned))
            }
        }
    }

    /// The inbox, or the parts of a long one.
    fn part<F: Facts>(&self, facts: &F, parts: &[Part<'_>]) -> Result<Cow<'_, Inbox>, F::Error> {
        match &self.inbox {
            Some(inbox) => Ok(Cow::Borrowed(inbox)),
            None => self.read_parts(facts, parts).map(Cow::Owned),
        }
    }

    fn read_parts<F: Facts>(&self, facts: &F, parts: &[Part<'_>]) -> Result<Inbox, F::Error> {
        let mut inbox = Inbox::default();
        for part in parts {
            facts.waiting(*part)?.into_iter().for_each(|waiting| inbox.insert(waiting));
        }
        inbox.admit_for(&self.head.record);
        Ok(inbox)
    }

    /// Finds again when an instance with a long inbox is ready. To be called after a commit, when its changes are written.
    pub fn find_ready<F: Facts>(&mut self, facts: &F) -> Result<(), F::Error> {
        if self.inbox.is_none() {
            let start = Admission::needs_start(&self.head.record) && self.own_start_waits(facts)?;
            let admission = Admission::of(&self.head.record, start);
            let first = facts.waiting(Part::Earliest(admission))?;
            self.ready_at = Inbox::of(first).earliest();
        }
        Ok(())
    }
}
