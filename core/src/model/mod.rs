//! What a hub stores, as plain values: messages, records, tasks and checkpoints. Stores keep them, core makes them.

mod blob;
mod checkpoint;
mod deaths;
mod details;
mod message;
mod queue;
mod record;
mod tags;
mod task;

pub use blob::{Batch, BlobError, Encoded, FORMAT, Fate, Payload, StoredBatch};
pub use checkpoint::{Checkpoint, Fence, History, Then};
pub use deaths::Deaths;
pub use details::Details;
pub use message::{Class, Control, DropReason, Message, Opening, Origin, Over};
pub use queue::{Filter, Kind, QueueKey, Queues, VersionRule};
pub use record::{EntityRecord, Hold, Lock, NextRecord, Parent, Record, Status, Times, Trouble, TroubleKind};
pub use tags::Tags;
pub use task::{Completion, Task, TaskFence};
