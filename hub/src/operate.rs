//! What operators do to instances: look at their histories, retry and rewind them, start them again.

use dauer_core::ledger::Ledger;
use dauer_core::model::{Checkpoint, Class, Message, Opening, Record, Status, StoredBatch};
use dauer_core::send::StartRequest;
use dauer_core::turn::{self, Finished};
use dauer_core::{ExecutionId, InstanceId};
use dauer_proto::{EventType, ExecutionStartedEvent, HistoryEvent};
use dauer_store::{Created, Fence, Refused, Reuse, Slice};

use crate::client::{Client, ClientError, Unusable};

/// Bytes of history that are read at a time.
const PAGE_BYTES: usize = 1024 * 1024;

impl Client {
    /// A page of an instance's history, of the given run or else the current one, from the event with number `from` on.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the store cannot tell.
    pub async fn history_page(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
    ) -> Result<Slice, ClientError> {
        self.page_of(instance, execution, (from, PAGE_BYTES)).await
    }

    async fn page_of(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        (from, bytes): (u32, usize),
    ) -> Result<Slice, ClientError> {
        let mut attempts = 0;
        loop {
            match self.hub().read_history(instance, execution, from, bytes).await {
                Ok(slice) => return Ok(slice),
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }

    /// Runs a stalled instance at once: ends the delay before its next try. An instance whose delay is over, or that a worker
    /// holds, is left as it is.
    ///
    /// # Errors
    /// [`ClientError::Absent`], [`ClientError::NotStalled`], or why the store refused.
    pub async fn retry(&self, instance: &InstanceId) -> Result<(), ClientError> {
        let (_, record) = self.fenced(instance).await?;
        if record.trouble.is_none() {
            return Err(ClientError::NotStalled { instance: instance.clone(), status: record.status });
        }
        self.retry_ids(std::slice::from_ref(instance)).await.map(drop)
    }

    /// Runs those of these instances at once that are stalled. Returns the number of instances whose delay it ended. Delays
    /// that were ended by a write whose answer was lost are not counted.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the store refused.
    pub async fn retry_ids(&self, ids: &[InstanceId]) -> Result<usize, ClientError> {
        let mut attempts = 0;
        loop {
            match self.hub().retry(ids.to_vec()).await {
                Ok(count) => return Ok(count),
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }

    /// Rewinds a failed instance: what failed is done again, what succeeded is not. Failed children are rewound with it.
    ///
    /// # Errors
    /// [`ClientError::Absent`], [`ClientError::NotFailed`], or why it cannot be done.
    pub async fn rewind(&self, instance: &InstanceId, reason: Option<String>) -> Result<(), ClientError> {
        let mut tried: Option<ExecutionId> = None;
        let mut attempts = 0;
        loop {
            let (fence, record) = self.fenced(instance).await?;
            if tried == Some(record.execution) {
                return Ok(());
            }
            if record.status != Status::Failed {
                return Err(ClientError::NotFailed { instance: instance.clone(), status: record.status });
            }
            let checkpoint = self.rewound(fence, record, reason.clone()).await?;
            tried = Some(checkpoint.record.execution);
            match self.amend(checkpoint).await {
                Ok(()) => return Ok(()),
                // Somebody was faster; perhaps this very rewind, when its answer was lost.
                Err(Refused::Fenced) => self.again(unsettled(), &mut attempts).await?,
                Err(refused) => return Err(refused.into()),
            }
        }
    }

    async fn rewound(
        &self,
        fence: Fence,
        record: Record,
        reason: Option<String>,
    ) -> Result<Checkpoint, ClientError> {
        let instance = fence.instance.clone();
        let unusable = |source: Unusable| ClientError::History { instance: instance.clone(), source };
        let (mut ledger, mut past) = (Ledger::new(instance.clone(), record.execution), Vec::new());
        for batch in self.batches(&instance, record.execution).await? {
            past.extend(ledger.absorb(&batch).map_err(|error| unusable(error.into()))?);
        }
        // The turn's time is the store's. This client's clock may be ahead of it.
        let seen = self.inspect(&instance).await?;
        let now = seen.ok_or_else(|| ClientError::Absent(instance.clone()))?.now;
        let rewound = turn::rewind(fence, record, (&ledger, &past), now, reason);
        let Finished { checkpoint, .. } = rewound.map_err(|error| unusable(error.into()))?;
        Ok(checkpoint)
    }

    /// Writes a checkpoint that nobody has claimed. The same again is safe: the store knows it.
    pub(crate) async fn amend(&self, checkpoint: Checkpoint) -> Result<(), Refused> {
        let mut attempts = 0;
        loop {
            match self.hub().amend(checkpoint.clone()).await {
                Ok(_) => return Ok(()),
                Err(refused) => match self.again(refused, &mut attempts).await {
                    Ok(()) => {}
                    Err(ClientError::Refused(refused)) => return Err(refused),
                    Err(_) => return Err(Refused::Fenced),
                },
            }
        }
    }

    /// Starts an ended instance again from its beginning: the same orchestration, version, input and tags. Under another
    /// id when one is given, and then whatever its own status is; that other id must be one that no instance has. The
    /// same key again is the same start, as in [`Client::start_requested`].
    ///
    /// # Errors
    /// [`ClientError::Absent`], [`ClientError::NotEnded`], [`ClientError::Refused`] with [`Refused::Exists`]
    /// when the other id is taken, or why it cannot be done.
    pub async fn restart(
        &self,
        instance: &InstanceId,
        to: Option<InstanceId>,
        key: u128,
    ) -> Result<Created, ClientError> {
        let to = to.filter(|to| to != instance);
        let mut attempts = 0;
        let (record, started) = loop {
            let (_, record) = self.fenced(instance).await?;
            if to.is_none() && !record.status.is_ended() {
                return Err(ClientError::NotEnded { instance: instance.clone(), status: record.status });
            }
            match self.started(instance, &record).await {
                Ok(started) => break (record, started),
                Err(ClientError::MovedOn(_)) => self.again(unsettled(), &mut attempts).await?,
                Err(error) => return Err(error),
            }
        };
        let request = StartRequest {
            version: started.version,
            input: started.input,
            tags: record.tags,
            trace: started.parent_trace_context.map(|trace| *trace),
            ..StartRequest::new(to.clone().unwrap_or_else(|| instance.clone()), started.name)
        };
        // The ended one is replaced, which was asked for. What has the other id is none of this call's business.
        let reuse = if to.is_none() { Reuse::default() } else { Reuse { replaceable: Vec::new() } };
        self.start_requested(request, reuse, key).await
    }

    /// How a run began, or is to begin: its input, version and tags.
    ///
    /// # Errors
    /// [`ClientError::MovedOn`] when another run has taken its place meanwhile, [`ClientError::History`] when it cannot be
    /// read, [`ClientError::Refused`] when the store cannot tell.
    pub async fn started(
        &self,
        instance: &InstanceId,
        record: &Record,
    ) -> Result<ExecutionStartedEvent, ClientError> {
        let unusable = |source: Unusable| ClientError::History { instance: instance.clone(), source };
        if record.history_len == 0
            && let Some(start) = self.start_waiting(instance).await?
        {
            let event = start.event.event();
            let event = event.map_err(|error| unusable(Unusable::Ledger(error.into())))?;
            let is_its_own = carried(&start.class).is_some_and(|begun| begun.execution == record.execution);
            let started = start_of(event).filter(|_| is_its_own);
            return started.ok_or_else(|| ClientError::MovedOn(instance.clone()));
        }
        // As little as the store gives: whole batches, and the start is in the first but for rewound runs.
        let (mut from, mut read) = (Some(0), 0);
        while let Some(next) = from {
            let slice = self.page_of(instance, Some(record.execution), (next, 1)).await?;
            for stored in &slice.batches {
                read += stored.batch.count;
                let events = stored.batch.decode();
                let events = events.map_err(|error| unusable(Unusable::Ledger(error.into())))?;
                if let Some(started) = events.into_iter().find_map(start_of) {
                    return Ok(started);
                }
            }
            from = slice.next;
        }
        // Of a run that was replaced nothing is left.
        let whole = read > 0 && read >= record.history_len;
        Err(if whole { unusable(Unusable::NoStart) } else { ClientError::MovedOn(instance.clone()) })
    }

    /// The input of a run, whether it has begun or not. One that an older dauer ended before it began has none.
    ///
    /// # Errors
    /// As [`Client::started`].
    pub async fn input(&self, instance: &InstanceId, record: &Record) -> Result<Option<String>, ClientError> {
        match self.started(instance, record).await {
            Ok(started) => Ok(started.input),
            Err(ClientError::History { source: Unusable::NoStart, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What a run that has not begun is to begin with.
    pub(crate) async fn start_waiting(&self, instance: &InstanceId) -> Result<Option<Message>, ClientError> {
        let mut attempts = 0;
        loop {
            match self.hub().read_start(instance).await {
                Ok(start) => return Ok(start),
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }

    pub(crate) async fn batches(
        &self,
        instance: &InstanceId,
        execution: ExecutionId,
    ) -> Result<Vec<StoredBatch>, ClientError> {
        let (mut batches, mut from) = (Vec::new(), Some(0));
        while let Some(next) = from {
            let slice = self.history_page(instance, Some(execution), next).await?;
            batches.extend(slice.batches);
            from = slice.next;
        }
        Ok(batches)
    }

    pub(crate) async fn fenced(&self, instance: &InstanceId) -> Result<(Fence, Record), ClientError> {
        let mut attempts = 0;
        loop {
            match self.hub().get(vec![instance.clone()]).await {
                Ok(found) => {
                    let found = found.into_iter().next().flatten();
                    return found.ok_or_else(|| ClientError::Absent(instance.clone()));
                }
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }
}

/// For another look after somebody was faster.
pub(crate) fn unsettled() -> Refused {
    Refused::NotExecuted(dauer_store::Cause::new("the instance changed meanwhile"))
}

/// What a start or rewind begins.
pub(crate) fn carried(class: &Class) -> Option<&Opening> {
    match class {
        Class::Start(opening) | Class::Rewind(opening) => Some(opening),
        Class::Control(_) | Class::Ordinary => None,
    }
}

fn start_of(event: HistoryEvent) -> Option<ExecutionStartedEvent> {
    match event.event_type {
        Some(EventType::ExecutionStarted(started)) => Some(started),
        _ => None,
    }
}
