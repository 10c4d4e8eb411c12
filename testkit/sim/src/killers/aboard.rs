//! What runs in which process, and what dies with it; and the way of a process to the store, which ends with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dauer_audit::collect;
use dauer_faults::{Answer, Call, Destination, Interceptor, Op, wrap_hub};
use dauer_store::{Cause, Credit, Env, InstanceId, Item, Manage, Refused, SessionId, Work};
use futures::FutureExt;

use crate::env::SimEnv;
use crate::executor::{Executor, Owner};
use crate::unpoisoned;

/// A turn or activity: the instance, and the event id of the activity.
pub(super) type Key = (InstanceId, i32);

/// How long a call takes at most, in milliseconds.
const CALL_MAX_MS: u64 = 4;

/// How long it takes to give an item back at most, in milliseconds: long enough to see what does not wait for it.
const RELEASE_MAX_MS: u64 = 60;

#[derive(Default)]
struct State {
    running: BTreeMap<Owner, BTreeSet<Key>>,
    dead: BTreeSet<Owner>,
    sessions: Vec<(Owner, SessionId)>,
    /// Processes that died while it ran there.
    deaths: BTreeMap<Key, u32>,
    /// Deaths by a suspect as it began; and suspects that died with these, and had not begun.
    unbegun: (u64, u64),
    trials: u64,
    /// The instance whose trial is open, by process.
    on_trial: BTreeMap<Owner, InstanceId>,
}

/// All processes of a world.
pub(super) struct Aboard {
    executor: Executor,
    raw: Arc<dyn Manage>,
    /// Of ten thousand answers, those that are lost.
    failing: u64,
    state: Mutex<State>,
    pub(super) violations: Mutex<Vec<String>>,
}

/// Something runs.
pub(super) struct Begun {
    aboard: Arc<Aboard>,
    owner: Owner,
    key: Key,
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(running) = unpoisoned(&self.aboard.state).running.get_mut(&self.owner) {
            running.remove(&self.key);
        }
    }
}

impl Aboard {
    pub(super) fn new(executor: Executor, raw: Arc<dyn Manage>, failing: u64) -> Self {
        Self { executor, raw, failing, state: Mutex::default(), violations: Mutex::default() }
    }

    pub(super) fn begin(self: &Arc<Self>, owner: Owner, key: &Key) -> Begun {
        {
            let mut state = unpoisoned(&self.state);
            state.running.entry(owner).or_default().insert(key.clone());
            if let Some(alone) = state.on_trial.get(&owner)
                && *alone != key.0
            {
                let said = format!("killers: {} begins beside the trial of {alone}", key.0);
                unpoisoned(&self.violations).push(said);
            }
        }
        let numbers = [20, u64::from(owner.0)];
        self.executor
            .trace()
            .note(self.executor.now(), &numbers, || format!("{key:?} begins in {}", owner.0));
        Begun { aboard: Arc::clone(self), owner, key: key.clone() }
    }

    /// The code kills its process: nothing of it runs any further.
    pub(super) fn kill(&self, owner: Owner, key: &Key, as_suspect_at_once: bool) {
        let numbers = [21, u64::from(owner.0)];
        self.executor.trace().note(self.executor.now(), &numbers, || format!("{key:?} kills {}", owner.0));
        if as_suspect_at_once && !self.is_dead(owner) {
            let unbegun = self.held_suspects(owner, key);
            let mut state = unpoisoned(&self.state);
            state.unbegun.0 += 1;
            state.unbegun.1 += unbegun;
        }
        self.dies(owner);
        self.executor.doom(owner);
    }

    /// Tasks that the process holds, with which workers have died, and which have not begun there.
    fn held_suspects(&self, owner: Owner, killer: &Key) -> u64 {
        let sessions = self.sessions(owner);
        let Some(Ok(snapshot)) = collect(&*self.raw).now_or_never() else { return 0 };
        let state = unpoisoned(&self.state);
        let running = state.running.get(&owner);
        let held = snapshot.tasks.values().filter(|task| {
            let key = (task.task.instance.clone(), task.task.event_id);
            task.deaths.workers > 0
                && task.holder.is_some_and(|holder| sessions.contains(&holder))
                && key != *killer
                && !running.is_some_and(|running| running.contains(&key))
        });
        held.count() as u64
    }

    /// The process dies, with all that runs there.
    pub(super) fn dies(&self, owner: Owner) {
        let mut state = unpoisoned(&self.state);
        state.dead.insert(owner);
        for key in state.running.remove(&owner).unwrap_or_default() {
            *state.deaths.entry(key).or_default() += 1;
        }
    }

    fn is_dead(&self, owner: Owner) -> bool {
        unpoisoned(&self.state).dead.contains(&owner)
    }

    pub(super) fn sessions(&self, owner: Owner) -> Vec<SessionId> {
        let state = unpoisoned(&self.state);
        state.sessions.iter().filter(|(of, _)| *of == owner).map(|(_, session)| *session).collect()
    }

    /// How much runs, in all processes.
    pub(super) fn running(&self) -> usize {
        unpoisoned(&self.state).running.values().map(BTreeSet::len).sum()
    }

    /// The processes that have a session and live.
    pub(super) fn living(&self) -> BTreeSet<Owner> {
        let state = unpoisoned(&self.state);
        state.sessions.iter().map(|(owner, _)| *owner).filter(|owner| !state.dead.contains(owner)).collect()
    }

    /// How many processes died while it ran there.
    pub(super) fn deaths(&self, key: &Key) -> u32 {
        unpoisoned(&self.state).deaths.get(key).copied().unwrap_or_default()
    }

    pub(super) fn unbegun(&self) -> (u64, u64) {
        unpoisoned(&self.state).unbegun
    }

    pub(super) fn trials(&self) -> u64 {
        unpoisoned(&self.state).trials
    }
}

fn instance_of(item: &Item) -> InstanceId {
    match item {
        Item::Turn(fence) => fence.instance.clone(),
        Item::Task(fence) => fence.instance.clone(),
    }
}

/// The way of one process to the store.
pub(super) struct Way {
    pub(super) aboard: Arc<Aboard>,
    pub(super) env: Arc<SimEnv>,
    pub(super) owner: Owner,
}

impl Way {
    pub(super) fn hub(self) -> Arc<dyn Manage> {
        wrap_hub(Arc::clone(&self.aboard.raw), Arc::new(self))
    }

    /// A dead process makes no call and learns nothing.
    async fn live(&self) {
        if self.aboard.is_dead(self.owner) {
            futures::future::pending::<()>().await;
        }
    }

    async fn pause(&self, most_ms: u64) {
        let pause = self.env.random() % (most_ms + 1);
        if pause > 0 {
            self.env.sleep(Duration::from_millis(pause)).await;
        }
    }
}

#[async_trait]
impl Interceptor for Way {
    async fn call(&self, call: Call, to: Destination<'_>) -> Answer {
        let op = call.op();
        self.live().await;
        match op {
            Op::Release => self.pause(RELEASE_MAX_MS).await,
            Op::Next => {}
            _ => self.pause(CALL_MAX_MS).await,
        }
        self.live().await;
        match &call {
            Call::Attach { host } => {
                unpoisoned(&self.aboard.state).sessions.push((self.owner, host.session));
            }
            Call::Trial { trials } => {
                let mut state = unpoisoned(&self.aboard.state);
                state.trials += u64::from(trials.iter().any(|trial| trial.open));
                // What follows the call that closes it may begin before its answer.
                state.on_trial.remove(&self.owner);
            }
            _ => {}
        }
        let opens = match &call {
            Call::Trial { trials } => {
                trials.iter().find(|trial| trial.open).map(|trial| instance_of(&trial.item))
            }
            _ => None,
        };
        let can_fail =
            matches!(op, Op::Trial | Op::Release | Op::CompleteActivities | Op::CommitTurns | Op::Renew);
        let fails = can_fail && self.env.random() % 10_000 < self.aboard.failing;
        let refused = fails.then(|| call.refuse(&Refused::Unknown(Cause::new("a lost answer")))).flatten();
        let answer = to.carry_out(call).await;
        if let (Some(instance), Some(None)) = (opens, answer.results().first()) {
            unpoisoned(&self.aboard.state).on_trial.insert(self.owner, instance);
        }
        self.live().await;
        refused.unwrap_or(answer)
    }

    fn credit(&self, credit: Credit, to: &Arc<dyn Work>) {
        if !self.aboard.is_dead(self.owner) {
            to.credit(credit);
        }
    }
}
