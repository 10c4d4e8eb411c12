//! Finding instances: conditions, then a page, or a stream of all that match.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use futures::stream::{BoxStream, StreamExt, try_unfold};

use dauer_core::Timestamp;
use dauer_core::model::Status;
use dauer_store::{Order, Query};

use super::purge::PurgeCall;
use super::{Client, Error, Instance};

/// The largest page: it is in memory as a whole, and each instance brings its output along.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::{ClientError, PAGE_SIZE_MAX};
///
/// let query = dauer::open("memory:")?.client().query();
/// let refused = query.page_size(PAGE_SIZE_MAX + 1).page().await;
/// assert!(matches!(refused, Err(ClientError::PageSize { .. })));
/// # Ok(())
/// # }
/// ```
pub const PAGE_SIZE_MAX: usize = 10_000;

/// Which instances are meant. All conditions hold together; without any, all orchestrations are. What is found is in the
/// order of creation, the oldest first unless [`QueryCall::newest_first`] is said.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::{Status, Timestamp};
///
/// let client = dauer::open("memory:")?.client();
/// let living = client
///     .query()
///     .statuses([Status::Pending, Status::Running])
///     .name("order")
///     .id_prefix("order-")
///     .created_from(Timestamp(0))
///     .created_to(Timestamp(2_000_000_000_000))
///     .tag("team", "north")
///     .stalled()
///     .newest_first();
/// let first = living.clone().page_size(50).page().await?;
/// if let Some(next) = first.next {
///     let _second = living.page_size(50).after(next).page().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a query does nothing until it is asked for a page, a stream or a purge"]
pub struct QueryCall {
    pub(super) client: Client,
    pub(super) query: Query,
    page_size: Option<usize>,
}

/// One page of instances.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = dauer::open("memory:")?.client();
/// let page = client.query().name("nobody").page().await?;
/// assert!(page.instances.is_empty() && page.next.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InstancePage {
    /// The instances.
    pub instances: Vec<Instance>,
    /// Give this to [`QueryCall::after`] for the next page; `None` at the end.
    pub next: Option<String>,
    /// By how much the answer may lag behind what the store has acknowledged.
    pub lag: Duration,
}

impl QueryCall {
    pub(super) fn new(client: Client) -> Self {
        Self { client, query: Query::default(), page_size: None }
    }

    /// In this status; given several times, in one of them.
    pub fn status(self, status: Status) -> Self {
        self.statuses([status])
    }

    /// In one of these statuses.
    pub fn statuses(mut self, statuses: impl IntoIterator<Item = Status>) -> Self {
        self.query.statuses.extend(statuses);
        self
    }

    /// Of the orchestration with this name.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.query.name = Some(name.into());
        self
    }

    /// With an id that begins so.
    pub fn id_prefix(mut self, prefix: impl Into<Arc<str>>) -> Self {
        self.query.prefix = Some(prefix.into());
        self
    }

    /// Created at this time or later.
    pub fn created_from(mut self, from: Timestamp) -> Self {
        self.query.created_from = Some(from);
        self
    }

    /// Created before this time.
    pub fn created_to(mut self, to: Timestamp) -> Self {
        self.query.created_to = Some(to);
        self
    }

    /// With this label; given several times, with all of them. A label has one value: the last that is given.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let tags = self.query.tags.iter().map(|(key, value)| (key.clone(), value.clone()));
        self.query.tags = tags.chain([(key.into(), value.into())]).collect();
        self
    }

    /// Only those whose next turn cannot run; [`Instance::trouble`] says why.
    pub fn stalled(mut self) -> Self {
        self.query.stalled = true;
        self
    }

    /// From the other end: those that were created last come first. What is started while the pages are read is not seen.
    pub fn newest_first(mut self) -> Self {
        self.query.order = Order::NewestFirst;
        self
    }

    /// So many instances a page at most: 1 to [`PAGE_SIZE_MAX`]. Without it the store decides.
    pub fn page_size(self, page_size: usize) -> Self {
        Self { page_size: Some(page_size), ..self }
    }

    /// Behind a page that was read before, by its [`InstancePage::next`]. Conditions and order must be the same.
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.query.after = Some(cursor.into());
        self
    }

    /// Asks for one page. It may be shorter than asked for although there are more: [`InstancePage::next`] tells.
    ///
    /// # Errors
    /// [`Error::PageSize`] when it is none, [`Error::Client`] when the cursor is none, or the store cannot tell.
    pub async fn page(self) -> Result<InstancePage, Error> {
        let page_size = match self.page_size {
            None => 0,
            Some(found) if (1..=PAGE_SIZE_MAX).contains(&found) => found,
            Some(found) => return Err(Error::PageSize { found, limit: PAGE_SIZE_MAX }),
        };
        let page = self.client.raw.query(Query { page: page_size, ..self.query }).await?;
        let instances = page.records.into_iter().map(|(id, record)| self.client.instance(id, record));
        Ok(InstancePage { instances: instances.collect(), next: page.next, lag: page.lag })
    }

    /// All of them, read page by page as they are asked for. An instance that is there the whole time comes exactly once,
    /// whatever else is started and removed meanwhile.
    pub fn stream(self) -> InstanceStream {
        let walk = Walk { left: Vec::new().into_iter(), query: Some(self) };
        InstanceStream(
            try_unfold(walk, |mut walk| async move {
                loop {
                    if let Some(instance) = walk.left.next() {
                        return Ok(Some((instance, walk)));
                    }
                    let Some(query) = walk.query.take() else { return Ok(None) };
                    let page = query.clone().page().await?;
                    walk.query = page.next.map(|next| query.after(next));
                    walk.left = page.instances.into_iter();
                }
            })
            .boxed(),
        )
    }

    /// Removes all of them that have ended, for good. It always begins with the oldest: order, page size and cursor mean
    /// nothing to it.
    pub fn purge(self) -> PurgeCall {
        PurgeCall::new(self)
    }
}

/// How far a stream has come.
struct Walk {
    /// What is left of the page that was read last.
    left: std::vec::IntoIter<Instance>,
    /// What asks for the next one; `None` behind the last.
    query: Option<QueryCall>,
}

/// The instances that match a query. An error is the last item.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures::TryStreamExt; // it is a stream of the crate futures, too
///
/// let client = dauer::open("memory:")?.client();
/// let ids: Vec<String> =
///     client.query().stream().map_ok(|instance| instance.id().to_string()).try_collect().await?;
/// assert_eq!(ids, Vec::<String>::new());
/// # Ok(())
/// # }
/// ```
pub struct InstanceStream(BoxStream<'static, Result<Instance, Error>>);

impl InstanceStream {
    /// The next one; `None` at the end.
    ///
    /// # Errors
    /// As [`QueryCall::page`].
    pub async fn next(&mut self) -> Option<Result<Instance, Error>> {
        self.0.next().await
    }
}

impl Stream for InstanceStream {
    type Item = Result<Instance, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}
