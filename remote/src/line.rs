//! The line to one worker: the items that it has not read yet, and how many bytes they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};

use dauer_proto::WorkItem;

/// An item and its size.
type Sent = (WorkItem, usize);

/// A line that takes items as long as fewer bytes than these wait to be read.
pub(crate) fn line(unread_max: usize) -> (LineIn, LineOut) {
    let (send, items) = unbounded();
    let unread = Arc::new(AtomicUsize::new(0));
    (LineIn { items: send, unread: Arc::clone(&unread), unread_max }, LineOut { items, unread, unread_max })
}

/// Where items are put in. Dropping it ends the line.
pub(crate) struct LineIn {
    items: UnboundedSender<Sent>,
    unread: Arc<AtomicUsize>,
    unread_max: usize,
}

impl LineIn {
    /// Whether the worker reads what it is given. A single item may be larger than all that is allowed.
    pub(crate) fn has_room(&self) -> bool {
        self.unread.load(Ordering::Acquire) < self.unread_max
    }

    pub(crate) fn send(&self, item: WorkItem, bytes: usize) {
        self.unread.fetch_add(bytes, Ordering::AcqRel);
        // A line that nobody reads any more is about to be disconnected, which tells the flight.
        let _ = self.items.unbounded_send((item, bytes));
    }
}

/// Where the worker reads them.
pub(crate) struct LineOut {
    items: UnboundedReceiver<Sent>,
    unread: Arc<AtomicUsize>,
    unread_max: usize,
}

impl LineOut {
    /// The next item, and whether there is room again where there was none.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<(WorkItem, bool)>> {
        self.items.poll_next_unpin(context).map(|sent| {
            let (item, bytes) = sent?;
            let before = self.unread.fetch_sub(bytes, Ordering::AcqRel);
            Some((item, before >= self.unread_max && before - bytes < self.unread_max))
        })
    }
}
