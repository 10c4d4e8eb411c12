//! One instance with all that belongs to it, and which of its messages a turn gets.

use std::collections::BTreeSet;
use std::convert::Infallible;

use dauer_store::{
    Checkpoint, Epoch, ExecutionId, Fence, Hold, InstanceId, Message, MessageId, QueueKey, Record, Revision,
    SessionId, StoredBatch, Tags, Timestamp,
};
use dauer_store_kit::inbox::{
    Admission, Candidate, Opening, Room, TurnBatch, begins_alone, is_for_next_run, is_for_run, leads,
    next_turn, outlives_end,
};
use dauer_store_kit::judge::{is_own_start, opens};

use super::Moment;
use super::applied::Applied;
use super::inbox::Inbox;
use super::index::Place;
use crate::defect::Defect;

/// The session that holds an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) session: SessionId,
    /// The number of the claim that won it, until the caller has the answer.
    pub(crate) won_by: Option<u64>,
}

impl Held {
    /// An item whose holder has been told of it.
    pub(crate) fn by(session: SessionId) -> Self {
        Self { session, won_by: None }
    }
}

/// What a repeated commit is recognised by, and answered from.
#[derive(Debug, Clone)]
pub(crate) struct LastCommit {
    /// The fence it carried.
    pub(crate) fence: Fence,
    /// Who committed; nobody for an amendment.
    pub(crate) by: Option<SessionId>,
    /// What an amendment changed. An epoch belongs to one session, so that a commit is known by its fence; but any two
    /// clients may amend from the same fence, and only one of them is told that it did.
    pub(crate) amendment: Option<Box<Checkpoint>>,
    /// The tasks it leased to the session.
    pub(crate) taken: Vec<MessageId>,
    /// The record before; only a defect keeps it.
    pub(crate) stale: Option<Box<Record>>,
}

/// An instance as it lies in the store.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    pub(crate) record: Record,
    pub(crate) epoch: Epoch,
    pub(crate) holder: Option<Held>,
    /// The session the epoch belongs to: it may claim again under the same one.
    pub(crate) last_holder: Option<SessionId>,
    /// The earliest time of a waiting, admitted message.
    pub(crate) ready_at: Option<Timestamp>,
    pub(crate) not_before: Timestamp,
    pub(crate) history: Vec<StoredBatch>,
    pub(crate) history_bytes: u64,
    pub(crate) prologue: Vec<Message>,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Vec<Message>,
    pub(crate) applied: Applied,
    pub(crate) last: Option<LastCommit>,
    /// Where it stands in the index of ready turns.
    pub(crate) place: Option<Place>,
}

fn candidate(message: &Message, moment: Moment) -> Candidate<MessageId, &Message> {
    let suspends = message.is_suspend() && !moment.defects.broken(Defect::SuspendDoesNotEndBatch);
    Candidate { key: message.id, bytes: message.event.len(), suspends, message }
}

impl Instance {
    pub(crate) fn new(record: Record, epoch: Epoch) -> Self {
        Self {
            record,
            epoch,
            holder: None,
            last_holder: None,
            ready_at: None,
            not_before: Timestamp::default(),
            history: Vec::new(),
            history_bytes: 0,
            prologue: Vec::new(),
            inbox: Inbox::default(),
            outbox: Vec::new(),
            applied: Applied::default(),
            last: None,
            place: None,
        }
    }

    pub(crate) fn fence(&self, id: &InstanceId) -> Fence {
        Fence {
            instance: id.clone(),
            execution: self.record.execution,
            revision: self.record.revision,
            epoch: self.epoch,
        }
    }

    /// Whether the session that holds it has committed under its epoch.
    pub(crate) fn has_committed(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.by.is_some() && last.fence.epoch == self.epoch)
    }

    /// Whether that message waits.
    pub(crate) fn waits(&self, id: MessageId) -> bool {
        self.waiting(id).is_some()
    }

    /// The waiting message of that id.
    pub(crate) fn waiting(&self, id: MessageId) -> Option<&Message> {
        self.inbox.get(id).or_else(|| self.prologue.iter().find(|message| message.id == id))
    }

    /// All that waits, in order.
    fn all(&self) -> impl Iterator<Item = &Message> {
        self.prologue.iter().chain(self.inbox.iter())
    }

    /// Whether a start or rewind waits.
    pub(crate) fn start_waits(&self) -> bool {
        self.all().any(|message| opens(message).is_some())
    }

    /// Whether the hold lets a message through.
    pub(crate) fn admits(&self, message: &Message, moment: Moment) -> bool {
        let broken = |defect| moment.defects.broken(defect);
        let hold = &self.record.hold;
        if *hold == Hold::Ended && broken(Defect::EndedHidesStart)
            || *hold == Hold::Control && broken(Defect::HoldControlAdmitsAll)
            || matches!(hold, Hold::From(_)) && broken(Defect::HoldFromAdmitsAll)
        {
            return *hold != Hold::Ended;
        }
        let opens_unborn = *hold == Hold::Unborn && broken(Defect::HoldUnbornAdmitsStarts);
        let own_start_waits = Admission::needs_start(&self.record) && self.waiting_start().is_some();
        Admission::of(&self.record, own_start_waits).admits(message)
            || opens_unborn && opens(message).is_some()
    }

    /// The queue under which claims find it.
    pub(crate) fn offered_queue(&self, moment: Moment) -> &QueueKey {
        let old = moment.defects.broken(Defect::EndedKeepsOldQueue);
        if old { &self.record.queue } else { &self.next_run().queue }
    }

    /// The tags under which claims find it.
    pub(crate) fn offered_tags(&self, moment: Moment) -> &Tags {
        let old = moment.defects.broken(Defect::EndedKeepsOldTags);
        if old { &self.record.tags } else { &self.next_run().tags }
    }

    /// The record whose code runs the next turn. An ended instance is opened by the waiting start: the code of the run
    /// that has ended may be gone.
    fn next_run(&self) -> &Record {
        if self.record.hold != Hold::Ended {
            return &self.record;
        }
        let waiting = self.all().find_map(opens);
        waiting.map_or(&self.record, |start| &start.record)
    }

    /// Finds again when it is ready, after messages went or the hold changed. Reads the visible messages and at most
    /// those later ones that the hold keeps back.
    pub(crate) fn refresh(&mut self, moment: Moment) {
        let of_prologue = self.prologue.iter().filter(|m| self.admits(m, moment)).map(|m| m.visible_at).min();
        let visible =
            self.inbox.visible(moment.now).filter(|m| self.admits(m, moment)).map(|m| m.visible_at).min();
        let later = || self.inbox.later(moment.now).find(|(_, m)| self.admits(m, moment)).map(|(at, _)| at);
        let of_inbox = visible.or_else(later);
        self.ready_at = [of_prologue, of_inbox].into_iter().flatten().min();
    }

    /// The messages of the next turn: visible, admitted, in order, up to the first suspend and about `budget` bytes;
    /// `None` when nothing is ready, or when not even the least that makes a turn fits.
    pub(crate) fn turn_batch(&self, moment: Moment, budget: usize, whatever_size: bool) -> Option<TurnBatch> {
        let admits = moment.defects.broken(Defect::HoldUnbornAdmitsStarts);
        let start = self.first_of_turn(moment).map(|start| {
            let alone = begins_alone(&self.record, start.visible_at, moment.now);
            (candidate(start, moment), alone || admits && start.visible_at <= moment.now)
        });
        let waiting = self.candidates(moment).into_iter().map(|message| candidate(message, moment));
        let room = Room { bytes: budget, whatever_size };
        let read = |found: Candidate<_, &Message>| Ok::<_, Infallible>(found.message.clone());
        next_turn(start, waiting, room, read).unwrap_or_else(|never| match never {})
    }

    /// The visible, admitted messages, in order.
    fn candidates(&self, moment: Moment) -> Vec<&Message> {
        let visible = |m: &&Message| m.visible_at <= moment.now && self.admits(m, moment);
        let mut prologue: Vec<&Message> = self.prologue.iter().filter(visible).collect();
        let mut inbox: Vec<&Message> = self.inbox.visible(moment.now).filter(visible).collect();
        if moment.defects.broken(Defect::Lifo) {
            inbox.reverse();
        }
        if moment.defects.broken(Defect::PrologueAfterInbox) {
            std::mem::swap(&mut prologue, &mut inbox);
        }
        prologue.append(&mut inbox);
        prologue
    }

    /// The message that a turn carries first, whether it is due or not.
    fn first_of_turn(&self, moment: Moment) -> Option<&Message> {
        let broken = |defect| moment.defects.broken(defect);
        if self.record.hold == Hold::Unborn {
            let start = self.all().find(|message| leads(&self.record, message));
            return start.filter(|_| !broken(Defect::UnbornWithoutStart));
        }
        self.waiting_start().filter(|_| !broken(Defect::PendingWithoutStart))
    }

    /// The start of the current run, while it has not been consumed.
    fn waiting_start(&self) -> Option<&Message> {
        self.waiting(self.record.start).filter(|message| is_own_start(&self.record, message))
    }

    /// Takes one message out of prologue or inbox.
    pub(crate) fn take(&mut self, id: MessageId) -> Option<Message> {
        match self.prologue.iter().position(|message| message.id == id) {
            Some(at) => Some(self.prologue.remove(at)),
            None => self.inbox.remove(id),
        }
    }

    /// Takes out of the inbox all messages that are for a run other than `execution`; answers how many.
    pub(crate) fn drop_other_executions(&mut self, execution: ExecutionId) -> u64 {
        self.inbox.retain(|message| is_for_run(message, execution))
    }

    /// Whether a message is for the run that a waiting start or rewind will begin: it stays behind that one, however the
    /// run before has ended.
    pub(crate) fn is_for_next_run(&self, message: &Message) -> bool {
        is_for_next_run(&self.openings(), message.execution)
    }

    /// The starts and rewinds that wait, in order.
    fn openings(&self) -> Vec<Opening<usize>> {
        self.all().enumerate().filter_map(|(at, message)| Opening::of(at, message)).collect()
    }

    /// Takes out all messages that an ended instance does not keep. Answers how many.
    pub(crate) fn drop_of_ended(&mut self, moment: Moment) -> u64 {
        let alone = moment.defects.broken(Defect::EndDropsWhatFollowsAStart);
        let openings = self.openings();
        let stays = |(at, message): &(usize, &Message)| {
            if alone { opens(message).is_some() } else { outlives_end(&openings, at, message) }
        };
        let stays: BTreeSet<MessageId> = self.all().enumerate().filter(stays).map(|(_, m)| m.id).collect();
        let before = self.prologue.len();
        self.prologue.retain(|message| stays.contains(&message.id));
        (before - self.prologue.len()) as u64 + self.inbox.retain(|message| stays.contains(&message.id))
    }

    /// How many events the history has: where the next batch begins.
    pub(crate) fn history_len(&self) -> u32 {
        self.history.last().map_or(0, |last| last.first.saturating_add(last.batch.count))
    }

    /// Adds a batch at the end of the history.
    pub(crate) fn push_history(&mut self, stored: StoredBatch) {
        self.history_bytes += stored.batch.events.len() as u64;
        self.history.push(stored);
    }

    /// Whether that commit did happen as the last one.
    pub(crate) fn repeats(&self, checkpoint: &Checkpoint, by: Option<SessionId>, moment: Moment) -> bool {
        let Some(last) = &self.last else { return false };
        if last.amendment.as_deref().is_some_and(|amendment| amendment != checkpoint) {
            return false;
        }
        let fence = &checkpoint.fence;
        let any_epoch = moment.defects.broken(Defect::RepeatIgnoresEpoch);
        self.record.revision == Revision(fence.revision.0.saturating_add(1))
            && last.fence.revision == fence.revision
            && last.fence.execution == fence.execution
            && (any_epoch || last.fence.epoch == fence.epoch && last.by == by)
            && !moment.defects.broken(Defect::RepeatIsFenced)
    }
}
