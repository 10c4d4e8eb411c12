//! The way of one item: to a worker, to another one when the first is gone or hangs, and back with an answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::channel::oneshot;
use futures::future::{FutureExt, pending};
use futures::stream::StreamExt;

use dauer_core::model::QueueKey;
use dauer_core::turn::{Answer, Stalled};
use dauer_core::workitem::{Assembly, Work};
use dauer_hub::{ActivityDone, Receipt};
use dauer_proto::WorkItem;
use dauer_store::Steady;

use crate::state::{Dispatched, Place, Side, Size, StreamId};
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
    /// Nobody is there who could take it.
    Nobody,
}

/// What is on its way.
pub(crate) struct Load<'l> {
    pub(crate) work: Work,
    pub(crate) queue: &'l QueueKey,
    pub(crate) size: Size,
    /// The highest id of an action that the run has asked for before; none has a lower one than this.
    pub(crate) last_action: i32,
    /// Makes the item, with the history or without.
    pub(crate) item: &'l (dyn Fn(bool) -> WorkItem + Send + Sync),
}

impl Load<'_> {
    fn side(&self) -> Side {
        match self.work {
            Work::Turn(_) => Side::Turn,
            Work::Task(..) => Side::Activity,
        }
    }
}

/// What a flight that waits is woken by.
enum Wake {
    Event(Event),
    Room,
    Time,
}

/// One item that is under way. When it is dropped nobody's answer counts any more.
pub(crate) struct Flight<'w> {
    workers: &'w Workers,
    tell: UnboundedSender<Event>,
    events: UnboundedReceiver<Event>,
    tokens: Vec<String>,
    /// Who has it: no other worker's refusal or loss matters.
    current: Option<StreamId>,
    asked: BTreeSet<StreamId>,
    /// A worker that had it was lost at this time, and may still answer.
    lost_at: Option<Steady>,
    /// How many workers were lost with it.
    losses: u32,
    /// The worker could not fetch the history.
    whole: bool,
    /// The build id of the worker that got it last.
    build: Option<Arc<str>>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        // A worker that takes longer for a turn hangs, and is not expected to answer.
        let now = self.workers.env().steady();
        let until = now.after(self.workers.options().turn_answer_max);
        let mut state = self.workers.state();
        for token in &self.tokens {
            state.give_up(token, (now, until));
        }
    }
}

impl<'w> Flight<'w> {
    pub(crate) fn new(workers: &'w Workers) -> Self {
        let (tell, events) = unbounded();
        Self {
            workers,
            tell,
            events,
            tokens: Vec::new(),
            current: None,
            asked: BTreeSet::new(),
            lost_at: None,
            losses: 0,
            whole: false,
            build: None,
        }
    }

    /// Flies until there is an answer, or nobody is left to give one.
    pub(crate) async fn fly(mut self, load: &Load<'_>) -> End {
        loop {
            let wake = match self.launch(load) {
                Launch::Sent => self.wait(self.patience(load.side()), None).await,
                Launch::Busy(room) => self.wait(None, Some(room)).await,
                Launch::Owed(until, room) => self.wait(until, Some(room)).await,
                Launch::TooLarge(max) => return End::TooLarge(max),
                Launch::Nobody(room) => match self.grace_ends(load.side()) {
                    Some(until) => self.wait(Some(until), Some(room)).await,
                    None => return End::Nobody,
                },
            };
            if let Some(end) = self.settle(load, wake).await {
                return end;
            }
        }
    }

    /// Brings it to a worker, unless one has it.
    fn launch(&mut self, load: &Load<'_>) -> Launch {
        if self.current.is_some() {
            return Launch::Sent;
        }
        let streamed_from =
            if self.whole { usize::MAX } else { self.workers.options().history_streamed_from };
        let now = self.workers.env().steady();
        let mut state = self.workers.state();
        if let Work::Turn(instance) = &load.work {
            let until = state.debts.end(instance, now);
            if until.is_some() || state.is_out(&load.work, &self.tokens) {
                return Launch::Owed(until, state.wait_for_room());
            }
        }
        let (stream, streamed) =
            match state.place(load.side(), load.queue, load.size, (&self.asked, streamed_from)) {
                Place::Whole(stream) => (stream, false),
                Place::Streamed(stream) => (stream, true),
                Place::Busy(room) => return Launch::Busy(room),
                Place::TooLarge(max) => return Launch::TooLarge(max),
                Place::Nobody(room) => return Launch::Nobody(room),
            };
        let dispatched = Dispatched {
            stream,
            side: load.side(),
            names_tokens: state.names_tokens(stream),
            tell: self.tell.clone(),
            assembly: Assembly::default(),
            last_action: load.last_action,
            lost_until: None,
        };
        let bytes = if streamed { load.size.bare } else { load.size.whole };
        let token = state.send(load.work.clone(), dispatched, ((load.item)(streamed), bytes));
        self.tokens.push(token);
        self.build = state.build(stream);
        self.asked.insert(stream);
        self.current = Some(stream);
        Launch::Sent
    }

    /// How long a worker is waited for before another one is asked. Activities take as long as they take.
    fn patience(&self, side: Side) -> Option<Steady> {
        let max = self.workers.options().turn_answer_max;
        (side == Side::Turn).then(|| self.workers.env().steady().after(max))
    }

    /// Until when a lost worker may still answer, if that is not over.
    fn grace_ends(&self, side: Side) -> Option<Steady> {
        let options = self.workers.options();
        let grace: Duration = match side {
            Side::Turn => options.turn_return_after,
            Side::Activity => options.activity_return_after,
        };
        let until = self.lost_at?.after(grace);
        (self.workers.env().steady() < until).then_some(until)
    }

    /// What follows from what was heard; nothing when it is to go on.
    async fn settle(&mut self, load: &Load<'_>, wake: Wake) -> Option<End> {
        let event = match wake {
            Wake::Event(event) => event,
            Wake::Room => return None,
            Wake::Time => {
                self.overdue(load);
                return None;
            }
        };
        match event {
            Event::Turn(answer, receipt) => Some(End::Turn(answer, receipt, self.build.take())),
            Event::Activity(done, receipt) => Some(End::Activity(done, receipt)),
            // Preferably another worker has it; one that was asked already would only say the same again (behaviour 34).
            Event::Abandoned(stream) if self.current == Some(stream) => {
                self.current = None;
                let other = self.workers.state().has_other(load.side(), load.queue, &self.asked);
                (!other).then(|| End::Abandoned(self.build.take()))
            }
            Event::HistoryWanted => {
                (self.whole, self.current) = (true, None);
                None
            }
            Event::Lost { stream, names_tokens } if self.current == Some(stream) => {
                self.current = None;
                self.lost_at = Some(self.workers.env().steady());
                self.losses += 1;
                if self.losses > 1 {
                    let (work, losses) = (&load.work, self.losses);
                    tracing::warn!(
                        ?work,
                        losses,
                        "worker after worker was lost with this; it goes to another"
                    );
                }
                self.late(load, names_tokens).await
            }
            // Of a worker that was asked before another one.
            Event::Abandoned(_) | Event::Lost { .. } => None,
        }
    }

    /// The worker hangs, it seems: another one is asked if there is one. The first may still answer.
    fn overdue(&mut self, load: &Load<'_>) {
        if self.current.is_some() && self.workers.state().has_other(load.side(), load.queue, &self.asked) {
            self.current = None;
        }
    }

    /// An activity whose worker was lost is left alone for a while: the worker may only have lost its connection, and
    /// answer over another. A turn goes on at once, unless the worker names no tokens: its answer could come when another
    /// worker's has been carried out, and would be taken for that to the next turn.
    async fn late(&mut self, load: &Load<'_>, names_tokens: bool) -> Option<End> {
        if load.side() == Side::Turn && names_tokens {
            return None;
        }
        let until = self.lost_at?.after(self.workers.options().activity_return_after);
        while self.workers.env().steady() < until {
            match self.wait(Some(until), None).await {
                Wake::Event(Event::Activity(done, receipt)) => return Some(End::Activity(done, receipt)),
                Wake::Event(Event::Turn(answer, receipt)) => {
                    return Some(End::Turn(answer, receipt, self.build.take()));
                }
                Wake::Event(_) | Wake::Room | Wake::Time => {}
            }
        }
        None
    }

    async fn wait(&mut self, until: Option<Steady>, room: Option<oneshot::Receiver<()>>) -> Wake {
        let env = self.workers.env();
        // What is not waited for never comes.
        let mut time = until.map_or_else(|| pending().boxed(), |until| env.sleep_until(until)).fuse();
        let mut room = room.map_or_else(|| pending().boxed(), |room| room.map(drop).boxed()).fuse();
        futures::select_biased! {
            event = self.events.select_next_some() => Wake::Event(event),
            () = room => Wake::Room,
            () = time => Wake::Time,
        }
    }
}

/// How far an item has come.
enum Launch {
    /// A worker has it.
    Sent,
    Busy(oneshot::Receiver<()>),
    /// A worker without tokens has an earlier turn of the instance, until that time at most.
    Owed(Option<Steady>, oneshot::Receiver<()>),
    TooLarge(usize),
    Nobody(oneshot::Receiver<()>),
}
