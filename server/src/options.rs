//! Every setting of a server, with its default and the reason for it; and the numbers nobody needs to change.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use dauer::{HostOptions, Store};
use dauer_core::HubName;
use dauer_remote::Worker;

/// The port that every SDK tries first.
pub const GRPC_PORT: u16 = 4001;

/// Instances that one call may name, and ids that it may name twice: what the protocol says.
pub(crate) const BATCH_INSTANCES_MAX: usize = 500;

/// Instances that one write of a purge removes: enough that its cost is shared, few enough that others do not wait long.
pub(crate) const PURGE_STEP: usize = 100;

/// Instances of one page when the caller names no number.
pub(crate) const PAGE_DEFAULT: usize = 100;

/// Inputs that are read at the same time for one page: each is a read of the store.
pub(crate) const INPUTS_AT_ONCE: usize = 16;

/// Work items that a Java worker has in its hands: it does one at a time, turn or activity, on the thread that reads the
/// stream (behaviour 9). What waited behind a long one could be done by another worker.
pub(crate) const JAVA_ITEMS_MAX: usize = 1;

/// How long a server that ends waits for connections to close once all that was in flight is over. Clients that do not
/// listen are left alone then.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(2);

/// How often idle hubs are looked for in the time after which they are let go: they stay a quarter longer at most.
pub(crate) const IDLE_LOOKS: u32 = 4;

/// How long the question whether the store answers may take: probes ask every few seconds.
pub(crate) const PROBE_MAX: Duration = Duration::from_secs(2);

/// Where the instances are.
#[derive(Clone)]
#[non_exhaustive]
pub enum Source {
    /// The server opens the store when it runs, its ports open already, and closes it at its end.
    Url(String),
    /// The store is open, and somebody else closes it.
    Open(Store),
}

impl From<&str> for Source {
    fn from(url: &str) -> Self {
        Self::Url(url.to_owned())
    }
}

impl From<String> for Source {
    fn from(url: String) -> Self {
        Self::Url(url)
    }
}

impl From<Store> for Source {
    fn from(store: Store) -> Self {
        Self::Open(store)
    }
}

/// The settings of a server.
#[derive(Clone)]
pub struct ServerOptions {
    /// Where the instances are.
    pub store: Source,
    /// Where gRPC is served. Port 0 is any that is free.
    pub grpc: SocketAddr,
    /// Where health, metrics and the scaler's figures are served over HTTP; nowhere by default.
    pub http: Option<SocketAddr>,
    /// The hubs that there are. Without it every hub is there from its first use on.
    pub hubs: Option<Vec<HubName>>,
    /// How the server shows who it is, and whether clients have to.
    pub tls: Option<Tls>,
    /// The file of bearer tokens: see [`crate::Tokens`]. Without it nobody needs one.
    pub tokens: Option<PathBuf>,
    /// Serve addresses that others can reach although there is no TLS or no token.
    pub insecure: bool,
    /// The hosts that claim work for the workers, one in each hub.
    pub host: HostOptions,
    /// What all workers of a hub share.
    pub workers: dauer_remote::Options,
    /// What one caller can use of the server.
    pub limits: Limits,
}

impl ServerOptions {
    /// On that store, an URL or an open one, with defaults for all else.
    pub fn new(store: impl Into<Source>) -> Self {
        Self {
            store: store.into(),
            grpc: SocketAddr::from((Ipv4Addr::LOCALHOST, GRPC_PORT)),
            http: None,
            hubs: None,
            tls: None,
            tokens: None,
            insecure: false,
            host: HostOptions {
                // Workers that take items and never answer must not use up the room of those that do: a thousand of each
                // can hang in one hub before others wait. What is in flight is small but for its history.
                turns_max: 1_024,
                activities_max: 10_000,
                // What a worker did not want is offered to the next one soon: it may have come meanwhile.
                retry_delay_max: Duration::from_secs(5),
                ..HostOptions::default()
            },
            workers: dauer_remote::Options::default(),
            limits: Limits::default(),
        }
    }
}

/// The files of TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate, with what it is signed by.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs the certificates of clients. With it, clients without such a certificate are turned away.
    pub client_authority: Option<PathBuf>,
}

/// What one caller can use of the server. tonic has no limits of its own but for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message from a client: a payload of 16 MiB, the largest that a store takes, with as much around it.
    /// SDKs cut answers at 4 MiB.
    pub message_bytes: usize,
    /// Bytes of one answer of a worker. More than a store takes of one payload: what is too large fails with the reason, where
    /// a refused call would leave Java's worker with a stream that it no longer reads (behaviour 8).
    pub answer_bytes: usize,
    /// Bytes of one work item for a worker that does not say that it reads more. What clients of gRPC read unless told
    /// otherwise (behaviour 10).
    pub item_bytes: usize,
    /// Bytes of one page of instances: what clients read, less what is around it. A single instance may be larger.
    pub page_bytes: usize,
    /// Bytes of one part of a streamed history (behaviour 10).
    pub chunk_bytes: usize,
    /// Instances of one page: bounds what one answer takes to make.
    pub page_instances: usize,
    /// Hubs that are in use at once: callers choose names freely, and each takes memory and perhaps a session. One without
    /// workers and open calls makes room for another at once.
    pub hubs: usize,
    /// After this time without workers and open calls a hub is let go: its host ends, and its session with it. Longer than
    /// workers take to come back after a deployment, so that their host is still there. The next one gets a new host.
    pub hub_idle: Duration,
    /// Connections that are open at once; each has buffers of its own. More are closed as they come.
    pub connections: usize,
    /// Calls that are open at once on one connection. JavaScript clients never end a wait (behaviour 48), so that few would
    /// lock them out; ten thousand waits on one connection are to be possible.
    pub streams_per_connection: u32,
    /// Calls that are open at once altogether, but for streams of work items. A wait takes about 10 kB.
    pub calls: usize,
    /// Streams of work items that are open at once in one hub: each is looked at for every item.
    pub worker_streams: usize,
    /// Bytes of one call's headers: tokens and traces fit, floods do not.
    pub header_bytes: u32,
    /// How long a new connection may take until its client has said what it wants, and, with TLS, who it is; and how long the
    /// headers of a request over HTTP may take, or the pause before it. Clients far away need a second, and those that never go on
    /// would use up the connections.
    pub handshake: Duration,
    /// How often the transport asks a silent connection whether anyone is there. Half of what load balancers allow.
    pub keepalive_every: Duration,
    /// How long it waits for the answer.
    pub keepalive_answer: Duration,
    /// How old a connection gets before clients are asked to make a new one, so that they spread over new servers; and a
    /// stream of work items before it is closed, to be opened again. Calls that are open are finished.
    pub connection_age: Duration,
    /// How long a call may take that does not wait for anything: the store tries again for ten seconds by itself.
    pub call_time: Duration,
    /// How long the wait for an instance that is not there lasts before the answer says so (behaviour 48).
    pub absent_wait: Duration,
    /// How long one purge by filter goes on when the caller sets no time: less than [`Limits::call_time`], so that its
    /// answer says how far it came.
    pub purge_time: Duration,
    /// How long calls wait for a store that is still being opened.
    pub opening_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 32 * 1024 * 1024,
            answer_bytes: 128 * 1024 * 1024,
            item_bytes: Worker::ITEM_BYTES_MAX,
            page_bytes: 3 * 1024 * 1024,
            chunk_bytes: 256 * 1024,
            page_instances: 1_000,
            hubs: 1_000,
            hub_idle: Duration::from_secs(5 * 60),
            connections: 10_000,
            streams_per_connection: 20_000,
            calls: 100_000,
            worker_streams: 1_000,
            header_bytes: 32 * 1024,
            handshake: Duration::from_secs(10),
            keepalive_every: Duration::from_secs(30),
            keepalive_answer: Duration::from_secs(20),
            connection_age: Duration::from_secs(24 * 60 * 60),
            call_time: Duration::from_secs(60),
            absent_wait: Duration::from_secs(300),
            purge_time: Duration::from_secs(30),
            opening_wait: Duration::from_secs(30),
        }
    }
}
