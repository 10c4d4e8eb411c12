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
use dauer_core::limits::START_RETRY_MAX;
use dauer_store::{
    Batch, Checkpoint, Class, Committed, ExecutionId, Fence, Floor, History, InstanceId, Manage, Message,
    MessageId, Purge, Record, Refused, Revision, Status, Task, Timestamp,
};
use futures::FutureExt;

use crate::executor::Executor;
use crate::history::{ClientHistory, View, What};
use crate::trace::hash;
use crate::unpoisoned;

type Results = Vec<Result<Committed, Refused>>;

/// The journal of one run.
pub(crate) struct Journal {
    hub: Arc<dyn Manage>,
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
    /// The lives of the instances that are there.
    lives: BTreeMap<InstanceId, Life>,
    /// The executions of each instance that was removed. None of them may return.
    buried: BTreeMap<InstanceId, BTreeSet<ExecutionId>>,
    /// Above every instance that was removed: where a new one begins at the earliest.
    floor: Floor,
    /// How many starts took the place of an ended run, and how many instances were removed.
    begun_again: u64,
    removed: u64,
    /// The runs that a commit has ended, where they are asked for.
    ends: Option<Vec<End>>,
    /// The executions that some turn was about, that a commit has begun, or whose start a turn has taken: a run may continue
    /// as new in the turn that begins it.
    ran: BTreeSet<(InstanceId, ExecutionId)>,
    /// The executions that each start may begin: the same request sent again draws another one.
    starts: BTreeMap<MessageId, BTreeSet<ExecutionId>>,
    /// When each start has begun an instance, by the store's clock.
    accepted: BTreeMap<MessageId, Timestamp>,
    violations: Vec<String>,
}

/// One instance, from its start until it is removed.
#[derive(Debug, Clone)]
struct Life {
    /// When it began.
    born: u64,
    /// The revision that it began with.
    base: Revision,
    /// The commits of all instances that were made before it began.
    commits_before: usize,
    /// The revisions that came about by a start in the place of an ended run, which no turn commits.
    begun_again: BTreeSet<u64>,
    executions: BTreeSet<ExecutionId>,
}

/// A run that a commit has ended.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) instance: InstanceId,
    /// When the instance, of which this was a run, came to be.
    pub(crate) born: u64,
    pub(crate) record: Record,
}

impl Journal {
    pub(crate) fn new(hub: Arc<dyn Manage>, executor: Executor, history: Arc<ClientHistory>) -> Self {
        Self { hub, executor, history, state: Mutex::new(State::default()) }
    }

    /// The same journal, which also keeps every run that a commit has ended.
    pub(crate) fn with_ends(self) -> Self {
        unpoisoned(&self.state).ends = Some(Vec::new());
        self
    }

    /// A moment of the order in which everything happens.
    pub(crate) fn moment(&self) -> u64 {
        self.history.moment()
    }

    /// The runs that commits have ended.
    pub(crate) fn ends(&self) -> Vec<End> {
        unpoisoned(&self.state).ends.take().unwrap_or_default()
    }

    /// Whether some turn was about that run, or has begun it.
    pub(crate) fn has_run(&self, instance: &InstanceId, execution: ExecutionId) -> bool {
        unpoisoned(&self.state).ran.contains(&(instance.clone(), execution))
    }

    /// The instances that are there.
    pub(crate) fn present(&self) -> Vec<InstanceId> {
        unpoisoned(&self.state).lives.keys().cloned().collect()
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
        self.hub.get(ids).now_or_never().and_then(Result::ok).unwrap_or_default()
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
        let messages = || batch.iter().flat_map(|checkpoint| &checkpoint.messages);
        unpoisoned(&self.state).know_starts(messages());
        let openings = openings(messages());
        let mut call = pin!(call);
        poll_fn(|context| {
            let before = self.look(ids.clone());
            let targets = self.openings_before(&openings);
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
            drop(state);
            // A commit of the target itself may be in the same batch, and no commit replaces another instance.
            self.openings_after(targets, |_, _| false);
            polled
        })
        .await
    }

    /// Lets starts happen, of whatever origin, and writes down which instances they began, which ended runs they took the
    /// place of, and which of them wait.
    pub(crate) async fn watch_openings<'a, T>(
        &self,
        messages: impl IntoIterator<Item = &'a Message>,
        call: impl Future<Output = T>,
    ) -> T {
        let messages: Vec<&Message> = messages.into_iter().collect();
        unpoisoned(&self.state).know_starts(messages.iter().copied());
        let openings = openings(messages);
        openings.iter().for_each(|(_, id)| self.history.opens(*id));
        let mut call = pin!(call);
        poll_fn(|context| {
            let targets = self.openings_before(&openings);
            let polled = call.as_mut().poll(context);
            self.openings_after(targets, |before, after| before.revision < after.revision);
            polled
        })
        .await
    }

    /// Lets a purge happen, and writes down what it removed, and how many instances that were.
    pub(crate) async fn watch_purge<T>(&self, purge: &Purge, call: impl Future<Output = T>) -> (T, usize) {
        let mut call = pin!(call);
        let mut count = 0;
        let answer = poll_fn(|context| {
            let ids = match purge {
                Purge::Ids(ids) => ids.clone(),
                Purge::Matching { .. } => self.present(),
            };
            let before = self.look(ids.clone());
            let polled = call.as_mut().poll(context);
            for (before, (id, after)) in before.into_iter().zip(ids.iter().zip(self.look(ids.clone()))) {
                if let (Some((fence, _)), None) = (before, after) {
                    count += 1;
                    self.history.point(id, What::Removed);
                    self.tell(id, 15, || "is removed".into());
                    unpoisoned(&self.state).bury(&fence);
                }
            }
            polled
        })
        .await;
        (answer, count)
    }

    /// How the targets of starts stand before something happens.
    fn openings_before(&self, openings: &[(InstanceId, MessageId)]) -> Vec<Target> {
        let ids = openings.iter().map(|(to, _)| to.clone()).collect();
        let found = if openings.is_empty() { Vec::new() } else { self.look(ids) };
        let target = |((to, start), found): (&(InstanceId, MessageId), Option<(Fence, Record)>)| Target {
            instance: to.clone(),
            start: *start,
            waits: found.is_some() && self.waits(to, *start),
            record: found.map(|(_, record)| record),
        };
        openings.iter().zip(found).map(target).collect()
    }

    /// What has become of the targets of starts; `replaced` tells whether one took the place of an ended run.
    fn openings_after(&self, targets: Vec<Target>, replaced: impl Fn(&Record, &Record) -> bool) {
        if targets.is_empty() {
            return;
        }
        let found = self.look(targets.iter().map(|target| target.instance.clone()).collect());
        for (Target { instance, start, record, waits }, found) in targets.into_iter().zip(found) {
            let Some((fence, after)) = found else { continue };
            if record.as_ref().is_none_or(|before| replaced(before, &after)) {
                self.history.point(&instance, What::Founded(View::of(&after)));
                self.tell(&instance, 16, || format!("begins with execution {}", after.execution));
                let born = self.history.moment();
                unpoisoned(&self.state).begin(&fence, record.as_ref(), &after, born);
            } else if !waits && self.waits(&instance, start) {
                self.history.point(&instance, What::Begun(start));
                self.tell(&instance, 17, || format!("has start {start} waiting"));
            }
        }
    }

    /// Writes into the trace what happened to an instance without a commit.
    fn tell(&self, instance: &InstanceId, kind: u64, text: impl FnOnce() -> String) {
        let numbers = [kind, hash(instance.as_str().as_bytes())];
        let now = self.executor.now();
        self.executor.trace().note(now, &numbers, || format!("{instance} {}", text()));
    }

    /// Whether a start waits at an instance.
    fn waits(&self, instance: &InstanceId, start: MessageId) -> bool {
        let Some(Ok(seen)) = self.hub.inspect(vec![instance.clone()]).now_or_never() else { return false };
        // Starts and rewinds are listed before all others.
        seen.into_iter().flatten().any(|seen| seen.messages.iter().any(|message| message.id == start))
    }

    fn note(&self, checkpoint: &Checkpoint, record: &Record) {
        let Fence { instance, revision, epoch, .. } = &checkpoint.fence;
        self.history.point(instance, What::Committed(View::of(record)));
        for id in &checkpoint.consumed {
            self.history.consumed(instance, *id);
        }
        for (_, id) in openings(&checkpoint.messages) {
            self.history.opens(id);
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
            let run = record.execution;
            format!("commit: {instance} {what} from revision {from} in epoch {epoch}: {length} events, {status:?}, {fates:?}, run {run}")
        });
    }

    /// The histories that were replaced by a next run, as far as they were stored.
    pub(crate) fn replaced(&self) -> Vec<(InstanceId, Vec<Batch>)> {
        std::mem::take(&mut unpoisoned(&self.state).replaced)
    }

    /// How many instances were begun again by a start after an end.
    pub(crate) fn begun_again(&self) -> u64 {
        unpoisoned(&self.state).begun_again
    }

    /// How many instances were removed.
    pub(crate) fn removed(&self) -> u64 {
        unpoisoned(&self.state).removed
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

    /// Compares what the store holds in the end with what was committed: I1 and I2 across all runs of an instance. What was
    /// purged since the snapshot is in it if that is older than the end (`is_older`).
    pub(crate) fn check_end(&self, snapshot: &Snapshot, is_older: bool) {
        let mut state = unpoisoned(&self.state);
        let mut found = Vec::new();
        for (id, dump) in &snapshot.instances {
            let of_instance = |commit: &&Commit| commit.fence.instance == *id;
            let Some(life) = state.lives.get(id) else {
                let buried = state.buried.get(id);
                if is_older && buried.is_some_and(|buried| buried.contains(&dump.record.execution)) {
                    continue;
                }
                found.push(format!("I2 {id}: it is there, and nothing has begun it"));
                continue;
            };
            let committed = state.commits.commits.iter().skip(life.commits_before).filter(of_instance);
            let committed = committed.map(|commit| commit.revision.0);
            let mut revisions: Vec<u64> = committed.chain(life.begun_again.iter().copied()).collect();
            revisions.sort_unstable();
            let (first, last) = (life.base.0, dump.record.revision.0);
            if !revisions.iter().copied().eq(first + 1..=last) {
                found.push(format!(
                    "I2 {id}: revision {last} was reached from {first} by the commits {revisions:?}"
                ));
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

/// An instance that a start or rewind is sent to, before it arrives.
struct Target {
    instance: InstanceId,
    start: MessageId,
    record: Option<Record>,
    waits: bool,
}

/// The starts and rewinds among these messages, and where they go.
fn openings<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<(InstanceId, MessageId)> {
    let opens = |message: &&Message| matches!(message.class, Class::Start(_) | Class::Rewind(_));
    messages.into_iter().filter(opens).map(|message| (message.to.clone(), message.id)).collect()
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
    fn know_starts<'a>(&mut self, messages: impl IntoIterator<Item = &'a Message>) {
        for message in messages {
            if let Class::Start(start) = &message.class {
                self.starts.entry(message.id).or_default().insert(start.execution);
            }
        }
    }

    /// A start that has begun an instance begins no other within the time that a request may be retried.
    fn accept(&mut self, id: &InstanceId, record: &Record) {
        let now = record.times.created;
        if !self.starts.contains_key(&record.start) {
            return;
        }
        if let Some(before) = self.accepted.insert(record.start, now)
            && now.since(before) < START_RETRY_MAX
        {
            let (start, age) = (record.start, now.since(before).as_millis());
            self.violations.push(format!("I10 {id}: start {start} was accepted, and again after {age} ms"));
        }
    }

    /// A start has begun an instance, or has taken the place of the ended run `before`.
    fn begin(&mut self, fence: &Fence, before: Option<&Record>, after: &Record, born: u64) {
        let id = &fence.instance;
        let commits_before = self.commits.commits.len();
        match before {
            Some(before) => {
                if !before.status.is_ended() || after.revision != before.revision.next() {
                    let (from, to) = (before.revision.0, after.revision.0);
                    self.violations.push(format!("I2 {id}: a start moved it from revision {from} to {to}"));
                }
                self.begun_again += 1;
                if let Some(life) = self.lives.get_mut(id) {
                    life.begun_again.insert(after.revision.0);
                }
            }
            None => {
                let Floor { epoch, revision } = self.floor;
                if fence.epoch < epoch || after.revision < revision {
                    self.violations.push(format!(
                        "I2 {id}: it begins at epoch {} and revision {}, and others were removed below {} and {}",
                        fence.epoch.0, after.revision.0, epoch.0, revision.0
                    ));
                }
                let life = Life {
                    born,
                    base: after.revision,
                    commits_before,
                    begun_again: BTreeSet::new(),
                    executions: BTreeSet::new(),
                };
                self.lives.insert(id.clone(), life);
            }
        }
        self.is_current(id, after.execution);
        self.accept(id, after);
        if let Some((_, batches)) = self.histories.insert(id.clone(), (after.execution, Vec::new())) {
            self.replaced.push((id.clone(), batches));
        }
    }

    /// An instance was removed, with all that it had.
    fn bury(&mut self, fence: &Fence) {
        let id = &fence.instance;
        self.removed += 1;
        self.floor = self.floor.above(fence.epoch, fence.revision);
        if let Some(life) = self.lives.remove(id) {
            self.buried.entry(id.clone()).or_default().extend(life.executions);
        }
        if let Some((_, batches)) = self.histories.remove(id) {
            self.replaced.push((id.clone(), batches));
        }
    }

    /// That run is the current one of its instance.
    fn is_current(&mut self, id: &InstanceId, execution: ExecutionId) {
        let known = self.lives.get_mut(id).is_some_and(|life| !life.executions.insert(execution));
        if !known && self.buried.get(id).is_some_and(|buried| buried.contains(&execution)) {
            self.violations.push(format!("I18 {id}: execution {execution} was purged, and is there again"));
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
        self.ran.insert((id.clone(), fence.execution));
        let begun = checkpoint.consumed.iter().filter_map(|start| self.starts.get(start)).flatten();
        self.ran.extend(begun.map(|execution| (id.clone(), *execution)));
        if after.1.status != Status::Pending {
            self.ran.insert((id.clone(), after.1.execution));
        }
        self.is_current(id, after.1.execution);
        if let (Some(ends), Some(life)) = (&mut self.ends, self.lives.get(id))
            && after.1.status.is_ended()
        {
            ends.push(End { instance: id.clone(), born: life.born, record: after.1.clone() });
        }
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
