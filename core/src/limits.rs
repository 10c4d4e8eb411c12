//! Every limit and default of the pure crates, each with its reason. Beyond a limit is a typed error that names it.

use std::time::Duration;

/// Characters of an instance id. The Durable Task Scheduler has the same limit and SDK tests rely on it (D1).
pub const INSTANCE_ID_CHARS_MAX: usize = 100;

/// Shortest name of a task hub: Azure Storage containers, which carry the hub's name, need three characters.
pub const HUB_NAME_CHARS_MIN: usize = 3;

/// Longest name of a task hub: what the Durable Task Scheduler takes, so that programs written for it find their hubs here.
/// A store whose own names are shorter says so itself.
pub const HUB_NAME_CHARS_MAX: usize = 64;

/// Bytes of a name, tag key or host id: fits one column of every store and one label of every dashboard.
pub const NAME_BYTES_MAX: usize = 255;

/// Bytes of one payload (input, output, event data). Larger data belongs into a blob, with its address in the payload.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Actions one turn may ask for: one commit has to hold them all.
pub const ACTIONS_PER_TURN_MAX: usize = 100_000;

/// Tasks, timers and children an instance may wait for at once: each is held in memory while the instance is live.
pub const OPEN_TASKS_MAX: usize = 100_000;

/// Events in one history from which a warning is due: replay time begins to be felt.
pub const HISTORY_EVENTS_WARN: u32 = 10_000;

/// Events in one history that are refused: replaying it would take seconds for every turn after a restart.
pub const HISTORY_EVENTS_MAX: u32 = 250_000;

/// Bytes of one history that are refused: it has to fit into memory, several at a time.
pub const HISTORY_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Items in one batch handed to or by a store: bounds the time a group commit holds its locks.
pub const BATCH_ITEMS_MAX: usize = 1_000;

/// Polls of the orchestration code per delivered event: beyond it the code wakes itself for ever.
pub const POLLS_PER_EVENT_MAX: u32 = 10_000;

/// Furthest a timer may be set: a century is for ever, and no clock arithmetic overflows.
pub const TIMER_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// How long an instance remembers the ids of messages it has applied: longer than any client retries.
pub const MEMORY_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How many ids of applied messages an instance remembers: 160 kB, and more than arrive within any retry.
pub const MEMORY_IDS_MAX: usize = 10_000;

/// How long the id of an accepted start outlives the removal of its instance, and how long an equal start without a request
/// id counts as the same one when its transport marks it as a retry: longer than clients of gRPC retry one call.
pub const START_RETRY_MAX: Duration = Duration::from_secs(2 * 60);

/// How many ids of removed starts a hub remembers: 5 MB, and 800 removals a second for two minutes.
pub const REMOVED_STARTS_MAX: usize = 100_000;

/// Bytes of messages that a store hands out at once for an instance that is held: a turn has them in memory, many at a time.
pub const MAIL_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The limits that users may change, with their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnLimits {
    /// See [`ACTIONS_PER_TURN_MAX`].
    pub actions_per_turn: usize,
    /// See [`OPEN_TASKS_MAX`].
    pub open_tasks: usize,
    /// See [`PAYLOAD_BYTES_MAX`].
    pub payload_bytes: usize,
    /// See [`HISTORY_EVENTS_MAX`].
    pub history_events: u32,
    /// See [`HISTORY_BYTES_MAX`].
    pub history_bytes: u64,
    /// See [`TIMER_MAX`].
    pub timer: Duration,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            actions_per_turn: ACTIONS_PER_TURN_MAX,
            open_tasks: OPEN_TASKS_MAX,
            payload_bytes: PAYLOAD_BYTES_MAX,
            history_events: HISTORY_EVENTS_MAX,
            history_bytes: HISTORY_BYTES_MAX,
            timer: TIMER_MAX,
        }
    }
}
