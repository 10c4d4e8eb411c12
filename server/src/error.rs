//! Why a server cannot be started, or ended before it was told to.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use dauer::OpenError;

use crate::auth::TokensError;

/// Why a server cannot be started, or ended before it was told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Somebody else listens there.
    #[error("the address {address} is in use; stop who listens there, or choose another port (0 is any)")]
    InUse {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The address cannot be listened to.
    #[error("the address {address} cannot be listened to; choose one of this machine")]
    Address {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Others could reach it, and nothing would protect it.
    #[error(
        "{address} can be reached by others, but there is no {missing}; give that, listen on 127.0.0.1, or say that it \
         is to be insecure"
    )]
    Unprotected {
        /// Where.
        address: SocketAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// A file of TLS cannot be read.
    #[error("the file '{path}' cannot be read; give a file in PEM that this process may read")]
    TlsFile {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The files of TLS do not fit together.
    #[error("certificate and key cannot be used; give a certificate chain and its private key, both in PEM")]
    Tls(#[source] tonic::transport::Error),
    /// The file of tokens cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[from] OpenError),
    /// Whoever was opening the store is gone: a defect.
    #[error("the opening of the store broke off; this is a defect of dauer")]
    Opening(#[source] tokio::task::JoinError),
    /// The description of the protocol that is built in cannot be read: a defect of this build.
    #[error("the protocol cannot be described; this build of dauer is broken")]
    Description(#[source] tonic_reflection::server::Error),
    /// The transport of gRPC failed.
    #[error("gRPC cannot be served any more")]
    Grpc(#[source] tonic::transport::Error),
}

impl ServerError {
    pub(crate) fn bind(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address, source },
            _ => Self::Address { address, source },
        }
    }
}
