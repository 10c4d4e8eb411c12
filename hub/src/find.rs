//! Finding instances, and removing those that have ended.

use dauer_core::InstanceId;
use dauer_store::{Page, Purge, Purged, Query, Refused, SessionInfo};

use crate::client::{Client, ClientError};

impl Client {
    /// One page of the instances that match.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with [`Refused::Cursor`] when `after` is nothing that a page ended with, or why the store
    /// cannot tell.
    pub async fn query(&self, query: Query) -> Result<Page, ClientError> {
        let mut attempts = 0;
        loop {
            match self.hub().query(query.clone()).await {
                Ok(page) => return Ok(page),
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }

    /// The sessions of the hub, by id.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the store cannot list them.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, ClientError> {
        let mut attempts = 0;
        loop {
            match self.hub().sessions().await {
                Ok(sessions) => return Ok(sessions),
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }

    /// Removes an ended instance for good.
    ///
    /// # Errors
    /// [`ClientError::Absent`], [`ClientError::NotEnded`], [`ClientError::Engaged`], or why the store refused.
    pub async fn purge(&self, instance: &InstanceId) -> Result<(), ClientError> {
        let (mut attempts, mut in_doubt) = (0, false);
        loop {
            match self.hub().purge(Purge::Ids(vec![instance.clone()])).await {
                Ok(Purged { count: 0, .. }) => break,
                Ok(_) => return Ok(()),
                Err(refused) => {
                    in_doubt |= matches!(refused, Refused::Unknown(_));
                    self.again(refused, &mut attempts).await?;
                }
            }
        }
        match self.get(instance).await? {
            // It was this very call, the first answer to which was lost.
            None if in_doubt => Ok(()),
            None => Err(ClientError::Absent(instance.clone())),
            Some(record) if record.status.is_ended() => Err(ClientError::Engaged(instance.clone())),
            Some(record) => Err(ClientError::NotEnded { instance: instance.clone(), status: record.status }),
        }
    }

    /// Removes ended instances that match, at most so many, in one write. What was removed by a write whose answer was lost
    /// is not in the count.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the store refused.
    pub async fn purge_matching(&self, query: &Query, budget: usize) -> Result<Purged, ClientError> {
        let mut attempts = 0;
        loop {
            match self.hub().purge(Purge::Matching { query: query.clone(), budget }).await {
                Ok(purged) => return Ok(purged),
                Err(refused) => self.again(refused, &mut attempts).await?,
            }
        }
    }
}
