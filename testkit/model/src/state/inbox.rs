//! One instance, and which of its messages a turn gets (4, 5, 6).

use dauer_core::limits::{MEMORY_AGE_MAX, MEMORY_IDS_MAX};
use dauer_store::{
    Checkpoint, Class, Epoch, ExecutionId, Fence, Hold, InstanceId, Message, MessageId, Opening, QueueKey,
    Record, SessionId, Status, StoredBatch, Tags, Timestamp,
};

use super::Moment;
use crate::mistake::Mistake as M;

/// The last commit: what a repeat of it is recognised by.
#[derive(Debug, Clone)]
pub(super) struct LastCommit {
    pub(super) fence: Fence,
    /// None for an amendment.
    pub(super) by: Option<SessionId>,
    /// An amendment as a whole: any two clients may amend from the same fence.
    pub(super) amendment: Option<Checkpoint>,
    /// The tasks that it leased.
    pub(super) taken: Vec<MessageId>,
    /// The record before it.
    pub(super) before: Record,
}

/// An instance.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    pub(super) record: Record,
    pub(super) epoch: Epoch,
    pub(super) holder: Option<SessionId>,
    /// The session that held it last; none after an amendment.
    pub(super) last_holder: Option<SessionId>,
    /// A trial is open.
    pub(super) trial: bool,
    pub(super) not_before: Timestamp,
    pub(super) history: Vec<StoredBatch>,
    pub(super) prologue: Vec<Message>,
    /// By time of visibility, then arrival.
    pub(super) inbox: Vec<Message>,
    pub(super) outbox: Vec<Message>,
    /// Ids of consumed messages, oldest first (10).
    pub(super) memory: Vec<(MessageId, Timestamp)>,
    pub(super) last: Option<LastCommit>,
}

/// The messages of a turn.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) messages: Vec<Message>,
    pub(super) more: bool,
}

/// The start that a start or rewind carries.
pub(super) fn opens(message: &Message) -> Option<&Opening> {
    match &message.class {
        Class::Start(start) | Class::Rewind(start) => Some(start),
        Class::Control(_) | Class::Ordinary => None,
    }
}

impl Instance {
    pub(super) fn new(record: Record, epoch: Epoch) -> Self {
        Self {
            record,
            epoch,
            holder: None,
            last_holder: None,
            trial: false,
            not_before: Timestamp::default(),
            history: Vec::new(),
            prologue: Vec::new(),
            inbox: Vec::new(),
            outbox: Vec::new(),
            memory: Vec::new(),
            last: None,
        }
    }

    pub(super) fn fence(&self, id: &InstanceId) -> Fence {
        let Record { execution, revision, .. } = self.record;
        Fence { instance: id.clone(), execution, revision, epoch: self.epoch }
    }

    /// All that waits, in order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Message> {
        self.prologue.iter().chain(&self.inbox)
    }

    pub(super) fn waits(&self, id: MessageId) -> Option<&Message> {
        self.waiting().find(|message| message.id == id)
    }

    /// The waiting starts and rewinds, in order.
    pub(super) fn openings(&self) -> impl Iterator<Item = &Opening> {
        self.waiting().filter_map(opens)
    }

    /// Whether a message is for a run that a waiting start or rewind begins (4).
    pub(super) fn is_for_next_run(&self, message: &Message) -> bool {
        self.openings().any(|start| message.execution.is_none_or(|run| run == start.execution))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.record.status.is_ended()
    }

    pub(super) fn is_own_start(&self, message: &Message) -> bool {
        message.id == self.record.start && matches!(message.class, Class::Start(_))
    }

    /// Whether a message ends the delay of the instance: control, or a start that replaces a living run (26).
    pub(super) fn is_hurried_by(&self, message: &Message, moment: Moment) -> bool {
        let replaces = match message.class {
            Class::Control(_) => true,
            Class::Start(_) => message.id != self.record.start && !moment.makes(M::ReplacementKeepsDelay),
            Class::Rewind(_) | Class::Ordinary => false,
        };
        replaces && !self.has_ended() && self.admits(message, moment)
    }

    /// Puts a message behind all that are visible as early.
    pub(super) fn put(&mut self, message: Message) {
        let before = self.inbox.iter().rposition(|waiting| waiting.visible_at <= message.visible_at);
        self.inbox.insert(before.map_or(0, |at| at + 1), message);
    }

    /// Takes a message out.
    pub(super) fn take(&mut self, id: MessageId) -> Option<Message> {
        let named = |message: &Message| message.id == id;
        if let Some(at) = self.prologue.iter().position(named) {
            return Some(self.prologue.remove(at));
        }
        let at = self.inbox.iter().position(named)?;
        Some(self.inbox.remove(at))
    }

    /// Whether the hold lets a message through. An instance that a rewind created begins with it: no start ever comes.
    pub(super) fn admits(&self, message: &Message, moment: Moment) -> bool {
        let (hold, opening) = (self.record.hold(), opens(message).is_some());
        let is_rewind = matches!(message.class, Class::Rewind(_));
        let by_mistake = match hold {
            Hold::Control => moment.makes(M::HoldControlAdmitsAll),
            Hold::From(_) => moment.makes(M::HoldFromAdmitsAll),
            Hold::Unborn => moment.makes(M::HoldUnbornAdmitsStarts) && opening,
            Hold::Open | Hold::Ended => false,
        };
        let unbegun = self.record.status == Status::Pending;
        let rewound = unbegun && is_rewind && !self.waiting().any(|m| self.is_own_start(m));
        let hidden = self.has_ended() && moment.makes(M::EndedHidesStart);
        (hold.admits(message) || rewound || by_mistake) && !hidden
    }

    /// From when a turn is ready, as far as messages decide it.
    pub(super) fn ready_at(&self, moment: Moment) -> Option<Timestamp> {
        let admitted = self.waiting().filter(|message| self.admits(message, moment));
        let times = admitted.map(|message| message.visible_at);
        if moment.makes(M::ReadyPostponed) { times.max() } else { times.min() }
    }

    /// The queue and tags that credit filters by: those of the start which opens an ended instance.
    pub(super) fn next_run(&self) -> (&QueueKey, &Tags) {
        let opening = self.openings().next().filter(|_| self.has_ended());
        opening.map_or((&self.record.queue, &self.record.tags), |opening| (&opening.queue, &opening.tags))
    }

    /// The message that comes first, due or not, and whether it may come alone.
    fn first(&self, moment: Moment) -> Option<(&Message, bool)> {
        let unborn = self.record.hold() == Hold::Unborn;
        let leads = |message: &&Message| {
            let begins = opens(message).is_some_and(|s| s.execution == self.record.execution);
            if unborn { begins } else { self.is_own_start(message) }
        };
        let forgets = if unborn { M::UnbornWithoutStart } else { M::PendingWithoutStart };
        let first = self.waiting().find(leads).filter(|_| !moment.makes(forgets))?;
        let alone = !unborn || moment.makes(M::HoldUnbornAdmitsStarts);
        Some((first, alone && first.visible_at <= moment.now))
    }

    /// The visible, admitted messages, in order.
    fn candidates(&self, moment: Moment) -> Vec<&Message> {
        let due = |message: &&Message| message.visible_at <= moment.now && self.admits(message, moment);
        let mut prologue: Vec<&Message> = self.prologue.iter().filter(due).collect();
        let mut inbox: Vec<&Message> = self.inbox.iter().filter(due).collect();
        if moment.makes(M::Lifo) {
            inbox.reverse();
        }
        if moment.makes(M::PrologueAfterInbox) {
            std::mem::swap(&mut prologue, &mut inbox);
        }
        prologue.extend(inbox);
        prologue
    }

    /// The messages of the next turn, up to the first suspend and about that many bytes. The least that makes a turn comes
    /// whatever its size, if asked so. None if nothing is ready, or the least does not fit.
    pub(super) fn batch(&self, moment: Moment, bytes: usize, whatever_size: bool) -> Option<Batch> {
        let candidates = self.candidates(moment);
        if candidates.is_empty() {
            return None;
        }
        let first = self.first(moment);
        let least = if first.is_some_and(|(_, alone)| !alone) { 2 } else { 1 };
        let first = first.map(|(message, _)| message);
        let rest = candidates.into_iter().filter(|message| first.is_none_or(|first| first.id != message.id));
        let mut batch = Batch::default();
        let (mut size, mut suspended) = (0_usize, false);
        for message in first.into_iter().chain(rest) {
            size = size.saturating_add(message.event.len());
            let fits = size <= bytes || batch.messages.len() < least && whatever_size;
            if suspended || !fits {
                batch.more = true;
                break;
            }
            suspended = message.is_suspend() && !moment.makes(M::SuspendDoesNotEndBatch);
            batch.messages.push(message.clone());
        }
        (batch.messages.len() >= least).then_some(batch)
    }

    /// The messages that its holder gets at once.
    pub(super) fn mail(&self, moment: Moment, bytes: usize) -> Batch {
        let bytes = if moment.makes(M::MailUnbounded) { usize::MAX } else { bytes };
        self.batch(moment, bytes, true).unwrap_or_default()
    }

    /// Whether the session that holds it has committed under its epoch.
    pub(super) fn has_committed(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.by.is_some() && last.fence.epoch == self.epoch)
    }

    /// Drops what an ended instance does not keep, and returns how many (4).
    pub(super) fn drop_of_ended(&mut self, moment: Moment) -> usize {
        let alone = moment.makes(M::EndDropsWhatFollowsAStart);
        let first = self.waiting().position(|message| opens(message).is_some());
        let stays: Vec<bool> = self
            .waiting()
            .enumerate()
            .map(|(at, message)| {
                let behind = first.is_some_and(|first| first < at) && !alone;
                opens(message).is_some() || behind && self.is_for_next_run(message)
            })
            .collect();
        let mut stays = stays.into_iter();
        let before = self.waiting().count();
        self.prologue.retain(|_| stays.next().unwrap_or(true));
        self.inbox.retain(|_| stays.next().unwrap_or(true));
        before - self.waiting().count()
    }

    /// Drops what waits for another run, and returns how many (5).
    pub(super) fn drop_of_others(&mut self, execution: ExecutionId) -> usize {
        let before = self.inbox.len();
        self.inbox.retain(|message| message.execution.is_none_or(|run| run == execution));
        before - self.inbox.len()
    }

    /// Events in the history.
    pub(super) fn history_len(&self) -> u32 {
        self.history.iter().map(|stored| stored.batch.count).sum()
    }

    /// Bytes in the history.
    pub(super) fn history_bytes(&self) -> u64 {
        self.history.iter().map(|stored| stored.batch.events.len() as u64).sum()
    }

    /// Remembers the id of a consumed message. The oldest are forgotten by number and age.
    pub(super) fn remember(&mut self, id: MessageId, now: Timestamp) {
        self.memory.retain(|(known, _)| *known != id);
        self.memory.push((id, now));
        while self.memory.len() > MEMORY_IDS_MAX || now.since(self.memory[0].1) > MEMORY_AGE_MAX {
            self.memory.remove(0);
        }
    }

    pub(super) fn remembers(&self, id: MessageId, now: Timestamp) -> bool {
        self.memory.iter().any(|(known, at)| *known == id && now.since(*at) <= MEMORY_AGE_MAX)
    }
}
