//! The server: its life and its end.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, FutureExt, join, select, try_join};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server as Transport;
use tonic_health::ServingStatus;

use dauer::Store;

use crate::auth::Tokens;
use crate::error::ServerError;
use crate::gate::Gate;
use crate::http::{self, Figures};
use crate::hubs::Hubs;
use crate::options::{CLOSE_MAX, Limits, ServerOptions, Source};
use crate::service::Calls;
use crate::transport::{self, Health};

/// A server whose ports are open. [`Server::run`] is all of its life.
pub struct Server {
    grpc: (TcpListener, SocketAddr),
    http: Option<(TcpListener, SocketAddr)>,
    transport: Transport,
    gate: Gate,
    options: ServerOptions,
}

impl Server {
    /// Opens the ports. What comes there is answered once the server runs.
    ///
    /// # Errors
    /// [`ServerError`] when an address is in use or not to be served, or a file of TLS or tokens cannot be used.
    pub async fn bind(options: ServerOptions) -> Result<Self, ServerError> {
        transport::check_protection(&options)?;
        let tls = options.tls.as_ref().map(|tls| transport::read_tls(tls, &options.limits)).transpose()?;
        let transport = transport::transport(&options.limits, tls)?;
        let tokens = options.tokens.as_deref().map(Tokens::read).transpose()?;
        let gate = Gate::new(tokens, options.hubs.clone());
        let grpc = transport::listen(options.grpc).await?;
        let http = match options.http {
            Some(address) => Some(transport::listen(address).await?),
            None => None,
        };
        Ok(Self { grpc, http, transport, gate, options })
    }

    /// Where gRPC is served.
    #[must_use]
    pub fn grpc_address(&self) -> SocketAddr {
        self.grpc.1
    }

    /// Where HTTP is served, if it is.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|(_, address)| *address)
    }

    /// Whether gRPC is served over TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.options.tls.is_some()
    }

    /// Serves until `stop`. Then hosts claim nothing any more and finish what is in flight, for at most
    /// [`HostOptions::drain_max`](dauer::HostOptions), streams end with `UNAVAILABLE`, waits too, and the ports are closed.
    ///
    /// # Errors
    /// [`ServerError`] when the store cannot be opened, or a port cannot be served any more.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), ServerError> {
        let Self { grpc, http, transport, gate, options } = self;
        let (opened, store) = watch::channel(None);
        let (end, ending) = watch::channel(false);
        let ServerOptions { store: source, host, workers, limits, .. } = options;
        let hubs = Arc::new(Hubs::new(store, &limits, host, workers));
        let health = Health::new();
        health.tell(ServingStatus::NotServing).await;
        let calls = Calls { hubs: Arc::clone(&hubs), limits, gate: gate.clone(), ending: ending.clone() };
        let figures = Figures { hubs: Arc::clone(&hubs), gate: gate.clone() };
        let http_limits = calls.limits.clone();
        let beside = async {
            let served =
                serve_http(http.map(|(listener, _)| listener), figures, (&http_limits, ending.clone()));
            let idle = select(hubs.let_idle_go().boxed(), is_true(ending.clone()).boxed());
            join(served, idle).await;
            Ok(())
        };
        let serving = try_join(
            transport::serve(transport, grpc.0, (calls, gate), health.clone(), is_true(ending.clone())),
            beside,
        );
        // Hello is answered from now on, whatever the store takes to open.
        let mut serving = Box::pin(serving);
        let stop = std::pin::pin!(stop);
        let life = std::pin::pin!(live(source, (&opened, &health, &hubs), stop));
        let lived = match select(life, &mut serving).await {
            Either::Left((lived, _)) => lived,
            Either::Right((served, _)) => return served.map(drop),
        };
        health.tell(ServingStatus::NotServing).await;
        if let Either::Right((served, _)) = select(hubs.drain().boxed(), &mut serving).await {
            return served.map(drop);
        }
        end.send_replace(true);
        let closed = tokio::time::timeout(CLOSE_MAX, serving).await;
        if let Some(store) = lived? {
            store.close().await;
        }
        // Clients that do not close their connections are left alone.
        closed.map_or(Ok(()), |served| served.map(drop))
    }
}

/// Ready once it is told, or nobody is left who could tell it.
async fn is_true(mut told: watch::Receiver<bool>) {
    _ = told.wait_for(|told| *told).await;
}

async fn serve_http(
    listener: Option<TcpListener>,
    figures: Figures,
    (limits, ending): (&Limits, watch::Receiver<bool>),
) {
    if let Some(listener) = listener {
        http::serve(listener, figures, limits, is_true(ending)).await;
    }
}

/// Opens the store and waits for the end. Gives the store if it is to be closed.
async fn live(
    source: Source,
    (opened, health, hubs): (&watch::Sender<Option<Store>>, &Health, &Hubs),
    stop: impl Future<Output = ()> + Unpin,
) -> Result<Option<Store>, ServerError> {
    let (opening, ours) = match source {
        Source::Open(store) => (futures::future::ready(Ok(store)).boxed(), false),
        Source::Url(url) => (open(url).boxed(), true),
    };
    let (store, mut stop) = match select(opening, stop).await {
        Either::Left((store, stop)) => (store?, stop),
        // Told to end before it had begun.
        Either::Right(((), _)) => return Ok(None),
    };
    opened.send_replace(Some(store.clone()));
    loop {
        let serving = hubs.failure().is_none();
        health.tell(if serving { ServingStatus::Serving } else { ServingStatus::NotServing }).await;
        if let Either::Left(_) = select(&mut stop, pin!(hubs.failures_changed())).await {
            break;
        }
    }
    Ok(ours.then_some(store))
}

/// Files take as long as they take, a migration included: not on a thread that serves.
async fn open(url: String) -> Result<Store, ServerError> {
    let opened = tokio::task::spawn_blocking(move || Store::open(&url)).await;
    Ok(opened.map_err(ServerError::Opening)??)
}
