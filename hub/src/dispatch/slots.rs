//! The instances that this host has in its hands, and which of their tasks it runs.
//!
//! ```text
//! claimed ──▶ Turning ──▶ Committing ──▶ released by the commit
//!                ▲             │
//!                │             ▼ kept by the commit
//!                └─────────── Idle      a result, or a message that is read, begins the next turn
//! ```
//!
//! No claim hands out an instance that this session holds. One that brings an instance held here is an old answer, or shows
//! that the hold is over. What such a claim is worth is decided here and nowhere else.

use dauer_core::cancel::{CancelReason, Cancellation};
use dauer_core::model::{Completion, TaskFence};
use dauer_core::planted::{self, Bug};
use dauer_core::{Epoch, ExecutionId, InstanceId, MessageId, Timestamp};
use dauer_store::{ById, ClaimedTurn, Fence, Mail};

use super::cache::Entry;
use super::hold::{Begin, Counts, Held, Kept, Phase, Ticket, Worth};
use crate::inspect::HeldTurn;

#[derive(Default)]
struct Slot {
    held: Option<Held>,
    /// This host's tasks of the instance.
    running: Vec<Running>,
}

impl Slot {
    fn runs(&self, execution: ExecutionId) -> bool {
        self.running.iter().any(|task| task.execution == execution)
    }
}

/// A task that runs here.
struct Running {
    task: MessageId,
    epoch: Epoch,
    /// The run that it belongs to.
    execution: ExecutionId,
    cancellation: Cancellation,
}

impl Running {
    fn is(&self, fence: &TaskFence) -> bool {
        self.task == fence.task && self.epoch == fence.epoch
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Slots {
    slots: ById<Slot>,
    counts: Counts,
    tickets: Ticket,
}

/// What a claim is worth.
pub(super) enum Admitted {
    /// A turn; and the results that an earlier hold of the instance leaves behind.
    Begin(Box<Begin>, Vec<Completion>),
    /// It waits for the answer to the pending commit.
    Waits,
    /// Nothing: the instance is held here under that epoch.
    Known,
    /// Nothing, and no hold here is of its epoch: it is given back. Otherwise the store would take the instance for held as
    /// long as the session lives.
    Stale(Fence),
}

/// What becomes of an instance after a commit that keeps it.
pub(super) enum After {
    /// Its next turn begins.
    Begin(Box<Begin>),
    /// Results wait for it: its next turn begins with them.
    Due,
    /// Messages wait for it, which are to be read.
    Mail,
    /// Tasks of it run here.
    Idle,
    /// Nothing here needs it: it is to be given back.
    Useless(Ticket, Fence),
}

impl Slots {
    /// How many instances are in this host's hands.
    pub(super) fn held(&self) -> usize {
        self.counts.held
    }

    /// Whether an instance is in this host's hands.
    pub(super) fn is_held(&self, instance: &InstanceId) -> bool {
        self.slots.get(instance).is_some_and(|slot| slot.held.is_some())
    }

    /// The instances that are held, by id.
    pub(super) fn turns(&self) -> Vec<HeldTurn> {
        let held = |id: &InstanceId| self.slots.get(id).and_then(|slot| slot.held.as_ref());
        let ids = self.slots.instances();
        ids.iter().filter_map(held).map(Held::inspected).collect()
    }

    /// Turns that run or are being committed: all of them, and those that came with a claim.
    pub(super) fn active(&self) -> (usize, usize) {
        (self.counts.active, self.counts.claimed)
    }

    pub(super) fn is_current(&self, instance: &InstanceId, ticket: Ticket) -> bool {
        let held = self.slots.get(instance).and_then(|slot| slot.held.as_ref());
        held.is_some_and(|held| held.ticket == ticket)
    }

    /// Decides what a claim is worth, and makes room for the turn that it begins.
    pub(super) fn admit(&mut self, claimed: ClaimedTurn) -> Admitted {
        let instance = &claimed.fence.instance;
        let slot = self.slots.or_default(instance);
        let mut orphans = Vec::new();
        if let Some(held) = &mut slot.held {
            match held.judge(&claimed.fence) {
                Worth::Nothing => return self.dropped(claimed.fence),
                Worth::Later => {
                    held.claim = Some(Box::new(claimed));
                    return Admitted::Waits;
                }
                Worth::All => {
                    orphans = std::mem::take(&mut held.waiting);
                    held.end(&mut self.counts);
                }
            }
        }
        self.tickets += 1;
        let ticket = self.tickets;
        slot.held = Some(Held::new(ticket, claimed.fence.clone(), &mut self.counts));
        let begin = Begin { ticket, claimed, completions: Vec::new(), entry: None };
        Admitted::Begin(Box::new(begin), orphans)
    }

    /// A claim that is worth nothing. One of an epoch that is held here is given back with that hold.
    fn dropped(&self, claim: Fence) -> Admitted {
        let held = self.slots.get(&claim.instance).and_then(|slot| slot.held.as_ref());
        let is_held = held.is_some_and(|held| {
            let waiting = held.claim.as_ref().map(|waiting| waiting.fence.epoch);
            held.fence.epoch == claim.epoch || waiting == Some(claim.epoch)
        });
        let loses = planted::is_on(Bug::PurgeResetsEpoch) || planted::is_on(Bug::TakeoverIgnored);
        if is_held || loses { Admitted::Known } else { Admitted::Stale(claim) }
    }

    /// The store could not say what became of the commit of an instance. Returns false when a claim waits, which shows it.
    pub(super) fn doubts(&mut self, instance: &InstanceId) -> bool {
        let Some(held) = self.slots.get_mut(instance).and_then(|slot| slot.held.as_mut()) else {
            return false;
        };
        if let Phase::Committing { keeps } = held.phase {
            held.enter(Phase::InDoubt { keeps }, &mut self.counts);
        }
        held.claim.is_none()
    }

    /// Whether a claim waits for the answer to the pending commit.
    pub(super) fn has_waiting_win(&self, instance: &InstanceId) -> bool {
        let held = self.slots.get(instance).and_then(|slot| slot.held.as_ref());
        held.is_some_and(|held| held.claim.is_some())
    }

    /// Messages wait for an instance. Returns true when they are to be read now: it is kept and idle. A turn that runs needs
    /// none, as the answer to its commit has all that waits.
    pub(super) fn mail_for(&mut self, instance: &InstanceId) -> bool {
        let Some(held) = self.slots.get_mut(instance).and_then(|slot| slot.held.as_mut()) else {
            return false;
        };
        held.mail |= matches!(held.phase, Phase::Committing { keeps: true } | Phase::InDoubt { keeps: true });
        matches!(held.phase, Phase::Idle(_))
    }

    /// The fence of an instance that is kept and idle.
    pub(super) fn idle(&self, instance: &InstanceId) -> Option<(Ticket, Fence)> {
        let held = self.slots.get(instance)?.held.as_ref()?;
        matches!(held.phase, Phase::Idle(_)).then(|| (held.ticket, held.fence.clone()))
    }

    /// Whether an instance is kept and idle under that hold, at that fence.
    pub(super) fn is_idle_at(&self, ticket: Ticket, fence: &Fence) -> bool {
        let held = self.slots.get(&fence.instance).and_then(|slot| slot.held.as_ref());
        held.is_some_and(|held| {
            held.ticket == ticket && held.fence == *fence && matches!(held.phase, Phase::Idle(_))
        })
    }

    /// Begins the turn that messages are for, if the instance is kept and idle at that fence.
    pub(super) fn begin_mail(&mut self, fence: &Fence, mail: Mail, bytes_max: usize) -> Option<Begin> {
        let held = self.slots.get_mut(&fence.instance).and_then(|slot| slot.held.as_mut())?;
        if held.fence != *fence || mail.messages.is_empty() {
            return None;
        }
        held.go_on(mail, bytes_max, &mut self.counts)
    }

    /// Whether something here is worth keeping an instance of that run for: results that wait, or tasks that run.
    pub(super) fn has_use_for(&self, instance: &InstanceId, execution: ExecutionId) -> bool {
        self.slots.get(instance).is_some_and(|slot| {
            slot.runs(execution) || slot.held.as_ref().is_some_and(|held| !held.waiting.is_empty())
        })
    }

    /// A turn has come to its checkpoint.
    pub(super) fn commits(&mut self, instance: &InstanceId, keeps: bool) {
        if let Some(held) = self.slots.get_mut(instance).and_then(|slot| slot.held.as_mut()) {
            held.enter(Phase::Committing { keeps }, &mut self.counts);
        }
    }

    /// The instance is being given back. The results that waited for its next turn are returned, and what is known of
    /// it, if it was kept.
    pub(super) fn releases(&mut self, instance: &InstanceId) -> (Vec<Completion>, Option<Box<Entry>>) {
        let Some(held) = self.slots.get_mut(instance).and_then(|slot| slot.held.as_mut()) else {
            return (Vec::new(), None);
        };
        let entry = match held.enter(Phase::Releasing, &mut self.counts) {
            Phase::Idle(kept) => kept.entry,
            _ => None,
        };
        (std::mem::take(&mut held.waiting), entry)
    }

    /// This host is done with a hold of an instance. The results that waited for its next turn are returned, and the claim that
    /// waited for the hold to end.
    pub(super) fn finish(&mut self, instance: &InstanceId) -> (Vec<Completion>, Option<Box<ClaimedTurn>>) {
        let Some(slot) = self.slots.get_mut(instance) else { return Default::default() };
        let Some(held) = slot.held.take() else { return Default::default() };
        held.end(&mut self.counts);
        if slot.running.is_empty() {
            self.slots.remove(instance);
        }
        (held.waiting, held.claim)
    }

    /// A commit has kept an instance, which stands at that fence now; `mail` came with the answer. Results of a run that is
    /// over are returned beside what comes next.
    pub(super) fn keep(
        &mut self,
        fence: Fence,
        kept: Kept,
        mail: Mail,
        bytes_max: usize,
    ) -> (After, Vec<Completion>) {
        let slot = self.slots.get_mut(&fence.instance);
        let runs = slot.as_ref().is_some_and(|slot| slot.runs(fence.execution));
        let Some(held) = slot.and_then(|slot| slot.held.as_mut()) else {
            // The caller has just seen that it is held.
            return (After::Idle, Vec::new());
        };
        let other_run = held.fence.execution != fence.execution;
        let orphans = if other_run { std::mem::take(&mut held.waiting) } else { Vec::new() };
        held.fence = fence;
        held.enter(Phase::Idle(Box::new(kept)), &mut self.counts);
        let begin = match mail.messages.is_empty() {
            true => None,
            false => held.go_on(mail, bytes_max, &mut self.counts),
        };
        let next = match begin {
            Some(begin) => After::Begin(Box::new(begin)),
            None if !held.waiting.is_empty() => After::Due,
            None if runs && std::mem::take(&mut held.mail) => After::Mail,
            None if runs => After::Idle,
            None => After::Useless(held.ticket, held.fence.clone()),
        };
        (next, orphans)
    }

    /// Begins the turn that waiting results are for, if the instance is kept and idle.
    pub(super) fn begin_due(
        &mut self,
        instance: &InstanceId,
        now: Timestamp,
        bytes_max: usize,
    ) -> Option<Begin> {
        let held = self.slots.get_mut(instance).and_then(|slot| slot.held.as_mut())?;
        if held.waiting.is_empty() {
            return None;
        }
        held.go_on(Mail { messages: Vec::new(), more: false, now }, bytes_max, &mut self.counts)
    }

    /// The results that wait for an instance that is kept and idle: they cannot begin a turn now.
    pub(super) fn give_up_due(&mut self, instance: &InstanceId) -> Vec<Completion> {
        let held = self.slots.get_mut(instance).and_then(|slot| slot.held.as_mut());
        let idle = held.filter(|held| matches!(held.phase, Phase::Idle(_)));
        idle.map(|held| std::mem::take(&mut held.waiting)).unwrap_or_default()
    }

    /// An instance that is kept for nothing.
    pub(super) fn useless(&self, instance: &InstanceId) -> Option<(Ticket, Fence)> {
        let slot = self.slots.get(instance)?;
        let held = slot.held.as_ref().filter(|held| matches!(held.phase, Phase::Idle(_)))?;
        let used = !held.waiting.is_empty() || slot.runs(held.fence.execution);
        (!used).then(|| (held.ticket, held.fence.clone()))
    }

    /// A task of that run begins here, with the signal that tells it when nobody wants its answer.
    pub(super) fn task_begins(
        &mut self,
        fence: &TaskFence,
        execution: ExecutionId,
        cancellation: Cancellation,
    ) {
        let running = Running { task: fence.task, epoch: fence.epoch, execution, cancellation };
        self.slots.or_default(&fence.instance).running.push(running);
    }

    /// A task is over here.
    pub(super) fn task_ends(&mut self, fence: &TaskFence) {
        let Some(slot) = self.slots.get_mut(&fence.instance) else { return };
        if let Some(at) = slot.running.iter().position(|task| task.is(fence)) {
            slot.running.swap_remove(at);
        }
        if slot.running.is_empty() && slot.held.is_none() {
            self.slots.remove(&fence.instance);
        }
    }

    /// Whether tasks of the instance run here although nobody here has its turns.
    pub(super) fn runs_for_others(&self, instance: &InstanceId) -> bool {
        let slot = self.slots.get(instance);
        slot.is_some_and(|slot| slot.held.is_none() && !slot.running.is_empty())
    }

    /// The instances that tasks run for here, and the runs of each.
    pub(super) fn served(&self) -> Vec<(InstanceId, Vec<ExecutionId>)> {
        let runs = |id: &InstanceId| self.running(id).map(|task| task.execution).collect();
        let all = self.slots.instances().into_iter().map(|id| (runs(&id), id));
        all.filter(|(runs, _): &(Vec<_>, _)| !runs.is_empty()).map(|(runs, id)| (id, runs)).collect()
    }

    fn running(&self, instance: &InstanceId) -> impl Iterator<Item = &Running> {
        self.slots.get(instance).into_iter().flat_map(|slot| &slot.running)
    }

    /// Whether the task runs here under a later epoch.
    pub(super) fn runs_later(&self, fence: &TaskFence) -> bool {
        self.running(&fence.instance).any(|task| task.task == fence.task && task.epoch > fence.epoch)
    }

    /// Tells one task that nobody wants its answer.
    pub(super) fn cancel_task(&self, fence: &TaskFence, reason: CancelReason) {
        let task = self.running(&fence.instance).find(|task| task.is(fence));
        task.into_iter().for_each(|task| task.cancellation.cancel(reason));
    }

    /// Tells all tasks of a run.
    pub(super) fn cancel_run(&self, instance: &InstanceId, run: ExecutionId, reason: CancelReason) {
        let tasks = self.running(instance).filter(|task| task.execution == run);
        tasks.for_each(|task| task.cancellation.cancel(reason));
    }

    /// Where the result of a task of that run waits for the next turn, and whether that may begin at once; `None` when
    /// the instance is not kept for it, and the result goes to the inbox.
    pub(super) fn place_for(
        &mut self,
        instance: &InstanceId,
        execution: ExecutionId,
    ) -> Option<(&mut Vec<Completion>, bool)> {
        let held = self.slots.get_mut(instance)?.held.as_mut()?;
        if held.fence.execution != execution {
            return None;
        }
        match held.phase {
            Phase::Idle(_) => Some((&mut held.waiting, true)),
            Phase::Turning | Phase::Committing { keeps: true } | Phase::InDoubt { keeps: true } => {
                Some((&mut held.waiting, false))
            }
            Phase::Committing { keeps: false } | Phase::InDoubt { keeps: false } | Phase::Releasing => None,
        }
    }
}

#[cfg(test)]
mod tests;
