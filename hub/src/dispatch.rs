//! The loop of a session: claims turns and tasks, has them run, commits and answers. One explicit state, one input at
//! a time.
//!
//! Whatever is under way at the store is a future in one set, and each ends as one [`Step`]; activities run beside the
//! loop and report through one channel. Everything that is ready is taken before anything new is begun, so that what
//! was made together is committed together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};

use dauer_core::cancel::CancelReason;
use dauer_core::model::{Kind, Queues};
use dauer_core::{InstanceId, Timestamp};
use dauer_store::{
    Cause, ClaimedTurn, Committed, Delivered, Hint, Item, Refused, Release, Steady, TaskLease, WaitingMail,
};

use crate::activities::{Answer, Done};
use crate::cache::Cache;
use crate::cancel::{Found, Lookout};
use crate::commit::Pending;
use crate::demand::{Demand, Sleep};
use crate::hold::{Begin, Ticket};
use crate::mail::{Mailbox, Read};
use crate::options::{
    CLAIM_MAX, CLAIMED_SHARE, EXPLAIN_BUSY, EXPLAINED_MAX, TASK_ROOM_PATIENCE, TIME_CARRIED_MAX,
};
use crate::session::{News, Session, Stop};
use crate::slots::{Admitted, Slots};
use crate::turns::Turned;
use crate::wait::Waits;

/// Which kind of work a claim is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Turns,
    Tasks,
}

/// Something that was under way has come to an end.
pub(crate) enum Step {
    Woken(Side, Steady),
    Idle(Side, Option<Duration>),
    ClaimedTurns(Result<Vec<ClaimedTurn>, Refused>),
    AwaitedTurns(u64, Result<Vec<ClaimedTurn>, Refused>),
    ClaimedTasks(Result<Vec<TaskLease>, Refused>),
    Turned(Box<Turned>),
    Committed(Vec<(Pending, Result<Committed, Refused>)>),
    CommitAgain(Box<Pending>),
    TurnReleased(InstanceId, Ticket),
    Answered(Vec<(Answer, Result<Delivered, Refused>)>),
    AnswerAgain(Box<Answer>),
    TaskReleased,
    /// A claim that was worth nothing was given back.
    ClaimReleased,
    MailNamed(Result<WaitingMail, Refused>),
    MailRead(Vec<Read>),
    /// Messages of an instance could not be read; they are read again.
    MailWaits(InstanceId),
    /// It is time to look for mail.
    MailDue(Steady),
    /// The store has said what became of the instances that tasks run for here.
    Looked(Vec<Found>, Duration),
    /// The next look may begin.
    Rested,
    /// There has been no room for tasks for a while.
    RanOut,
    Stopped,
}

/// How long claims of turns wait for room for their tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// They do not have to.
    Fresh,
    /// Until a sleep ends.
    Waits,
    /// No longer: the next one is sent whatever room there is.
    Over,
}

/// The state of the loop.
pub(crate) struct Dispatch {
    pub(crate) session: Arc<Session>,
    pub(crate) steps: FuturesUnordered<BoxFuture<'static, Step>>,
    pub(crate) slots: Slots,
    pub(crate) cache: Cache,
    /// Whether results may go into the turns they are for.
    pub(crate) fuses: bool,
    /// What the executor could run when it was last asked.
    pub(crate) queues: Queues,
    /// Checkpoints for the next commit.
    pub(crate) ready: Vec<Pending>,
    /// Kept instances for which results wait.
    pub(crate) due: Vec<InstanceId>,
    pub(crate) suspects: VecDeque<Begin>,
    pub(crate) suspect_runs: bool,
    /// Results for the next answer.
    pub(crate) answers: Vec<Answer>,
    /// Tasks that run here, are about to, or have results that the store does not have yet.
    pub(crate) in_flight: usize,
    /// Whether to look what became of the instances that tasks run for here.
    pub(crate) lookout: Lookout,
    /// Where activities report.
    pub(crate) done: UnboundedSender<Done>,
    pub(crate) turn_demand: Demand,
    pub(crate) task_demand: Demand,
    /// The claims that wait in the store for what becomes ready.
    pub(crate) waits: Waits,
    /// Which kept instances have messages that are to be read.
    pub(crate) mail: Mailbox,
    pub(crate) stopping: bool,
    /// Whether all that is spawned shares one thread with this loop.
    pub(crate) single_threaded: bool,
    /// Since when tasks have been run as a part of it, since it last waited.
    pub(crate) running_since: Option<Steady>,
    /// A sleep has ended since turns were last claimed: nothing was told meanwhile.
    polls: bool,
    /// When turns were last claimed that this host may only be able to say something about.
    explained_at: Steady,
    patience: Patience,
    /// The latest time of the store, and the reading of this host's monotonic clock when it came.
    heard: Option<(Timestamp, Steady)>,
}

/// Claims and executes until told to stop, then finishes what is in flight.
pub(crate) async fn run(session: Arc<Session>, mut news: UnboundedReceiver<News>, stop: Stop) {
    let (mut dispatch, mut done) = Dispatch::new(session);
    dispatch.steps.push(stop.map(|()| Step::Stopped).boxed());
    let mut hints = dispatch.session.work.changes().fuse();
    let mut changes = dispatch.session.executor.changes().fuse();
    while !dispatch.is_done() {
        dispatch.begin_what_can();
        dispatch.running_since = None;
        futures::select_biased! {
            step = dispatch.steps.select_next_some() => dispatch.take(step),
            task = done.select_next_some() => dispatch.task_done(task),
            news = news.select_next_some() => dispatch.heard_of(news),
            hint = hints.select_next_some() => dispatch.hinted(&hint),
            () = changes.select_next_some() => dispatch.executor_changed(),
        }
        // All that is ready now goes into the same batches.
        while let Some(Some(step)) = dispatch.steps.next().now_or_never() {
            dispatch.take(step);
        }
        while let Some(Some(task)) = done.next().now_or_never() {
            dispatch.task_done(task);
        }
        while let Some(Some(hint)) = hints.next().now_or_never() {
            dispatch.hinted(&hint);
        }
    }
    // Whatever still runs here runs for nothing: the store takes no more answers of this session.
    dispatch.cancel_all(CancelReason::LeaseLost);
}

impl Dispatch {
    fn new(session: Arc<Session>) -> (Self, UnboundedReceiver<Done>) {
        let (done, reports) = unbounded();
        let dispatch = Self {
            steps: FuturesUnordered::new(),
            slots: Slots::default(),
            cache: Cache::new(session.options.cache_instances_max),
            fuses: session.executor.fuses(),
            queues: session.executor.queues(),
            ready: Vec::new(),
            due: Vec::new(),
            suspects: VecDeque::new(),
            suspect_runs: false,
            answers: Vec::new(),
            in_flight: 0,
            lookout: Lookout::default(),
            done,
            turn_demand: Demand::new(),
            task_demand: Demand::new(),
            waits: Waits::default(),
            mail: Mailbox::default(),
            stopping: false,
            single_threaded: session.env.is_single_threaded(),
            running_since: None,
            polls: false,
            explained_at: session.env.steady(),
            patience: Patience::Fresh,
            heard: None,
            session,
        };
        (dispatch, reports)
    }

    fn is_done(&self) -> bool {
        self.session.is_over() || self.stopping && self.slots.held() == 0 && self.in_flight == 0
    }

    fn begin_what_can(&mut self) {
        self.begin_due();
        self.begin_suspect();
        self.send_commits();
        self.send_answers();
        self.look_if_wanted();
        self.look_for_mail();
        self.read_mail();
        let free = self.room_beside_waits();
        if self.turn_demand.begin(if self.stopping { 0 } else { free }) {
            self.patience = Patience::Fresh;
            self.claim(Side::Turns, free);
        }
        self.wait_for_turns();
        let free = self.room_for_tasks();
        if self.task_demand.begin(if self.stopping { 0 } else { free }) {
            self.claim(Side::Tasks, free);
        }
    }

    pub(crate) fn room_for_tasks(&self) -> usize {
        let most = self.session.options.activities_max.min(self.session.executor.capacity().activities);
        most.saturating_sub(self.in_flight)
    }

    /// How many turns may be claimed. Turns that results began count too: what was begun is finished first. But they
    /// may not take all the room, or instances that never come to rest would keep everyone else out.
    ///
    /// Where results are fused no more is begun than there is room for tasks: an instance whose task cannot be taken
    /// has to be let go, and costs twice as much. Activities that take long hold that up for a moment only.
    pub(crate) fn room_for_turns(&mut self) -> usize {
        let most = self.session.options.turns_max.min(self.session.executor.capacity().turns);
        let (active, claimed) = self.slots.active();
        let share = most.div_ceil(CLAIMED_SHARE);
        let room = most.saturating_sub(active).max(share.saturating_sub(claimed));
        let tasks = self.room_for_tasks();
        if !self.fuses || self.session.options.activities_max == 0 || self.patience == Patience::Over {
            return room;
        }
        if tasks == 0 && self.patience == Patience::Fresh && self.turn_demand.is_wanted() {
            self.patience = Patience::Waits;
            self.steps.push(self.session.sleep(TASK_ROOM_PATIENCE).map(|()| Step::RanOut).boxed());
        }
        room.min(tasks)
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Woken(side, until) => {
                let counts = self.demand(side).wake(until);
                self.polls |= counts && side == Side::Turns;
            }
            Step::Idle(side, due) => self.idle(side, due),
            Step::ClaimedTurns(result) => self.claimed_turns(result),
            Step::AwaitedTurns(number, result) => self.awaited_turns(number, result),
            Step::ClaimedTasks(result) => self.claimed_tasks(result),
            Step::Turned(turned) => self.turned(*turned),
            Step::Committed(results) => {
                // All of one transaction have its time: heard once, the clock is looked at once.
                let told = results.iter().filter_map(|(_, result)| Some(result.as_ref().ok()?.now));
                if let Some(latest) = told.max() {
                    self.hear(latest);
                }
                for (pending, result) in results {
                    self.committed(pending, result);
                }
            }
            Step::CommitAgain(pending) => self.ready.push(*pending),
            Step::TurnReleased(instance, ticket) => {
                if self.slots.is_current(&instance, ticket) {
                    self.finish(&instance);
                }
            }
            Step::Answered(results) => {
                for (answer, result) in results {
                    self.answered(answer, &result);
                }
            }
            Step::AnswerAgain(answer) => self.answers.push(*answer),
            Step::TaskReleased => self.settle_tasks(1),
            // A hint tells of it, as of all that becomes ready.
            Step::ClaimReleased => {}
            Step::RanOut => {
                if self.patience == Patience::Waits {
                    self.patience = Patience::Over;
                    self.turn_demand.room();
                }
            }
            Step::MailNamed(named) => self.mail_named(named),
            Step::MailRead(read) => self.mail_read(read),
            Step::MailWaits(instance) => self.mail_waits(&instance),
            Step::MailDue(until) => self.mail_is_due(until),
            Step::Looked(found, took) => self.looked(found, took),
            Step::Rested => self.lookout.rested(),
            Step::Stopped => {
                self.stopping = true;
                self.stop_waiting();
                self.cancel_all(CancelReason::Draining);
            }
        }
    }

    /// Only what is ready counts. That somebody else has written is no news of itself: stores tell what is ready then.
    fn hinted(&mut self, hint: &Hint) {
        match hint {
            Hint::Ready(Kind::Orchestration | Kind::Entity) => self.turn_demand.hint(),
            Hint::Ready(Kind::Activity) => self.task_demand.hint(),
            Hint::Due(Kind::Orchestration | Kind::Entity, after) => {
                self.due_after(Side::Turns, *after);
                if self.slots.held() > 0 {
                    self.look_within(*after);
                }
            }
            Hint::Due(Kind::Activity, after) => self.due_after(Side::Tasks, *after),
            Hint::Mail(instance) => self.mail_waits(instance),
            Hint::Elsewhere => {
                self.mail.look = true;
                self.hinted_of_end(hint);
            }
            Hint::Status(..) | Hint::Ended(..) | Hint::SessionEnded(_) => self.hinted_of_end(hint),
        }
    }

    /// It can run what it could not run before: that may have been waiting.
    fn executor_changed(&mut self) {
        self.turn_demand.hint();
        self.task_demand.hint();
    }

    fn demand(&mut self, side: Side) -> &mut Demand {
        match side {
            Side::Turns => &mut self.turn_demand,
            Side::Tasks => &mut self.task_demand,
        }
    }

    fn claim(&mut self, side: Side, free: usize) {
        self.queues = self.session.executor.queues();
        let session = Arc::clone(&self.session);
        let want = match self.explained(side) {
            Some(queues) => session.want(free.min(EXPLAINED_MAX), queues),
            None => session.want(free.min(CLAIM_MAX), self.queues.clone()),
        };
        self.demand(side).asks_for(want.count);
        let claim = async move {
            match side {
                Side::Turns => Step::ClaimedTurns(ask(&session, session.work.claim_turns(want)).await),
                Side::Tasks => Step::ClaimedTasks(ask(&session, session.work.claim_activities(want)).await),
            }
        };
        self.steps.push(claim.boxed());
    }

    /// What a claim asks for that also looks for what nobody seems to be able to run, if it is time for one. Not when a
    /// hint led to it: then those who can run it have been told, too.
    fn explained(&mut self, side: Side) -> Option<Queues> {
        if side == Side::Tasks {
            return None;
        }
        let (now, pause) = (self.session.env.steady(), self.session.options.poll_max);
        let pause = if std::mem::take(&mut self.polls) { pause } else { pause * EXPLAIN_BUSY };
        if now.since(self.explained_at) < pause {
            return None;
        }
        self.explained_at = now;
        self.session.executor.explains()
    }

    fn claimed_turns(&mut self, result: Result<Vec<ClaimedTurn>, Refused>) {
        self.turn_demand.end(result.as_ref().ok().map(Vec::len));
        match result {
            Ok(claimed) if claimed.is_empty() => self.ask_when(Side::Turns),
            Ok(claimed) => {
                tracing::debug!(count = claimed.len(), "turns were claimed");
                if let Some(latest) = claimed.iter().map(|claimed| claimed.now).max() {
                    self.hear(latest);
                }
                for claimed in claimed {
                    self.claimed_turn(claimed);
                }
            }
            Err(refused) => self.not_claimed(Side::Turns, &refused),
        }
    }

    pub(crate) fn claimed_turn(&mut self, claimed: ClaimedTurn) {
        match self.slots.admit(claimed) {
            Admitted::Begin(begin, orphans) => {
                self.answer_all(orphans);
                if begin.claimed.record.attempts >= self.session.options.suspect_attempts {
                    self.suspects.push_back(*begin);
                } else {
                    self.begin(*begin, false);
                }
            }
            Admitted::Stale(fence) => {
                let (session, item) = (Arc::clone(&self.session), Item::Turn(fence));
                let release = Release { item, delay: Duration::ZERO, trouble: None, failed: false };
                let released = async move { session.give_back(release).await };
                self.steps.push(released.map(|()| Step::ClaimReleased).boxed());
            }
            Admitted::Waits | Admitted::Known => {}
        }
    }

    pub(crate) fn not_claimed(&mut self, side: Side, refused: &Refused) {
        if matches!(refused, Refused::Fenced) {
            return self.session.end();
        }
        tracing::error!(?side, error = %refused, "nothing could be claimed; trying again");
        self.idle(side, None);
    }

    /// Asks when something becomes ready by time.
    pub(crate) fn ask_when(&mut self, side: Side) {
        let (session, queues) = (Arc::clone(&self.session), self.queues.clone());
        let ask = async move { Step::Idle(side, session.work.next_due(&queues).await.ok().flatten()) };
        self.steps.push(ask.boxed());
    }

    fn idle(&mut self, side: Side, due: Option<Duration>) {
        let session = Arc::clone(&self.session);
        let sleep = self.demand(side).idle(&session, due);
        self.sleep(side, sleep);
    }

    fn due_after(&mut self, side: Side, after: Duration) {
        let session = Arc::clone(&self.session);
        let sleep = self.demand(side).due(&session, after);
        self.sleep(side, sleep);
    }

    fn sleep(&mut self, side: Side, sleep: Option<Sleep>) {
        self.steps.extend(sleep.map(|sleep| sleep.map(move |until| Step::Woken(side, until)).boxed()));
    }

    pub(crate) fn hear(&mut self, told: Timestamp) {
        if self.heard.is_none_or(|(latest, _)| latest <= told) {
            self.heard = Some((told, self.session.env.steady()));
        }
    }

    /// The store's time, as far as it is known: its last time, carried on by this host's monotonic clock for a moment.
    /// The store's clock may go at another rate. The result is rather behind than ahead: clocks that are read in whole
    /// milliseconds measure up to one too many.
    pub(crate) fn store_now(&self) -> Option<Timestamp> {
        let (told, heard_at) = self.heard?;
        let since = self.session.env.steady().since(heard_at);
        let carried = since.saturating_sub(Duration::from_millis(1));
        (since <= TIME_CARRIED_MAX).then(|| told.after(carried))
    }
}

/// Claims. The session is renewed first when its lease has run out by this host's clock, or when the wall clock has leapt:
/// the store's clock may have leapt with it. It is renewed afterwards when the store refuses the claim, which may hold the
/// session for expired.
async fn ask<T>(
    session: &Session,
    claim: impl Future<Output = Result<Vec<T>, Refused>>,
) -> Result<Vec<T>, Refused> {
    if (!session.may_claim() || session.wall_clock_leapt()) && !session.renew().await {
        return Err(Refused::NotExecuted(Cause::new("the session could not be renewed")));
    }
    let claimed = claim.await;
    if matches!(claimed, Err(Refused::NotExecuted(_))) {
        session.renew().await;
    }
    claimed
}
