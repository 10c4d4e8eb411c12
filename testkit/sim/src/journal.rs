//! Every commit that happened, also those whose answer nobody received, and what is wrong with them at first sight.
//!
//! The journal looks at the store before and after each poll of a commit. The memory store does all of a call's work
//! in one poll, so what changed in between is this commit's doing, whatever its caller is told, and whether or not
//! the caller lives to hear it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use dauer_audit::{Commit, CommitJournal, Snapshot};
use dauer_memory::MemoryHub;
use dauer_store::{
    Batch, Checkpoint, Class, Committed, ExecutionId, Fence, History, InstanceId, Manage, MessageId, Record,
    Refused, Revision, Status, Task,
};
use futures::FutureExt;

use crate::executor::Executor;
use crate::faults::Plan;
use crate::history::{ClientHistory, View, What};
use crate::trace::hash;
use crate::unpoisoned;

type Results = Vec<Result<Committed, Refused>>;

/// The journal of one run.
pub(crate) struct Journal {
    hub: Arc<MemoryHub>,
    plan: Arc<Plan>,
    executor: Executor,
    history: Arc<ClientHistory>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    commits: CommitJournal,
    /// What the current history of each instance must be.
    histories: BTreeMap<InstanceId, (ExecutionId, Vec<Batch>)>,
    /// The histories that were replaced by a next run.
    replaced: Vec<(InstanceId, Vec<Batch>)>,
    /// The identities of the tasks that were scheduled under one event id, in their order.
    schedules: BTreeMap<(InstanceId, ExecutionId, i32), Vec<MessageId>>,
    /// Commits by the status they led to.
    statuses: BTreeMap<&'static str, u64>,
    /// The revisions that came about by a start in the place of an ended run, which no turn commits.
    begun_again: BTreeSet<(InstanceId, u64)>,
    violations: Vec<String>,
}

impl Journal {
    pub(crate) fn new(
        hub: Arc<MemoryHub>,
        plan: Arc<Plan>,
        executor: Executor,
        history: Arc<ClientHistory>,
    ) -> Self {
        Self { hub, plan, executor, history, state: Mutex::new(State::default()) }
    }

    /// How many other tasks were scheduled under the same event id before that one.
    pub(crate) fn earlier_schedules(&self, task: &Task) -> usize {
        let key = (task.instance.clone(), task.execution, task.event_id);
        let state = unpoisoned(&self.state);
        let known = state.schedules.get(&key);
        known.and_then(|ids| ids.iter().position(|id| *id == task.id)).unwrap_or_default()
    }

    /// Commits by the status they led to.
    pub(crate) fn statuses(&self) -> BTreeMap<&'static str, u64> {
        unpoisoned(&self.state).statuses.clone()
    }

    /// The history of an instance as it was committed so far.
    pub(crate) fn committed(&self, instance: &InstanceId) -> Option<(ExecutionId, Vec<Batch>)> {
        unpoisoned(&self.state).histories.get(instance).cloned()
    }

    /// The fences and records as they are now.
    pub(crate) fn look(&self, ids: Vec<InstanceId>) -> Vec<Option<(Fence, Record)>> {
        let seen = self.plan.silently(|| self.hub.get(ids).now_or_never());
        seen.and_then(Result::ok).unwrap_or_default()
    }

    /// Lets a call of commits happen and writes down what it did. An amendment is nobody's: it has no epoch of its own.
    pub(crate) async fn watch(
        &self,
        batch: &[Arc<Checkpoint>],
        amends: bool,
        call: impl Future<Output = Results>,
    ) -> Results {
        let ids: Vec<InstanceId> = batch.iter().map(|checkpoint| checkpoint.fence.instance.clone()).collect();
        // Rule 3 allows one at a time.
        if ids.iter().collect::<BTreeSet<_>>().len() < ids.len() {
            let what = format!("rule 3: a host sent two commits of one instance at once: {ids:?}");
            unpoisoned(&self.state).violations.push(what);
        }
        let mut call = pin!(call);
        poll_fn(|context| {
            let before = self.look(ids.clone());
            let polled = call.as_mut().poll(context);
            let after = self.look(ids.clone());
            let mut state = unpoisoned(&self.state);
            for (at, checkpoint) in batch.iter().enumerate() {
                if let (Some(Some(before)), Some(Some(after))) = (before.get(at), after.get(at))
                    && before.1.revision < after.1.revision
                    && is_author(batch, at, &before.0)
                {
                    self.note(checkpoint, &after.1);
                    let mut checkpoint = Checkpoint::clone(checkpoint);
                    if amends {
                        checkpoint.fence.epoch = before.0.epoch;
                    }
                    state.compare(&checkpoint, before, after);
                    if let Poll::Ready(results) = &polled
                        && let Some(Err(refused @ (Refused::Fenced | Refused::NotExecuted(_)))) =
                            results.get(at)
                    {
                        let id = &checkpoint.fence.instance;
                        state
                            .violations
                            .push(format!("I3 {id}: a commit had an effect and was answered: {refused}"));
                    }
                }
            }
            polled
        })
        .await
    }

    /// Lets starts happen, and writes down which of them took the place of an ended run.
    pub(crate) async fn watch_starts<T>(&self, ids: Vec<InstanceId>, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        poll_fn(|context| {
            let before = self.look(ids.clone());
            let polled = call.as_mut().poll(context);
            for (before, after) in before.into_iter().zip(self.look(ids.clone())) {
                if let (Some((_, before)), Some((fence, after))) = (before, after)
                    && before.revision < after.revision
                {
                    unpoisoned(&self.state).begin_again(&fence.instance, (&before, &after));
                }
            }
            polled
        })
        .await
    }

    fn note(&self, checkpoint: &Checkpoint, record: &Record) {
        let Fence { instance, revision, epoch, .. } = &checkpoint.fence;
        self.history.point(instance, What::Committed(View::of(record)));
        for id in &checkpoint.consumed {
            self.history.consumed(instance, *id);
        }
        for message in &checkpoint.messages {
            if let Class::Start(start) | Class::Rewind(start) = &message.class {
                self.history.begun(&message.to, message.id, start.record.execution);
            }
        }
        let numbers = [
            5,
            hash(instance.as_str().as_bytes()),
            revision.0,
            epoch.0,
            u64::from(record.history_len),
            record.history_bytes,
            checkpoint.consumed.len() as u64,
            record.status as u64,
        ];
        self.executor.trace().note(self.executor.now(), &numbers, || {
            let (from, epoch, length) = (revision.0, epoch.0, record.history_len);
            let (what, batches) = match &checkpoint.history {
                History::Append(batch) => ("goes on", std::slice::from_ref(batch)),
                History::Replace { batches, .. } => ("begins a run", batches.as_slice()),
            };
            let fates: Vec<_> = batches.iter().flat_map(|batch| batch.consumed.iter().map(|(_, fate)| fate)).collect();
            let status = record.status;
            format!("commit: {instance} {what} from revision {from} in epoch {epoch}: {length} events, {status:?}, {fates:?}")
        });
    }

    /// The histories that were replaced by a next run, as far as they were stored.
    pub(crate) fn replaced(&self) -> Vec<(InstanceId, Vec<Batch>)> {
        std::mem::take(&mut unpoisoned(&self.state).replaced)
    }

    /// How many instances were begun again by a start after an end.
    pub(crate) fn begun_again(&self) -> u64 {
        unpoisoned(&self.state).begun_again.len() as u64
    }

    /// How many commits there were.
    pub(crate) fn commits(&self) -> usize {
        unpoisoned(&self.state).commits.commits.len()
    }

    /// The journal for the auditor, and what was wrong at first sight.
    pub(crate) fn close(&self) -> (CommitJournal, Vec<String>) {
        let mut state = unpoisoned(&self.state);
        (std::mem::take(&mut state.commits), std::mem::take(&mut state.violations))
    }

    /// Compares what the store holds in the end with what was committed: I1 and I2 across all runs of an instance.
    pub(crate) fn check_end(&self, snapshot: &Snapshot) {
        let mut state = unpoisoned(&self.state);
        let mut found = Vec::new();
        for (id, dump) in &snapshot.instances {
            let of_instance = |commit: &&Commit| commit.fence.instance == *id;
            let committed = state.commits.commits.iter().filter(of_instance).map(|commit| commit.revision.0);
            let begun = state.begun_again.iter().filter(|(of, _)| of == id).map(|(_, revision)| *revision);
            let mut revisions: Vec<u64> = committed.chain(begun).collect();
            revisions.sort_unstable();
            if !revisions.iter().copied().eq(1..=dump.record.revision.0) {
                let last = dump.record.revision.0;
                found.push(format!("I2 {id}: revision {last} was reached by the commits {revisions:?}"));
            }
            let stored = dump.history.iter().map(|stored| &stored.batch);
            let committed = state.histories.get(id).map_or(&[][..], |(_, batches)| batches);
            if !stored.eq(committed) {
                found.push(format!("I1 {id}: the stored history is not what was committed"));
            }
        }
        state.violations.append(&mut found);
    }
}

/// Whether this checkpoint of a batch can have made the change: of several for one instance only the one that carries
/// the fence of the moment, if there is one.
fn is_author(batch: &[Arc<Checkpoint>], at: usize, current: &Fence) -> bool {
    let fits = |checkpoint: &Arc<Checkpoint>| checkpoint.fence == *current;
    batch.get(at).is_some_and(fits) || !batch.iter().any(fits)
}

/// A status by its name.
pub(crate) fn status_name(status: Status) -> &'static str {
    match status {
        Status::Pending => "Pending",
        Status::Running => "Running",
        Status::Suspended => "Suspended",
        Status::Completed => "Completed",
        Status::Failed => "Failed",
        Status::Terminated => "Terminated",
        Status::Canceled => "Canceled",
    }
}

impl State {
    /// A start has taken the place of an ended run.
    fn begin_again(&mut self, id: &InstanceId, (before, after): (&Record, &Record)) {
        if !before.status.is_ended() || after.revision != before.revision.next() {
            let (from, to) = (before.revision.0, after.revision.0);
            self.violations.push(format!("I2 {id}: a start moved it from revision {from} to {to}"));
        }
        self.begun_again.insert((id.clone(), after.revision.0));
        if let Some((_, batches)) = self.histories.insert(id.clone(), (after.execution, Vec::new())) {
            self.replaced.push((id.clone(), batches));
        }
    }

    fn compare(&mut self, checkpoint: &Checkpoint, before: &(Fence, Record), after: &(Fence, Record)) {
        let (old, new) = (before.1.revision, after.1.revision);
        let (fence, current) = (&checkpoint.fence, &before.0);
        let id = &fence.instance;
        if fence.revision != current.revision || fence.execution != current.execution {
            let text =
                format!("a turn of revision {} was committed over revision {}", fence.revision.0, old.0);
            self.violations.push(format!("I2 {id}: {text}: the history is forked"));
        }
        if fence.epoch != current.epoch {
            let text =
                format!("a turn of epoch {} was committed in epoch {}", fence.epoch.0, current.epoch.0);
            self.violations.push(format!("I2 {id}: {text}: a superseded host came through"));
        }
        *self.statuses.entry(status_name(after.1.status)).or_default() += 1;
        for task in &checkpoint.tasks {
            let key = (task.instance.clone(), task.execution, task.event_id);
            let ids = self.schedules.entry(key).or_default();
            if !ids.contains(&task.id) {
                ids.push(task.id);
            }
        }
        for revision in old.0 + 1..=new.0 {
            self.commits.commits.push(Commit::of(checkpoint, Revision(revision)));
            self.remember(id, &checkpoint.history, fence.execution);
        }
    }

    fn remember(&mut self, id: &InstanceId, history: &History, current: ExecutionId) {
        let entry = self.histories.entry(id.clone()).or_insert_with(|| (current, Vec::new()));
        match history {
            History::Append(batch) => entry.1.push(batch.clone()),
            History::Replace { execution, batches, .. } => {
                let old = std::mem::replace(entry, (*execution, batches.clone()));
                self.replaced.push((id.clone(), old.1));
            }
        }
    }
}
