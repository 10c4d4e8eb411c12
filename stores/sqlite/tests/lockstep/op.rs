//! What a random case is made of: calls with small numbers in them, so that a failing case shrinks to few and small ones.

use dauer_power_vfs::{Access, Failure, Fault};
use proptest::prelude::*;

/// One thing to do. Which session, instance or message is meant is taken from what there is.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create(u8),
    /// One message or two in one call.
    Send(Vec<(u8, u8)>),
    Purge,
    /// So many seconds pass.
    Advance(u8),
    ClaimTurns(u8),
    /// Commits one held turn or two in one call.
    Commit(u8, Vec<Turn>),
    /// Sends the last commit of a session again.
    CommitAgain(u8),
    ClaimTasks(u8),
    Complete(u8),
    Release(u8, bool),
    /// Adopts a task that another session has, or this one.
    Adopt(u8, u8),
    /// Reports that a worker died, during a trial or not.
    Died(u8, bool),
    /// Opens a trial or closes it.
    Trial(u8, bool),
    /// Asks for the key of the hub.
    Key(u8),
    Renew(u8),
    /// A session ends, by itself or by proof of death, and another one begins.
    Replace(u8, bool),
    /// The store is closed and opened again.
    Reopen,
    /// The process dies: the files, as they are, are opened by another one.
    Crash,
}

/// What a turn does.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    /// Goes on, keeps its instance, ends, is suspended, takes only one message, or begins another execution.
    pub(crate) kind: u8,
    pub(crate) tasks: u8,
    pub(crate) take: u8,
    /// The text of the timer and the messages it sends.
    pub(crate) text: u8,
    pub(crate) messages: u8,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    /// The disk fails meanwhile.
    Disk(Fault),
    /// It is carried out, and the answer is lost. Calls that have no place for that go well.
    LostAnswer,
}

/// An operation and what goes wrong meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) op: Op,
    pub(crate) trouble: Option<Trouble>,
}

impl Step {
    /// The disk's part in it.
    pub(crate) fn fault(&self) -> Option<Fault> {
        match self.trouble {
            Some(Trouble::Disk(fault)) => Some(fault),
            _ => None,
        }
    }
}

/// Few, so that calls meet.
pub(crate) const INSTANCES: u8 = 6;
const TEXTS: u8 = 40;

fn turn() -> impl Strategy<Value = Turn> {
    (0..8_u8, 0..3_u8, 0..2_u8, 0..TEXTS, 0..3_u8).prop_map(|(kind, tasks, take, text, messages)| Turn {
        kind,
        tasks,
        take,
        text,
        messages,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let session = 0..3_u8;
    prop_oneof![
        3 => (0..INSTANCES).prop_map(Op::Create),
        4 => prop::collection::vec((0..INSTANCES, 0..TEXTS), 1..=2).prop_map(Op::Send),
        1 => Just(Op::Purge),
        2 => (0..40_u8).prop_map(Op::Advance),
        6 => session.clone().prop_map(Op::ClaimTurns),
        8 => (session.clone(), prop::collection::vec(turn(), 1..=2)).prop_map(|(by, turns)| Op::Commit(by, turns)),
        3 => session.clone().prop_map(Op::CommitAgain),
        3 => session.clone().prop_map(Op::ClaimTasks),
        3 => session.clone().prop_map(Op::Complete),
        2 => (session.clone(), any::<bool>()).prop_map(|(by, failed)| Op::Release(by, failed)),
        2 => (session.clone(), 0..3_u8).prop_map(|(by, of)| Op::Adopt(by, of)),
        2 => (session.clone(), any::<bool>()).prop_map(|(by, tried)| Op::Died(by, tried)),
        1 => (session.clone(), any::<bool>()).prop_map(|(by, open)| Op::Trial(by, open)),
        1 => (0..3_u8).prop_map(Op::Key),
        1 => session.clone().prop_map(Op::Renew),
        1 => (session, any::<bool>()).prop_map(|(by, dead)| Op::Replace(by, dead)),
        1 => Just(Op::Reopen),
        2 => Just(Op::Crash),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    // A commit is some twenty writes and one sync; most of what it reads is in memory.
    let access = prop_oneof![
        4 => (Just(Access::ChangeOrSync), 0..30_u32),
        3 => (Just(Access::Sync), 0..2_u32),
        1 => (Just(Access::Read), 0..6_u32),
    ];
    let count = prop_oneof![3 => Just(1), 1 => Just(2), 1 => Just(u32::MAX)];
    let failure = prop_oneof![Just(Failure::Broken), Just(Failure::Full)];
    (access, count, failure).prop_map(|((access, after), count, failure)| Fault {
        access,
        after,
        count,
        failure,
    })
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![4 => fault().prop_map(Trouble::Disk), 1 => Just(Trouble::LostAnswer)]
}

/// A case: how much is held in memory, and the steps.
pub(crate) fn case(steps_max: usize) -> impl Strategy<Value = (u8, Vec<Step>)> {
    let step = (op(), prop::option::weighted(0.4, trouble())).prop_map(|(op, trouble)| Step { op, trouble });
    (0..3_u8, prop::collection::vec(step, 1..=steps_max))
}
