//! Why a hub could not be opened.

/// What the URLs of this build look like.
const KNOWN: &str = match (cfg!(feature = "sqlite"), cfg!(feature = "grpc")) {
    (true, true) => "sqlite:FILE, memory: or http://HOST:PORT",
    (true, false) => "sqlite:FILE or memory:",
    (false, true) => "memory: or http://HOST:PORT",
    (false, false) => "memory:",
};

/// What may follow the name of a file, or the address of a server.
const OPTIONS: &str = match cfg!(feature = "grpc") {
    true => "hub=NAME behind a ?, and for a file durability=full or durability=normal",
    false => "durability=full, durability=normal or hub=NAME behind a ?",
};

/// Why a store could not be opened.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::OpenError;
///
/// match dauer::open_existing("sqlite:/nowhere/orders.db") {
///     Err(OpenError::Missing { url }) => println!("there is no store {url}"),
///     Err(other) => println!("{other}"),
///     Ok(_) => unreachable!(),
/// }
/// assert!(matches!(dauer::open("redis:host"), Err(OpenError::UnknownStore { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no store that this build has.
    #[error("'{url}' names no store; use {KNOWN}")]
    UnknownStore {
        /// The URL.
        url: String,
    },
    /// The file could not be opened.
    #[cfg(feature = "sqlite")]
    #[error("'{url}' could not be opened")]
    Sqlite {
        /// The URL.
        url: String,
        /// Why.
        source: dauer_sqlite::OpenError,
    },
    /// The URL has an option that its store does not have, or a value that the option does not take.
    #[error("'{url}' has the option '{option}', which its store does not have; use {OPTIONS}")]
    UnknownOption {
        /// The URL.
        url: String,
        /// The option, with its value.
        option: String,
    },
    /// There is nothing to open, and it was not to be made.
    #[error("there is no store '{url}'; check the name, or let a worker create it first")]
    Missing {
        /// The URL.
        url: String,
    },
    /// The URL is no address of a server.
    #[cfg(feature = "grpc")]
    #[error("'{url}' is no address of a server: {reason}; use http://HOST:PORT")]
    Address {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no tokio runtime to run on.
    #[error("there is no tokio runtime; call this inside #[tokio::main] or Runtime::enter")]
    NoRuntime,
}
