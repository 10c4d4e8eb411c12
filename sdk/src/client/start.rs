//! Starting an orchestration.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;

use serde::Serialize;

use dauer_core::send::StartRequest;
use dauer_core::{InstanceId, Timestamp};
use dauer_replay::{Orchestration, PayloadError};
use dauer_store::Reuse;

use super::{Client, Error, Handle, RequestId};

/// A start that happens when it is awaited. Once it has, the instance runs even if everyone dies now.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::{Orchestration, Reuse, Timestamp};
///
/// const REPORT: Orchestration<u32, String> = Orchestration::new("report");
///
/// let client = dauer::open("memory:")?.client();
/// let report = client
///     .start(REPORT.version("2"), &2026)
///     .id("report-2026")
///     .request_id("nightly-2026-12-24")     // the same again is the same start
///     .reuse(Reuse { replaceable: vec![] })  // never in place of another one
///     .at(Timestamp(1_798_138_800_000))      // not before this time
///     .tag("team", "north")
///     .await?;
/// assert_eq!(report.id().as_str(), "report-2026");
/// # Ok(())
/// # }
/// ```
#[must_use = "a start does nothing until it is awaited"]
pub struct StartCall<O> {
    client: Client,
    name: &'static str,
    version: Option<&'static str>,
    input: Result<String, PayloadError>,
    id: Option<String>,
    request: Option<String>,
    at: Option<Timestamp>,
    tags: Vec<(String, String)>,
    reuse: Reuse,
    output: PhantomData<fn() -> O>,
}

impl<O> StartCall<O> {
    pub(super) fn new<I: Serialize>(client: Client, orchestration: Orchestration<I, O>, input: &I) -> Self {
        Self {
            input: client.payloads.encode(input),
            client,
            name: orchestration.name(),
            version: orchestration.version_name(),
            id: None,
            request: None,
            at: None,
            tags: Vec::new(),
            reuse: Reuse::default(),
            output: PhantomData,
        }
    }

    /// Under this id. A living instance of the same id is an error; an ended one is replaced. Without it: the one that
    /// follows from the request id, or else one that nobody has.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// With a request id of your choice, so that it can be repeated when nobody knows whether it happened: after a crash,
    /// or by another process. The same request id for the same instance again is the same start: it succeeds and starts
    /// nothing, also when the instance has ended, as long as it was neither purged nor replaced by another start. What
    /// else the second one says is not looked at. See [`RequestId`].
    ///
    /// ```
    /// # use dauer::Orchestration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// let client = dauer::open("memory:")?.client();
    /// let first = client.start(ORDER, &7).request_id("cart-4711").await?;
    /// let again = client.start(ORDER, &7).request_id("cart-4711").await?;
    /// assert_eq!(first.id(), again.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_id(self, request: impl Into<String>) -> Self {
        Self { request: Some(request.into()), ..self }
    }

    /// Not before this time. One that has passed is now.
    pub fn at(self, at: Timestamp) -> Self {
        Self { at: Some(at), ..self }
    }

    /// With a label, by which it can be found.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// With another rule for ids that are taken.
    pub fn reuse(self, reuse: Reuse) -> Self {
        Self { reuse, ..self }
    }

    async fn run(self) -> Result<Handle<O>, Error> {
        let input = self.input.map_err(|source| Error::Unencodable { what: "input", source })?;
        let request = self.request.as_deref().map(RequestId::new).transpose()?;
        let key = request.map_or_else(|| self.client.raw.random_key(), RequestId::as_u128);
        // From the key, so that the same request without an id is the same instance.
        let id = InstanceId::new(self.id.unwrap_or_else(|| format!("{key:032x}")))?;
        let request = StartRequest {
            version: self.version.map(str::to_owned),
            input: Some(input),
            tags: self.tags.into_iter().collect(),
            scheduled: self.at,
            ..StartRequest::new(id.clone(), self.name)
        };
        self.client.raw.start_requested(request, self.reuse, key).await?;
        let client = Client { raw: self.client.raw.having_started(), ..self.client };
        Ok(Handle { client, id, output: PhantomData })
    }
}

impl<O: 'static> IntoFuture for StartCall<O> {
    type Output = Result<Handle<O>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
