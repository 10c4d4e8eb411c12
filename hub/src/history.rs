//! Reading the history of one run, a part at a time: a history may be longer than anyone wants to hold.

use dauer_core::model::{Record, StoredBatch};
use dauer_core::{ExecutionId, InstanceId};

use crate::client::{Client, ClientError};

/// Reads the history of one run. When another run takes its place meanwhile, its history is gone, and that is told instead
/// of ending early.
pub struct HistoryReader {
    client: Client,
    instance: InstanceId,
    execution: ExecutionId,
    /// Events that the run had when the reading began.
    expected: u32,
    read: u32,
    from: Option<u32>,
}

impl Client {
    /// A reader of the history of the run that an instance is in now.
    ///
    /// # Errors
    /// [`ClientError::Absent`], or [`ClientError::Refused`] when the store cannot tell.
    pub async fn history(&self, instance: &InstanceId) -> Result<HistoryReader, ClientError> {
        let record = self.get(instance).await?;
        let record = record.ok_or_else(|| ClientError::Absent(instance.clone()))?;
        Ok(self.history_of(instance, &record))
    }

    /// A reader of the history of the run that the record is of.
    #[must_use]
    pub fn history_of(&self, instance: &InstanceId, record: &Record) -> HistoryReader {
        HistoryReader {
            client: self.clone(),
            instance: instance.clone(),
            execution: record.execution,
            expected: record.history_len,
            read: 0,
            from: Some(0),
        }
    }
}

impl HistoryReader {
    /// Whose history it is.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Which run's.
    #[must_use]
    pub fn execution(&self) -> ExecutionId {
        self.execution
    }

    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// [`ClientError::MovedOn`] when another run took the place of this one, or [`ClientError::Refused`] when the store
    /// cannot tell.
    pub async fn next(&mut self) -> Result<Option<Vec<StoredBatch>>, ClientError> {
        let Some(from) = self.from else {
            let whole = self.read >= self.expected;
            return if whole { Ok(None) } else { Err(ClientError::MovedOn(self.instance.clone())) };
        };
        let slice = self.client.history_page(&self.instance, Some(self.execution), from).await?;
        self.from = slice.next;
        self.read += slice.batches.iter().map(|stored| stored.batch.count).sum::<u32>();
        Ok(Some(slice.batches))
    }
}
