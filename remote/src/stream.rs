//! What one worker sees.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::Stream;

use dauer_proto::wire::HealthPing;
use dauer_proto::{WorkItem, WorkItemRequest};

use crate::line::LineOut;
use crate::state::StreamId;
use crate::workers::Workers;

/// The work items for one worker, with a ping now and then (behaviour 4). Ends when the workers are closed. Dropping it is
/// the end of the connection.
pub struct WorkerStream {
    workers: Arc<Workers>,
    id: StreamId,
    items: LineOut,
    ping: BoxFuture<'static, ()>,
}

impl WorkerStream {
    pub(crate) fn new(workers: Arc<Workers>, id: StreamId, items: LineOut) -> Self {
        let ping = next_ping(&workers);
        Self { workers, id, items, ping }
    }
}

fn next_ping(workers: &Workers) -> BoxFuture<'static, ()> {
    let env = workers.env();
    env.sleep(workers.options().ping_every)
}

impl Stream for WorkerStream {
    type Item = WorkItem;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WorkItem>> {
        // Whatever arrives shows that the stream lives, but a timer that is set anew with each item costs more than a ping.
        if let Poll::Ready(sent) = self.items.poll(context) {
            let Some((item, has_room_again)) = sent else { return Poll::Ready(None) };
            if has_room_again {
                self.workers.state().tell_of_room();
            }
            return Poll::Ready(Some(item));
        }
        if self.ping.poll_unpin(context).is_pending() {
            return Poll::Pending;
        }
        self.ping = next_ping(&self.workers);
        // Registers the new timer: it is far ahead.
        context.waker().wake_by_ref();
        let request = Some(WorkItemRequest::HealthPing(HealthPing {}));
        Poll::Ready(Some(WorkItem { request, ..WorkItem::default() }))
    }
}

impl Drop for WorkerStream {
    fn drop(&mut self) {
        self.workers.count(&self.workers.counts.lost);
        let until = self.workers.env().steady().after(self.workers.options().reconnect_grace);
        self.workers.state().disconnect(self.id, until);
    }
}
