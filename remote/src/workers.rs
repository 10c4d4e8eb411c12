//! The workers of one hub.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dauer_store::{Env, Steady};

use crate::line::line;
use crate::options::{Options, Worker};
use crate::state::{Side, State};
use crate::stream::WorkerStream;

/// The workers that are connected to one hub: an executor of it.
pub struct Workers {
    /// For what outlives a call.
    me: Weak<Self>,
    env: Arc<dyn Env>,
    options: Options,
    state: Mutex<State>,
    /// From when on every worker that lived through the restart of a server has come again.
    listens_long_from: Steady,
    pub(crate) counts: Counts,
}

/// What has happened since the beginning.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) turns: AtomicU64,
    pub(crate) activities: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// What workers have done and have in their hands, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Streams that are open.
    pub streams: usize,
    /// Turns that workers have in their hands.
    pub turns_held: usize,
    /// Activities that workers have in their hands.
    pub activities_held: usize,
    /// Turns that were answered.
    pub turns_answered: u64,
    /// Activities that were answered.
    pub activities_answered: u64,
    /// Answers that came too late, twice or for nothing, and were dropped.
    pub answers_dropped: u64,
    /// Items that workers gave back.
    pub abandoned: u64,
    /// Streams that have ended.
    pub streams_lost: u64,
}

impl Workers {
    /// Nobody, yet.
    pub fn new(env: Arc<dyn Env>, options: Options) -> Arc<Self> {
        let seed = u128::from(env.random()) << 64 | u128::from(env.random());
        let rest = options.restart_grace.saturating_sub(options.listened_for);
        let listens_long_from = env.steady().after(rest);
        let state = Mutex::new(State::new(seed));
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            env,
            options,
            state,
            listens_long_from,
            counts: Counts::default(),
        })
    }

    /// Whether a connected worker has that build id.
    pub fn has_build(&self, build: &str) -> bool {
        self.state().has_build(build)
    }

    /// A worker connects: what it is to do comes out of the stream, for as long as that lives. Dropping it is how a worker
    /// leaves; what it has in its hands then goes to others, unless its answers come all the same.
    #[must_use]
    pub fn connect(self: &Arc<Self>, worker: Worker) -> WorkerStream {
        let (line, items) = line(self.options.unread_bytes_max);
        let id = self.state().connect(worker, line, (self.env.steady(), &self.options));
        WorkerStream::new(Arc::clone(self), id, items)
    }

    /// Ends all streams; nobody can connect any more.
    pub fn close(&self) {
        self.state().close();
    }

    /// Whether [`Workers::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Whether no stream is open and no item is out: a worker that was lost with an item may still answer it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let mut state = self.state();
        state.sweep(self.env.steady());
        state.streams() == 0 && state.tokens.all().next().is_none()
    }

    /// What happened so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let state = self.state();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Figures {
            streams: state.streams(),
            turns_held: state.held(Side::Turn),
            activities_held: state.held(Side::Activity),
            turns_answered: read(&self.counts.turns),
            activities_answered: read(&self.counts.activities),
            answers_dropped: read(&self.counts.stale),
            abandoned: read(&self.counts.abandoned),
            streams_lost: read(&self.counts.lost),
        }
    }

    /// From when on every worker that lived through the restart of a server has come again.
    pub(crate) fn listens_long_from(&self) -> Steady {
        self.listens_long_from
    }

    /// None when the last owner is about to drop it.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}
