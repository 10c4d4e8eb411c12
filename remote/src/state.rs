//! The streams of a hub, the room they have, and the tokens that are out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::{Sender, UnboundedSender};
use futures::channel::oneshot;

use dauer_core::model::{Filter, QueueKey, Queues, VersionRule};
use dauer_core::workitem::{Assembly, Tokens, Work};
use dauer_hub::{ActivityDone, Capacity};
use dauer_proto::{WorkItem, WorkItemRequest};
use dauer_store::{InstanceId, Steady, TaskFence, TaskName};

use crate::custody::{Claimed, Custody, Settled};
use crate::debts::Debts;
use crate::flight::{Event, Has};
use crate::line::LineIn;
use crate::options::{Options, Worker};
use crate::seal::{Seal, Sealed};
use crate::trial::Trial;

/// Which kind of work an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Turn,
    Activity,
}

/// One stream, by the order in which it came.
pub(crate) type StreamId = u64;

/// No stream: the worker has lost its stream, or has not opened one yet.
pub(crate) const AWAY: StreamId = 0;

/// A connected worker.
struct Connected {
    worker: Worker,
    turns: usize,
    activities: usize,
    line: LineIn,
    /// When an item was sent there last.
    last_begun: Steady,
    /// A trial has the worker to itself.
    reserved: bool,
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
        let free = self.held(side) < self.most(side) && self.load() < self.worker.items_max;
        free && !self.reserved && self.line.has_room()
    }

    /// How many items it runs at once.
    fn slots(&self) -> usize {
        let Worker { turns_max, activities_max, items_max, .. } = self.worker;
        turns_max.saturating_add(activities_max).min(items_max)
    }

    /// How many items with that many deaths or more it may run at once: half as many with each death.
    fn suspects_max(&self, deaths: u32) -> usize {
        self.slots().checked_shr(deaths).unwrap_or(0)
    }

    /// How it could get an item of that size: as a stream or not; `None` if it cannot read it.
    fn fits(&self, size: Size, streamed_from: usize) -> Option<bool> {
        let Worker { item_bytes_max: max, streams_history, .. } = self.worker;
        let streamed = streams_history && (size.whole > max || size.whole - size.bare >= streamed_from);
        let bytes = if streamed { size.bare } else { size.whole };
        (bytes <= max).then_some(streamed)
    }
}

/// An item that a worker has.
pub(crate) struct Dispatched {
    pub(crate) stream: StreamId,
    pub(crate) side: Side,
    /// Whether the worker's answer names its token.
    pub(crate) names_tokens: bool,
    /// The name under which the worker comes again.
    pub(crate) worker: Option<Arc<str>>,
    /// The lease of the task, where it is one.
    pub(crate) task: Option<TaskFence>,
    /// Deaths of its workers before.
    pub(crate) deaths: u32,
    pub(crate) sent_at: Steady,
    /// To the flight that the item is on.
    pub(crate) tell: UnboundedSender<Event>,
    /// What of the answer has come.
    pub(crate) assembly: Assembly,
    /// The highest id of an action that the run has asked for before.
    pub(crate) last_action: i32,
    /// The worker has lost its stream, and may answer over another one until then.
    pub(crate) lost_until: Option<Steady>,
    /// The worker has said since that it executes the item.
    pub(crate) resumed: bool,
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
    /// Workers died with it: it runs alone, on a worker that is reserved for it now.
    Trial(Trial),
    /// Workers died with it, and none may run it beside what else it runs.
    Suspect,
    /// It is larger than any of those could read who could take it; at most so many bytes.
    TooLarge(usize),
    /// Nobody is there who could take it; this tells when somebody comes.
    Nobody(oneshot::Receiver<()>),
}

pub(crate) struct State {
    pub(crate) tokens: Tokens<Dispatched>,
    pub(crate) custody: Custody,
    /// Makes tokens of tasks, from the first session of the hub on.
    seal: Option<Arc<Seal>>,
    sealing: Vec<oneshot::Sender<()>>,
    /// Numbers of dispatches of tasks. No process begins where another one did.
    dispatches: u64,
    /// Sessions that have ended. An answer that was given to one of them may not have been stored.
    pub(crate) sessions_ended: u64,
    /// No trial begins before that time, where there are few workers.
    trials_from: Steady,
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
            custody: Custody::default(),
            seal: None,
            sealing: Vec::new(),
            dispatches: seed as u64,
            sessions_ended: 0,
            trials_from: Steady::default(),
            debts: Debts::default(),
            streams: BTreeMap::new(),
            connected: 0,
            waiting: Vec::new(),
            changes: None,
            closed: false,
        }
    }

    pub(crate) fn connect(
        &mut self,
        worker: Worker,
        line: LineIn,
        (now, options): (Steady, &Options),
    ) -> StreamId {
        self.connected += 1;
        if self.closed {
            return self.connected;
        }
        self.sweep(now);
        if let (true, Some(name)) = (worker.resumes, &worker.name) {
            // The stream that it has lost may not have been noticed yet.
            let old = |connected: &Connected| connected.worker.name.as_ref() == Some(name);
            let old = self.streams.iter().filter(|(_, connected)| old(connected)).map(|(id, _)| *id);
            for old in old.collect::<Vec<_>>() {
                self.disconnect(old, now.after(options.reconnect_grace));
            }
        }
        let (name, resumes) = (worker.name.clone(), worker.resumes);
        let connected = Connected { worker, turns: 0, activities: 0, line, last_begun: now, reserved: false };
        self.streams.insert(self.connected, connected);
        if let Some(name) = name {
            self.welcome(&name, resumes, (now, options.received_after));
        }
        self.tell_of_room();
        self.connected
    }

    /// A worker has come again, on the newest stream: it has the items that it had received.
    fn welcome(&mut self, name: &Arc<str>, resumes: bool, (now, received_after): (Steady, Duration)) {
        let to = self.connected;
        let mut held = Vec::new();
        let lost = |dispatched: &&mut Dispatched| {
            dispatched.worker.as_ref() == Some(name) && dispatched.lost_until.is_some()
        };
        for dispatched in self.tokens.all_mut().filter(lost) {
            let from = dispatched.stream;
            let has_it = match (resumes, std::mem::take(&mut dispatched.resumed)) {
                (true, true) => Has::Executes,
                (true, false) => Has::Nothing,
                (false, _) if now.since(dispatched.sent_at) >= received_after => Has::Executes,
                (false, _) => Has::Unknown,
            };
            if has_it == Has::Executes {
                (dispatched.stream, dispatched.lost_until) = (to, None);
                held.push(dispatched.side);
            }
            // A flight that has ended does not care.
            let _ = dispatched.tell.unbounded_send(Event::Returned { from, to, has_it });
        }
        if let Some(connected) = self.streams.get_mut(&to) {
            held.into_iter().for_each(|side| *connected.held_mut(side) += 1);
        }
    }

    /// The key of the hub is known.
    pub(crate) fn keyed(&mut self, seal: Seal) {
        self.seal = Some(Arc::new(seal));
        // Those that have gone do not wait any more.
        self.sealing.drain(..).for_each(|waiting| _ = waiting.send(()));
    }

    /// What makes and reads tokens of tasks; else a signal for when that is known, or never will be.
    pub(crate) fn seal(&mut self) -> Result<Arc<Seal>, oneshot::Receiver<()>> {
        self.seal.clone().ok_or_else(|| {
            let (tell, known) = oneshot::channel();
            self.sealing.push(tell);
            known
        })
    }

    /// The session is over: its flights end.
    pub(crate) fn session_ends(&mut self) {
        self.sessions_ended += 1;
        self.custody.session_ends();
    }

    /// A worker says that it executes tasks under these tokens. It opens its stream within the grace.
    pub(crate) fn resume(
        &mut self,
        worker: &Arc<str>,
        tasks: Vec<(String, InstanceId, Sealed)>,
        until: Steady,
    ) {
        for (token, instance, Sealed { task, epoch, .. }) in tasks {
            if let Some(dispatched) = self.tokens.get_mut(&token) {
                (dispatched.worker, dispatched.resumed) = (Some(Arc::clone(worker)), true);
                if dispatched.lost_until.is_some() {
                    // The grace begins again.
                    dispatched.lost_until = Some(until);
                    let _ = dispatched.tell.unbounded_send(Event::Executes(Claimed { token }));
                }
                continue;
            }
            // The worker brings an answer again that is here. Under this token it executes nothing.
            if self.custody.is_answered(task) {
                continue;
            }
            let name = TaskName { instance: instance.clone(), task };
            let fence = TaskFence { task, instance: instance.clone(), epoch };
            let (tell, _) = futures::channel::mpsc::unbounded();
            let dispatched = Dispatched {
                stream: AWAY,
                side: Side::Activity,
                names_tokens: true,
                worker: Some(Arc::clone(worker)),
                task: Some(fence),
                deaths: 0,
                sent_at: until,
                tell,
                assembly: Assembly::default(),
                last_action: 0,
                lost_until: Some(until),
                resumed: true,
            };
            self.tokens.put(token.clone(), Work::Named(instance, task), dispatched);
            let claimed = Claimed { token };
            if let Some(flight) = self.custody.executes(&name, claimed.clone()) {
                // A flight that ends just now does not care.
                let _ = flight.unbounded_send(Event::Executes(claimed));
            }
        }
    }

    /// A flight takes over what a worker executes under a token. Returns the last stream of the worker and
    /// whether that is lost; `None` if the worker is gone.
    pub(crate) fn join(
        &mut self,
        token: &str,
        tell: &UnboundedSender<Event>,
        (last_action, deaths): (i32, u32),
    ) -> Option<(StreamId, bool)> {
        let dispatched = self.tokens.get_mut(token)?;
        dispatched.tell = tell.clone();
        (dispatched.last_action, dispatched.deaths) = (last_action, deaths);
        Some((dispatched.stream, dispatched.lost_until.is_some()))
    }

    /// Whether the answer under a token goes to that flight.
    pub(crate) fn is_of(&mut self, token: &str, flight: &UnboundedSender<Event>) -> bool {
        self.tokens.get_mut(token).is_some_and(|dispatched| dispatched.tell.same_receiver(flight))
    }

    /// A flight ends, and the worker goes on with the item. Returns false where no connected worker has it.
    pub(crate) fn leave(&mut self, token: &str) -> bool {
        let Some(dispatched) = self.tokens.get_mut(token) else { return false };
        if !self.streams.contains_key(&dispatched.stream) {
            return false;
        }
        // Its answer finds no flight.
        dispatched.tell = futures::channel::mpsc::unbounded().0;
        true
    }

    /// The answer to a task, under that token. It goes to the flight of the task. Without one, the session adopts the task.
    pub(crate) fn answer(&mut self, task: &TaskName, token: &str, done: ActivityDone, settled: Settled) {
        match self.take(token).filter(|dispatched| !dispatched.tell.is_closed()) {
            // The flight is there for as long as the state is locked.
            Some(dispatched) => {
                _ = dispatched.tell.unbounded_send(Event::Activity(done, Box::new(settled)));
            }
            None => self.custody.answer(task, done, settled),
        }
    }

    /// The task that was handed out under a token.
    pub(crate) fn task_of(&mut self, token: &str) -> Option<TaskFence> {
        self.tokens.get_mut(token)?.task.clone()
    }

    /// Forgets tokens of tasks that no flight waits for and whose worker did not come again in time.
    pub(crate) fn sweep(&mut self, now: Steady) {
        let gone = |dispatched: &Dispatched| {
            dispatched.tell.is_closed() && dispatched.lost_until.is_some_and(|until| until <= now)
        };
        self.forget(gone);
    }

    fn forget(&mut self, gone: impl Fn(&Dispatched) -> bool) {
        let tokens = self.tokens.tokens_of(gone);
        tokens.iter().for_each(|token| _ = self.tokens.take(token));
        self.custody.forget(&tokens);
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
        // A worker that says what it executes comes again with it: an adoption may be on its way.
        if !gone.worker.resumes {
            self.forget(|dispatched| dispatched.stream == stream && dispatched.tell.is_closed());
        }
        // An item that waits for room there may be one that no other worker can take.
        self.tell_of_room();
    }

    /// Every stream ends, and nobody can connect any more. What was handed out may still be answered.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.streams.clear();
        self.custody.close();
        self.sealing.clear();
        self.tell_of_room();
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
    ///
    /// An item with deaths goes to a worker that runs few such items, or is tried on a worker of its own.
    pub(crate) fn place(
        &mut self,
        (side, queue, size): (Side, &QueueKey, Size),
        (asked, streamed_from): (&BTreeSet<StreamId>, usize),
        (deaths, now): (u32, Steady),
        options: &Options,
    ) -> Place {
        let able = || self.streams.iter().filter(|(_, connected)| connected.worker.queues.admits(queue));
        let Some(most) = able().map(|(_, connected)| connected.worker.item_bytes_max).max() else {
            return Place::Nobody(self.wait_for_room());
        };
        let fits = |connected: &Connected| connected.fits(size, streamed_from);
        let fitting = able().filter_map(|(id, connected)| Some((*id, connected, fits(connected)?)));
        let fitting: Vec<_> = fitting.collect();
        if fitting.is_empty() {
            return Place::TooLarge(most);
        }
        let mut free: Vec<_> =
            fitting.into_iter().filter(|(_, connected, _)| connected.has_room(side)).collect();
        if deaths > 0 {
            let tried = free.iter().find(|(_, connected, _)| connected.suspects_max(deaths) <= 1);
            let tried = tried.map(|(id, ..)| *id);
            free.retain(|(id, connected, _)| self.may_run_suspect((*id, connected), deaths, now, options));
            if free.is_empty() {
                return self.reserve(tried, now, options);
            }
        }
        match free.into_iter().min_by_key(|(id, connected, _)| (asked.contains(id), connected.load(), *id)) {
            Some((id, _, false)) => Place::Whole(id),
            Some((id, _, true)) => Place::Streamed(id),
            None => Place::Busy(self.wait_for_room()),
        }
    }

    /// Whether the worker may run one more item with that many deaths beside what it runs.
    fn may_run_suspect(
        &self,
        (stream, connected): (StreamId, &Connected),
        deaths: u32,
        now: Steady,
        options: &Options,
    ) -> bool {
        if connected.suspects_max(deaths) <= 1 {
            return false;
        }
        // What has run for long kills no worker at once.
        let suspected = |dispatched: &&Dispatched| {
            dispatched.stream == stream
                && dispatched.deaths > 0
                && now.since(dispatched.sent_at) < options.suspect_for
        };
        let mut running: Vec<u32> =
            self.tokens.all().filter(suspected).map(|dispatched| dispatched.deaths).collect();
        running.sort_unstable_by(|a, b| b.cmp(a));
        (1..=deaths).all(|least| {
            let beside = running.partition_point(|other| *other >= least);
            beside < connected.suspects_max(least)
        })
    }

    /// Reserves a worker for a trial, if one may begin now.
    fn reserve(&mut self, stream: Option<StreamId>, now: Steady, options: &Options) -> Place {
        let reserved = self.streams.values().filter(|connected| connected.reserved).count();
        // A quarter of the workers, or of the time of few.
        let many = self.streams.len() / 4;
        let allowed = if many == 0 { reserved == 0 && now >= self.trials_from } else { reserved < many };
        let Some(stream) = stream.filter(|_| allowed) else { return Place::Suspect };
        let Some(connected) = self.streams.get_mut(&stream) else { return Place::Suspect };
        connected.reserved = true;
        let trial = Trial::reserve(stream, now, (connected.last_begun, options.trial_quiet));
        self.tell_host();
        Place::Trial(trial)
    }

    /// Where an item on trial goes: to the worker that is reserved for it.
    pub(crate) fn place_on(&self, stream: StreamId, size: Size, streamed_from: usize) -> Place {
        let connected = self.streams.get(&stream);
        match connected.and_then(|connected| connected.fits(size, streamed_from)) {
            Some(true) => Place::Streamed(stream),
            Some(false) => Place::Whole(stream),
            None => Place::Suspect,
        }
    }

    /// The worker of a trial runs other items again.
    pub(crate) fn end_trial(&mut self, trial: &Trial, now: Steady) {
        self.trials_from = self.trials_from.max(trial.rest_until(now));
        if let Some(connected) = self.streams.get_mut(&trial.stream()) {
            connected.reserved = false;
        }
        self.tell_of_room();
    }

    pub(crate) fn is_open(&self, stream: StreamId) -> bool {
        self.streams.contains_key(&stream)
    }

    /// The name under which the worker of that stream comes again.
    pub(crate) fn name_of(&self, stream: StreamId) -> Option<Arc<str>> {
        self.streams.get(&stream)?.worker.name.clone()
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
        (mut item, bytes): (WorkItem, usize),
    ) -> String {
        let Dispatched { stream, side, names_tokens, sent_at, .. } = dispatched;
        let sealed = self.seal.clone().zip(dispatched.task.clone());
        let token = match sealed {
            Some((seal, TaskFence { task, instance, epoch })) if names_tokens => {
                self.dispatches = self.dispatches.wrapping_add(1);
                let token = seal.token(&instance, Sealed { task, epoch, dispatch: self.dispatches });
                self.tokens.put(token.clone(), work, dispatched);
                token
            }
            Some((seal, TaskFence { task, instance, .. })) => {
                let number = seal.number(&instance, task);
                self.tokens.issue(numbered(&mut item, work, number), dispatched)
            }
            None => self.tokens.issue(work, dispatched),
        };
        if let Some(connected) = self.streams.get_mut(&stream) {
            connected.last_begun = sent_at;
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

/// Gives an activity a number of its own: the one it has comes again in the next run of its instance, and the worker's
/// answer has nothing else to tell the two apart. The worker gives the number back and does nothing else with it.
fn numbered(item: &mut WorkItem, work: Work, number: i32) -> Work {
    match (work, &mut item.request) {
        (Work::Task(instance, _), Some(WorkItemRequest::ActivityRequest(request))) => {
            request.task_id = number;
            Work::Task(instance, number)
        }
        (work, _) => work,
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
