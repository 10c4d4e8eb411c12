//! What can go wrong between a client and a server that stands before the store.

use dauer_store::Cause;

/// Why a server did not do what it was asked, beyond what a store may refuse.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// Nobody answers there.
    #[error(
        "the server {address} cannot be reached; check the address, and that `dauer serve` runs there and is not stopped"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// What happened.
        source: Cause,
    },
    /// It does not let this client in.
    #[error("the server {address} does not let this client in; give a token that is valid for the task hub")]
    Denied {
        /// Where.
        address: String,
        /// What it said.
        source: Cause,
    },
    /// The server does not have a service that the call needs.
    #[error(
        "the server {address} has no service {service}; use a dauer server as new as this client, or the URL of its store"
    )]
    Unsupported {
        /// The address of the server.
        address: String,
        /// The full name of the missing gRPC service.
        service: &'static str,
    },
    /// It answered with an error that no other kind stands for.
    #[error("the server {address} answered {code}; look at its log")]
    Failed {
        /// Where.
        address: String,
        /// The code of gRPC.
        code: String,
        /// What it said.
        source: Cause,
    },
}
