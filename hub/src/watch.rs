//! Waits for changes of instances: one subscription for all that a client waits for, and a wake-up for those whose
//! instance changed as they want it to. A thousand waits cost a thousand entries in a map, not a thousand streams of all
//! hints; and a status that a wait is not for costs it nothing.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::future::{BoxFuture, Fuse, FusedFuture, FutureExt};
use futures::stream::StreamExt;

use dauer_core::model::{Record, Status};
use dauer_core::{ExecutionId, InstanceId};
use dauer_store::{ById, Changes, Env, Hint, Manage};

use crate::options::{
    FOLLOWED_MAX, LOOK_EVERY, LOOK_IDS_MAX, LOOK_PAUSE, LOOK_SHARE, WAIT_POLL, WAIT_POLL_IDS_MAX,
    WAIT_POLL_JOINED_FROM, WAIT_POLL_JOINED_MAX,
};

/// Which changes a wait is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matters {
    /// The instance has begun to run, or is past that.
    Begun,
    /// It has ended.
    Ended,
    /// Whatever changes.
    Anything,
}

impl Matters {
    fn admits(self, status: Status) -> bool {
        match self {
            Self::Begun => status != Status::Pending,
            Self::Ended => status.is_ended(),
            Self::Anything => true,
        }
    }
}

/// What a wait is woken with.
pub(crate) enum News {
    /// Something has changed: look.
    Changed,
    /// Somebody has looked already. It may have been before the wait began.
    Found(Arc<Record>),
}

#[derive(Default)]
struct Signal {
    state: Mutex<(Option<News>, Option<Waker>)>,
}

impl Signal {
    fn send(&self, news: News) {
        let mut state = unpoisoned(&self.state);
        // What was found may be older than the change that was told meanwhile.
        if !matches!(state.0, Some(News::Changed)) {
            state.0 = Some(news);
        }
        let waker = state.1.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Who waits for which instance.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Who listens: the last of so many.
    listener: Option<u64>,
    listeners: u64,
    waiting: ById<Vec<(Matters, Arc<Signal>)>>,
    /// Runs that this client began while it listened, of whose end nothing was heard.
    followed: ById<ExecutionId>,
}

/// Somebody listens, for as long as this lives: whoever waits next begins anew when it is gone, with the runtime that it was
/// on, say.
struct Listening {
    watch: Arc<Watch>,
    number: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = unpoisoned(&self.watch.state);
        // Another may have begun already.
        if state.listener == Some(self.number) {
            state.listener = None;
            state.followed.clear();
        }
    }
}

/// One wait, for as long as it lives.
pub(crate) struct Wait {
    watch: Arc<Watch>,
    instance: InstanceId,
    signal: Arc<Signal>,
    /// The run that is waited for, when its end is known to be still to be told.
    followed: Option<ExecutionId>,
}

impl Wait {
    /// The run whose end this wait will be told of, because it was followed from before it began: there is no need to look
    /// first. Hints may be lost here as everywhere.
    pub(crate) fn followed(&self) -> Option<ExecutionId> {
        self.followed
    }

    /// Ready once the instance has changed, or somebody has looked, as this wait wants it.
    pub(crate) async fn news(&self) -> News {
        poll_fn(|context| {
            let mut state = unpoisoned(&self.signal.state);
            match state.0.take() {
                Some(news) => Poll::Ready(news),
                None => {
                    state.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut state = unpoisoned(&self.watch.state);
        if let Some(waits) = state.waiting.get_mut(&self.instance) {
            waits.retain(|(_, signal)| !Arc::ptr_eq(signal, &self.signal));
            if waits.is_empty() {
                state.waiting.remove(&self.instance);
            }
        }
    }
}

/// A run is followed that may not have begun.
pub(crate) struct Following<'w> {
    watch: &'w Watch,
    instance: &'w InstanceId,
    kept: bool,
}

impl Following<'_> {
    /// It has begun, and not before it was followed.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        if !self.kept {
            unpoisoned(&self.watch.state).followed.remove(self.instance);
        }
    }
}

impl Watch {
    /// Begins a wait. Look after that: a change before is not told.
    pub(crate) fn wait(
        self: &Arc<Self>,
        instance: &InstanceId,
        matters: Matters,
        hub: &Arc<dyn Manage>,
        env: &Arc<dyn Env>,
    ) -> Wait {
        let signal = Arc::<Signal>::default();
        let mut state = unpoisoned(&self.state);
        let followed = state.followed.get(instance).copied().filter(|_| matters == Matters::Ended);
        state.waiting.or_default(instance).push((matters, Arc::clone(&signal)));
        let listening = state.listener.is_none().then(|| {
            state.listeners += 1;
            state.listener = Some(state.listeners);
            (Listening { watch: Arc::clone(self), number: state.listeners }, hub.changes())
        });
        drop(state);
        // Not with the lock: a runtime that has ended drops what it is given at once.
        if let Some((listening, changes)) = listening {
            env.spawn(listen(listening, changes, (Arc::clone(hub), Arc::clone(env))).boxed());
        }
        Wait { watch: Arc::clone(self), instance: instance.clone(), signal, followed }
    }

    /// Follows a run that is about to begin, if anyone listens: a wait for its end need not look first. Only for as long as
    /// the answer lives, unless it is kept.
    pub(crate) fn follow<'w>(&'w self, instance: &'w InstanceId, execution: ExecutionId) -> Following<'w> {
        let mut state = unpoisoned(&self.state);
        if state.listener.is_some() && state.followed.len() < FOLLOWED_MAX {
            state.followed.insert(instance.clone(), execution);
        }
        Following { watch: self, instance, kept: false }
    }

    fn tell(&self, instance: &InstanceId, status: Status, news: impl Fn() -> News) {
        // Woken outside the lock: whoever wakes may end a wait at once.
        let mut woken = Vec::new();
        let mut state = unpoisoned(&self.state);
        if let Some(waits) = state.waiting.get(instance) {
            let admitted = waits.iter().filter(|(matters, _)| matters.admits(status));
            woken.extend(admitted.map(|(_, signal)| Arc::clone(signal)));
        }
        if status.is_ended() {
            // Whoever waits from now on was not told, and has to look.
            state.followed.remove(instance);
        }
        drop(state);
        for signal in woken {
            signal.send(news());
        }
    }

    /// How many waits there are.
    pub(crate) fn count(&self) -> usize {
        unpoisoned(&self.state).waiting.values().map(Vec::len).sum()
    }

    fn instances(&self) -> Vec<InstanceId> {
        unpoisoned(&self.state).waiting.instances()
    }

    /// The instances that the next poll is for, after those of the last one; all of them when they are few.
    fn next_instances(&self, last: &mut Option<InstanceId>) -> Vec<InstanceId> {
        let state = unpoisoned(&self.state);
        let count = state.waiting.len();
        let most = WAIT_POLL_IDS_MAX * joined(count);
        let next = state.waiting.instances_after(last.as_ref(), most);
        if most < count {
            *last = next.last().cloned();
        }
        next
    }

    /// How long until the next poll.
    fn poll_after(&self) -> Duration {
        let joined = joined(unpoisoned(&self.state).waiting.len());
        WAIT_POLL * u32::try_from(joined).unwrap_or(1)
    }

    /// Whether anyone waits; if not, nobody listens from now on.
    fn is_needed(&self) -> bool {
        let mut state = unpoisoned(&self.state);
        let needed = !state.waiting.is_empty();
        if !needed {
            state.listener = None;
            state.followed.clear();
        }
        needed
    }

    /// Anything may have happened unheard: what is waited for has to be looked at, and so has what will be.
    fn missed(&self) {
        unpoisoned(&self.state).followed.clear();
    }
}

/// How many polls are put together when so many are waited for.
fn joined(waiting: usize) -> usize {
    (waiting / WAIT_POLL_JOINED_FROM).clamp(1, WAIT_POLL_JOINED_MAX)
}

/// What is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Nothing,
    /// The next few: it is time for it.
    Next,
    /// Everything: anything may have changed.
    All,
}

/// Hears hints for as long as anyone waits, and looks now and then without any: they may be lost.
async fn listen(listening: Listening, changes: Changes, seam: (Arc<dyn Manage>, Arc<dyn Env>)) {
    let watch = &listening.watch;
    let mut changes = changes.fuse();
    let poll = || seam.1.sleep(watch.poll_after()).fuse();
    let mut poll_is_due = poll();
    // Somebody else's writes come without ids. One look at a time answers all of them that came before it began.
    let mut looking: Fuse<BoxFuture<'static, ()>> = Fuse::terminated();
    let (mut wanted, mut last) = (Wanted::Nothing, None);
    let mut heard = 0_u32;
    loop {
        futures::select_biased! {
            () = looking => {}
            () = poll_is_due => {
                if !watch.is_needed() {
                    return;
                }
                poll_is_due = poll();
                wanted = if wanted == Wanted::All { wanted } else { Wanted::Next };
            }
            hint = changes.select_next_some() => {
                match hint {
                    Hint::Status(instance, status) => watch.tell(&instance, status, || News::Changed),
                    Hint::Ended(instance, record) => {
                        watch.tell(&instance, record.status, || News::Found(Arc::clone(&record)));
                    }
                    Hint::Elsewhere => {
                        watch.missed();
                        wanted = Wanted::All;
                    }
                    Hint::SessionEnded(_) => {}
                }
                heard = heard.wrapping_add(1);
                if heard.is_multiple_of(LOOK_EVERY) && !watch.is_needed() {
                    return;
                }
            }
        }
        if looking.is_terminated() && wanted != Wanted::Nothing {
            let instances = match std::mem::replace(&mut wanted, Wanted::Nothing) {
                Wanted::All => watch.instances(),
                _ => watch.next_instances(&mut last),
            };
            looking = look(Arc::clone(watch), instances, seam.clone()).boxed().fuse();
        }
    }
}

/// Looks at what is waited for; then rests, so that looking takes a small part of the time however many they are.
async fn look(watch: Arc<Watch>, instances: Vec<InstanceId>, (hub, env): (Arc<dyn Manage>, Arc<dyn Env>)) {
    let began = env.steady();
    for part in instances.chunks(LOOK_IDS_MAX) {
        // A store that cannot answer now is asked by the waits themselves, after a while.
        let Ok(found) = hub.get(part.to_vec()).await else { break };
        for (fence, record) in found.into_iter().flatten() {
            let record = Arc::new(record);
            watch.tell(&fence.instance, record.status, || News::Found(Arc::clone(&record)));
        }
    }
    let rest = LOOK_PAUSE.max(env.steady().since(began) * LOOK_SHARE);
    env.sleep(rest).await;
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_go_through_many_waits_a_few_at_a_time() {
        let watch = Watch::default();
        let id = |number: usize| InstanceId::new(format!("i{number:05}")).unwrap();
        let wait_for = |numbers: std::ops::Range<usize>| {
            numbers.for_each(|number| _ = unpoisoned(&watch.state).waiting.insert(id(number), Vec::new()));
        };
        let mut last = None;
        wait_for(0..WAIT_POLL_IDS_MAX);
        assert_eq!(watch.next_instances(&mut last).len(), WAIT_POLL_IDS_MAX, "few are looked at together");
        assert_eq!(watch.poll_after(), WAIT_POLL);
        wait_for(WAIT_POLL_IDS_MAX..100);
        assert_eq!(watch.next_instances(&mut last), (0..64).map(id).collect::<Vec<_>>());
        assert_eq!(watch.next_instances(&mut last), (64..100).chain(0..28).map(id).collect::<Vec<_>>());
        wait_for(100..10_000);
        assert_eq!((watch.next_instances(&mut last).len(), watch.poll_after()), (640, WAIT_POLL * 10));
        wait_for(10_000..40_000);
        assert_eq!(watch.poll_after(), WAIT_POLL * 15, "but not ever more rarely");
    }

    #[test]
    fn whoever_listens_is_missed_when_gone_unless_another_has_begun() {
        let watch = Arc::new(Watch::default());
        let id = InstanceId::new("i").unwrap();
        let listening = |number| {
            unpoisoned(&watch.state).listener = Some(number);
            Listening { watch: Arc::clone(&watch), number }
        };
        let first = listening(1);
        watch.follow(&id, ExecutionId(1)).keep();
        let second = listening(2);
        drop(first);
        assert_eq!(unpoisoned(&watch.state).listener, Some(2), "the second still listens");
        assert_eq!(unpoisoned(&watch.state).followed.len(), 1);
        drop(second);
        assert_eq!(unpoisoned(&watch.state).listener, None, "the next wait begins anew");
        assert_eq!(unpoisoned(&watch.state).followed.len(), 0, "and looks first");
    }

    #[test]
    fn only_runs_that_began_while_somebody_listened_are_followed() {
        let watch = Watch::default();
        let id = |number: usize| InstanceId::new(format!("i{number:05}")).unwrap();
        let followed = || unpoisoned(&watch.state).followed.len();
        watch.follow(&id(1), ExecutionId(1)).keep();
        assert_eq!(followed(), 0, "nobody listens");
        unpoisoned(&watch.state).listener = Some(1);
        unpoisoned(&watch.state).waiting.insert(id(0), Vec::new());
        drop(watch.follow(&id(1), ExecutionId(1)));
        assert_eq!(followed(), 0, "given up on the way");
        (0..FOLLOWED_MAX + 7).for_each(|number| watch.follow(&id(number), ExecutionId(1)).keep());
        assert_eq!(followed(), FOLLOWED_MAX, "not without bound");
        watch.tell(&id(3), Status::Running, || News::Changed);
        assert_eq!(followed(), FOLLOWED_MAX);
        watch.tell(&id(3), Status::Failed, || News::Changed);
        assert_eq!(followed(), FOLLOWED_MAX - 1);
        assert!(watch.is_needed());
        unpoisoned(&watch.state).waiting.clear();
        assert!(!watch.is_needed());
        assert_eq!(followed(), 0, "nobody listens any more");
    }
}
