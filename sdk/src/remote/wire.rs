//! The connections to a server: how a call is made, and made again.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use dauer_core::HubName;
use dauer_hub::{ClientError, RemoteError};
use dauer_rpc::ServiceClient;
use dauer_rpc::management::management_client::ManagementClient;
use dauer_store::{Cause, Env};

use super::failures::{self, is_lost, is_unsent};
use super::waits::Waits;
use crate::runtime::TokioEnv;

/// The service, over a connection.
pub(crate) type Service = ServiceClient<Channel>;

/// dauer's own management service, over a connection.
pub(super) type Management = ManagementClient<Channel>;

/// The largest message that is read or written: what a server may say at most of one instance, which has an input, an output
/// and a status of 16 MiB each.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long a call may take. A server answers when the disk has it; a busy one takes seconds.
const CALL_MAX: Duration = Duration::from_secs(30);

/// How often a call is made again when the server cannot be reached: with the delays between, about ten seconds, which
/// outlasts a server that is restarted.
const CALL_ATTEMPTS: u32 = 8;

/// The first delay between two of them; doubled with each further one.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);

/// The longest.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);

/// Which task hub is meant.
const HUB_HEADER: &str = "taskhub";

/// Which request this is, as 32 hexadecimal digits: what makes a start that is sent twice the same start. Other servers
/// than dauer's do not know it.
pub(super) const REQUEST_HEADER: &str = "dauer-request-id";

/// Which payloads of an instance are wanted, where the protocol knows only all of them: inputs are no part of a record, and
/// cost the server a read. Other servers than dauer's send them all the same.
pub(super) const PAYLOADS_HEADER: &str = "dauer-payloads";

/// Without inputs.
pub(super) const OUTPUTS: &str = "outputs";

/// The full name of the management service, for the error when a server does not have it.
const MANAGEMENT_SERVICE: &str = "dauer.management.v1.Management";

/// What a call says besides its message.
pub(super) type Headers = Vec<(&'static str, String)>;

/// The header that names a request.
pub(super) fn request_id(id: u128) -> Headers {
    vec![(REQUEST_HEADER, format!("{id:032x}"))]
}

/// The header that says that inputs are not wanted.
pub(super) fn outputs() -> Headers {
    vec![(PAYLOADS_HEADER, OUTPUTS.to_owned())]
}

/// A call of the service by its name, as [`Wire::call`] makes it.
macro_rules! rpc {
    ($method:ident) => {
        |mut service: $crate::remote::wire::Service, request| async move { service.$method(request).await }
    };
}
pub(super) use rpc;

/// Whether a call may be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Also when nobody knows whether it was carried out.
    Always,
    /// Only when it cannot have been.
    Unsent,
}

/// One hub of one server.
pub(crate) struct Wire {
    address: String,
    /// Without one the server chooses.
    hub: Option<MetadataValue<Ascii>>,
    token: Option<MetadataValue<Ascii>>,
    endpoint: Endpoint,
    /// Why nothing can be sent at all.
    unusable: Option<String>,
    calls: Service,
    management: Management,
    pub(super) waits: Waits,
    pub(super) runtime: Handle,
    env: TokioEnv,
}

impl Wire {
    pub(super) fn new(
        endpoint: &Endpoint,
        (hub, token): (Option<&HubName>, Option<MetadataValue<Ascii>>),
        runtime: Handle,
        unusable: Option<String>,
    ) -> Self {
        // The name of a hub has letters and digits only: it can be sent.
        let hub = hub.and_then(|hub| MetadataValue::try_from(hub.as_str()).ok());
        let env = TokioEnv::new(runtime.clone());
        let _entered = runtime.enter();
        let channel = endpoint.connect_lazy();
        let (calls, management) = (service(channel.clone()), management(channel));
        let (address, endpoint) = (endpoint.uri().to_string(), endpoint.clone());
        let address = address.trim_end_matches('/').to_owned();
        let waits = Waits::default();
        Self {
            address,
            hub,
            token,
            endpoint,
            unusable,
            calls,
            management,
            waits,
            runtime: runtime.clone(),
            env,
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn env(&self) -> &TokioEnv {
        &self.env
    }

    /// A connection of its own.
    pub(super) fn channel(&self) -> Channel {
        let _entered = self.runtime.enter();
        self.endpoint.connect_lazy()
    }

    /// The service over a connection of its own.
    pub(super) fn connection(&self) -> Service {
        service(self.channel())
    }

    /// A call, with who asks and for which hub.
    pub(super) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        let headers = request.metadata_mut();
        if let Some(hub) = &self.hub {
            headers.insert(HUB_HEADER, hub.clone());
        }
        if let Some(token) = &self.token {
            headers.insert("authorization", token.clone());
        }
        request
    }

    /// Makes a call, again when the server is away for a moment. Tells whether an earlier attempt may have been carried out.
    pub(super) async fn call<M: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        call: (M, Headers),
        repeat: Repeat,
        send: impl Fn(Service, Request<M>) -> F,
    ) -> (Result<Response<R>, Status>, bool) {
        self.attempt(call, repeat, |request| send(self.calls.clone(), request)).await
    }

    /// Calls the management service, whose calls may all be made twice: again when the server is away for a moment.
    pub(super) async fn manage<M: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        message: M,
        send: impl Fn(Management, Request<M>) -> F,
    ) -> Result<R, Status> {
        let send = |request| send(self.management.clone(), request);
        let (answer, _) = self.attempt((message, Headers::new()), Repeat::Always, send).await;
        answer.map(Response::into_inner)
    }

    async fn attempt<M: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        (message, headers): (M, Headers),
        repeat: Repeat,
        send: impl Fn(Request<M>) -> F,
    ) -> (Result<Response<R>, Status>, bool) {
        let (mut attempts, mut in_doubt) = (0, false);
        loop {
            let mut request = self.request(message.clone());
            request.set_timeout(CALL_MAX);
            for (name, text) in &headers {
                if let Ok(value) = MetadataValue::try_from(text.as_str()) {
                    request.metadata_mut().insert(*name, value);
                }
            }
            let status = match send(request).await {
                Ok(response) => return (Ok(response), in_doubt),
                Err(status) => status,
            };
            let again = is_lost(&status) && (repeat == Repeat::Always || is_unsent(&status));
            if !again || attempts >= CALL_ATTEMPTS || self.unusable.is_some() {
                return (Err(status), in_doubt);
            }
            in_doubt |= !is_unsent(&status);
            attempts += 1;
            self.pause(attempts).await;
        }
    }

    /// As [`Wire::call`], for calls whose errors all mean the same everywhere.
    pub(super) async fn ask<M: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        message: M,
        send: impl Fn(Service, Request<M>) -> F,
    ) -> Result<R, ClientError> {
        let (answer, _) = self.call((message, Headers::new()), Repeat::Always, send).await;
        answer.map(Response::into_inner).map_err(|status| self.error(&status))
    }

    /// What a failed call is, where its code means nothing in particular.
    pub(super) fn error(&self, status: &Status) -> ClientError {
        let error = match &self.unusable {
            Some(reason) => {
                let source = Cause::new(reason.clone());
                RemoteError::Unreachable { address: self.address.clone(), source }
            }
            None => failures::of(&self.address, status),
        };
        error.into()
    }

    /// Why a call of the management service failed. A server that does not have the service answers UNIMPLEMENTED.
    pub(super) fn manage_error(&self, status: &Status) -> ClientError {
        match status.code() {
            Code::Unimplemented => {
                RemoteError::Unsupported { address: self.address.clone(), service: MANAGEMENT_SERVICE }.into()
            }
            _ => self.error(status),
        }
    }

    /// An answer that makes no sense.
    pub(super) fn nonsense(&self, what: impl std::fmt::Display) -> ClientError {
        self.error(&Status::internal(format!("its answer makes no sense: {what}")))
    }

    pub(super) async fn pause(&self, attempts: u32) {
        self.sleep(delay(RETRY_DELAY_MIN, RETRY_DELAY_MAX, attempts, self.env.random())).await;
    }

    pub(super) async fn sleep(&self, duration: Duration) {
        self.env.sleep(duration).await;
    }
}

/// The management service over that connection.
fn management(channel: Channel) -> Management {
    Management::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// The service over that connection.
pub(super) fn service(channel: Channel) -> Service {
    Service::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// The delay before attempt `attempts`, from 1: doubled each time, between half and the whole of that at random, so that
/// those who lost a server together do not come back together.
pub(super) fn delay(min: Duration, max: Duration, attempts: u32, random: u64) -> Duration {
    let doublings = attempts.saturating_sub(1).min(20);
    let full = min.saturating_mul(1 << doublings).min(max);
    let half = u64::try_from((full / 2).as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(half + random % (half + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_doubles_up_to_its_maximum_and_is_at_least_half() {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(30));
        for (attempts, full) in [(1, 100), (2, 200), (5, 1_600), (10, 30_000), (u32::MAX, 30_000)] {
            for random in [0, 7, u64::MAX] {
                let millis = delay(min, max, attempts, random).as_millis();
                assert!((full / 2..=full).contains(&millis), "attempt {attempts}: {millis} ms of {full}");
            }
        }
    }
}
