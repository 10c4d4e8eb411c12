//! I12: what clients saw of each instance fits one order of all that happened to it, and every call has its place in that
//! order between its beginning and its answer.
//!
//! The journal sees every change in the poll that makes it: commits, instances that come to be, removals, starts that wait.
//! They are points. The answers that clients got are intervals, and change nothing. An answer is placed as soon as it fits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use dauer_store::{
    Created, Delivered, DropReason, ExecutionId, Fence, InstanceId, MessageId, Record, Refused, Revision,
    Status,
};

use crate::unpoisoned;

/// An instance as clients can see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    start: MessageId,
    execution: ExecutionId,
    revision: Revision,
    status: Status,
}

/// What happened to an instance, or was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The instance came to be, at whatever revision the store gives it, or a start has replaced an ended run: a point.
    Founded(View),
    /// The instance was removed: a point.
    Removed,
    /// A commit: a point.
    Committed(View),
    /// A start or rewind waits for its turn at an instance that was there before: a point.
    Begun(MessageId),
    /// A commit has consumed a start or rewind: a point.
    Taken(MessageId),
    /// A start, and what its caller was told.
    Created(MessageId, Created),
    /// A start that was refused.
    Existed(Status),
    /// A look.
    Saw(Option<View>),
    /// A message, and whether its target was there and lived.
    Sent(Delivered),
    /// A purge that did not remove it.
    Kept,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    began: u64,
    ended: u64,
    what: What,
}

/// One instance at one moment.
#[derive(Debug, Clone, Default)]
struct State {
    /// `None` while it is absent.
    view: Option<View>,
    /// Starts and rewinds that came while it was there, and wait for their turn. An ended instance that has one is as good
    /// as begun for other starts, and for messages that come behind it.
    openings: Vec<MessageId>,
    /// Every start that it ever had: the same again is a repeat.
    known: BTreeSet<MessageId>,
    /// The starts that it had since it was last absent. None of them begins another run.
    remembered: BTreeSet<MessageId>,
}

/// The history of all instances, as it is written.
#[derive(Default)]
pub(crate) struct ClientHistory {
    clock: AtomicU64,
    events: Mutex<BTreeMap<InstanceId, Vec<Event>>>,
    /// The starts and rewinds that were sent, and no commit has consumed.
    openings: Mutex<BTreeSet<MessageId>>,
}

impl View {
    /// What a record shows.
    pub(crate) fn of(record: &Record) -> Self {
        let Record { start, execution, revision, status, .. } = record;
        Self { start: *start, execution: *execution, revision: *revision, status: *status }
    }
}

impl State {
    fn know(&mut self, start: MessageId) {
        self.known.insert(start);
        self.remembered.insert(start);
    }

    fn opens_again(&self) -> bool {
        self.is_ended() && !self.openings.is_empty()
    }

    fn is_ended(&self) -> bool {
        self.view.is_some_and(|view| view.status.is_ended())
    }

    fn lives(&self) -> bool {
        self.view.is_some_and(|view| !view.status.is_ended()) || self.opens_again()
    }
}

impl ClientHistory {
    /// A call begins, or something happens: the moments are counted.
    pub(crate) fn moment(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn push(&self, instance: &InstanceId, event: Event) {
        let mut events = unpoisoned(&self.events);
        match events.get_mut(instance) {
            Some(of_instance) => of_instance.push(event),
            None => drop(events.insert(instance.clone(), vec![event])),
        }
    }

    /// Something has happened just now.
    pub(crate) fn point(&self, instance: &InstanceId, what: What) {
        let now = self.moment();
        self.push(instance, Event { began: now, ended: now, what });
    }

    /// A start or rewind is on its way.
    pub(crate) fn opens(&self, id: MessageId) {
        unpoisoned(&self.openings).insert(id);
    }

    /// A commit has consumed a message.
    pub(crate) fn consumed(&self, instance: &InstanceId, id: MessageId) {
        if unpoisoned(&self.openings).remove(&id) {
            self.point(instance, What::Taken(id));
        }
    }

    /// A call that began then is answered now.
    pub(crate) fn answered(&self, instance: &InstanceId, began: u64, what: What) {
        let ended = self.moment();
        self.push(instance, Event { began, ended, what });
    }

    /// The answer to a start. One of unknown outcome proves nothing: if it had an effect, the journal has seen it.
    pub(crate) fn created(
        &self,
        (instance, start): (&InstanceId, MessageId),
        began: u64,
        answer: &Result<Created, Refused>,
    ) {
        match answer {
            Ok(created) => self.answered(instance, began, What::Created(start, *created)),
            Err(Refused::Exists(status)) => self.answered(instance, began, What::Existed(*status)),
            Err(_) => {}
        }
    }

    /// The answer to a look.
    pub(crate) fn saw(&self, instance: &InstanceId, began: u64, found: Option<&(Fence, Record)>) {
        self.answered(instance, began, What::Saw(found.map(|(_, record)| View::of(record))));
    }

    /// What does not fit, and how many calls were compared.
    pub(crate) fn check(&self) -> (u64, Vec<String>) {
        let mut checked = 0;
        let mut violations = Vec::new();
        for (instance, events) in unpoisoned(&self.events).iter() {
            checked += events.iter().filter(|event| !matches!(event.what, What::Committed(_))).count() as u64;
            if let Err(stuck) = Search::new(events).run() {
                violations.push(format!("I12 {instance}: {stuck}"));
            }
        }
        (checked, violations)
    }
}

/// The search for an order: the points in theirs, and each answer at the first state of its interval that it fits.
struct Search {
    events: Vec<Event>,
}

impl Search {
    fn new(events: &[Event]) -> Self {
        let mut events = events.to_vec();
        events.sort_by_key(|event| (event.began, event.ended));
        Self { events }
    }

    fn run(self) -> Result<(), String> {
        let mut state = State::default();
        // Answers that have begun and have no place yet.
        let mut open: Vec<Event> = Vec::new();
        for event in &self.events {
            // An interval that ended before this event begins must have fitted by now.
            Self::place(&mut open, &state, event.began)?;
            if event.began == event.ended {
                if !state.change(&event.what) {
                    return Err(format!("it is {state}, and {:?} does not follow", event.what));
                }
            } else {
                open.push(*event);
            }
        }
        Self::place(&mut open, &state, u64::MAX)
    }

    /// Places what fits the state; fails when something that ended before `now` has no place.
    fn place(open: &mut Vec<Event>, state: &State, now: u64) -> Result<(), String> {
        open.retain(|event| !state.reads(&event.what));
        match open.iter().find(|event| event.ended < now) {
            Some(event) => Err(format!("it is {state}, and nothing that a client saw fits {:?}", event.what)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.view {
            Some(view) => write!(f, "{view:?}, {} starts wait", self.openings.len()),
            None => f.write_str("absent"),
        }
    }
}

impl State {
    /// Whether an answer fits the state, which it leaves as it is.
    fn reads(&self, what: &What) -> bool {
        match (what, self.view) {
            (What::Saw(None) | What::Kept, None) => true,
            (What::Sent(Delivered::Dropped(DropReason::Absent)), view) => view.is_none(),
            (What::Saw(Some(seen)), Some(at)) => {
                (at.execution, at.revision, at.status) == (seen.execution, seen.revision, seen.status)
            }
            (What::Created(start, Created::New(execution)), Some(at)) => {
                (at.start, at.execution) == (*start, *execution)
            }
            (What::Created(start, Created::Replacing(_)), Some(at)) => {
                at.start == *start || self.openings.contains(start)
            }
            // The run of a repeat is that of the start that is there or waits; there is none when the start is gone.
            (What::Created(start, Created::Repeat(Some(execution))), Some(at)) => {
                (at.start, at.execution) == (*start, *execution) || self.openings.contains(start)
            }
            (What::Created(start, Created::Repeat(None)), _) => self.known.contains(start),
            (What::Existed(Status::Pending), Some(_)) if self.opens_again() => true,
            (What::Existed(status), Some(at)) => at.status == *status,
            (What::Sent(Delivered::Applied), Some(_)) => self.lives(),
            (What::Sent(Delivered::Dropped(DropReason::Ended)), Some(_)) => self.is_ended(),
            // A repeat, or a message for another run, is dropped whatever the state is.
            (What::Sent(Delivered::Dropped(_)), Some(_)) => true,
            (What::Kept, Some(_)) => self.lives(),
            _ => false,
        }
    }

    /// Lets a point happen; false when it does not fit the state.
    fn change(&mut self, what: &What) -> bool {
        match (what, self.view) {
            (What::Founded(new), None) => {
                self.know(new.start);
                self.view = Some(*new);
            }
            // Another start begins an ended one again; its revision goes on.
            (What::Founded(new), Some(at))
                if at.status.is_ended()
                    && self.openings.is_empty()
                    && !self.remembered.contains(&new.start)
                    && new.revision == at.revision.next() =>
            {
                self.know(new.start);
                self.view = Some(*new);
            }
            (What::Removed, Some(at)) if at.status.is_ended() && self.openings.is_empty() => {
                self.view = None;
                self.remembered.clear();
            }
            (What::Committed(after), Some(before)) if after.revision == before.revision.next() => {
                // An amendment brings the start of the run that it begins.
                self.know(after.start);
                self.view = Some(*after);
            }
            (What::Begun(id), Some(_)) => {
                self.know(*id);
                self.openings.push(*id);
            }
            (What::Taken(id), _) => self.openings.retain(|opening| opening != id),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests;
