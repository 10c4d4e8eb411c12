//! Where a server is, and who asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Endpoint, Uri};

use dauer_core::HubName;

use super::client::RemoteClient;
use super::wire::Wire;
use crate::open::{Hub, OpenError};

/// How long it may take until a connection stands. A server that is there takes milliseconds; whoever waits for one that is
/// not wants to know.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How often a connection on which nothing moves is tried, also one that only waits: a server that vanished without a word,
/// or a firewall that forgot the connection, would otherwise never be noticed.
const PROBE_EVERY: Duration = Duration::from_secs(20);

/// How long the answer to such a probe may take before the connection is given up.
const PROBE_ANSWER_MAX: Duration = Duration::from_secs(10);

/// Bytes that one stream may have on its way to us: large work items come at once, without waiting for permission.
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// The same for all streams of a connection: several of them at once.
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Calls that may wait for the connection to take them before callers have to: more than a worker answers at once.
const CALLS_QUEUED_MAX: usize = 4096;

/// Connects to a server, `http://HOST:PORT`. What it gives is a hub like that of [`open`](crate::open): the same code runs
/// with both. `http://HOST:PORT?hub=NAME` is a task hub other than the default one; [`Server`] has more to set.
///
/// Nothing is sent yet: whether the server is there shows with the first call, and a worker waits for it to come.
///
/// What the protocol does not carry is absent in what [`Client::get`](crate::Client::get) and waits return:
/// [`Instance::trouble`](crate::Instance::trouble) and the counts of a [`Record`](crate::Record) (generation, revision, events
/// and bytes of the history, attempts) are none and zero. Queries have them: they use dauer's own management service.
/// [`ActivityContext::attempt`](crate::ActivityContext::attempt) is always 1.
///
/// ```no_run
/// # use dauer::Orchestration;
/// # const HELLO: Orchestration<String, String> = Orchestration::new("hello");
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hub = dauer::connect("http://127.0.0.1:4001")?;
/// let greeting = hub.client().start(HELLO, &"world".to_owned()).await?.output().await?;
/// # let _ = greeting;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`OpenError`] when the URL is no address of a server, or there is no tokio runtime.
pub fn connect(url: &str) -> Result<Hub, OpenError> {
    Ok(Server::at(url)?.connect())
}

/// A server that stands before a store, with any number of task hubs; what [`Store`](crate::Store) is in this process.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::{HubName, Server};
///
/// let server = Server::at("http://127.0.0.1:4001")?.token("the secret of north")?;
/// let north = server.hub(HubName::new("north")?);
/// # let _ = north;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Server {
    url: String,
    endpoint: Endpoint,
    token: Option<MetadataValue<Ascii>>,
    /// That the URL names; none is the server's own choice.
    hub: Option<HubName>,
    runtime: Handle,
    #[cfg(feature = "grpc-tls")]
    tls: tonic::transport::ClientTlsConfig,
}

impl Server {
    /// The server at that URL: `http://HOST:PORT`, or with the feature `grpc-tls` also `https://HOST:PORT`.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn at(url: &str) -> Result<Self, OpenError> {
        let runtime = Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
        let invalid = |reason: &str| OpenError::Address { url: url.to_owned(), reason: reason.to_owned() };
        let uri: Uri = url.parse().map_err(|error| invalid(&format!("{error}")))?;
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| invalid("it names no host"))?;
        let scheme = match uri.scheme_str() {
            Some("http") => "http",
            Some("https") if cfg!(feature = "grpc-tls") => "https",
            Some("https") => return Err(invalid("this build has no TLS; use the feature grpc-tls")),
            _ => return Err(invalid("it does not begin with http:// or https://")),
        };
        if !["", "/"].contains(&uri.path()) {
            return Err(invalid("there is nothing behind the port but ?hub=NAME"));
        }
        let hub = hub_of(url, uri.query())?;
        let address = format!("{scheme}://{authority}");
        let endpoint = Endpoint::from_shared(address).map_err(|error| invalid(&format!("{error}")))?;
        let agent = concat!("dauer-rust/", env!("CARGO_PKG_VERSION"));
        let endpoint = endpoint.user_agent(agent).map_err(|error| invalid(&format!("{error}")))?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_MAX)
            .http2_keep_alive_interval(PROBE_EVERY)
            .keep_alive_timeout(PROBE_ANSWER_MAX)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .buffer_size(CALLS_QUEUED_MAX);
        Ok(Self {
            url: url.to_owned(),
            endpoint,
            token: None,
            hub,
            runtime,
            #[cfg(feature = "grpc-tls")]
            tls: tonic::transport::ClientTlsConfig::new().with_enabled_roots(),
        })
    }

    /// With a secret that the server knows, for servers that want one. It is sent as it is: over TLS, or to this machine.
    ///
    /// # Errors
    /// [`OpenError::Address`] when it cannot be sent.
    pub fn token(self, token: &str) -> Result<Self, OpenError> {
        let value = format!("Bearer {token}").parse::<MetadataValue<Ascii>>();
        let mut value = value.map_err(|_| OpenError::Address {
            url: self.url.clone(),
            reason: "the token has characters that cannot be sent; use printable ASCII".to_owned(),
        })?;
        value.set_sensitive(true);
        Ok(Self { token: Some(value), ..self })
    }

    /// Trusting also servers whose certificate is signed by this one, in PEM.
    #[cfg(feature = "grpc-tls")]
    #[must_use]
    pub fn ca_certificate(self, pem: impl AsRef<[u8]>) -> Self {
        let tls = self.tls.clone().ca_certificate(tonic::transport::Certificate::from_pem(pem));
        Self { tls, ..self }
    }

    /// With a certificate and its key, in PEM, for servers that want to know who asks.
    #[cfg(feature = "grpc-tls")]
    #[must_use]
    pub fn identity(self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        let tls = self.tls.clone().identity(tonic::transport::Identity::from_pem(certificate, key));
        Self { tls, ..self }
    }

    /// The hub that the URL names; without a name in it, the one that is the server's default.
    #[must_use]
    pub fn connect(&self) -> Hub {
        self.connected(self.hub.as_ref())
    }

    /// One of its hubs.
    #[must_use]
    pub fn hub(&self, name: HubName) -> Hub {
        self.connected(Some(&name))
    }

    /// The hub that the URL names, if it does: `http://HOST:PORT?hub=NAME`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), dauer::OpenError> {
    /// let server = dauer::Server::at("http://127.0.0.1:4001?hub=orders")?;
    /// assert_eq!(server.named_hub().map(|hub| hub.as_str()), Some("orders"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn named_hub(&self) -> Option<&HubName> {
        self.hub.as_ref()
    }

    /// The names of its hubs, in their order: those that the token may use.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// for hub in dauer::Server::at("http://127.0.0.1:4001")?.hubs().await? {
    ///     println!("{hub}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RawClientError::Remote`](crate::RawClientError) when the server cannot be reached, does not let this client in, or
    /// is not dauer's.
    pub async fn hubs(&self) -> Result<Vec<HubName>, dauer_hub::ClientError> {
        RemoteClient::new(self.wire(self.hub.as_ref())).hubs().await
    }

    fn connected(&self, hub: Option<&HubName>) -> Hub {
        Hub::remote(self.wire(hub))
    }

    fn wire(&self, hub: Option<&HubName>) -> Arc<Wire> {
        let (endpoint, unusable) = self.secured();
        Arc::new(Wire::new(&endpoint, (hub, self.token.clone()), self.runtime.clone(), unusable))
    }

    /// The endpoint as connections need it, and why they cannot use it, if they cannot.
    #[cfg(feature = "grpc-tls")]
    fn secured(&self) -> (Endpoint, Option<String>) {
        if self.endpoint.uri().scheme_str() != Some("https") {
            return (self.endpoint.clone(), None);
        }
        match self.endpoint.clone().tls_config(self.tls.clone()) {
            Ok(endpoint) => (endpoint, None),
            Err(error) => (self.endpoint.clone(), Some(dauer_hub::with_causes(&error))),
        }
    }

    #[cfg(not(feature = "grpc-tls"))]
    fn secured(&self) -> (Endpoint, Option<String>) {
        (self.endpoint.clone(), None)
    }
}

/// The task hub that a URL names.
fn hub_of(url: &str, query: Option<&str>) -> Result<Option<HubName>, OpenError> {
    let mut hub = None;
    for option in query.unwrap_or_default().split('&').filter(|option| !option.is_empty()) {
        hub = match option.split_once('=') {
            Some(("hub", name)) => Some(
                HubName::new(name)
                    .map_err(|error| OpenError::Address { url: url.to_owned(), reason: error.to_string() })?,
            ),
            _ => {
                let (url, option) = (url.to_owned(), option.to_owned());
                return Err(OpenError::UnknownOption { url, option });
            }
        };
    }
    Ok(hub)
}
