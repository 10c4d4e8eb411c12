//! The verbs on the instances of a store.

mod control;
mod filter;
mod get;
mod history;
mod launch;
mod list;
mod purge;
mod restart;
mod rows;
mod start;
mod watch;

use std::path::Path;

use dauer::{Hub, InstanceId, OpenError, Record};
use dauer_hub::ClientError;

use crate::error::Failure;
use crate::output::Common;

pub(crate) use control::{
    RAISE_EXAMPLES, RESUME_EXAMPLES, REWIND_EXAMPLES, Raise, Resume, Rewind, SUSPEND_EXAMPLES, Suspend,
    TERMINATE_EXAMPLES, Terminate, raise, resume, rewind, suspend, terminate,
};
pub(crate) use get::{GET_EXAMPLES, Get, get};
pub(crate) use history::{HISTORY_EXAMPLES, History, history};
pub(crate) use list::{LIST_EXAMPLES, List, list};
pub(crate) use purge::{PURGE_EXAMPLES, Purge, purge};
pub(crate) use restart::{RESTART_EXAMPLES, Restart, restart};
pub(crate) use start::{START_EXAMPLES, Start, start};

/// A path stands for the file, as far as it cannot be mistaken for a URL.
pub(crate) fn url_of(store: &str) -> String {
    let path = Path::new(store).is_file() || !store.contains(':');
    if path { format!("sqlite:{store}") } else { store.to_owned() }
}

/// The token for a server that wants one.
const TOKEN: &str = "DAUER_TOKEN";

/// Opens a store that is there, or connects to a server.
pub(crate) fn open_existing(store: &str) -> Result<Hub, Failure> {
    let url = url_of(store);
    match is_server(&url) {
        true => Ok(connect(&url)?),
        false => Ok(dauer::open_existing(&url)?),
    }
}

/// Whether a URL is that of a server.
pub(crate) fn is_server(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// Connects to a server, with the token of the environment if there is one.
pub(crate) fn connect(url: &str) -> Result<Hub, OpenError> {
    let server = dauer::Server::at(url)?;
    Ok(match std::env::var(TOKEN) {
        Ok(token) => server.token(&token)?.connect(),
        Err(_) => server.connect(),
    })
}

/// Does something with a store that is there. It is never created.
async fn on_store<T>(
    common: &Common,
    work: impl AsyncFnOnce(&Hub) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let hub = open_existing(&common.store)?;
    let result = Box::pin(work(&hub)).await;
    hub.close().await;
    result
}

/// The record of an instance that is there.
async fn found(hub: &Hub, id: &InstanceId) -> Result<Record, Failure> {
    let record = hub.client().raw().get(id).await?;
    record.ok_or_else(|| ClientError::Absent(id.clone()).into())
}
