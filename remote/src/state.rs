//! The streams of a hub, the room they have, and the tokens that are out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::channel::mpsc::{Sender, UnboundedSender};
use futures::channel::oneshot;

use dauer_core::model::{Filter, QueueKey, Queues, VersionRule};
use dauer_core::workitem::{Assembly, Tokens, Work};
use dauer_hub::Capacity;
use dauer_proto::{WorkItem, WorkItemRequest};
use dauer_store::Steady;

use crate::debts::Debts;
use crate::flight::Event;
use crate::line::LineIn;
use crate::options::Worker;

/// Which kind of work an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Turn,
    Activity,
}

/// One stream, by the order in which it came.
pub(crate) type StreamId = u64;

/// A connected worker.
struct Connected {
    worker: Worker,
    turns: usize,
    activities: usize,
    line: LineIn,
}

impl Connected {
    fn held(&self, side: Side) -> usize {
        match side {
            Side::Turn => self.turns,
            Side::Activity => self.activities,
        }
    }

    fn held_mut(&mut self, side: Side) -> &mut usize {
        match side {
            Side::Turn => &mut self.turns,
            Side::Activity => &mut self.activities,
        }
    }

    fn most(&self, side: Side) -> usize {
        match side {
            Side::Turn => self.worker.turns_max.min(self.worker.items_max),
            Side::Activity => self.worker.activities_max.min(self.worker.items_max),
        }
    }

    /// All that it has in its hands.
    fn load(&self) -> usize {
        self.turns + self.activities
    }

    fn has_room(&self, side: Side) -> bool {
        self.held(side) < self.most(side) && self.load() < self.worker.items_max && self.line.has_room()
    }
}

/// An item that a worker has.
pub(crate) struct Dispatched {
    pub(crate) stream: StreamId,
    pub(crate) side: Side,
    /// Whether the worker's answer names its token.
    pub(crate) names_tokens: bool,
    /// To the flight that the item is on.
    pub(crate) tell: UnboundedSender<Event>,
    /// What of the answer has come.
    pub(crate) assembly: Assembly,
    /// The highest id of an action that the run has asked for before.
    pub(crate) last_action: i32,
    /// The worker has lost its stream, and may answer over another one until then.
    pub(crate) lost_until: Option<Steady>,
}

/// An item as large as it is with and without its history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) whole: usize,
    pub(crate) bare: usize,
}

/// Where an item can go now.
pub(crate) enum Place {
    /// To this stream, with its history.
    Whole(StreamId),
    /// To this stream, which fetches the history.
    Streamed(StreamId),
    /// Those who could take it are busy; this tells when one no longer is.
    Busy(oneshot::Receiver<()>),
    /// It is larger than any of those could read who could take it; at most so many bytes.
    TooLarge(usize),
    /// Nobody is there who could take it; this tells when somebody comes.
    Nobody(oneshot::Receiver<()>),
}

pub(crate) struct State {
    pub(crate) tokens: Tokens<Dispatched>,
    /// The last number that an activity was given for a worker that names no token.
    numbers: i32,
    pub(crate) debts: Debts,
    streams: BTreeMap<StreamId, Connected>,
    connected: StreamId,
    waiting: Vec<oneshot::Sender<()>>,
    changes: Option<Sender<()>>,
    pub(crate) closed: bool,
}

impl State {
    pub(crate) fn new(seed: u128) -> Self {
        Self {
            tokens: Tokens::new(seed),
            // Not where the last process began: what was given out by that one may still be answered.
            numbers: (seed as u32 >> 1) as i32,
            debts: Debts::default(),
            streams: BTreeMap::new(),
            connected: 0,
            waiting: Vec::new(),
            changes: None,
            closed: false,
        }
    }

    pub(crate) fn connect(&mut self, worker: Worker, line: LineIn) -> StreamId {
        self.connected += 1;
        if !self.closed {
            let connected = Connected { worker, turns: 0, activities: 0, line };
            self.streams.insert(self.connected, connected);
            self.tell_of_room();
        }
        self.connected
    }

    /// A stream is gone: so is what was on its way to it, and the flights of its items are told. Its worker may answer over
    /// another stream until `until`.
    pub(crate) fn disconnect(&mut self, stream: StreamId, until: Steady) {
        let Some(gone) = self.streams.remove(&stream) else { return };
        let names_tokens = gone.worker.names_tokens;
        self.debts.shorten(stream, until);
        for dispatched in self.tokens.all_mut().filter(|dispatched| dispatched.stream == stream) {
            dispatched.lost_until = Some(until);
            // A flight that has ended does not care.
            let _ = dispatched.tell.unbounded_send(Event::Lost { stream, names_tokens });
        }
        self.tell_host();
    }

    /// Every stream ends, and nobody can connect any more. What was handed out may still be answered.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.streams.clear();
        self.tell_host();
    }

    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn held(&self, side: Side) -> usize {
        self.streams.values().map(|connected| connected.held(side)).sum()
    }

    pub(crate) fn listen(&mut self, changes: Sender<()>) {
        self.changes = Some(changes);
    }

    /// Where an item of that queue can go. Streams that were asked before come last; among the others the one that has
    /// the least in its hands.
    pub(crate) fn place(
        &mut self,
        side: Side,
        queue: &QueueKey,
        size: Size,
        (asked, streamed_from): (&BTreeSet<StreamId>, usize),
    ) -> Place {
        let able = || self.streams.iter().filter(|(_, connected)| connected.worker.queues.admits(queue));
        let fits = |connected: &Connected| {
            let Worker { item_bytes_max: max, streams_history, .. } = connected.worker;
            let streamed = streams_history && (size.whole > max || size.whole - size.bare >= streamed_from);
            let bytes = if streamed { size.bare } else { size.whole };
            (bytes <= max).then_some(streamed)
        };
        let Some(most) = able().map(|(_, connected)| connected.worker.item_bytes_max).max() else {
            return Place::Nobody(self.wait_for_room());
        };
        let fitting = able().filter_map(|(id, connected)| Some((*id, connected, fits(connected)?)));
        let fitting: Vec<_> = fitting.collect();
        if fitting.is_empty() {
            return Place::TooLarge(most);
        }
        let free = fitting.into_iter().filter(|(_, connected, _)| connected.has_room(side));
        match free.min_by_key(|(id, connected, _)| (asked.contains(id), connected.load(), *id)) {
            Some((id, _, false)) => Place::Whole(id),
            Some((id, _, true)) => Place::Streamed(id),
            None => Place::Busy(self.wait_for_room()),
        }
    }

    pub(crate) fn wait_for_room(&mut self) -> oneshot::Receiver<()> {
        let (tell, room) = oneshot::channel();
        self.waiting.retain(|waiting| !waiting.is_canceled());
        self.waiting.push(tell);
        room
    }

    /// Whether a worker that was not asked yet could take it now.
    pub(crate) fn has_other(&self, side: Side, queue: &QueueKey, asked: &BTreeSet<StreamId>) -> bool {
        let others = self.streams.iter().filter(|(id, _)| !asked.contains(id));
        others
            .map(|(_, connected)| connected)
            .any(|other| other.has_room(side) && other.worker.queues.admits(queue))
    }

    /// Hands an item to a stream that [`State::place`] has just named; gives its token.
    pub(crate) fn send(
        &mut self,
        work: Work,
        dispatched: Dispatched,
        (item, bytes): (WorkItem, usize),
    ) -> String {
        let Dispatched { stream, side, names_tokens, .. } = dispatched;
        let (work, item) = if names_tokens { (work, item) } else { self.numbered(work, item) };
        let token = self.tokens.issue(work, dispatched);
        if let Some(connected) = self.streams.get_mut(&stream) {
            connected.line.send(WorkItem { completion_token: token.clone(), ..item }, bytes);
            *connected.held_mut(side) += 1;
            if !connected.has_room(Side::Turn) || !connected.has_room(Side::Activity) {
                self.tell_host();
            }
        }
        token
    }

    /// Whether the worker on that stream, which is open, names the tokens of its answers.
    pub(crate) fn names_tokens(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_none_or(|connected| connected.worker.names_tokens)
    }

    /// The build id of the worker on that stream, which is open.
    pub(crate) fn build(&self, stream: StreamId) -> Option<Arc<str>> {
        self.streams.get(&stream)?.worker.build.clone()
    }

    /// Whether a connected worker has that build id.
    pub(crate) fn has_build(&self, build: &str) -> bool {
        self.streams.values().any(|connected| connected.worker.build.as_deref() == Some(build))
    }

    /// Gives an activity a number of its own: the one it has comes again in the next run of its instance, and the worker's
    /// answer has nothing else to tell the two apart. The worker gives the number back and does nothing else with it.
    fn numbered(&mut self, work: Work, mut item: WorkItem) -> (Work, WorkItem) {
        let (Work::Task(instance, _), Some(WorkItemRequest::ActivityRequest(request))) =
            (&work, &mut item.request)
        else {
            return (work, item);
        };
        self.numbers = self.numbers.checked_add(1).unwrap_or_default();
        request.task_id = self.numbers;
        (Work::Task(instance.clone(), self.numbers), item)
    }

    /// Whether a worker without tokens has a turn of the same instance from another flight.
    pub(crate) fn is_out(&self, work: &Work, own: &[String]) -> bool {
        let newest = self.tokens.newest(work).filter(|(token, _)| own.iter().all(|own| own != token));
        newest.is_some_and(|(_, dispatched)| !dispatched.names_tokens)
    }

    /// No flight waits for an item any more. A turn whose worker names no tokens is owed until `until` at most.
    pub(crate) fn give_up(&mut self, token: &str, (now, until): (Steady, Steady)) {
        let work = self.tokens.work(token).cloned();
        let (Some(Work::Turn(instance)), Some(dispatched)) = (work, self.take(token)) else { return };
        if !dispatched.names_tokens {
            let until = dispatched.lost_until.map_or(until, |lost| lost.min(until));
            self.debts.sweep(now);
            self.debts.add(instance, token, (dispatched.stream, until));
        }
    }

    /// Takes an item off the table, and off the hands of its worker.
    pub(crate) fn take(&mut self, token: &str) -> Option<Dispatched> {
        let dispatched = self.tokens.take(token)?;
        let Dispatched { stream, side, .. } = dispatched;
        if let Some(connected) = self.streams.get_mut(&stream) {
            let was_full = !connected.has_room(Side::Turn) || !connected.has_room(Side::Activity);
            let held = connected.held_mut(side);
            *held = held.saturating_sub(1);
            if was_full {
                self.tell_of_room();
            }
        }
        if side == Side::Turn && !dispatched.names_tokens {
            // The next turn of the instance may wait for this.
            self.tell_of_room();
        }
        Some(dispatched)
    }

    /// Wakes whoever waits for room: somebody has some again.
    pub(crate) fn tell_of_room(&mut self) {
        for waiting in self.waiting.drain(..) {
            // One that has found another way does not wait any more.
            let _ = waiting.send(());
        }
        self.tell_host();
    }

    /// Other queues are served now, or there is other room.
    fn tell_host(&mut self) {
        if let Some(changes) = &mut self.changes {
            // One that is not heard yet says the same.
            let _ = changes.try_send(());
        }
    }

    pub(crate) fn capacity(&self) -> Capacity {
        let sum =
            |side| self.streams.values().map(|connected| connected.most(side)).fold(0, usize::saturating_add);
        Capacity { turns: sum(Side::Turn), activities: sum(Side::Activity) }
    }

    /// What those can run who have room.
    pub(crate) fn queues(&self) -> Queues {
        let mut queues =
            Queues { orchestrations: Filter::none(), entities: Filter::none(), activities: Filter::none() };
        for connected in self.streams.values() {
            let Queues { orchestrations, activities, .. } = &connected.worker.queues;
            if connected.has_room(Side::Turn) {
                widen(&mut queues.orchestrations, orchestrations);
            }
            if connected.has_room(Side::Activity) {
                widen(&mut queues.activities, activities);
            }
        }
        queues
    }
}

/// Admits also what another filter does, and nothing more.
fn widen(filter: &mut Filter, by: &Filter) {
    let (Filter::Names(names), Filter::Names(others)) = (&mut *filter, by) else {
        *filter = Filter::All;
        return;
    };
    let names = Arc::make_mut(names);
    for (name, rule) in &**others {
        match (names.get_mut(name), rule) {
            (None, rule) => _ = names.insert(name.clone(), rule.clone()),
            (Some(known @ VersionRule::Listed(_)), VersionRule::Any) => *known = VersionRule::Any,
            (Some(VersionRule::Listed(known)), VersionRule::Listed(more)) => {
                known.extend(
                    more.iter().filter(|version| !known.contains(version)).cloned().collect::<Vec<_>>(),
                );
            }
            (Some(VersionRule::Any), _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::model::Kind;

    fn names(rules: &[(&str, VersionRule)]) -> Filter {
        Filter::from_iter(rules.iter().map(|(name, rule)| ((*name).into(), rule.clone())))
    }

    fn listed(versions: &[&str]) -> VersionRule {
        VersionRule::Listed(versions.iter().map(|version| (*version).into()).collect())
    }

    #[test]
    fn a_union_admits_what_one_of_them_does_and_nothing_more() {
        let filters = [
            Filter::none(),
            names(&[("a", listed(&["1"])), ("b", VersionRule::Any)]),
            names(&[("a", listed(&["2", "1"])), ("c", listed(&[""]))]),
            names(&[("a", VersionRule::Any)]),
            Filter::All,
        ];
        let versions = [None, Some("1"), Some("2"), Some("3")];
        let queues = ["a", "b", "c", "d"]
            .iter()
            .flat_map(|name| versions.map(|version| QueueKey::new(Kind::Orchestration, *name, version)));
        let queues: Vec<_> = queues.collect();
        let admits = |filter: &Filter, queue: &QueueKey| {
            Queues { orchestrations: filter.clone(), ..Queues::default() }.admits(queue)
        };
        for (left, right) in filters.iter().flat_map(|left| filters.iter().map(move |right| (left, right))) {
            let mut union = left.clone();
            widen(&mut union, right);
            for queue in &queues {
                let either = admits(left, queue) || admits(right, queue);
                assert_eq!(admits(&union, queue), either, "{left:?} and {right:?} for {queue:?}");
            }
        }
    }
}
