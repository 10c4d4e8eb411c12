//! Every setting, with its default and the reason for it.

use std::sync::Arc;
use std::time::Duration;

use dauer_core::limits::TurnLimits;
use dauer_core::model::Queues;

/// The settings that all workers of a hub share.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a worker may take for a turn before another one is asked as well. Turns only replay; this is for workers
    /// that hang. The first answer counts.
    pub turn_answer_max: Duration,
    /// How long an item stays with a worker whose stream is gone, before the worker counts as dead. SDKs finish the activities
    /// that they have begun and answer over another connection, which the slowest of them (Java) opens after 5 s.
    pub reconnect_grace: Duration,
    /// How long a task rests that another server had handed out: its worker may execute it, and answers when it has found a
    /// server again. Counted from the end of that server's session, and from the moment at which this server began to listen.
    /// Above the 142 s that the slowest published SDK took to come again after a long outage (docs/SERVER.md).
    pub restart_grace: Duration,
    /// How long this server had been listening when the hub was opened.
    pub listened_for: Duration,
    /// A worker that names itself and comes again has received the items that were sent at least this long before its stream was
    /// lost. Transports notice a dead connection within less.
    pub received_after: Duration,
    /// How long nothing else begins on a worker before a trial, and during it. What kills a worker at once does so within it.
    pub trial_quiet: Duration,
    /// How long a suspect has run when it no longer counts as one that may have killed its worker.
    pub suspect_for: Duration,
    /// How long a suspect rests that no worker may run now; up to twice as long.
    pub suspect_delay: Duration,
    /// The same for a turn that no other worker can take at once. Replaying it twice does no harm.
    pub turn_return_after: Duration,
    /// How long an abandoned activity rests: it would go back and forth all the time otherwise (behaviour 34).
    pub abandon_delay: Duration,
    /// How often a stream carries a ping. SDKs take one that is silent for two minutes for dead (behaviour 4).
    pub ping_every: Duration,
    /// From how many bytes of history on a worker that can fetches it as a stream, instead of getting it with the work
    /// item (behaviour 10).
    pub history_streamed_from: usize,
    /// A worker is sent nothing more while so many bytes wait on its stream to be read: what it does not read stays in our
    /// memory. Two of the largest items that most workers can read; one item may be larger.
    pub unread_bytes_max: usize,
    /// The limits of one turn, for answers that come in parts.
    pub limits: TurnLimits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            turn_answer_max: Duration::from_secs(300),
            reconnect_grace: Duration::from_secs(10),
            restart_grace: Duration::from_secs(180),
            listened_for: Duration::ZERO,
            received_after: Duration::from_secs(60),
            trial_quiet: Duration::from_secs(15),
            suspect_for: Duration::from_secs(60),
            suspect_delay: Duration::from_secs(2),
            turn_return_after: Duration::from_secs(1),
            abandon_delay: Duration::from_secs(1),
            ping_every: Duration::from_secs(30),
            history_streamed_from: 1024 * 1024,
            unread_bytes_max: 2 * Worker::ITEM_BYTES_MAX,
            limits: TurnLimits::default(),
        }
    }
}

/// What a worker says of itself when it connects.
#[derive(Debug, Clone)]
pub struct Worker {
    /// What it can run.
    pub queues: Queues,
    /// Turns that it has in its hands at most; zero is none.
    pub turns_max: usize,
    /// Activities that it has in its hands at most; zero is none.
    pub activities_max: usize,
    /// Turns and activities that it has in its hands at most, together.
    pub items_max: usize,
    /// Whether its answers name the token of what they answer. Go's name only the instance and the number of the task
    /// (behaviour 21).
    pub names_tokens: bool,
    /// The name under which the worker comes again after a lost stream, different for each process. Some SDKs send one.
    pub name: Option<Arc<str>>,
    /// Whether it says what it executes before it comes again ([`Workers::resume`](crate::Workers::resume)): dauer's own do.
    pub resumes: bool,
    /// Whether it can fetch a history as a stream.
    pub streams_history: bool,
    /// The largest work item that it can read, in bytes.
    pub item_bytes_max: usize,
    /// The build id of its program, if it names one.
    pub build: Option<Arc<str>>,
}

impl Worker {
    /// Without a limit of its own, a worker has so many turns or activities in its hands: enough that none ever waits for
    /// the next, few enough that what it hoards is not missed by others.
    pub const UNSPECIFIED_MAX: usize = 100;

    /// What clients of gRPC read unless told otherwise (behaviour 10).
    pub const ITEM_BYTES_MAX: usize = 4 * 1024 * 1024;
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            queues: Queues::default(),
            turns_max: Self::UNSPECIFIED_MAX,
            activities_max: Self::UNSPECIFIED_MAX,
            items_max: usize::MAX,
            names_tokens: true,
            name: None,
            resumes: false,
            streams_history: false,
            item_bytes_max: Self::ITEM_BYTES_MAX,
            build: None,
        }
    }
}
