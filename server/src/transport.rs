//! The ports and what protects them.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;

use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use dauer_rpc::management::management_server::ManagementServer;
use dauer_rpc::{AnswersServer, SERVICE_NAME, ServiceServer};

use crate::error::ServerError;
use crate::gate::{AnyHub, Gate};
use crate::incoming;
use crate::layer::Bounded;
use crate::options::{Limits, ServerOptions, Tls};
use crate::service::Calls;

/// Opens a port.
pub(crate) async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    let failed = |source| ServerError::bind(address, source);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Whatever others can reach is protected, unless somebody has said that it need not be.
pub(crate) fn check_protection(options: &ServerOptions) -> Result<(), ServerError> {
    let reachable = |address: &SocketAddr| !address.ip().is_loopback() && !options.insecure;
    let unprotected = |address, missing| Err(ServerError::Unprotected { address, missing });
    if reachable(&options.grpc) {
        if options.tls.is_none() {
            return unprotected(options.grpc, "certificate");
        }
        if options.tokens.is_none() {
            return unprotected(options.grpc, "token");
        }
    }
    // HTTP is served in the clear: a proxy on this machine can put TLS around it.
    match options.http.filter(reachable) {
        Some(address) => unprotected(address, "TLS for HTTP"),
        None => Ok(()),
    }
}

/// Reads the files of TLS.
pub(crate) fn read_tls(tls: &Tls, limits: &Limits) -> Result<ServerTlsConfig, ServerError> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| ServerError::TlsFile { path: path.to_path_buf(), source })
    };
    let config = ServerTlsConfig::new()
        .timeout(limits.handshake)
        .identity(Identity::from_pem(read(&tls.certificate)?, read(&tls.key)?));
    Ok(match &tls.client_authority {
        None => config,
        Some(authority) => config.client_ca_root(Certificate::from_pem(read(authority)?)),
    })
}

/// The transport, with its limits.
pub(crate) fn transport(limits: &Limits, tls: Option<ServerTlsConfig>) -> Result<Server, ServerError> {
    let transport = Server::builder()
        .max_concurrent_streams(limits.streams_per_connection)
        .http2_max_header_list_size(limits.header_bytes)
        // Whoever gives up all of its waits at once does no harm: the usual bound of twenty would cut the connection.
        .http2_max_pending_accept_reset_streams(Some(limits.streams_per_connection as usize))
        .http2_keepalive_interval(Some(limits.keepalive_every))
        .http2_keepalive_timeout(Some(limits.keepalive_answer))
        // No grace, after which calls that are open would be cut off: they are finished.
        .max_connection_age(limits.connection_age);
    match tls {
        None => Ok(transport),
        Some(tls) => transport.tls_config(tls).map_err(ServerError::Tls),
    }
}

/// Tells over gRPC whether the server can work.
#[derive(Clone)]
pub(crate) struct Health(HealthReporter);

impl Health {
    pub(crate) fn new() -> Self {
        Self(HealthReporter::new())
    }

    /// For the server and for its one service.
    pub(crate) async fn tell(&self, status: ServingStatus) {
        for name in ["", SERVICE_NAME] {
            self.0.set_service_status(name, status).await;
        }
    }
}

/// Serves gRPC until `close`: the protocol behind its gate, and for everyone health and a description of it.
pub(crate) async fn serve(
    mut transport: Server,
    listener: TcpListener,
    (calls, gate): (Calls, Gate),
    health: Health,
    close: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let (limits, ours, managed) = (calls.limits.clone(), calls.clone(), calls.clone());
    let reading = |bytes: usize| {
        // What was stored is told, whatever its size: it was let in.
        let service = ServiceServer::new(calls.clone()).max_encoding_message_size(usize::MAX);
        service.max_decoding_message_size(bytes)
    };
    let service = (reading(limits.message_bytes), reading(limits.answer_bytes));
    let service = Bounded::new(service, limits.call_time, limits.calls);
    let answers = AnswersServer::new(ours).max_decoding_message_size(limits.answer_bytes);
    let answers = Bounded::new((answers.clone(), answers), limits.call_time, limits.calls);
    // A page may hold one instance that is larger than what clients read by default: it was let in.
    let management = ManagementServer::new(managed).max_encoding_message_size(usize::MAX);
    let management = management.max_decoding_message_size(limits.message_bytes);
    let management = Bounded::new((management.clone(), management), limits.call_time, limits.calls);
    let describe = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(dauer_proto::FILE_DESCRIPTORS)
            .register_encoded_file_descriptor_set(dauer_rpc::management::FILE_DESCRIPTORS)
    };
    let health = tonic_health::server::HealthService::from_health_reporter(health.0);
    let router = transport
        .add_service(InterceptedService::new(service, gate.clone()))
        .add_service(InterceptedService::new(answers, gate.clone()))
        .add_service(InterceptedService::new(management, AnyHub(gate)))
        .add_service(tonic_health::pb::health_server::HealthServer::new(health))
        .add_service(describe().build_v1().map_err(ServerError::Description)?)
        .add_service(describe().build_v1alpha().map_err(ServerError::Description)?);
    let incoming = incoming::connections(listener, &limits);
    router.serve_with_incoming_shutdown(incoming, close).await.map_err(ServerError::Grpc)
}
