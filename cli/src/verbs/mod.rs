//! The verbs on the instances of a store.

mod control;
mod filter;
mod get;
mod history;
mod hubs;
mod launch;
mod list;
mod place;
mod purge;
mod restart;
mod retry;
mod rows;
mod start;
mod watch;

use std::path::Path;

use dauer::{Hub, InstanceId, OpenError, Record, Server};
use dauer_hub::ClientError;

use crate::error::Failure;
use crate::output::Common;
use place::Place;

pub(crate) use control::{
    RAISE_EXAMPLES, RESUME_EXAMPLES, REWIND_EXAMPLES, Raise, Resume, Rewind, SUSPEND_EXAMPLES, Suspend,
    TERMINATE_EXAMPLES, Terminate, raise, resume, rewind, suspend, terminate,
};
pub(crate) use get::{GET_EXAMPLES, Get, get};
pub(crate) use history::{HISTORY_EXAMPLES, History, history};
pub(crate) use hubs::{HUBS_EXAMPLES, Hubs, hubs};
pub(crate) use list::{LIST_EXAMPLES, List, list};
pub(crate) use purge::{PURGE_EXAMPLES, Purge, purge};
pub(crate) use restart::{RESTART_EXAMPLES, Restart, restart};
pub(crate) use retry::{RETRY_EXAMPLES, Retry, retry};
pub(crate) use start::{START_EXAMPLES, Start, start};

/// A path stands for the file, as far as it cannot be mistaken for a URL.
pub(crate) fn url_of(store: &str) -> String {
    let path = Path::new(store).is_file() || !store.contains(':');
    if path { format!("sqlite:{store}") } else { store.to_owned() }
}

/// The token for a server that wants one.
const TOKEN: &str = "DAUER_TOKEN";

/// Whether a URL is that of a server.
pub(crate) fn is_server(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// Connects to a server, with the token of the environment if there is one.
pub(crate) fn connect(url: &str) -> Result<Hub, OpenError> {
    Ok(server(url)?.connect())
}

/// The server at that URL, with the token of the environment if there is one.
fn server(url: &str) -> Result<Server, OpenError> {
    let server = Server::at(url)?;
    match std::env::var(TOKEN) {
        Ok(token) => server.token(&token),
        Err(_) => Ok(server),
    }
}

/// Does something with a task hub of a store that is there. Neither is ever created.
async fn on_store<T>(
    common: &Common,
    work: impl AsyncFnOnce(&Hub) -> Result<T, Failure>,
) -> Result<T, Failure> {
    on_place(common, async |place| {
        place.check_hub().await?;
        work(&place.hub()).await
    })
    .await
}

/// Does something with a store that is there, or a server.
async fn on_place<T>(
    common: &Common,
    work: impl AsyncFnOnce(&Place) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let place = Place::existing(&common.store)?;
    let result = match Box::pin(work(&place)).await {
        Err(error) => Err(place.explain(error).await),
        done => done,
    };
    place.close().await;
    result
}

/// The record of an instance that is there.
async fn found(hub: &Hub, id: &InstanceId) -> Result<Record, Failure> {
    let record = hub.client().raw().get(id).await?;
    record.ok_or_else(|| ClientError::Absent(id.clone()).into())
}
