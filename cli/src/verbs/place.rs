//! Where a verb works: a store that this process opens, or a server.

use dauer::{Hub, HubName, OpenError, RemoteError, Server, Store};
use dauer_hub::ClientError;
use dauer_store::Query;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::{is_server, server, url_of};
use crate::error::Failure;

/// Hubs that are looked into at once. Each is one short read; a server answers several while the first is on its way.
const LOOKS_AT_ONCE: usize = 8;

/// The text of a server's NOT_FOUND when it has no such hub. The code alone is also that of an absent instance.
const NO_HUB: &str = "there is no task hub";

/// A store or a server, with any number of task hubs.
pub(super) enum Place {
    Store(Store),
    /// Aside: it is many times larger than a store.
    Server(Box<Server>),
}

impl Place {
    /// A store that is there, or a server.
    pub(super) fn existing(store: &str) -> Result<Self, OpenError> {
        let url = url_of(store);
        match is_server(&url) {
            true => Ok(Self::Server(Box::new(server(&url)?))),
            false => Ok(Self::Store(Store::open_existing(&url)?)),
        }
    }

    /// The hub that the URL names. A URL that names the default one means the same as a URL that names none.
    pub(super) fn named(&self) -> Option<&HubName> {
        let named = match self {
            Self::Store(store) => store.named_hub(),
            Self::Server(server) => server.named_hub(),
        };
        named.filter(|name| **name != HubName::default())
    }

    /// The hub that the verb is about: the one that the URL names, or the default one.
    pub(super) fn hub(&self) -> Hub {
        match self {
            Self::Store(store) => store.hub(self.named().cloned().unwrap_or_default()),
            Self::Server(server) => server.connect(),
        }
    }

    /// Its hubs.
    pub(super) async fn hubs(&self) -> Result<Vec<HubName>, Failure> {
        match self {
            Self::Store(store) => Ok(store.hubs().await?),
            Self::Server(server) => Ok(server.hubs().await?),
        }
    }

    /// Its hubs; none where a server is not dauer's and does not list them.
    pub(super) async fn hubs_if_listed(&self) -> Result<Option<Vec<HubName>>, Failure> {
        match self.hubs().await {
            Err(Failure::Client(ClientError::Remote(RemoteError::Unsupported { .. }))) => Ok(None),
            hubs => hubs.map(Some),
        }
    }

    /// Its hubs, each with whether it is empty.
    pub(super) async fn survey(&self) -> Result<Vec<(HubName, bool)>, Failure> {
        let looks = self.hubs().await?.into_iter().map(|name| async move {
            let hub = match self {
                Self::Store(store) => store.hub(name.clone()),
                Self::Server(server) => server.hub(name.clone()),
            };
            let empty = hub.client().raw().is_empty().await?;
            Ok::<_, Failure>((name, empty))
        });
        stream::iter(looks).buffered(LOOKS_AT_ONCE).try_collect().await
    }

    /// Fails when the URL names a hub that is not there: reading would find nothing, and not say why.
    pub(super) async fn check_hub(&self) -> Result<(), Failure> {
        let Some(name) = self.named() else { return Ok(()) };
        match self.hubs_if_listed().await? {
            Some(hubs) if !hubs.contains(name) => {
                if let Self::Server(_) = self {
                    // A server lists only the hubs that the token is for. Its answer about another one says so.
                    self.hub().client().raw().query(Query { page: 1, ..Query::default() }).await?;
                }
                Err(Failure::UnknownHub { name: name.clone(), hubs })
            }
            _ => Ok(()),
        }
    }

    /// The error of a verb. When a server says that it does not have the hub, it is the same error as for a store.
    pub(super) async fn explain(&self, error: Failure) -> Failure {
        if !is_unknown_hub(&error) {
            return error;
        }
        let hubs = self.hubs_if_listed().await.ok().flatten().unwrap_or_default();
        Failure::UnknownHub { name: self.named().cloned().unwrap_or_default(), hubs }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Store(store) => store.close().await,
            Self::Server(_) => {}
        }
    }
}

/// Whether a server answered that it does not have the hub.
fn is_unknown_hub(error: &Failure) -> bool {
    match error {
        Failure::Client(ClientError::Remote(RemoteError::Failed { code, source, .. })) => {
            code == "NotFound" && source.to_string().starts_with(NO_HUB)
        }
        _ => false,
    }
}
