//! Histories, in parts that every client can read.

use futures::stream::{self, BoxStream, StreamExt};
use prost::Message;
use tonic::Status;

use dauer_core::ExecutionId;
use dauer_core::workitem::is_for_workers;
use dauer_hub::HistoryReader;
use dauer_proto::HistoryEvent;
use dauer_proto::wire::{HistoryChunk, StreamInstanceHistoryRequest};

use crate::calls::{instance, state};
use crate::hub::Hub;
use crate::status;

/// What an event has besides itself in a chunk: the tag and its length.
const EVENT_OVERHEAD_BYTES: usize = 6;

/// The history of the current run as it is committed; for workers without what they are not to see. Another run's is not
/// kept, so that it is not found.
pub(crate) async fn stream(
    hub: &Hub,
    request: StreamInstanceHistoryRequest,
    chunk_bytes: usize,
) -> Result<BoxStream<'static, Result<HistoryChunk, Status>>, Status> {
    let id = instance(&request.instance_id)?;
    let absent = || Status::not_found(format!("there is no instance '{id}'; check the id and the task hub"));
    let record = hub.client.get(&id).await.map_err(status::of)?;
    let record = record.filter(state::is_orchestration).ok_or_else(absent)?;
    let asked = request.execution_id.filter(|execution| !execution.is_empty());
    if asked.is_some_and(|asked| ExecutionId::parse(&asked) != Some(record.execution)) {
        return Err(Status::not_found(format!(
            "the instance '{id}' is in another run than the one asked for, whose history is gone"
        )));
    }
    let reader = hub.client.history_of(&id, &record);
    let (ready, for_worker) = (Vec::new().into_iter(), request.for_work_item_processing);
    let chunks = Chunks { reader: Some(reader), ready, chunk_bytes, for_worker };
    Ok(stream::unfold(chunks, Chunks::next).boxed())
}

/// A history on its way: one page of the store at a time, in chunks.
struct Chunks {
    /// Nothing once all is read.
    reader: Option<HistoryReader>,
    ready: std::vec::IntoIter<HistoryChunk>,
    chunk_bytes: usize,
    for_worker: bool,
}

impl Chunks {
    async fn next(mut self) -> Option<(Result<HistoryChunk, Status>, Self)> {
        loop {
            if let Some(chunk) = self.ready.next() {
                return Some((Ok(chunk), self));
            }
            let reader = self.reader.as_mut()?;
            match page(reader).await {
                Ok(Some(mut events)) => {
                    events.retain(|event| !self.for_worker || is_for_workers(event));
                    self.ready = chunks(events, self.chunk_bytes).into_iter();
                }
                Ok(None) => return None,
                Err(error) => {
                    self.reader = None;
                    return Some((Err(error), self));
                }
            }
        }
    }
}

async fn page(reader: &mut HistoryReader) -> Result<Option<Vec<HistoryEvent>>, Status> {
    let Some(batches) = reader.next().await.map_err(status::of)? else { return Ok(None) };
    let mut events = Vec::new();
    for stored in batches {
        let unreadable =
            |_| Status::data_loss(format!("the history of '{}' cannot be read", reader.instance()));
        events.extend(stored.batch.decode().map_err(unreadable)?);
    }
    Ok(Some(events))
}

/// Cuts events into chunks of at most so many bytes; one event that is larger is a chunk of its own.
fn chunks(events: Vec<HistoryEvent>, bytes_max: usize) -> Vec<HistoryChunk> {
    let (mut chunks, mut chunk, mut bytes) = (Vec::new(), HistoryChunk::default(), 0);
    for event in events {
        let more = event.encoded_len() + EVENT_OVERHEAD_BYTES;
        if bytes + more > bytes_max && !chunk.events.is_empty() {
            chunks.push(std::mem::take(&mut chunk));
            bytes = 0;
        }
        bytes += more;
        chunk.events.push(event);
    }
    if !chunk.events.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_proto::event;

    /// behaviour-10: parts of a bounded size, nothing lost, in order.
    #[test]
    fn chunks_are_bounded_and_whole() {
        let sizes = [10, 200, 3_000, 10, 10, 5_000, 10];
        let events: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(at, size)| event::event_raised(at as i64, "e", Some("x".repeat(*size))))
            .collect();
        let cut = chunks(events.clone(), 1_000);
        assert!(cut.iter().all(|chunk| chunk.encoded_len() <= 1_000 || chunk.events.len() == 1));
        assert_eq!(cut.iter().map(|chunk| chunk.events.len()).collect::<Vec<_>>(), [2, 1, 2, 1, 1]);
        assert_eq!(cut.into_iter().flat_map(|chunk| chunk.events).collect::<Vec<_>>(), events);
        assert!(chunks(Vec::new(), 1_000).is_empty());
    }
}
