//! A store: any number of hubs with one clock.

use std::sync::Arc;

use async_trait::async_trait;

use dauer_core::HubName;

use crate::{Manage, Refused};

/// An open store. The hubs of one store share its clock and nothing else (rule 17).
#[async_trait]
pub trait Store: Send + Sync {
    /// Opens a hub. This reads and writes nothing: a hub exists once it contains an instance, a message or a session.
    fn hub(&self, name: HubName) -> Arc<dyn Manage>;

    /// Returns the names of the hubs that exist, sorted.
    async fn hubs(&self) -> Result<Vec<HubName>, Refused>;

    /// Returns whether a hub exists. The cost must not depend on the number of hubs: a server asks for every message to a hub
    /// that it has not seen, and its readiness probe asks every few seconds.
    async fn has_hub(&self, name: &HubName) -> Result<bool, Refused>;

    /// Deletes a hub and its content. Deleting an absent hub succeeds. The next call completes an interrupted deletion.
    ///
    /// # Errors
    /// [`Refused::NotExecuted`] if a session of the hub lives (rule 8).
    async fn delete_hub(&self, name: &HubName) -> Result<(), Refused>;

    /// Completes pending writes and frees files, threads and connections. Later calls are refused as
    /// [`Refused::NotExecuted`]. A store without files, threads and connections does nothing.
    async fn close(&self);
}
