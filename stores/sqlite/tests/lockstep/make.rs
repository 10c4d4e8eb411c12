//! From a small number to a whole call: who it is by and what it is about is taken from what the sessions hold.

use std::time::Duration;

use dauer_sqlite::Clock;
use dauer_store::{
    Checkpoint, ClaimedTurn, Class, Completion, Control, Death, Deaths, Details, ExecutionId, Fence, History,
    HubKey, Item, Message, Purge, Query, Record, Release, Status, TaskFence, TaskName, Then, Timestamp,
    Trial, Trouble, TroubleKind,
};

use super::op::{INSTANCES, Op, Turn};
use super::request::Request;
use super::{Lockstep, Session};
use crate::support::build::{instance, message, start, step, task};

fn id(number: u8) -> String {
    format!("order{number}")
}

impl Op {
    /// Which session it is by; those that are by nobody do not mind.
    pub(super) fn session(&self) -> u8 {
        match self {
            Self::ClaimTurns(by)
            | Self::Commit(by, _)
            | Self::CommitAgain(by)
            | Self::ClaimTasks(by)
            | Self::Complete(by)
            | Self::Release(by, _)
            | Self::Adopt(by, _)
            | Self::Died(by, _)
            | Self::Trial(by, _)
            | Self::Renew(by)
            | Self::Replace(by, _) => *by,
            _ => 0,
        }
    }
}

/// A message whose text says what it is: ordinary or control, for now or for later.
fn some_message(to: u8, text: u8, now: Timestamp) -> Message {
    let mut message = message(&id(to), &format!("message {text}"));
    message.class = match text % 8 {
        0 => Class::Control(Control::Suspend),
        1 => Class::Control(Control::Resume),
        _ => Class::Ordinary,
    };
    match text % 5 {
        0 => message.visible_at = now.after(Duration::from_secs(u64::from(text))),
        1 => message.to = instance("@bag@1"),
        _ => {}
    }
    message
}

/// A checkpoint of that turn.
fn checkpoint(turn: &ClaimedTurn, what: &Turn, now: Timestamp) -> Checkpoint {
    let mut step = step(turn);
    let to = what.text % INSTANCES;
    match what.kind {
        0 => {}
        1 => step.then = Then::Keep,
        2 => step.record.status = Status::Completed,
        3 => step.record.status = Status::Suspended,
        4 => step.consumed.truncate(1),
        5 => {
            let execution = ExecutionId(u128::from(turn.fence.revision.0) << 8 | u128::from(what.text));
            // Of its own: what is carried over was consumed, so that nothing with that id waits.
            let carried = format!("carried {} {}", turn.fence.instance, turn.fence.revision.0);
            let prologue = vec![message(turn.fence.instance.as_str(), &carried)];
            step.record.execution = execution;
            step.history = History::Replace { execution, batches: vec![], prologue };
        }
        _ => step.then = Then::Release { delay: Duration::from_secs(u64::from(what.text % 20)) },
    }
    step.tasks = (0..what.tasks).map(|number| task(turn, &format!("work{number}"))).collect();
    step.take = usize::from(what.take);
    let mut timer = some_message(to, what.text, now);
    timer.execution = Some(step.record.execution);
    step.timers = vec![Message { to: turn.fence.instance.clone(), ..timer }];
    step.messages = (0..what.messages)
        .map(|number| some_message((to + number) % INSTANCES, what.text + number, now))
        .collect();
    step
}

/// The next turn of an instance that a commit has kept, without its messages.
fn next_of(step: &Checkpoint, before: &Details) -> ClaimedTurn {
    let revision = step.fence.revision.next();
    let record = Record { revision, ..step.record.clone().after(before) };
    let fence = Fence { execution: record.execution, revision, ..step.fence.clone() };
    ClaimedTurn { fence, record, messages: Vec::new(), more: false, history: None, now: Timestamp(0) }
}

impl Session {
    /// The last turn and the last task that it has, with the deaths that it knows.
    fn held(&mut self) -> Vec<(Item, &mut Deaths)> {
        let turn = self.turns.last_mut();
        let turn = turn.map(|turn| (Item::Turn(turn.fence.clone()), &mut turn.record.deaths));
        let task = self.tasks.last_mut().map(|lease| (Item::Task(lease.fence.clone()), &mut lease.deaths));
        turn.into_iter().chain(task).collect()
    }
}

impl Lockstep {
    /// The call that an operation means now; `None` when there is nothing to do it with.
    pub(super) fn make(&mut self, op: &Op) -> Option<Request> {
        let now = self.clock.now();
        let by = usize::from(op.session()) % self.sessions.len();
        let session = &mut self.sessions[by];
        Some(match op {
            Op::Create(number) => Request::Create(vec![start(&id(*number))]),
            Op::Send(all) => {
                Request::Send(all.iter().map(|(to, text)| some_message(*to, *text, now)).collect())
            }
            Op::Purge => Request::Purge(Purge::Matching { query: Query::default(), budget: 1 }),
            Op::ClaimTurns(_) => match session.kept.pop_front() {
                Some(turn) => Request::Mail(session.id, Box::new(turn)),
                None => Request::ClaimTurns(session.id),
            },
            Op::Commit(_, turns) => {
                let count = turns.len().min(session.turns.len());
                let claimed = session.turns.drain(..count);
                let (steps, before): (Vec<_>, Vec<_>) = claimed
                    .zip(turns)
                    .map(|(turn, what)| (checkpoint(&turn, what, now), turn.record.details))
                    .unzip();
                session.last_commit = Some(steps.last()?.clone());
                let kept = steps.iter().zip(&before).filter(|(step, _)| step.then == Then::Keep);
                session.kept.extend(kept.map(|(step, before)| next_of(step, before)));
                Request::Commit(session.id, steps)
            }
            Op::CommitAgain(_) => Request::Commit(session.id, vec![session.last_commit.clone()?]),
            Op::ClaimTasks(_) => Request::ClaimTasks(session.id),
            Op::Complete(_) => {
                let lease = session.tasks.pop()?;
                let mut answer = message(lease.fence.instance.as_str(), "answer");
                (answer.id, answer.answers) = (lease.task.id, Some(lease.task.id));
                answer.execution = Some(lease.task.execution);
                Request::Complete(session.id, vec![Completion { fence: lease.fence, answer }])
            }
            Op::Release(_, failed) => {
                let turn = session.turns.pop().map(|turn| Item::Turn(turn.fence));
                let items = turn.into_iter().chain(session.tasks.pop().map(|task| Item::Task(task.fence)));
                let (kind, reason) = (TroubleKind::Panic, "it broke".into());
                let trouble = Trouble { kind, reason, since: now, attempts: 0, others: Vec::new() };
                let trouble = failed.then_some(trouble);
                let delay = Duration::from_secs(3);
                let releases: Vec<Release> = items
                    .map(|item| Release { item, delay, trouble: trouble.clone(), failed: *failed })
                    .collect();
                if releases.is_empty() {
                    return None;
                }
                Request::Release(session.id, releases)
            }
            Op::Adopt(..) | Op::Died(..) | Op::Trial(..) => self.make_held(by, op)?,
            Op::Key(byte) => Request::Key(HubKey([*byte; 32])),
            Op::Renew(_) => Request::Renew(session.id),
            Op::Advance(_) | Op::Replace(..) | Op::Reopen | Op::Crash => return None,
        })
    }

    /// The call about what sessions hold.
    fn make_held(&mut self, by: usize, op: &Op) -> Option<Request> {
        let session = &mut self.sessions[by];
        match op {
            Op::Adopt(_, of) => {
                let id = session.id;
                let of = usize::from(*of) % self.sessions.len();
                let TaskFence { task, instance, .. } = self.sessions[of].tasks.last()?.fence.clone();
                Some(Request::Adopt(id, vec![TaskName { instance, task }]))
            }
            Op::Died(_, tried) => {
                let deaths = session.held().into_iter().map(|(item, known)| {
                    let before = *known;
                    *known = known.after_trial(true, *tried);
                    Death { item, known: before }
                });
                let deaths: Vec<Death> = deaths.collect();
                (!deaths.is_empty()).then(|| Request::Died(session.id, deaths))
            }
            Op::Trial(_, open) => {
                let trials = session.held().into_iter().map(|(item, _)| Trial { item, open: *open });
                let trials: Vec<Trial> = trials.collect();
                (!trials.is_empty()).then(|| Request::Trial(session.id, trials))
            }
            _ => None,
        }
    }
}
