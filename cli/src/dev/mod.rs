//! `dauer dev`: a server for one's own machine, with everything in one folder and something to see.

mod demo;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use dauer::{HubName, Store};
use dauer_server::{GRPC_PORT, Server, ServerError, ServerOptions};
use futures::FutureExt as _;

use crate::error::Failure;
use crate::serve::{self, Level, Settings};

/// How many ports after the usual one are tried: more than anyone runs servers beside each other.
const PORTS_TRIED: u16 = 100;

/// The folder, when no other is given.
const FOLDER: &str = ".dauer";

/// The file in the folder.
const FILE: &str = "dauer.db";

/// How long activities rest that were with an earlier server: not for long, because a developer mostly restarts server and program
/// together, and waits.
const RESTART_GRACE: Duration = Duration::from_secs(10);

/// What `dauer dev` is told.
#[derive(Args)]
pub(crate) struct Dev {
    /// Run a worker of its own, with instances to look at: a fan-out, an approval that waits, a timer and a failure.
    #[arg(long)]
    demo: bool,
    /// Where the instances are kept. It is made if it is not there.
    #[arg(long, value_name = "DIR", default_value = FOLDER)]
    folder: PathBuf,
    /// Where SDKs connect; the next free port if that one is taken. [default: 127.0.0.1:4001]
    #[arg(long, value_name = "ADDRESS", env = "DAUER_GRPC")]
    grpc: Option<serve::Address>,
    /// Where health and metrics are served, or `off`; the next free port if that one is taken. [default: 127.0.0.1:8082]
    #[arg(long, value_name = "ADDRESS", env = "DAUER_HTTP")]
    http: Option<serve::Listen>,
    /// What to log on stderr.
    #[arg(long, value_name = "LEVEL", env = "DAUER_LOG", value_enum, default_value_t = Level::Warn)]
    log: Level,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  dauer dev
  dauer dev --demo
  dauer dev --folder try --grpc 127.0.0.1:5001";

/// Serves until a signal.
pub(crate) fn run(dev: Dev) -> Result<ExitCode, Failure> {
    serve::begin_log(dev.log);
    serve::on_runtime(async {
        let signal = dauer::shutdown_signal()?.shared();
        std::fs::create_dir_all(&dev.folder)
            .map_err(|source| Failure::DevFolder { path: dev.folder.clone(), source })?;
        let url = format!("sqlite:{}", dev.folder.join(FILE).display());
        let store = Store::open(&url)?;
        let settings = Settings { grpc: dev.grpc, http: dev.http, ..Settings::default() };
        let mut options = ServerOptions::new(store.clone());
        options.workers.restart_grace = RESTART_GRACE;
        let options = settings.apply(options)?;
        let asked = options.grpc;
        let server = bind(options).await?;
        tell(&server, &url, asked)?;
        let (file, hub) = (dev.folder.join(FILE).display().to_string(), demo_hub());
        let place = demo::Place { file, url: format!("http://{}?hub={hub}", server.grpc_address()) };
        let demo = async {
            match dev.demo {
                true => demo::run(&store.hub(hub), &place, signal.clone()).await.map_err(Failure::Demo),
                false => Ok(()),
            }
        };
        let serving = async { server.run(signal.clone()).await.map_err(Failure::from) };
        let (served, shown) = futures::join!(serving, demo);
        store.close().await;
        served.and(shown).map(|()| ExitCode::SUCCESS)
    })
}

/// Whether `dauer dev` was run in this folder.
pub(crate) fn has_store_here() -> bool {
    PathBuf::from(FOLDER).join(FILE).is_file()
}

/// Not the default hub: workers of SDKs take whatever is in theirs, and do not know this code.
fn demo_hub() -> HubName {
    HubName::new("demo").unwrap_or_default()
}

/// Binds the addresses, or the next free ones.
async fn bind(options: ServerOptions) -> Result<Server, ServerError> {
    let mut next = options;
    for _ in 0..PORTS_TRIED {
        match Server::bind(next.clone()).await {
            Err(error) => match serve::taken(&error) {
                Some(address) if address == next.grpc => next.grpc = after(address),
                Some(address) if Some(address) == next.http => next.http = Some(after(address)),
                _ => return Err(error),
            },
            bound => return bound,
        }
    }
    Server::bind(next).await
}

fn after(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port().saturating_add(1))
}

/// Prints where it listens, and what to tell an SDK.
fn tell(server: &Server, url: &str, asked: SocketAddr) -> io::Result<()> {
    serve::tell(server)?;
    let out = &mut io::stdout().lock();
    let address = server.grpc_address();
    writeln!(out, "store {url}\n")?;
    if address.port() == GRPC_PORT {
        writeln!(out, "Durable Task SDKs find it by themselves. Ctrl-C ends it; what it knows is kept.")?;
    } else {
        if ![0, address.port()].contains(&asked.port()) {
            write!(out, "The port {} is taken. ", asked.port())?;
        }
        writeln!(out, "Give the SDK this address: {address}")?;
    }
    out.flush()
}
