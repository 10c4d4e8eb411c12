//! One instance in this host's hands: the work in progress, and what a claim of it is worth meanwhile.

use dauer_core::model::{Completion, Record};
use dauer_core::planted::{self, Bug};
use dauer_store::{ClaimedTurn, Fence, Mail};

use super::cache::Entry;
use crate::inspect::{HeldPhase, HeldTurn};

/// One hold of one instance, from the claim until this host is done with it.
pub(super) type Ticket = u64;

/// What this host does with an instance that it holds.
pub(super) enum Phase {
    /// A turn runs, or waits for its place among the suspects.
    Turning,
    /// The store is asked to commit a turn.
    Committing { keeps: bool },
    /// The store could not say what became of a commit; it is asked again.
    InDoubt { keeps: bool },
    /// Kept by the last commit: tasks of it run here.
    Idle(Box<Kept>),
    /// The store is asked to take it back.
    Releasing,
}

/// What the next turn of a kept instance begins with.
pub(super) struct Kept {
    pub(super) record: Record,
    pub(super) entry: Option<Box<Entry>>,
}

/// An instance that this host holds.
pub(super) struct Held {
    pub(super) ticket: Ticket,
    /// What the running turn was begun with, or what the last commit made of it.
    pub(super) fence: Fence,
    pub(super) phase: Phase,
    /// Results for the next turn.
    pub(super) waiting: Vec<Completion>,
    /// A claim of a later epoch that is ahead of the answer to the pending commit. It begins once that answer is here: what
    /// the commit left is in the cache then.
    pub(super) claim: Option<Box<ClaimedTurn>>,
    /// Whether the running turn came with a claim.
    pub(super) claimed: bool,
    /// A hint of mail came while a commit was pending, whose answer may be from before.
    pub(super) mail: bool,
}

/// A turn to begin.
pub(super) struct Begin {
    pub(super) ticket: Ticket,
    pub(super) claimed: ClaimedTurn,
    pub(super) completions: Vec<Completion>,
    /// What is known of the instance, when it was kept. Otherwise the cache may know something.
    pub(super) entry: Option<Box<Entry>>,
}

/// How many are held, how many of them have a running turn, and how many of those came with a claim.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) held: usize,
    pub(super) active: usize,
    pub(super) claimed: usize,
}

/// What a claim is worth for an instance that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    Nothing,
    /// The pending commit has released the instance, or is fenced: its answer comes first.
    Later,
    /// The instance came back from other hands: the work here is over.
    All,
}

impl Held {
    /// A claim has brought an instance, and its turn begins.
    pub(super) fn new(ticket: Ticket, fence: Fence, counts: &mut Counts) -> Self {
        counts.held += 1;
        counts.active += 1;
        counts.claimed += 1;
        let (phase, waiting) = (Phase::Turning, Vec::new());
        Self { ticket, fence, phase, waiting, claim: None, claimed: true, mail: false }
    }

    /// What an operator sees of it.
    pub(super) fn inspected(&self) -> HeldTurn {
        let phase = match self.phase {
            Phase::Turning => HeldPhase::Turning,
            Phase::Committing { .. } | Phase::InDoubt { .. } => HeldPhase::Committing,
            Phase::Idle(_) => HeldPhase::Kept,
            Phase::Releasing => HeldPhase::Releasing,
        };
        HeldTurn { fence: self.fence.clone(), phase }
    }

    /// It is no longer held.
    pub(super) fn end(&self, counts: &mut Counts) {
        self.leave(counts);
        counts.held -= 1;
    }

    /// What a claim with that fence is worth. The store never hands out what this session holds, so that a claim of this
    /// epoch or an earlier one is an old answer. Two different commits must never carry the same fence: the store would
    /// take the second for the first, sent again.
    pub(super) fn judge(&self, claim: &Fence) -> Worth {
        let known = self.claim.as_ref().map_or(self.fence.epoch, |waiting| waiting.fence.epoch);
        match &self.phase {
            _ if claim.epoch <= known || planted::is_on(Bug::TakeoverIgnored) => Worth::Nothing,
            Phase::Committing { .. } => Worth::Later,
            // The claim shows what became of a commit in doubt.
            Phase::Turning | Phase::Idle(_) | Phase::InDoubt { .. } | Phase::Releasing => Worth::All,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase, counts: &mut Counts) -> Phase {
        self.leave(counts);
        let before = std::mem::replace(&mut self.phase, phase);
        if !matches!(self.phase, Phase::Idle(_)) {
            counts.active += 1;
            counts.claimed += usize::from(self.claimed);
        }
        before
    }

    fn leave(&self, counts: &mut Counts) {
        if !matches!(self.phase, Phase::Idle(_)) {
            counts.active -= 1;
            counts.claimed -= usize::from(self.claimed);
        }
    }

    /// The next turn of a kept instance begins, if nothing else is in progress.
    fn rouse(&mut self, counts: &mut Counts) -> Option<Kept> {
        match std::mem::replace(&mut self.phase, Phase::Turning) {
            Phase::Idle(kept) => {
                self.claimed = false;
                counts.active += 1;
                Some(*kept)
            }
            busy => {
                self.phase = busy;
                None
            }
        }
    }

    /// What is at hand begins the next turn of a kept instance.
    pub(super) fn go_on(&mut self, mail: Mail, bytes_max: usize, counts: &mut Counts) -> Option<Begin> {
        let Kept { record, entry } = self.rouse(counts)?;
        let (fence, Mail { messages, more, now }) = (self.fence.clone(), mail);
        // The answer to its commit has all that waits by then.
        self.mail = false;
        let claimed = ClaimedTurn { fence, record, messages, more, history: None, now };
        Some(Begin { ticket: self.ticket, claimed, completions: self.take_waiting(bytes_max), entry })
    }

    /// Results for one turn: as many as one claim may bring bytes, at least one.
    fn take_waiting(&mut self, bytes_max: usize) -> Vec<Completion> {
        let mut bytes = 0_usize;
        let fits = |completion: &&Completion| {
            bytes = bytes.saturating_add(completion.answer.event.len());
            bytes <= bytes_max
        };
        let count = self.waiting.iter().take_while(fits).count().max(1);
        if count >= self.waiting.len() {
            return std::mem::take(&mut self.waiting);
        }
        let later = self.waiting.split_off(count);
        std::mem::replace(&mut self.waiting, later)
    }
}
