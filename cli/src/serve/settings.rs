//! The settings of a server: the same from a file, the environment and the command line.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{fs, io};

use clap::Args;
use dauer::HubName;
use dauer_core::ids::InvalidName;
use dauer_server::{ServerOptions, Tls};
use serde::{Deserialize, Deserializer};

use super::Level;
use crate::time::parse_duration;

/// Where health and metrics are served when nothing else is said.
const HTTP_PORT: u16 = 8082;

/// Why a file of settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// It cannot be read.
    #[error("the settings in {} cannot be read", .path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has a key that there is not, or a value that the key does not take.
    #[error("the settings in {} make no sense", .path.display())]
    Nonsense {
        /// Which file.
        path: PathBuf,
        /// Where, and what is wrong there.
        source: Box<toml::de::Error>,
    },
    /// The name of a hub breaks a rule.
    #[error("hubs")]
    Hub(#[from] InvalidName),
    /// A certificate without its key, or the other way round.
    #[error("TLS needs a certificate and its key: give --tls-certificate and --tls-key, or neither")]
    HalfTls,
}

/// An address of this machine: `IP:PORT`, or `localhost:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) SocketAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
            return Ok(Self(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        }
        text.parse().map(Self).map_err(|_| "give IP:PORT or localhost:PORT, as 127.0.0.1:4001".to_owned())
    }
}

/// An address, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Nowhere.
    Off,
    /// There.
    At(Address),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" { Ok(Self::Off) } else { text.parse().map(Self::At) }
    }
}

/// A duration, as `30s` or `1m30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self)
    }
}

/// Reads in a file what the command line reads.
fn as_on_the_command_line<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// What a server can be told. Everything is optional: what is not said has its default, or comes from a file.
#[derive(Args, Deserialize, Clone, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Settings {
    /// Where the instances are: `sqlite:FILE`, or just the path of the file; `memory:` forgets them at the end.
    /// [default: sqlite:dauer.db]
    #[arg(long, value_name = "URL", env = "DAUER_STORE")]
    pub(crate) store: Option<String>,
    /// Where SDKs connect. Port 0 is any that is free. [default: 127.0.0.1:4001]
    #[arg(long, value_name = "ADDRESS", env = "DAUER_GRPC")]
    #[serde(deserialize_with = "as_on_the_command_line")]
    pub(crate) grpc: Option<Address>,
    /// Where health, metrics and the scaler's figures are served, or `off`. [default: 127.0.0.1:8082]
    #[arg(long, value_name = "ADDRESS", env = "DAUER_HTTP")]
    #[serde(deserialize_with = "as_on_the_command_line")]
    pub(crate) http: Option<Listen>,
    /// Only these task hubs exist. Without it every hub is there from its first use on.
    #[arg(long, value_name = "NAMES", env = "DAUER_HUBS", value_delimiter = ',')]
    pub(crate) hubs: Option<Vec<String>>,
    /// The server's certificate chain, in PEM.
    #[arg(long, value_name = "FILE", env = "DAUER_TLS_CERTIFICATE")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", env = "DAUER_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Who signs the certificates of clients, in PEM: without one of those nobody is served.
    #[arg(long, value_name = "FILE", env = "DAUER_TLS_CLIENT_AUTHORITY", requires = "tls_certificate")]
    pub(crate) tls_client_authority: Option<PathBuf>,
    /// The bearer tokens: a line `HUB TOKEN` for each, `*` for all hubs.
    #[arg(long, value_name = "FILE", env = "DAUER_TOKENS")]
    pub(crate) tokens: Option<PathBuf>,
    /// Serve an address that others can reach without TLS or without tokens.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Bytes of the largest message that a client may send. [default: 33554432]
    #[arg(long, value_name = "BYTES", env = "DAUER_MESSAGE_BYTES")]
    pub(crate) message_bytes: Option<usize>,
    /// Bytes of the largest work item that workers can read. [default: 4194304]
    #[arg(long, value_name = "BYTES", env = "DAUER_ITEM_BYTES")]
    pub(crate) item_bytes: Option<usize>,
    /// How long an activity rests that a server handed out before it ended: its worker may execute it still. [default: 3m]
    #[arg(long, value_name = "DURATION", env = "DAUER_RESTART_GRACE")]
    #[serde(deserialize_with = "as_on_the_command_line")]
    pub(crate) restart_grace: Option<Span>,
    /// How long a worker whose stream broke may take to answer or come again before it counts as dead. [default: 10s]
    #[arg(long, value_name = "DURATION", env = "DAUER_RECONNECT_GRACE")]
    #[serde(deserialize_with = "as_on_the_command_line")]
    pub(crate) reconnect_grace: Option<Span>,
    /// How long nothing else begins on a worker before and after an item begins that workers died with. [default: 15s]
    #[arg(long, value_name = "DURATION", env = "DAUER_TRIAL_QUIET")]
    #[serde(deserialize_with = "as_on_the_command_line")]
    pub(crate) trial_quiet: Option<Span>,
    /// What to log on stderr: text on a terminal, JSON elsewhere. [default: info]
    #[arg(long, value_name = "LEVEL", env = "DAUER_LOG", value_enum)]
    pub(crate) log: Option<Level>,
}

impl Settings {
    /// The settings in a file.
    pub(crate) fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = fs::read_to_string(path)
            .map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
        toml::from_str(&text)
            .map_err(|source| SettingsError::Nonsense { path: path.to_owned(), source: Box::new(source) })
    }

    /// These, and others where these say nothing.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            store: self.store.or(other.store),
            grpc: self.grpc.or(other.grpc),
            http: self.http.or(other.http),
            hubs: self.hubs.or(other.hubs),
            tls_certificate: self.tls_certificate.or(other.tls_certificate),
            tls_key: self.tls_key.or(other.tls_key),
            tls_client_authority: self.tls_client_authority.or(other.tls_client_authority),
            tokens: self.tokens.or(other.tokens),
            insecure: self.insecure || other.insecure,
            message_bytes: self.message_bytes.or(other.message_bytes),
            item_bytes: self.item_bytes.or(other.item_bytes),
            restart_grace: self.restart_grace.or(other.restart_grace),
            reconnect_grace: self.reconnect_grace.or(other.reconnect_grace),
            trial_quiet: self.trial_quiet.or(other.trial_quiet),
            log: self.log.or(other.log),
        }
    }

    /// The options of a server, with what is said here.
    pub(crate) fn apply(self, mut options: ServerOptions) -> Result<ServerOptions, SettingsError> {
        if let Some(Address(address)) = self.grpc {
            options.grpc = address;
        }
        options.http = match self.http {
            None => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, HTTP_PORT))),
            Some(Listen::Off) => None,
            Some(Listen::At(Address(address))) => Some(address),
        };
        if let Some(hubs) = self.hubs {
            options.hubs = Some(hubs.into_iter().map(HubName::new).collect::<Result<_, _>>()?);
        }
        options.tls = match (self.tls_certificate, self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Tls { certificate, key, client_authority: self.tls_client_authority })
            }
            (None, None) => None,
            _ => return Err(SettingsError::HalfTls),
        };
        options.tokens = self.tokens;
        options.insecure = self.insecure;
        let grace = |said: Option<Span>, default| said.map_or(default, |Span(said)| said);
        options.workers.restart_grace = grace(self.restart_grace, options.workers.restart_grace);
        options.workers.reconnect_grace = grace(self.reconnect_grace, options.workers.reconnect_grace);
        options.workers.trial_quiet = grace(self.trial_quiet, options.workers.trial_quiet);
        options.limits.message_bytes = self.message_bytes.unwrap_or(options.limits.message_bytes);
        options.limits.item_bytes = self.item_bytes.unwrap_or(options.limits.item_bytes);
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn a_file_has_the_names_of_the_options_and_no_others() {
        let settings =
            parse("grpc = \"localhost:5000\"\nhttp = \"off\"\nhubs = [\"north\"]\ninsecure = true").unwrap();
        assert_eq!(settings.grpc.unwrap().0.to_string(), "127.0.0.1:5000");
        assert_eq!((settings.http, settings.insecure), (Some(Listen::Off), true));
        for (text, said) in [
            ("grcp = \"127.0.0.1:1\"", "unknown field `grcp`"),
            ("grpc = \"here\"", "give IP:PORT"),
            ("log = \"loud\"", "unknown variant `loud`"),
        ] {
            let error = parse(text).err().unwrap().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_said_first_counts() {
        let first = parse("grpc = \"127.0.0.1:1\"").unwrap();
        let second = parse("grpc = \"127.0.0.1:2\"\nstore = \"memory:\"").unwrap();
        let both = first.or(second);
        assert_eq!((both.grpc.unwrap().0.port(), both.store.as_deref()), (1, Some("memory:")));
    }

    #[test]
    fn half_of_tls_is_refused_and_bad_hubs_are_named() {
        let options = || ServerOptions::new("memory:");
        let half = parse("tls-key = \"key.pem\"").unwrap().apply(options());
        assert!(matches!(half, Err(SettingsError::HalfTls)));
        let hub = parse("hubs = [\"no spaces\"]").unwrap().apply(options());
        assert!(matches!(hub, Err(SettingsError::Hub(_))));
        let plain = Settings::default().apply(options()).unwrap();
        assert_eq!(plain.http.unwrap().to_string(), "127.0.0.1:8082");
    }
}
