//! The way of one item: to a worker, to another one when the first is gone or hangs, and back with an answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::channel::oneshot;
use futures::future::{FutureExt, pending};
use futures::stream::StreamExt;

use dauer_core::cancel::{CancelReason, Cancellation};
use dauer_core::model::{Deaths, QueueKey};
use dauer_core::turn::{Answer, Stalled};
use dauer_core::workitem::{Assembly, Work};
use dauer_hub::{ActivityDone, Holding, Receipt};
use dauer_proto::WorkItem;
use dauer_store::{Steady, TaskFence, TaskName};

use crate::custody::{Claimed, Found};
use crate::state::{AWAY, Dispatched, Place, Side, Size, State, StreamId};
use crate::trial::Trial;
use crate::workers::Workers;

/// What a flight is told.
pub(crate) enum Event {
    /// The answer to a turn is complete.
    Turn(Result<Answer, Stalled>, Receipt),
    /// An activity is over.
    Activity(ActivityDone, Receipt),
    /// The worker wants the turn once more, with its whole history.
    HistoryWanted,
    /// The worker on that stream does not want it.
    Abandoned(StreamId),
    /// That stream is gone. Its worker may still answer over another, perhaps without the token.
    Lost { stream: StreamId, names_tokens: bool },
    /// The worker that had lost the stream `from` has opened the stream `to`.
    Returned { from: StreamId, to: StreamId, has_it: Has },
    /// A worker that has no stream yet says that it executes the task under that token.
    Executes(Claimed),
    /// The session is over, or another flight has the task.
    Over,
}

/// What a worker that comes again has of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Has {
    Executes,
    Nothing,
    /// The item may have been on its way when the stream broke.
    Unknown,
}

/// How a flight ends.
pub(crate) enum End {
    /// An answer to a turn, and the build id of the worker that got the turn last.
    Turn(Result<Answer, Stalled>, Receipt, Option<Arc<str>>),
    Activity(ActivityDone, Receipt),
    /// No worker wants it. With the build id of the last one.
    Abandoned(Option<Arc<str>>),
    /// No worker can read so much; the most that one could is this.
    TooLarge(usize),
    /// No worker can take it, or the session does not hold it any more.
    Nobody,
    /// Its workers have died with it before, and none may run it now beside what else it runs.
    Rests,
    /// Its workers died with it during trials.
    Poison(Deaths),
}

/// An item to be executed.
pub(crate) struct Load<'l> {
    pub(crate) work: Work,
    /// The task, where it is one.
    pub(crate) task: Option<&'l TaskFence>,
    pub(crate) queue: &'l QueueKey,
    pub(crate) size: Size,
    /// The highest id of an action that the run has asked for before; none has a lower one than this.
    pub(crate) last_action: i32,
    /// Makes the item, with the history or without.
    pub(crate) item: &'l (dyn Fn(bool) -> WorkItem + Send + Sync),
    /// Notes deaths and trials.
    pub(crate) holding: Option<&'l Holding>,
    pub(crate) deaths: Deaths,
    /// The task rests until then: a worker may still execute it.
    pub(crate) rests_until: Option<Steady>,
    /// Given when the task is not wanted, or the host stops.
    pub(crate) cancellation: Option<&'l Cancellation>,
}

impl Load<'_> {
    fn side(&self) -> Side {
        match self.work {
            Work::Turn(_) => Side::Turn,
            Work::Task(..) | Work::Named(..) => Side::Activity,
        }
    }
}

/// What a flight that waits is woken by.
enum Wake {
    Event(Event),
    Room,
    Time,
    Cancelled(CancelReason),
}

/// Where the item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// No worker has it.
    Here,
    /// The worker on that stream has it. The refusal or loss of another worker does not matter.
    With(StreamId),
    /// The worker that had it has lost that stream, and may still answer or come again.
    Lost { stream: StreamId, at: Steady, names_tokens: bool },
}

/// One item between dispatch and answer. When it is dropped, answers to it count no more.
pub(crate) struct Flight<'w> {
    workers: &'w Workers,
    tell: UnboundedSender<Event>,
    events: UnboundedReceiver<Event>,
    task: Option<TaskFence>,
    tokens: Vec<String>,
    at: Whereabouts,
    asked: BTreeSet<StreamId>,
    /// The deaths of its workers as the store knows them.
    deaths: Deaths,
    /// It runs alone on its worker.
    trial: Option<Trial>,
    /// The worker could not fetch the history.
    whole: bool,
    /// The session is over: the worker that has it goes on.
    is_over: bool,
    drains: bool,
    /// The signal of the host was given.
    is_cancelled: bool,
    /// The run of the task is over: no other worker begins it.
    is_unwanted: bool,
    /// Its worker has come again after it lost its stream, and may or may not execute the item.
    has_returned: bool,
    /// A worker was lost with the turn, and that is not counted yet.
    owes_death: bool,
    /// When a worker was lost with it.
    lost_at: Option<Steady>,
    /// The build id of the worker that got it last.
    build: Option<Arc<str>>,
    /// Another server may have adopted the task since the session won it, and its answer may have been taken there.
    unsure: bool,
    /// The store has just said that the session holds it.
    is_confirmed: bool,
    holding: Option<Holding>,
    /// How many sessions had ended when it began.
    sessions_ended: u64,
    began: Steady,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        // A worker that takes longer for a turn hangs, and is not expected to answer.
        let now = self.workers.env().steady();
        let until = now.after(self.workers.options().turn_answer_max);
        let mut state = self.workers.state();
        self.trial.take().into_iter().for_each(|trial| state.end_trial(&trial, now));
        if let Some(TaskFence { task, instance, .. }) = &self.task {
            // As long as the lease runs, a session loses a task only to a server to which the worker has gone with it.
            let has_lapsed = self.holding.as_ref().is_some_and(Holding::has_lapsed);
            let is_over = self.is_over && (has_lapsed || state.sessions_ended != self.sessions_ended);
            let current = self.tokens.last().filter(|_| is_over);
            let claimed = current.filter(|token| state.leave(token)).cloned();
            self.tokens.retain(|token| claimed.as_ref() != Some(token));
            let name = TaskName { instance: instance.clone(), task: *task };
            let claimed = claimed.map(|token| Claimed { token });
            let goes_on = state.custody.end(*task, &self.tell, claimed);
            if goes_on {
                // The worker has it still, and does not know that the session has ended: the next session takes it back.
                state.custody.want(&name);
            }
            // An answer that came since is not lost: another flight takes it.
            self.events.close();
            while let Ok(event) = self.events.try_recv() {
                if let Event::Activity(done, receipt) = event
                    && let Ok(settled) = receipt.downcast()
                {
                    state.custody.answer(&name, done, *settled);
                }
            }
        }
        // A later flight may have taken some over.
        for token in
            self.tokens.iter().filter(|token| state.is_of(token, &self.tell)).cloned().collect::<Vec<_>>()
        {
            state.give_up(&token, (now, until));
        }
    }
}

impl<'w> Flight<'w> {
    pub(crate) fn new(workers: &'w Workers, load: &Load<'_>) -> Self {
        let (tell, events) = unbounded();
        Self {
            workers,
            tell,
            events,
            task: load.task.cloned(),
            tokens: Vec::new(),
            at: Whereabouts::Here,
            asked: BTreeSet::new(),
            deaths: load.deaths,
            trial: None,
            whole: false,
            is_over: false,
            drains: false,
            is_cancelled: false,
            is_unwanted: false,
            has_returned: false,
            owes_death: false,
            lost_at: None,
            build: None,
            unsure: false,
            is_confirmed: false,
            holding: load.holding.cloned(),
            sessions_ended: workers.state().sessions_ended,
            began: workers.env().steady(),
        }
    }

    /// Flies until there is an answer, or no worker is left to give one.
    pub(crate) async fn fly(mut self, load: &Load<'_>) -> End {
        if let Some(end) = self.take_what_is_known(load) {
            return end;
        }
        loop {
            // What has come while the store was asked comes first.
            while let Ok(event) = self.events.try_recv() {
                if let Some(end) = self.settle(load, Wake::Event(event)) {
                    return end;
                }
            }
            let wake = match self.launch(load) {
                Launch::Sent(until) => self.wait(load, until, None).await,
                Launch::Rests(until) => self.wait(load, Some(until), None).await,
                Launch::Busy(room) => self.wait(load, None, Some(room)).await,
                Launch::Owed(until, room) => self.wait(load, until, Some(room)).await,
                Launch::Died => match self.count_death(load).await {
                    Some(end) => return end,
                    None => continue,
                },
                Launch::OpensTrial => match self.note_trial(load, true).await {
                    Some(end) => return end,
                    None => continue,
                },
                // Neither changes anything where no trial is open. The store refuses where the session has lost the item.
                Launch::ClosesTrial | Launch::Confirms => match self.note_trial(load, false).await {
                    Some(end) => return end,
                    None => continue,
                },
                Launch::Suspect | Launch::Nobody(_) if self.owes_death && self.grace_ends(load).is_none() => {
                    match self.count_death(load).await {
                        Some(end) => return end,
                        None => continue,
                    }
                }
                Launch::Suspect => return End::Rests,
                Launch::TooLarge(max) => return End::TooLarge(max),
                Launch::Nobody(room) => match self.grace_ends(load) {
                    Some(until) => self.wait(load, Some(until), Some(room)).await,
                    None => return End::Nobody,
                },
                Launch::Drained => return End::Nobody,
            };
            if let Some(end) = self.settle(load, wake) {
                return end;
            }
        }
    }

    /// Takes over what a worker does or has done with the task already.
    fn take_what_is_known(&mut self, load: &Load<'_>) -> Option<End> {
        let TaskFence { instance, task, .. } = load.task?;
        let name = TaskName { instance: instance.clone(), task: *task };
        let found = self.workers.state().custody.begin(&name, self.tell.clone());
        match found {
            Found::Nothing => None,
            Found::Executes(claimed) => {
                self.join(load, claimed);
                None
            }
            Found::Answered(done, settled) => Some(End::Activity(done, Box::new(settled))),
        }
    }

    /// A worker executes the task under a token of another flight, session or server.
    fn join(&mut self, load: &Load<'_>, claimed: Claimed) {
        let at = self.workers.env().steady();
        let mut state = self.workers.state();
        self.at = match state.join(&claimed.token, &self.tell, (load.last_action, self.deaths.workers)) {
            Some((stream, false)) => Whereabouts::With(stream),
            // It opens its stream within the grace.
            Some((stream, true)) => Whereabouts::Lost { stream, at, names_tokens: true },
            None => Whereabouts::Lost { stream: AWAY, at, names_tokens: true },
        };
        state.custody.set_out(load.task.map(|fence| fence.task), Some(&claimed.token));
        if !self.tokens.contains(&claimed.token) {
            self.tokens.push(claimed.token);
        }
        // It runs beside others already.
        match &mut self.trial {
            Some(trial) if trial.is_noted() => trial.ends_at(at),
            _ => self.trial.take().into_iter().for_each(|trial| state.end_trial(&trial, at)),
        }
    }

    /// Gives the worker of a trial free. Where the store has noted the trial, it learns that it is over before the item goes out.
    fn end_trial(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.unsure |= trial.is_noted();
            let now = self.workers.env().steady();
            self.workers.state().end_trial(&trial, now);
        }
    }

    /// What is to be done next; sends the item to a worker if one can take it.
    fn launch(&mut self, load: &Load<'_>) -> Launch {
        let now = self.workers.env().steady();
        match self.at {
            Whereabouts::With(_) => match &self.trial {
                Some(trial) if trial.is_over(now) => Launch::ClosesTrial,
                Some(trial) => Launch::Sent(trial.ends()),
                None => Launch::Sent(self.patience(load.side())),
            },
            Whereabouts::Lost { at, names_tokens, .. } => {
                // Replaying a turn twice does no harm. But an answer without a token could come when another worker's has
                // been carried out, and would be taken for that to the next turn.
                let waits = load.side() == Side::Activity || !names_tokens || self.trial.is_some();
                let until = at.after(self.workers.options().reconnect_grace);
                if waits && now < until {
                    return Launch::Rests(until);
                }
                if self.has_returned {
                    // Its worker lives, and has not said that it executes the item.
                    (self.has_returned, self.unsure) = (false, true);
                    self.comes_back(load);
                    return self.launch(load);
                }
                if !waits && !self.owes_death {
                    // A stream may break without a death: the turn goes out again at once, and the death is counted before it
                    // goes out a third time, or back to the store.
                    self.owes_death = true;
                    self.comes_back(load);
                    return self.launch(load);
                }
                Launch::Died
            }
            Whereabouts::Here if self.drains || self.is_unwanted => Launch::Drained,
            Whereabouts::Here => match load.rests_until.filter(|until| now < *until) {
                Some(until) => {
                    self.unsure = true;
                    Launch::Rests(until)
                }
                None if self.must_confirm(load) => Launch::Confirms,
                None => self.send(load, now),
            },
        }
    }

    /// Whether another server may have the task. Its worker may execute it.
    fn must_confirm(&self, load: &Load<'_>) -> bool {
        let has_lapsed = || load.holding.is_some_and(Holding::has_lapsed);
        !self.is_confirmed && (self.unsure || load.side() == Side::Activity && has_lapsed())
    }

    /// Sends the item to a worker, if one can take it.
    fn send(&mut self, load: &Load<'_>, now: Steady) -> Launch {
        let workers = self.workers;
        let options = workers.options();
        let streamed_from = if self.whole { usize::MAX } else { options.history_streamed_from };
        let mut state = workers.state();
        if let Work::Turn(instance) = &load.work {
            let until = state.debts.end(instance, now);
            if until.is_some() || state.is_out(&load.work, &self.tokens) {
                return Launch::Owed(until, state.wait_for_room());
            }
        }
        if self.trial.as_ref().is_some_and(|trial| !state.is_open(trial.stream())) {
            drop(state);
            self.end_trial();
            return self.launch(load);
        }
        let place = match &self.trial {
            Some(trial) if !trial.is_quiet(now) => return Launch::Rests(trial.quiet_from()),
            Some(trial) if !trial.is_noted() => return Launch::OpensTrial,
            Some(trial) => state.place_on(trial.stream(), load.size, streamed_from),
            None => {
                let suspected = (self.deaths.workers, now);
                state.place(
                    (load.side(), load.queue, load.size),
                    (&self.asked, streamed_from),
                    suspected,
                    options,
                )
            }
        };
        let (stream, streamed) = match place {
            Place::Whole(stream) => (stream, false),
            Place::Streamed(stream) => (stream, true),
            Place::Busy(room) => return Launch::Busy(room),
            Place::Trial(trial) => {
                let quiet_from = trial.quiet_from();
                self.trial = Some(trial);
                return Launch::Rests(quiet_from);
            }
            Place::Suspect => return Launch::Suspect,
            Place::TooLarge(max) => return Launch::TooLarge(max),
            Place::Nobody(room) => return Launch::Nobody(room),
        };
        // A turn of which a server died may be with a worker that names no tokens: its late answer would be taken for this one.
        let names_tokens = state.names_tokens(stream);
        let rested = self.began.after(options.restart_grace).max(self.workers.listens_long_from());
        if !names_tokens && load.side() == Side::Turn && self.deaths.servers > 0 && now < rested {
            return Launch::Rests(rested);
        }
        self.send_to((stream, streamed, names_tokens), load, now, &mut state)
    }

    /// Sends the item to the worker on that stream, which the state has just named.
    fn send_to(
        &mut self,
        (stream, streamed, names_tokens): (StreamId, bool, bool),
        load: &Load<'_>,
        now: Steady,
        state: &mut State,
    ) -> Launch {
        let dispatched = Dispatched {
            stream,
            side: load.side(),
            names_tokens,
            worker: state.name_of(stream),
            deaths: self.deaths.workers,
            sent_at: now,
            task: load.task.cloned(),
            tell: self.tell.clone(),
            assembly: Assembly::default(),
            last_action: load.last_action,
            lost_until: None,
            resumed: false,
        };
        let bytes = if streamed { load.size.bare } else { load.size.whole };
        let token = state.send(load.work.clone(), dispatched, ((load.item)(streamed), bytes));
        state.custody.set_out(load.task.map(|fence| fence.task), Some(&token));
        self.tokens.push(token);
        self.build = state.build(stream);
        self.is_confirmed = false;
        self.asked.insert(stream);
        self.at = Whereabouts::With(stream);
        let trial = self.trial.as_mut().map(|trial| {
            trial.begins(now, self.workers.options().trial_quiet);
            trial.ends()
        });
        Launch::Sent(trial.unwrap_or_else(|| self.patience(load.side())))
    }

    /// How long a worker is waited for before another one is asked. Activities take as long as they take.
    fn patience(&self, side: Side) -> Option<Steady> {
        let max = self.workers.options().turn_answer_max;
        (side == Side::Turn).then(|| self.workers.env().steady().after(max))
    }

    /// Until when a worker that was lost with a turn may come again, if that is not over. For an activity it was waited before.
    fn grace_ends(&self, load: &Load<'_>) -> Option<Steady> {
        let until = self
            .lost_at
            .filter(|_| load.side() == Side::Turn)?
            .after(self.workers.options().turn_return_after);
        (self.workers.env().steady() < until).then_some(until)
    }

    /// What follows from what was heard; nothing when it is to go on.
    fn settle(&mut self, load: &Load<'_>, wake: Wake) -> Option<End> {
        let event = match wake {
            Wake::Event(event) => event,
            Wake::Room => return None,
            Wake::Time => {
                self.overdue(load);
                return None;
            }
            Wake::Cancelled(reason) => return self.cancelled(reason),
        };
        match event {
            Event::Turn(answer, receipt) => Some(End::Turn(answer, receipt, self.build.take())),
            Event::Activity(done, receipt) => Some(End::Activity(done, self.with_others(receipt))),
            // Preferably another worker has it; one that was asked already would only say the same again (behaviour 34).
            Event::Abandoned(stream) if self.at == Whereabouts::With(stream) => {
                self.comes_back(load);
                self.end_trial();
                let other = self.workers.state().has_other(load.side(), load.queue, &self.asked);
                (!other).then(|| End::Abandoned(self.build.take()))
            }
            Event::HistoryWanted => {
                self.whole = true;
                self.comes_back(load);
                None
            }
            Event::Lost { stream, names_tokens } if self.at == Whereabouts::With(stream) => {
                let at = self.workers.env().steady();
                self.lost_at = Some(at);
                self.at = Whereabouts::Lost { stream, at, names_tokens };
                None
            }
            Event::Returned { from, to, has_it } => {
                self.returned(load, (from, to), has_it);
                None
            }
            Event::Executes(claimed) => {
                if !matches!(self.at, Whereabouts::With(_)) {
                    self.join(load, claimed);
                }
                None
            }
            Event::Over => {
                self.is_over = true;
                Some(End::Nobody)
            }
            // Of a worker that was asked before another one.
            Event::Abandoned(_) | Event::Lost { .. } => None,
        }
    }

    /// The receipt of the first answer, with those of the answers that came beside it: one counts, and all are told when.
    fn with_others(&mut self, receipt: Receipt) -> Receipt {
        let mut receipts = vec![receipt];
        while let Ok(event) = self.events.try_recv() {
            if let Event::Activity(_, receipt) = event {
                receipts.push(receipt);
            }
        }
        Box::new(receipts)
    }

    /// The worker that had lost a stream has come again.
    fn returned(&mut self, load: &Load<'_>, (from, to): (StreamId, StreamId), has_it: Has) {
        let waits_for_it = match self.at {
            Whereabouts::Lost { stream, .. } => stream == from,
            // It took longer than the grace, and the item has not gone out again.
            Whereabouts::Here => load.side() == Side::Activity && has_it == Has::Executes,
            Whereabouts::With(_) => false,
        };
        if !waits_for_it {
            return;
        }
        match has_it {
            Has::Executes => {
                self.at = Whereabouts::With(to);
                let (now, mut state) = (self.workers.env().steady(), self.workers.state());
                let token = self.tokens.last().map(String::as_str);
                state.custody.set_out(load.task.map(|fence| fence.task), token);
                // On its new stream it is not alone.
                self.trial.as_mut().into_iter().for_each(|trial| trial.ends_at(now));
            }
            // It has never received the item, or another server has taken its answer.
            Has::Nothing => {
                self.unsure = true;
                self.comes_back(load);
            }
            // It may still answer within the grace.
            Has::Unknown => self.has_returned = true,
        }
    }

    fn cancelled(&mut self, reason: CancelReason) -> Option<End> {
        self.is_cancelled = true;
        match reason {
            CancelReason::Draining => self.drains = true,
            CancelReason::LeaseLost => {
                self.is_over = true;
                return Some(End::Nobody);
            }
            // Its worker is not told. The answer is dropped when it comes.
            _ => self.is_unwanted = true,
        }
        None
    }

    /// No worker has the item any more.
    fn comes_back(&mut self, load: &Load<'_>) {
        self.at = Whereabouts::Here;
        self.workers.state().custody.set_out(load.task.map(|fence| fence.task), None);
    }

    /// The worker hangs, it seems: another one is asked if there is one. The first may still answer.
    fn overdue(&mut self, load: &Load<'_>) {
        let hangs =
            load.side() == Side::Turn && self.trial.is_none() && matches!(self.at, Whereabouts::With(_));
        if hangs && self.workers.state().has_other(load.side(), load.queue, &self.asked) {
            self.comes_back(load);
        }
    }

    /// The worker that had the item counts as dead: that is durable before the item goes to another.
    async fn count_death(&mut self, load: &Load<'_>) -> Option<End> {
        if let Some(trial) = self.trial.take() {
            let now = self.workers.env().steady();
            self.workers.state().end_trial(&trial, now);
        }
        // Counted is the death before this one, where that was not: this one is owed then.
        self.owes_death &= matches!(self.at, Whereabouts::Lost { .. });
        let Some(holding) = load.holding else {
            self.comes_back(load);
            return None;
        };
        let Some(deaths) = holding.died(self.deaths).await else {
            self.is_over = true;
            return Some(End::Nobody);
        };
        self.deaths = deaths;
        self.comes_back(load);
        if deaths.workers.is_power_of_two() {
            let (work, deaths) = (&load.work, deaths.workers);
            tracing::warn!(?work, deaths, "a worker was lost with this item");
        }
        holding.is_poison(deaths).then_some(End::Poison(deaths))
    }

    /// Notes that the item is about to run alone, or that its trial is over.
    async fn note_trial(&mut self, load: &Load<'_>, open: bool) -> Option<End> {
        let is_held = match load.holding {
            Some(holding) => holding.trial(open).await,
            None => true,
        };
        if !is_held {
            self.is_over = true;
            return Some(End::Nobody);
        }
        (self.unsure, self.is_confirmed) = (false, true);
        if open {
            self.trial.as_mut().into_iter().for_each(Trial::noted);
        } else if let Some(trial) = self.trial.take() {
            let now = self.workers.env().steady();
            self.workers.state().end_trial(&trial, now);
        }
        None
    }

    async fn wait(
        &mut self,
        load: &Load<'_>,
        until: Option<Steady>,
        room: Option<oneshot::Receiver<()>>,
    ) -> Wake {
        let env = self.workers.env();
        let cancelled = load.cancellation.filter(|_| !self.is_cancelled);
        // What is not waited for never comes.
        let mut cancelled =
            cancelled.map_or_else(|| pending().boxed(), |signal| signal.cancelled().boxed()).fuse();
        let mut time = until.map_or_else(|| pending().boxed(), |until| env.sleep_until(until)).fuse();
        let mut room = room.map_or_else(|| pending().boxed(), |room| room.map(drop).boxed()).fuse();
        futures::select_biased! {
            event = self.events.select_next_some() => Wake::Event(event),
            reason = cancelled => Wake::Cancelled(reason),
            () = room => Wake::Room,
            () = time => Wake::Time,
        }
    }
}

/// What a flight does next.
enum Launch {
    /// A worker has the item. It is waited for until then.
    Sent(Option<Steady>),
    /// Nothing before that time.
    Rests(Steady),
    /// Its worker counts as dead.
    Died,
    /// The trial is noted before the item begins.
    OpensTrial,
    ClosesTrial,
    /// The session may have lost the task: the store is asked before a worker begins it.
    Confirms,
    /// All workers that could take it are busy.
    Busy(oneshot::Receiver<()>),
    /// A worker without tokens has an earlier turn of the instance, until that time at most.
    Owed(Option<Steady>, oneshot::Receiver<()>),
    /// No worker may run it beside what it runs now.
    Suspect,
    TooLarge(usize),
    Nobody(oneshot::Receiver<()>),
    /// The host stops, or the run is over, and no worker has the item.
    Drained,
}
