//! `dauer serve`: the Durable Task protocol on a store, for workers and clients in any language.

mod log;
mod settings;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use dauer_server::{Server, ServerError, ServerOptions};

use crate::error::Failure;
pub(crate) use log::{Level, begin as begin_log};
pub(crate) use settings::{Address, Listen, Settings, SettingsError};

/// Where the hub lives when nothing else is said.
const STORE: &str = "sqlite:dauer.db";

/// What `dauer serve` is told.
#[derive(Args)]
pub(crate) struct Serve {
    /// A file of settings, in TOML: the long names of these options are its keys. What is given here, or in the
    /// environment, counts more.
    #[arg(long, value_name = "FILE", env = "DAUER_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  dauer serve
  dauer serve --store sqlite:shop.db --grpc 127.0.0.1:4002 --http off
  dauer serve --grpc 0.0.0.0:4003 --tls-certificate a.pem --tls-key a.key --tokens t.txt
  dauer serve --config dauer.toml";

/// Serves until a signal.
pub(crate) fn run(serve: Serve) -> Result<ExitCode, Failure> {
    let settings = match &serve.config {
        Some(path) => serve.settings.or(Settings::read(path)?),
        None => serve.settings,
    };
    begin_log(settings.log.unwrap_or_default());
    let store = settings.store.clone().unwrap_or_else(|| STORE.to_owned());
    let options = settings.apply(ServerOptions::new(crate::verbs::url_of(&store)))?;
    on_runtime(async {
        let signal = dauer::shutdown_signal()?;
        let server = Server::bind(options).await?;
        tell(&server)?;
        server.run(signal).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Where it listens, in lines that a script can read.
pub(crate) fn tell(server: &Server) -> io::Result<()> {
    let out = &mut io::stdout().lock();
    let scheme = if server.has_tls() { "https" } else { "http" };
    writeln!(out, "grpc {scheme}://{}", server.grpc_address())?;
    if let Some(address) = server.http_address() {
        writeln!(out, "http http://{address}")?;
    }
    out.flush()
}

/// A runtime that has the network.
pub(crate) fn on_runtime(work: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    let result = runtime.block_on(work);
    // Whatever still runs has no one left to tell: it must not hold up the end.
    runtime.shutdown_background();
    result
}

/// Which address somebody else listens on, if that is why a server cannot be bound.
pub(crate) fn taken(error: &ServerError) -> Option<SocketAddr> {
    match error {
        ServerError::InUse { address, .. } => Some(*address),
        _ => None,
    }
}
