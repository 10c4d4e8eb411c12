//! A server in this process, clients of it, and a worker that does what a test tells it.

#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)] // Test support: what fails here fails the test, and no test uses all of it.

pub(crate) mod worker;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use dauer_proto::wire::{
    CreateInstanceRequest, GetInstanceRequest, GetInstanceResponse, HistoryChunk,
    StreamInstanceHistoryRequest,
};
use dauer_proto::{HistoryEvent, OrchestrationState, OrchestrationStatus};
use dauer_rpc::ServiceClient;
use dauer_server::{Server, ServerError, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// Nothing here takes nearly as long; a machine that is busy with other tests may.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) type Client = ServiceClient<Channel>;

/// A server that runs.
pub(crate) struct Running {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), ServerError>>,
}

impl Running {
    /// On any free port, in memory.
    pub(crate) async fn start() -> Self {
        Self::with(|_| ()).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ServerOptions)) -> Self {
        let mut options = ServerOptions::new("memory:");
        options.grpc = SocketAddr::from(([127, 0, 0, 1], 0));
        // Tests end with work in the hands of their workers.
        options.host.drain_max = Duration::from_millis(200);
        change(&mut options);
        let server = Server::bind(options).await.unwrap();
        let (grpc, http) = (server.grpc_address(), server.http_address());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async { _ = stopped.await }));
        Self { grpc, http, stop: Some(stop), task }
    }

    /// A client on a connection of its own.
    pub(crate) async fn client(&self) -> Client {
        ServiceClient::new(self.channel().await).max_decoding_message_size(usize::MAX)
    }

    pub(crate) async fn channel(&self) -> Channel {
        self.endpoint().connect().await.unwrap()
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap()
    }

    /// Tells it to end.
    pub(crate) fn tell_to_stop(&mut self) {
        self.stop.take();
    }

    /// Tells it to end, and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<(), ServerError> {
        self.tell_to_stop();
        self.end().await
    }

    /// Waits until it has ended.
    pub(crate) async fn end(self) -> Result<(), ServerError> {
        // Whoever is still to tell it to stop does not.
        let _stop = self.stop;
        within(self.task).await.unwrap()
    }
}

/// What a GET is answered: the code and the body.
pub(crate) async fn http(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: dauer\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The result, which must come soon.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this takes too long")
}

/// Asks until the answer is there.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(ask: impl Fn() -> F) -> T {
    within(async {
        let mut every = tokio::time::interval(Duration::from_millis(5));
        loop {
            every.tick().await;
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    })
    .await
}

/// A request for that hub.
pub(crate) fn on<T>(hub: &str, message: T) -> Request<T> {
    with_header("taskhub", hub, message)
}

pub(crate) fn with_header<T>(name: &'static str, value: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert(name, value.parse().unwrap());
    request
}

pub(crate) fn start(id: &str, name: &str) -> CreateInstanceRequest {
    CreateInstanceRequest {
        instance_id: id.to_owned(),
        name: name.to_owned(),
        ..CreateInstanceRequest::default()
    }
}

pub(crate) fn get(id: &str) -> GetInstanceRequest {
    GetInstanceRequest { instance_id: id.to_owned(), get_inputs_and_outputs: true }
}

/// The state of an instance that is there.
pub(crate) async fn state(client: &Client, id: &str) -> OrchestrationState {
    told(client.clone().get_instance(get(id)).await.unwrap().into_inner())
}

pub(crate) fn told(response: GetInstanceResponse) -> OrchestrationState {
    assert!(response.exists);
    response.orchestration_state.unwrap()
}

/// Waits for the end of an instance.
pub(crate) async fn ended(client: &Client, id: &str) -> OrchestrationState {
    told(within(client.clone().wait_for_instance_completion(get(id))).await.unwrap().into_inner())
}

/// Waits until an instance has that status.
pub(crate) async fn status_is(client: &Client, id: &str, status: OrchestrationStatus) {
    until(|| async { (state(client, id).await.orchestration_status() == status).then_some(()) }).await;
}

/// The chunks of a history.
pub(crate) async fn chunks(
    client: &Client,
    request: StreamInstanceHistoryRequest,
) -> Result<Vec<HistoryChunk>, Status> {
    let mut stream = client.clone().stream_instance_history(request).await?.into_inner();
    let mut chunks = Vec::new();
    while let Some(chunk) = within(stream.message()).await? {
        chunks.push(chunk);
    }
    Ok(chunks)
}

pub(crate) async fn history(client: &Client, id: &str) -> Vec<HistoryEvent> {
    let request = StreamInstanceHistoryRequest { instance_id: id.to_owned(), ..Default::default() };
    chunks(client, request).await.unwrap().into_iter().flat_map(|chunk| chunk.events).collect()
}

/// The code of a call that is refused.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.expect_err("this is to be refused");
    (status.code(), status.message().to_owned())
}
