//! I12: what clients saw of each instance fits one order of all that happened to it, and every call has its place in that
//! order between its beginning and its answer.
//!
//! Commits are known to the simulator with the moment they happened, so they are points; the calls of clients are
//! intervals. The search is small: a call that only reads is placed as soon as it fits, because it changes nothing for
//! others; and there are hardly ever two calls at once that change something.

use std::collections::{BTreeMap, BTreeSet};
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
    start: Option<MessageId>,
    execution: ExecutionId,
    revision: Revision,
    status: Status,
    /// A start or rewind that came while it was there, and may wait for its turn: an ended one that has one is as good as
    /// begun for other starts, and for messages that come behind it.
    opening: Option<MessageId>,
}

/// What happened to an instance, or was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A commit: a point.
    Committed(View),
    /// A start or rewind that a commit sent: a point. It waits for its turn when the instance is there already, unless it
    /// is a repeat.
    Begun(MessageId, ExecutionId),
    /// A commit has consumed such a one: a point.
    Taken(MessageId),
    /// A start, and what its caller was told.
    Created(MessageId, Created),
    /// A start that was refused.
    Existed(Status),
    /// A start of which nobody knows.
    CreatedPerhaps(MessageId, ExecutionId),
    /// A look.
    Saw(Option<View>),
    /// A message, and whether its target was there and lived.
    Sent(Delivered),
    /// A purge that removed it, or did not.
    Purged(bool),
    /// A purge of which nobody knows.
    PurgedPerhaps,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    began: u64,
    /// `u64::MAX` when nobody knows whether and when it happened: then it need not have.
    ended: u64,
    what: What,
}

/// The history of all instances, as it is written.
#[derive(Default)]
pub(crate) struct ClientHistory {
    clock: AtomicU64,
    events: Mutex<BTreeMap<InstanceId, Vec<Event>>>,
    /// The starts and rewinds that commits have sent, and none has consumed.
    openings: Mutex<BTreeSet<MessageId>>,
}

impl View {
    /// What a record shows.
    pub(crate) fn of(record: &Record) -> Self {
        let Record { execution, revision, status, .. } = record;
        Self { start: None, execution: *execution, revision: *revision, status: *status, opening: None }
    }

    fn opens_again(&self) -> bool {
        self.status.is_ended() && self.opening.is_some()
    }

    fn same(&self, other: &Self) -> bool {
        (self.execution, self.revision, self.status) == (other.execution, other.revision, other.status)
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

    /// A commit has sent a start or rewind.
    pub(crate) fn begun(&self, instance: &InstanceId, id: MessageId, execution: ExecutionId) {
        unpoisoned(&self.openings).insert(id);
        self.point(instance, What::Begun(id, execution));
    }

    /// A commit has consumed a message.
    pub(crate) fn consumed(&self, instance: &InstanceId, id: MessageId) {
        if unpoisoned(&self.openings).remove(&id) {
            self.point(instance, What::Taken(id));
        }
    }

    /// A call that began then is answered now.
    pub(crate) fn answered(&self, instance: &InstanceId, began: u64, what: What) {
        let now = self.moment();
        let unknown = matches!(what, What::CreatedPerhaps(..) | What::PurgedPerhaps);
        self.push(instance, Event { began, ended: if unknown { u64::MAX } else { now }, what });
    }

    /// The answer to a start.
    pub(crate) fn created(
        &self,
        (instance, start, execution): (&InstanceId, MessageId, ExecutionId),
        began: u64,
        answer: &Result<Created, Refused>,
    ) {
        match answer {
            Ok(created) => self.answered(instance, began, What::Created(start, *created)),
            Err(Refused::Exists(status)) => self.answered(instance, began, What::Existed(*status)),
            Err(Refused::Unknown(_)) => {
                self.answered(instance, began, What::CreatedPerhaps(start, execution))
            }
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

/// The search for an order.
struct Search {
    events: Vec<Event>,
    /// The furthest that was come, for the report.
    furthest: (usize, String),
}

impl Search {
    fn new(events: &[Event]) -> Self {
        let mut events = events.to_vec();
        events.sort_by_key(|event| (event.began, event.ended));
        Self { events, furthest: (0, String::new()) }
    }

    fn run(mut self) -> Result<(), String> {
        let placed = Placed::none_of(&self.events);
        if self.place(placed, None) { Ok(()) } else { Err(self.furthest.1) }
    }

    /// Whether the rest can be placed after this state.
    fn place(&mut self, mut placed: Placed, mut state: Option<View>) -> bool {
        loop {
            let open = placed.open(&self.events);
            let Some(next) = open.iter().copied().find(|at| self.reads(*at, state)) else {
                if placed.owed == 0 {
                    return true;
                }
                let changes: Vec<(usize, Option<View>)> = open
                    .iter()
                    .filter_map(|at| Some((*at, change(&self.events[*at].what, state)?)))
                    .collect();
                let (Some((last, _)), count) = (changes.last(), changes.len()) else {
                    self.remember(&placed, &open, state);
                    return false;
                };
                let last = *last;
                for (at, after) in changes.into_iter().take(count - 1) {
                    let mut branch = placed.clone();
                    branch.add(at, &self.events);
                    if self.place(branch, after) {
                        return true;
                    }
                }
                let Some(after) = change(&self.events[last].what, state) else { return false };
                placed.add(last, &self.events);
                state = after;
                continue;
            };
            placed.add(next, &self.events);
        }
    }

    fn reads(&self, at: usize, state: Option<View>) -> bool {
        reads(&self.events[at].what, state)
    }

    fn remember(&mut self, placed: &Placed, open: &[usize], state: Option<View>) {
        let done = placed.is.iter().filter(|done| **done).count();
        if done >= self.furthest.0 {
            let waiting: Vec<&What> = open.iter().map(|at| &self.events[*at].what).collect();
            self.furthest =
                (done, format!("after {done} events it is {state:?}, and nothing of {waiting:?} fits"));
        }
    }
}

/// Which events have their place. Those before `from` are looked at no more, so that a long history is passed through once.
#[derive(Clone)]
struct Placed {
    is: Vec<bool>,
    /// Everything before has its place, or need not have happened.
    from: usize,
    /// What is before `from` and has no place.
    perhaps: Vec<usize>,
    /// How many have none and must have one.
    owed: usize,
}

impl Placed {
    fn none_of(events: &[Event]) -> Self {
        let owed = events.iter().filter(|event| event.ended != u64::MAX).count();
        let mut placed = Self { is: vec![false; events.len()], from: 0, perhaps: Vec::new(), owed };
        placed.go_on(events);
        placed
    }

    fn add(&mut self, at: usize, events: &[Event]) {
        self.is[at] = true;
        self.owed -= usize::from(events[at].ended != u64::MAX);
        self.perhaps.retain(|perhaps| *perhaps != at);
        self.go_on(events);
    }

    fn go_on(&mut self, events: &[Event]) {
        while let Some(event) = events.get(self.from)
            && (self.is[self.from] || event.ended == u64::MAX)
        {
            if !self.is[self.from] {
                self.perhaps.push(self.from);
            }
            self.from += 1;
        }
    }

    /// What may come next: nothing else that is left was answered before it began. What need not have happened never ends,
    /// and began before all that follows: it always may.
    fn open(&self, events: &[Event]) -> Vec<usize> {
        let mut open = self.perhaps.clone();
        let mut first_end = u64::MAX;
        for (at, event) in events.iter().enumerate().skip(self.from).filter(|(at, _)| !self.is[*at]) {
            if event.began > first_end {
                break;
            }
            first_end = first_end.min(event.ended);
            open.push(at);
        }
        open.retain(|at| events[*at].began <= first_end);
        open
    }
}

/// Whether that fits the state and leaves it as it is.
fn reads(what: &What, state: Option<View>) -> bool {
    match (what, state) {
        (What::Saw(None), None) | (What::Purged(false), None) => true,
        (What::Sent(Delivered::Dropped(DropReason::Absent)), None) => true,
        (What::Begun(id, _), Some(at)) => at.start == Some(*id) || at.opening.is_some(),
        (What::Taken(id), at) => at.is_none_or(|at| at.opening != Some(*id)),
        (What::Saw(Some(seen)), Some(at)) => at.same(seen),
        (What::Created(start, Created::Repeat(_)), Some(at)) => at.start == Some(*start),
        (What::Existed(Status::Pending), Some(at)) if at.opens_again() => true,
        (What::Existed(status), Some(at)) => at.status == *status,
        (What::Sent(Delivered::Applied), Some(at)) => !at.status.is_ended() || at.opens_again(),
        (What::Sent(Delivered::Dropped(DropReason::Ended)), Some(at)) => at.status.is_ended(),
        (What::Sent(Delivered::Dropped(DropReason::Absent)), Some(_)) => false,
        // A repeat, or a message for another run, is dropped whatever the state is.
        (What::Sent(Delivered::Dropped(_)), Some(_)) => true,
        (What::Purged(false), Some(at)) => !at.status.is_ended() || at.opens_again(),
        _ => false,
    }
}

/// The state afterwards, if that fits the state and changes it.
fn change(what: &What, state: Option<View>) -> Option<Option<View>> {
    let pending = |start: MessageId, execution: ExecutionId| {
        let (revision, status) = (Revision::default(), Status::Pending);
        Some(View { start: Some(start), execution, revision, status, opening: None })
    };
    match (what, state) {
        (What::Committed(after), Some(before)) if after.revision == before.revision.next() => {
            Some(Some(View { start: before.start, opening: before.opening, ..*after }))
        }
        (What::Begun(id, _), Some(at)) => Some(Some(View { opening: Some(*id), ..at })),
        (What::Taken(_), Some(at)) => Some(Some(View { opening: None, ..at })),
        (What::Begun(start, execution), None) => Some(pending(*start, *execution)),
        // A request that was delivered twice is answered as the second time was: its own repeat.
        (What::Created(start, Created::New(execution) | Created::Repeat(execution)), None) => {
            Some(pending(*start, *execution))
        }
        (What::CreatedPerhaps(start, execution), None) => Some(pending(*start, *execution)),
        // Another start begins an ended one anew; its revision goes on.
        (
            What::Created(start, Created::New(execution) | Created::Repeat(execution))
            | What::CreatedPerhaps(start, execution),
            Some(at),
        ) if at.status.is_ended() && at.start != Some(*start) => {
            let begun = pending(*start, *execution);
            Some(begun.map(|view| View { revision: at.revision.next(), ..view }))
        }
        // The second time of a purge that was delivered twice found nothing.
        (What::Purged(_) | What::PurgedPerhaps, Some(at)) if at.status.is_ended() => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
