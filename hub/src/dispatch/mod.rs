//! The loop of a session: learns what it has won, runs it, commits and answers. One explicit state, one input at a time.
//!
//! Each call of the store is a future in one set, and each ends as one [`Step`]; activities run beside the loop and report
//! through one channel. Everything that is ready is taken before anything new is begun, so that what was made together is
//! committed together.
//!
//! Each part owns its fields, and says at its head what always holds of them:
//!
//! | part | what it owns |
//! |---|---|
//! | `intake` | the credit and its numbers, the one call of `next`, recalls |
//! | `room` | how much may be in progress, and how much of it is granted |
//! | `wins` | what was won and has no place yet; what was received and may be recalled |
//! | `slots`, `hold` | the instances that are held, and the tasks that run |
//! | `mail` | which kept instances have messages to be read |
//! | `turns`, `turn` | turns that are to begin; taking one turn |
//! | `suspects` | what may have killed workers: how much of it runs at once, and the trial of one item |
//! | `commits` | checkpoints for the next commit |
//! | `tasks`, `activity` | running tasks and results for the next answer; running one |
//! | `adopt` | tasks that a worker executes and the session does not hold |
//! | `cancel` | whether to look which runs are over |
//! | `cache`, `clock` | what the next turn needs; the store's time |

mod activity;
mod adopt;
mod cache;
mod cancel;
mod clock;
mod commits;
mod hold;
mod intake;
mod mail;
mod room;
mod slots;
mod suspects;
mod tasks;
mod turn;
mod turns;
mod wins;

use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::UnboundedReceiver;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};

use dauer_core::InstanceId;
use dauer_core::cancel::CancelReason;
use dauer_store::{Committed, Delivered, Next, Recalled, Refused, TaskLease};

use activity::Done;
use adopt::{Adoptions, Asking};
use cache::Cache;
use cancel::{Found, Lookout};
use clock::StoreClock;
use commits::{Commits, Pending};
use hold::Ticket;
use intake::Intake;
use mail::{Mailbox, Read};
use room::{Load, Room};
use slots::Slots;
use suspects::Suspects;
use tasks::{Answer, Tasks};
use turns::{Due, Turned};
use wins::Wins;

use crate::session::{News, Session, Stop};

/// Something that was in progress has come to an end.
enum Step {
    Next(Result<Next, Refused>),
    Recalled(Result<Recalled, Refused>),
    /// The store may be asked for work again.
    RestOver,
    Turned(Box<Turned>),
    Committed(Vec<(Pending, Result<Committed, Refused>)>),
    CommitAgain(Box<Pending>),
    TurnReleased(InstanceId, Ticket),
    Answered(Vec<(Answer, Result<Delivered, Refused>)>),
    AnswerAgain(Box<Answer>),
    TaskReleased,
    /// An item that had not begun was given back, which is this step.
    Left(Box<Step>),
    /// A time has come that suspects or a trial wait for.
    LookAgain,
    /// The store has noted that a trial is open; false when its item is not held any more.
    TrialOpened(bool),
    /// The store has noted that the trial is over.
    TrialClosed,
    /// A win that was worth nothing was given back.
    WinReleased,
    /// The store has said whether this session holds the tasks that its workers execute.
    Adopted(Vec<(Asking, Result<Option<TaskLease>, Refused>)>),
    AdoptAgain(Box<Asking>),
    MailRead(Vec<Read>),
    /// Messages of an instance could not be read; they are read again.
    MailWaits(InstanceId),
    /// The store has said what became of the instances that tasks run for here.
    Looked(Vec<Found>, Duration),
    /// The next look may begin.
    Rested,
    /// There may have been no room for tasks for a while.
    RanOut,
    Stopped,
}

/// The state of the loop.
struct Dispatch {
    session: Arc<Session>,
    steps: FuturesUnordered<BoxFuture<'static, Step>>,
    stopping: bool,
    /// Whether results may go into the turns they are for.
    fuses: bool,
    intake: Intake,
    room: Room,
    wins: Wins,
    slots: Slots,
    mail: Mailbox,
    due: Due,
    suspects: Suspects,
    commits: Commits,
    tasks: Tasks,
    adoptions: Adoptions,
    lookout: Lookout,
    cache: Cache,
    clock: StoreClock,
}

/// Takes and executes work until told to stop, then finishes what is in progress.
pub(crate) async fn run(session: Arc<Session>, mut news: UnboundedReceiver<News>, stop: Stop) {
    let (mut dispatch, mut done) = Dispatch::new(session);
    dispatch.steps.push(stop.map(|()| Step::Stopped).boxed());
    let mut hints = dispatch.session.work.changes().fuse();
    let mut changes = dispatch.session.executor.changes().fuse();
    let mut adoptions = dispatch.session.executor.adoptions().fuse();
    while !dispatch.is_done() {
        dispatch.begin_what_can();
        futures::select_biased! {
            step = dispatch.steps.select_next_some() => dispatch.take(step),
            task = done.select_next_some() => dispatch.task_done(task),
            news = news.select_next_some() => dispatch.heard_of(news),
            hint = hints.select_next_some() => dispatch.hinted(&hint),
            () = changes.select_next_some() => dispatch.room.executor_changed(),
            adoption = adoptions.select_next_some() => dispatch.adoptions.ask(adoption),
        }
        // All that is ready now goes into the same batches.
        while let Some(Some(step)) = dispatch.steps.next().now_or_never() {
            dispatch.take(step);
        }
        while let Some(Some(task)) = done.next().now_or_never() {
            dispatch.task_done(task);
        }
        while let Some(Some(news)) = news.next().now_or_never() {
            dispatch.heard_of(news);
        }
        while let Some(Some(hint)) = hints.next().now_or_never() {
            dispatch.hinted(&hint);
        }
        // Also where steps are always ready, because what this host took is given back at once.
        while let Some(Some(())) = changes.next().now_or_never() {
            dispatch.room.executor_changed();
        }
        while let Some(Some(adoption)) = adoptions.next().now_or_never() {
            dispatch.adoptions.ask(adoption);
        }
    }
    // The executor learns of the end before its activities do: what they execute goes to the next session.
    drop(adoptions);
    // What still runs here runs for nothing: the store takes no more answers of this session.
    dispatch.cancel_all(CancelReason::LeaseLost);
}

impl Dispatch {
    fn new(session: Arc<Session>) -> (Self, UnboundedReceiver<Done>) {
        let (tasks, reports) = Tasks::new(session.env.is_single_threaded() && session.executor.fuses());
        let dispatch = Self {
            steps: FuturesUnordered::new(),
            stopping: false,
            fuses: session.executor.fuses(),
            intake: Intake::new(session.env.steady()),
            room: Room::new(&session.options, &*session.executor),
            wins: Wins::default(),
            slots: Slots::default(),
            mail: Mailbox::default(),
            due: Due::default(),
            suspects: Suspects::new(
                session.executor.runs_code(),
                session.options.trial_quiet,
                session.env.steady(),
                session.env.random(),
            ),
            commits: Commits::default(),
            tasks,
            adoptions: Adoptions::default(),
            lookout: Lookout::default(),
            cache: Cache::new(session.options.cache_instances_max),
            clock: StoreClock::default(),
            session,
        };
        (dispatch, reports)
    }

    /// What was won and has not begun goes back with the end of the session. So does what workers go on executing.
    fn is_done(&self) -> bool {
        let waits_for_tasks = || self.tasks.in_flight() > self.session.executor.left_behind();
        let drained = || self.slots.held() == 0 && !self.adoptions.are_open() && !waits_for_tasks();
        self.session.is_over() || self.stopping && drained()
    }

    fn begin_what_can(&mut self) {
        self.go_on_with_trial();
        self.begin_due();
        self.begin_suspects();
        self.begin_won();
        self.send_commits();
        self.send_answers();
        self.send_adoptions();
        self.look_if_wanted();
        self.read_mail();
        self.ask();
        self.tasks.loop_waits();
    }

    fn load(&self) -> Load {
        let (turns, won) = self.slots.active();
        Load { turns, won, tasks: self.tasks.in_flight(), waiting: self.wins.waiting() }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Next(result) => self.returned(result),
            Step::Recalled(result) => self.recalled(result),
            Step::RestOver => self.intake.rested(),
            Step::Turned(turned) => self.turned(*turned),
            Step::Committed(results) => {
                // All of one transaction have its time: heard once, the clock is looked at once.
                let told = results.iter().filter_map(|(_, result)| Some(result.as_ref().ok()?.now));
                if let Some(latest) = told.max() {
                    self.clock.hear(latest, &*self.session.env);
                }
                results.into_iter().for_each(|(pending, result)| self.committed(pending, result));
            }
            Step::CommitAgain(pending) => self.commits.again(*pending),
            Step::TurnReleased(instance, ticket) => {
                if self.slots.is_current(&instance, ticket) {
                    self.finish(&instance);
                }
            }
            Step::Answered(results) => {
                results.into_iter().for_each(|(answer, result)| self.answered(answer, &result));
            }
            Step::AnswerAgain(answer) => self.tasks.answer(*answer),
            Step::TaskReleased => self.tasks.settle(1),
            Step::Left(step) => {
                self.suspects.left();
                self.take(*step);
            }
            // The loop goes on with it.
            Step::LookAgain => {}
            Step::TrialOpened(open) => self.trial_opened(open),
            Step::TrialClosed => self.trial_closed(),
            // The store offers it again.
            Step::WinReleased => {}
            Step::RanOut => {
                if let Some(until) = self.room.look_again(self.session.env.steady()) {
                    self.wait_for_tasks(until);
                }
            }
            Step::Adopted(said) => self.adopted(said),
            Step::AdoptAgain(asking) => self.adoptions.again(*asking),
            Step::MailRead(read) => self.mail_read(read),
            Step::MailWaits(instance) => self.mail_waits(instance),
            Step::Looked(found, took) => self.looked(found, took),
            Step::Rested => self.lookout.rested(),
            Step::Stopped => {
                self.stopping = true;
                self.cancel_all(CancelReason::Draining);
                self.return_waiting_tasks();
            }
        }
    }
}
