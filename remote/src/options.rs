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
    /// How long an activity stays with a worker whose stream is gone. SDKs that reconnect finish what they have begun and
    /// answer over another connection; running it twice meanwhile would be worse than waiting.
    pub activity_return_after: Duration,
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
            activity_return_after: Duration::from_secs(3),
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
            streams_history: false,
            item_bytes_max: Self::ITEM_BYTES_MAX,
            build: None,
        }
    }
}
