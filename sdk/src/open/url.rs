//! Turns a URL into a store, for the SDK, the server and the command. A new kind of store is one variant of [`Kind`].

use std::sync::Arc;

use dauer_core::HubName;
use dauer_memory::{MemoryStore, SystemClock};
use dauer_store::Store;

use super::OpenError;

/// A store by its URL, not open yet.
pub(super) struct StoreUrl<'u> {
    url: &'u str,
    kind: Kind,
    /// The hub that the URL names, if it does. Every kind of store takes `hub=NAME`.
    pub(super) hub: Option<HubName>,
}

/// The kinds of stores in this build, each with what its URL says.
enum Kind {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite {
        file: std::path::PathBuf,
        options: dauer_sqlite::Options,
    },
}

impl<'u> StoreUrl<'u> {
    /// Reads `SCHEME:PLACE?OPTION&OPTION`.
    pub(super) fn parse(url: &'u str) -> Result<Self, OpenError> {
        let unknown = || OpenError::UnknownStore { url: url.to_owned() };
        let (scheme, rest) = url.split_once(':').ok_or_else(unknown)?;
        let (place, given) = rest.split_once('?').unwrap_or((rest, ""));
        let (kind, hub) = match (scheme, place) {
            ("memory", "") => (Kind::Memory, options(url, given, |_, _| false)?),
            #[cfg(feature = "sqlite")]
            ("sqlite", file) if !file.is_empty() => {
                use dauer_sqlite::Durability;

                let mut options = dauer_sqlite::Options::default();
                let hub = self::options(url, given, |name, value| {
                    options.durability = match (name, value) {
                        ("durability", "full") => Durability::Full,
                        ("durability", "normal") => Durability::Normal,
                        _ => return false,
                    };
                    true
                })?;
                (Kind::Sqlite { file: file.into(), options }, hub)
            }
            _ => return Err(unknown()),
        };
        Ok(Self { url, kind, hub })
    }

    /// Fails if the store does not exist. A store in memory never exists before it is opened.
    pub(super) fn check_exists(&self) -> Result<(), OpenError> {
        let exists = match &self.kind {
            Kind::Memory => false,
            #[cfg(feature = "sqlite")]
            Kind::Sqlite { file, .. } => match std::fs::metadata(file) {
                // SQLite leaves an empty file when it is opened and nothing is written: it contains no store.
                Ok(found) => !found.is_file() || found.len() > 0,
                // All other errors are explained by `open`.
                Err(error) => error.kind() != std::io::ErrorKind::NotFound,
            },
        };
        exists.then_some(()).ok_or_else(|| OpenError::Missing { url: self.url.to_owned() })
    }

    /// Opens the store, and creates it if it does not exist.
    pub(super) fn open(self) -> Result<Arc<dyn Store>, OpenError> {
        match self.kind {
            Kind::Memory => Ok(Arc::new(MemoryStore::new(Arc::new(SystemClock::new())))),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite { file, options } => match dauer_sqlite::SqliteStore::open(file, options) {
                Ok(store) => Ok(Arc::new(store)),
                Err(source) => Err(OpenError::Sqlite { url: self.url.to_owned(), source }),
            },
        }
    }
}

/// Reads the options of a URL: `hub=NAME` itself, all others with `own`, which returns false for an option or value that
/// its store does not have.
fn options(
    url: &str,
    given: &str,
    mut own: impl FnMut(&str, &str) -> bool,
) -> Result<Option<HubName>, OpenError> {
    let mut hub = None;
    for option in given.split('&').filter(|option| !option.is_empty()) {
        let unknown = || OpenError::UnknownOption { url: url.to_owned(), option: option.to_owned() };
        match option.split_once('=') {
            Some(("hub", name)) => hub = Some(HubName::new(name).map_err(|_| unknown())?),
            Some((name, value)) if own(name, value) => {}
            _ => return Err(unknown()),
        }
    }
    Ok(hub)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_option_is_read_for_every_kind_of_store() {
        let urls: &[&str] = match cfg!(feature = "sqlite") {
            true => &["memory:?hub=north", "sqlite:orders.db?durability=normal&hub=north"],
            false => &["memory:?hub=north"],
        };
        for url in urls {
            let parsed = StoreUrl::parse(url).unwrap();
            assert_eq!(parsed.hub.as_ref().map(HubName::as_str), Some("north"), "{url}");
        }
    }

    #[test]
    fn unknown_option_of_a_store_is_refused_by_name() {
        for (url, option) in [("memory:?durability=full", "durability=full"), ("memory:?hub=", "hub=")] {
            let refused = StoreUrl::parse(url).err();
            assert!(
                matches!(&refused, Some(OpenError::UnknownOption { option: named, .. }) if named == option),
                "{url}: {refused:?}"
            );
        }
        assert!(matches!(StoreUrl::parse("memory:x").err(), Some(OpenError::UnknownStore { .. })));
    }
}
