//! Who comes in: addresses, certificates, tokens.

#![allow(clippy::unwrap_used, clippy::expect_used)] // What is not there fails the test.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::support::{Running, start, with_header, within};
use dauer_rpc::ServiceClient;
use dauer_server::{Server, ServerError, ServerOptions, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use tonic::{Code, Request, Status};

/// A file for one test.
fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("secure-{name}"));
    std::fs::write(&path, content).unwrap();
    path
}

/// Who signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A call to a server over TLS.
async fn hello(server: &Running, tls: ClientTlsConfig) -> Result<(), Status> {
    let endpoint = format!("https://localhost:{}", server.grpc.port());
    let endpoint = tonic::transport::Endpoint::from_shared(endpoint).unwrap().tls_config(tls).unwrap();
    let channel = endpoint.connect().await.map_err(|error| Status::unavailable(error.to_string()))?;
    within(ServiceClient::new(channel).hello(())).await.map(drop)
}

fn trusting(authority: &Authority) -> ClientTlsConfig {
    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&authority.pem)).domain_name("localhost")
}

/// A TLS connection that is begun and never goes on ends, and gives its place to others.
#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up() {
    let ours = Authority::new();
    let (certificate, key) = ours.sign("localhost");
    let (certificate, key) = (file("halting.pem", &certificate), file("halting.key", &key));
    let server = Running::with(|options| {
        options.tls = Some(Tls { certificate, key, client_authority: None });
        options.limits.connections = 1;
        // Long enough for the next one to come while it lasts.
        options.limits.handshake = std::time::Duration::from_secs(3);
    })
    .await;
    let mut halting = tokio::net::TcpStream::connect(server.grpc).await.unwrap();
    // A record of a handshake of 512 bytes, of which only the beginning comes.
    let mut begun = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    begun.resize(100, 7);
    halting.write_all(&begun).await.unwrap();
    assert!(hello(&server, trusting(&ours)).await.is_err(), "there is one connection already");
    let mut heard = Vec::new();
    let _ = within(halting.read_to_end(&mut heard)).await;
    crate::support::until(|| async { hello(&server, trusting(&ours)).await.ok() }).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_shows_its_certificate_and_may_ask_for_one() {
    let (ours, others) = (Authority::new(), Authority::new());
    let (certificate, key) = ours.sign("localhost");
    let tls = |client_authority| Tls {
        certificate: file("server.pem", &certificate),
        key: file("server.key", &key),
        client_authority,
    };
    let server = Running::with(|options| options.tls = Some(tls(None))).await;
    hello(&server, trusting(&ours)).await.unwrap();
    assert!(hello(&server, trusting(&others)).await.is_err(), "nobody it trusts has signed that");
    let plain = within(ServiceClient::new(server.endpoint().connect_lazy()).hello(())).await;
    assert!(plain.is_err(), "it does not speak without TLS");
    server.stop().await.unwrap();
    let authority = file("clients.pem", &ours.pem);
    let server = Running::with(|options| options.tls = Some(tls(Some(authority)))).await;
    let with = |authority: &Authority| {
        let (certificate, key) = authority.sign("client");
        trusting(&ours).identity(Identity::from_pem(certificate, key))
    };
    hello(&server, with(&ours)).await.unwrap();
    assert!(hello(&server, trusting(&ours)).await.is_err(), "it shows no certificate");
    assert!(hello(&server, with(&others)).await.is_err(), "somebody else has signed its certificate");
    server.stop().await.unwrap();
}

fn options() -> ServerOptions {
    let mut options = ServerOptions::new("memory:");
    options.grpc = SocketAddr::from(([127, 0, 0, 1], 0));
    options
}

async fn refusal(options: ServerOptions) -> ServerError {
    Server::bind(options).await.err().expect("this is not to be served")
}

#[tokio::test]
async fn what_others_can_reach_is_protected_or_refused() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let (certificate, key) = Authority::new().sign("localhost");
    let tls =
        Tls { certificate: file("a.pem", &certificate), key: file("a.key", &key), client_authority: None };
    let tokens = file("a.tokens", "* 0123456789abcdef\n");
    let error = refusal(ServerOptions { grpc: everywhere, ..options() }).await;
    assert!(matches!(error, ServerError::Unprotected { missing: "certificate", .. }), "{error}");
    let error = refusal(ServerOptions { grpc: everywhere, tls: Some(tls.clone()), ..options() }).await;
    assert!(matches!(error, ServerError::Unprotected { missing: "token", .. }), "{error}");
    let error = refusal(ServerOptions { http: Some(everywhere), ..options() }).await;
    assert!(matches!(error, ServerError::Unprotected { missing: "TLS for HTTP", .. }), "{error}");
    let protected =
        ServerOptions { grpc: everywhere, tls: Some(tls), tokens: Some(tokens.clone()), ..options() };
    assert!(Server::bind(protected).await.is_ok());
    let insecure = ServerOptions { grpc: everywhere, http: Some(everywhere), insecure: true, ..options() };
    assert!(Server::bind(insecure).await.is_ok());
    let local = ServerOptions { grpc: SocketAddr::from(([127, 0, 0, 2], 0)), ..options() };
    assert!(Server::bind(local).await.is_ok());
}

#[tokio::test]
async fn what_cannot_be_used_is_told_with_what_to_do() {
    let absent = PathBuf::from("no-such-file");
    let tls = Tls { certificate: absent.clone(), key: absent.clone(), client_authority: None };
    let error = refusal(ServerOptions { tls: Some(tls), ..options() }).await;
    assert!(matches!(&error, ServerError::TlsFile { path, .. } if *path == absent), "{error}");
    let nonsense = file("nonsense.pem", "nonsense");
    let tls = Tls { certificate: nonsense.clone(), key: nonsense, client_authority: None };
    let error = refusal(ServerOptions { tls: Some(tls), ..options() }).await;
    assert!(matches!(error, ServerError::Tls(_)), "{error}");
    let error = refusal(ServerOptions { tokens: Some(absent), ..options() }).await;
    assert!(matches!(error, ServerError::Tokens(_)), "{error}");
    let error =
        refusal(ServerOptions { tokens: Some(file("bad.tokens", "orders short\n")), ..options() }).await;
    assert!(error.to_string().contains("line 1") && !error.to_string().contains("short\n"), "{error}");
    let first = Server::bind(options()).await.unwrap();
    let taken = first.grpc_address();
    let error = refusal(ServerOptions { grpc: taken, ..options() }).await;
    assert!(matches!(error, ServerError::InUse { address, .. } if address == taken), "{error}");
    let error = refusal(ServerOptions { http: Some(taken), ..options() }).await;
    assert!(matches!(error, ServerError::InUse { .. }), "{error}");
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 0));
    let error = refusal(ServerOptions { grpc: elsewhere, insecure: true, ..options() }).await;
    assert!(matches!(error, ServerError::Address { .. }), "{error}");
}

/// behaviour-1: a token opens its hubs; health is for everyone; nothing of the token is told.
#[tokio::test]
async fn a_token_opens_its_hubs() {
    let tokens = file("b.tokens", "orders 0123456789abcdef\n* fedcba9876543210\n");
    let server = Running::with(|options| options.tokens = Some(tokens)).await;
    let mut client = server.client().await;
    let request = |token: &str, hub: &str| {
        let mut request = with_header("authorization", &format!("Bearer {token}"), start("a", "one"));
        request.metadata_mut().insert("taskhub", hub.parse().unwrap());
        request
    };
    client.start_instance(request("0123456789abcdef", "orders")).await.unwrap();
    client.start_instance(request("fedcba9876543210", "other")).await.unwrap();
    let denied = client.start_instance(request("0123456789abcdef", "other")).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    let unknown = client.start_instance(request("0123456789abcdeX", "orders")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unauthenticated);
    assert!(!unknown.message().contains("0123") && !denied.message().contains("0123"));
    assert_eq!(client.hello(()).await.unwrap_err().code(), Code::Unauthenticated);
    let mut health = tonic_health::pb::health_client::HealthClient::new(server.channel().await);
    for service in ["", dauer_rpc::SERVICE_NAME] {
        let check = tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
        let status = health.check(Request::new(check)).await.unwrap().into_inner().status();
        assert_eq!(status, tonic_health::pb::health_check_response::ServingStatus::Serving, "{service}");
    }
    server.stop().await.unwrap();
}
