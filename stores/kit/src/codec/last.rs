//! The last commit of an instance, by which the store recognises the same commit again.

use dauer_store::{Checkpoint, Details, Epoch, ExecutionId, History, MessageId, Revision, Then};
use sha2::{Digest, Sha256};

use super::blob::Blob;
use super::{FORMAT, Read, execution, message_ids, unseal, write_message, write_next, write_task};

/// The last commit of an instance. `S` names sessions: as the contract does, or by the store's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCommit<S> {
    /// The execution in its fence.
    pub execution: ExecutionId,
    /// The revision in its fence.
    pub revision: Revision,
    /// The epoch in its fence.
    pub epoch: Epoch,
    /// The session that committed. `None` for an amendment.
    pub by: Option<S>,
    /// The digest of an amendment. A fence identifies the commit of a session, because an epoch belongs to one session. Two
    /// clients may amend from the same fence, and only one of them may be answered as the author.
    pub amendment: Option<[u8; 32]>,
    /// The tasks that it leased to the session.
    pub taken: Vec<MessageId>,
}

/// Its revision is not stored: it is the one before the record's. Its execution is stored only if it differs from the
/// record's, which it does after a commit that began the next run.
#[derive(Clone, PartialEq, prost::Message)]
struct WireLast {
    #[prost(bytes = "vec", tag = "1")]
    execution: Vec<u8>,
    #[prost(uint64, tag = "3")]
    epoch: u64,
    #[prost(int64, optional, tag = "4")]
    by: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "5")]
    amendment: Option<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    taken: Vec<Vec<u8>>,
}

impl<S> LastCommit<S> {
    /// The same with another name for the session.
    #[must_use]
    pub fn named<T>(self, by: Option<T>) -> LastCommit<T> {
        let Self { execution, revision, epoch, amendment, taken, .. } = self;
        LastCommit { execution, revision, epoch, by, amendment, taken }
    }

    /// Writes it beside a record with the execution `current`. `by` is the store's key of the session.
    #[must_use]
    pub fn write(&self, by: Option<i64>, current: ExecutionId) -> Vec<u8> {
        let mut blob = Blob::new(FORMAT);
        if self.execution != current {
            blob.bytes(1, &self.execution.0.to_be_bytes());
        }
        blob.number(3, self.epoch.0);
        if let Some(by) = by {
            blob.present(4, by.cast_unsigned());
        }
        if let Some(amendment) = &self.amendment {
            blob.each(5, amendment);
        }
        self.taken.iter().for_each(|id| blob.each(6, &id.0));
        blob.finish()
    }
}

impl LastCommit<i64> {
    /// Reads it beside a record with the execution `current` and `revision`.
    pub fn read(bytes: &[u8], current: ExecutionId, revision: Revision) -> Read<Self> {
        let wire: WireLast = unseal(bytes)?;
        let carried = if wire.execution.is_empty() { current } else { execution(&wire.execution)? };
        Ok(Self {
            execution: carried,
            revision: Revision(revision.0.saturating_sub(1)),
            epoch: Epoch(wire.epoch),
            by: wire.by,
            amendment: wire.amendment.and_then(|digest| digest.try_into().ok()),
            taken: message_ids(&wire.taken)?,
        })
    }
}

/// A SHA-256 hash of every field of a checkpoint.
#[must_use]
pub fn digest(checkpoint: &Checkpoint) -> [u8; 32] {
    let Checkpoint { fence, consumed, completions, history, record, tasks, timers, messages, take, then } =
        checkpoint;
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(fence.instance.as_str().as_bytes());
    part(&fence.execution.0.to_be_bytes());
    part(&fence.revision.0.to_be_bytes());
    part(&fence.epoch.0.to_be_bytes());
    // The length of a list precedes its items, so that no item can move from one list to the next unnoticed.
    let lengths = [consumed.len(), completions.len(), tasks.len(), timers.len(), messages.len(), *take];
    lengths.iter().for_each(|length| part(&(*length as u64).to_le_bytes()));
    consumed.iter().for_each(|id| part(&id.0));
    for completion in completions {
        part(&completion.fence.task.0);
        part(completion.fence.instance.as_str().as_bytes());
        part(&completion.fence.epoch.0.to_be_bytes());
        part(&write_message(&completion.answer));
    }
    let (execution, batches, prologue) = match history {
        History::Append(batch) => (None, std::slice::from_ref(batch), [].as_slice()),
        History::Replace { execution, batches, prologue } => {
            (Some(execution), batches.as_slice(), prologue.as_slice())
        }
    };
    part(&execution.map_or([0; 16], |execution| execution.0.to_be_bytes()));
    part(&[u8::from(execution.is_some())]);
    part(&(batches.len() as u64).to_le_bytes());
    for batch in batches {
        part(&batch.count.to_le_bytes());
        part(batch.events.stored());
        part(&super::write_trail(&batch.consumed, &batch.produced));
    }
    part(&(prologue.len() as u64).to_le_bytes());
    prologue.iter().for_each(|message| part(&write_message(message)));
    part(&write_next(record));
    // Those that are carried and those that stay are told apart also where none are carried.
    if record.details.as_ref().is_some_and(Details::is_empty) {
        part(b"no details");
    }
    tasks.iter().for_each(|task| part(&write_task(task)));
    timers.iter().chain(messages).for_each(|message| part(&write_message(message)));
    match then {
        Then::Keep => part(&[0]),
        Then::Release { delay } => part(&delay.as_nanos().to_le_bytes()),
    }
    hash.finalize().into()
}
