//! The waiting messages of one instance, in the order of delivery.
//!
//! The messages that precede the inbox come first, in the order in which they were named. All others follow by the time at
//! which each could first be delivered, then by arrival. That keeps the order of each sender for messages without delay,
//! fires timers in the order of their times, and makes the visible messages a prefix: no turn walks over sleeping timers.

use std::sync::Arc;

use dauer_store::{Class, ExecutionId, Hold, Message, MessageId, Record, Timestamp};

use crate::few::Few;
use crate::inbox::{Admission, OpenedRun, leads};
use crate::judge::{is_own_start, opens};

/// Where a message stands in its inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// False if it precedes the inbox.
    pub follows: bool,
    /// When it could first be delivered; before the inbox, its position there.
    pub at: Timestamp,
    /// The order of arrival.
    pub sequence: u64,
}

impl Place {
    /// The place of a message that arrives now, or is loaded behind one of that time.
    #[must_use]
    pub fn arrival(message: &Message, now: Timestamp, sequence: u64) -> Self {
        Self { follows: true, at: message.visible_at.max(now), sequence }
    }

    /// A place before the inbox.
    #[must_use]
    pub fn before(position: i64) -> Self {
        Self { follows: false, at: Timestamp(position), sequence: 0 }
    }

    /// The last place of which the message could be delivered at `now`.
    fn last_visible(now: Timestamp) -> Self {
        Self { follows: true, at: now, sequence: u64::MAX }
    }

    /// The first place in the inbox.
    const FIRST: Self = Self { follows: true, at: Timestamp(i64::MIN), sequence: 0 };
}

/// A message in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its place.
    pub place: Place,
    /// The message.
    pub message: Arc<Message>,
}

/// The waiting messages, or those of them that a decision asks for.
#[derive(Debug, Clone, Default)]
pub struct Inbox {
    messages: Few<Place, Arc<Message>>,
    places: Few<MessageId, Place>,
    openings: Few<Place, ()>,
    /// Messages that name a run.
    of_runs: Few<Place, ()>,
    /// None where every message is admitted.
    filter: Option<Filter>,
}

/// Which messages a hold admits. It is found again only when the hold changes, not for each turn.
#[derive(Debug, Clone)]
struct Filter {
    hold: Hold,
    rewinds: bool,
    admitted: Few<Place, ()>,
}

impl Inbox {
    /// The inbox of those messages.
    #[must_use]
    pub fn of(waiting: impl IntoIterator<Item = Waiting>) -> Self {
        let mut inbox = Self::default();
        waiting.into_iter().for_each(|waiting| inbox.insert(waiting));
        inbox
    }

    /// Adds a message.
    pub fn insert(&mut self, waiting: Waiting) {
        let Waiting { place, message } = waiting;
        if let Some(Filter { hold, rewinds, admitted }) = &mut self.filter
            && Admission::new(hold.as_ref(), *rewinds).admits(&message)
        {
            admitted.insert(place, ());
        }
        if opens(&message).is_some() {
            self.openings.insert(place, ());
        }
        if message.execution.is_some() {
            self.of_runs.insert(place, ());
        }
        self.places.insert(message.id, place);
        self.messages.insert(place, message);
    }

    /// Removes a message.
    pub fn remove(&mut self, id: MessageId) -> Option<Waiting> {
        let place = self.places.remove(&id)?;
        self.remove_at(place)
    }

    fn remove_at(&mut self, place: Place) -> Option<Waiting> {
        let message = self.messages.remove(&place)?;
        if self.places.get(&message.id) == Some(&place) {
            self.places.remove(&message.id);
        }
        self.openings.remove(&place);
        self.of_runs.remove(&place);
        if let Some(filter) = &mut self.filter {
            filter.admitted.remove(&place);
        }
        Some(Waiting { place, message })
    }

    /// The message of that id.
    #[must_use]
    pub fn get(&self, id: MessageId) -> Option<&Arc<Message>> {
        self.messages.get(self.places.get(&id)?)
    }

    /// How many messages wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether no message waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// All messages in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Place, &Arc<Message>)> {
        self.messages.iter()
    }

    /// The messages that precede the inbox, in order.
    pub fn prologue(&self) -> impl Iterator<Item = (&Place, &Arc<Message>)> {
        self.messages.range(..Place::FIRST)
    }

    /// The waiting starts and rewinds, in order.
    pub fn openings(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.openings.iter().filter_map(|(place, ())| self.messages.get(place))
    }

    /// The same as places and runs.
    #[must_use]
    pub fn opened_runs(&self) -> Vec<OpenedRun<Place>> {
        let opening = |(place, ()): (&Place, &())| OpenedRun::of(*place, self.messages.get(place)?);
        self.openings.iter().filter_map(opening).collect()
    }

    /// Whether a start or rewind waits.
    #[must_use]
    pub fn has_opening(&self) -> bool {
        !self.openings.is_empty()
    }

    /// The waiting starts with an id in that range.
    pub fn starts_in(
        &self,
        ids: &std::ops::RangeInclusive<MessageId>,
    ) -> impl Iterator<Item = &Arc<Message>> {
        self.openings().filter(move |m| ids.contains(&m.id) && matches!(m.class, Class::Start(_)))
    }

    /// The start of the record's run, if it waits.
    #[must_use]
    pub fn own_start(&self, record: &Record) -> Option<&Arc<Message>> {
        self.get(record.start).filter(|message| is_own_start(record, message))
    }

    /// The message that a turn begins with, whether it is due or not.
    #[must_use]
    pub fn leading(&self, record: &Record) -> Option<&Arc<Message>> {
        match record.hold() {
            Hold::Unborn => self.openings().find(|message| leads(record, message)),
            Hold::Open | Hold::Control | Hold::From(_) | Hold::Ended => self.own_start(record),
        }
    }

    /// Admits what an instance with that record takes.
    pub fn admit_for(&mut self, record: &Record) {
        if record.hold() == Hold::Open {
            self.filter = None;
            return;
        }
        let own_start = Admission::needs_start(record) && self.own_start(record).is_some();
        let admission = Admission::of(record, own_start);
        let rewinds = admission.rewinds();
        if self.filter.as_ref().is_some_and(|f| f.hold.as_ref() == record.hold() && f.rewinds == rewinds) {
            return;
        }
        let admitted = self.messages.iter().filter(|(_, message)| admission.admits(message));
        let admitted = admitted.map(|(place, _)| *place).collect();
        self.filter = Some(Filter { hold: record.hold().to_owned(), rewinds, admitted });
    }

    /// The visible, admitted messages in order.
    pub fn ready(&self, now: Timestamp) -> impl Iterator<Item = &Arc<Message>> {
        let end = Place::last_visible(now);
        let some = self.filter.as_ref().map(|filter| filter.admitted.range(..=end));
        let some = some.into_iter().flatten();
        let some = some.filter_map(|(place, ())| Some((place, self.messages.get(place)?)));
        let all = self.filter.is_none().then(|| self.messages.range(..=end));
        let visible = some.chain(all.into_iter().flatten());
        visible.map(|(_, message)| message).filter(move |message| message.visible_at <= now)
    }

    /// The earliest time of an admitted message.
    #[must_use]
    pub fn earliest(&self) -> Option<Timestamp> {
        let is_admitted = |place: &Place| self.filter.as_ref().is_none_or(|f| f.admitted.contains(place));
        let before = self.prologue().filter(|(place, _)| is_admitted(place));
        let before = before.map(|(_, message)| message.visible_at).min();
        let behind = match &self.filter {
            Some(filter) => filter.admitted.range(Place::FIRST..).next().map(|(place, ())| place),
            None => self.messages.range(Place::FIRST..).next().map(|(place, _)| place),
        };
        before.into_iter().chain(behind.map(|place| place.at)).min()
    }

    /// Removes the messages in the inbox that are for a run other than `execution`.
    pub(super) fn remove_other_runs(&mut self, execution: ExecutionId) -> Vec<Waiting> {
        let of_runs = self.of_runs.range(Place::FIRST..).map(|(place, ())| place);
        let is_other = |place: &&Place| {
            self.messages.get(place).is_some_and(|message| !crate::inbox::is_for_run(message, execution))
        };
        let others: Vec<Place> = of_runs.filter(is_other).copied().collect();
        others.into_iter().filter_map(|place| self.remove_at(place)).collect()
    }

    /// Removes the messages that an ended instance does not keep. Most ended instances keep none, and need no room for more.
    pub(super) fn remove_of_ended(&mut self) -> Vec<Waiting> {
        let openings = self.opened_runs();
        let goes = |(place, message): &(&Place, &Arc<Message>)| {
            !crate::inbox::outlives_end(&openings, *place, message)
        };
        let gone: Vec<Place> = self.messages.iter().filter(goes).map(|(place, _)| *place).collect();
        let gone = gone.into_iter().filter_map(|place| self.remove_at(place)).collect();
        if self.messages.is_empty() {
            *self = Self::default();
        }
        gone
    }

    /// Removes all messages.
    pub(super) fn clear(&mut self) -> Vec<Waiting> {
        let mut messages = std::mem::take(self).messages;
        messages.take().map(|(place, message)| Waiting { place, message }).collect()
    }

    /// The place before the inbox at which a new prologue of `count` messages begins: in front of the old one.
    pub(super) fn prologue_begin(&self, count: usize) -> i64 {
        let first = self.prologue().next().map_or(0, |(place, _)| place.at.0);
        first.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// The place of a message that is loaded behind all others.
    #[must_use]
    pub fn place_behind(&self, message: &Message, sequence: u64) -> Place {
        let last = self.messages.range(Place::FIRST..).next_back();
        let last = last.map_or(message.visible_at, |(place, _)| place.at);
        Place::arrival(message, last, sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::testing::*;

    fn filled(messages: &[Message]) -> Inbox {
        let places = (1..).zip(messages);
        let waiting = |(sequence, message): (u64, &Message)| Waiting {
            place: Place::arrival(message, NOW, sequence),
            message: Arc::new(message.clone()),
        };
        Inbox::of(places.map(waiting))
    }

    fn ready_numbers(inbox: &Inbox, now: Timestamp) -> Vec<u8> {
        inbox.ready(now).map(|message| message.id.0[0]).collect()
    }

    #[test]
    fn sleeping_messages_are_ready_in_the_order_of_their_times() {
        let later = |number, after| Message { visible_at: Timestamp(NOW.0 + after), ..event(number) };
        let inbox = filled(&[later(1, 20), event(2), later(3, 10), event(4)]);
        assert_eq!(ready_numbers(&inbox, NOW), [2, 4]);
        assert_eq!(ready_numbers(&inbox, Timestamp(NOW.0 + 10)), [2, 4, 3]);
        assert_eq!(ready_numbers(&inbox, Timestamp(NOW.0 + 20)), [2, 4, 3, 1]);
        assert_eq!(inbox.earliest(), Some(NOW));
    }

    #[test]
    fn hold_filters_messages_that_waited_before_it_and_after() {
        let mut inbox = filled(&[event(1), suspend(2)]);
        let held = Record { status: dauer_store::Status::Suspended, history_len: 1, ..record() };
        inbox.admit_for(&held);
        inbox.insert(Waiting { place: Place::arrival(&event(3), NOW, 7), message: Arc::new(event(3)) });
        inbox.insert(Waiting { place: Place::arrival(&suspend(4), NOW, 8), message: Arc::new(suspend(4)) });
        assert_eq!(ready_numbers(&inbox, NOW), [2, 4]);
        inbox.remove(suspend(2).id);
        assert_eq!(ready_numbers(&inbox, NOW), [4]);
        inbox.admit_for(&Record { status: dauer_store::Status::Running, ..held });
        assert_eq!(ready_numbers(&inbox, NOW), [1, 3, 4]);
    }

    #[test]
    fn new_prologue_stands_before_the_old_one() {
        let mut inbox = filled(&[event(9)]);
        for (position, number) in [(-1, 1), (-3, 2), (-2, 3)] {
            let place = Place::before(position);
            inbox.insert(Waiting { place, message: Arc::new(event(number)) });
        }
        assert_eq!(ready_numbers(&inbox, NOW), [2, 3, 1, 9]);
        assert_eq!(inbox.prologue_begin(2), -5);
    }

    #[test]
    fn messages_of_other_runs_are_removed_from_the_inbox_only() {
        let of_run = |number, run| Message { execution: Some(ExecutionId(run)), ..event(number) };
        let mut inbox = filled(&[of_run(1, 7), of_run(2, 8), event(3)]);
        inbox.insert(Waiting { place: Place::before(0), message: Arc::new(of_run(4, 7)) });
        let removed = inbox.remove_other_runs(ExecutionId(8));
        assert_eq!(removed.iter().map(|w| w.message.id.0[0]).collect::<Vec<_>>(), [1]);
        assert_eq!(ready_numbers(&inbox, NOW), [4, 2, 3]);
    }
}
