//! Finding instances behind a server, retrying those that are stalled and removing those that have ended.

use std::time::Duration;

use tonic::Code;

use dauer_core::{HubName, InstanceId};
use dauer_hub::ClientError;
use dauer_proto::wire::{InstanceBatch, PurgeInstancesRequest};
use dauer_proto::{OrchestrationStatus, PurgeRequest, time};
use dauer_rpc::management::{
    HubsRequest, InspectRequest, ListRequest, Order as WireOrder, RetryRequest, SessionsRequest,
};
use dauer_store::{Order, Page, Purged, Query, Refused};

use super::client::RemoteClient;
use super::wire::{Headers, Management, Repeat, rpc};
use super::{inspection, record};
use crate::client::{Attached, Inspected};

/// Ids that one call may name (behaviour 52).
const BATCH_MAX: usize = 500;

impl RemoteClient {
    /// One page of the instances that match, by dauer's own management service: the protocol has neither all conditions nor
    /// both orders.
    pub(crate) async fn query(&self, query: Query) -> Result<Page, ClientError> {
        let stamp = |at: dauer_core::Timestamp| time::from_millis(at.0);
        let order = match query.order {
            Order::OldestFirst => WireOrder::OldestFirst,
            Order::NewestFirst => WireOrder::NewestFirst,
        };
        let statuses = query.statuses.iter().map(|status| OrchestrationStatus::from(*status).into());
        let message = ListRequest {
            statuses: statuses.collect(),
            created_from: query.created_from.map(stamp),
            created_to: query.created_to.map(stamp),
            name: query.name.as_deref().map(str::to_owned),
            prefix: query.prefix.as_deref().map(str::to_owned),
            tags: query.tags.to_map().into_iter().collect(),
            stalled: query.stalled,
            entities: query.entities,
            order: order.into(),
            page: u32::try_from(query.page).unwrap_or(u32::MAX),
            after: query.after.clone(),
        };
        let send = |mut service: Management, request| async move { service.list(request).await };
        let answer = self.wire.manage(message, send).await;
        let answer = answer.map_err(|refusal| match (refusal.code(), query.after) {
            (Code::InvalidArgument, Some(after)) => Refused::Cursor(after).into(),
            _ => self.wire.manage_error(&refusal),
        })?;
        let records = answer.instances.into_iter().map(record::listed).collect::<Result<_, _>>();
        let records = records.map_err(|what| self.wire.nonsense(what))?;
        let next = answer.next.filter(|next| !next.is_empty());
        Ok(Page { records, next, lag: Duration::from_millis(answer.lag_ms) })
    }

    /// One instance with its holder, waiting messages and open tasks.
    pub(crate) async fn inspect(&self, instance: &InstanceId) -> Result<Option<Inspected>, ClientError> {
        let message = InspectRequest { instance_ids: vec![instance.to_string()] };
        let send = |mut service: Management, request| async move { service.inspect(request).await };
        let answer = self.wire.manage(message, send).await;
        let found = answer.map_err(|refusal| self.wire.manage_error(&refusal))?.instances;
        let found = found.into_iter().next().map(inspection::of).transpose();
        found.map_err(|what| self.wire.nonsense(what))
    }

    /// The sessions of the hub, by id.
    pub(crate) async fn sessions(&self) -> Result<Vec<Attached>, ClientError> {
        let send = |mut service: Management, request| async move { service.sessions(request).await };
        let answer = self.wire.manage(SessionsRequest {}, send).await;
        let found = answer.map_err(|refusal| self.wire.manage_error(&refusal))?.sessions;
        let found = found.into_iter().map(inspection::session).collect::<Result<_, _>>();
        found.map_err(|what| self.wire.nonsense(what))
    }

    /// The task hubs of the server that this client may use.
    pub(crate) async fn hubs(&self) -> Result<Vec<HubName>, ClientError> {
        let send = |mut service: Management, request| async move { service.hubs(request).await };
        let answer = self.wire.manage(HubsRequest {}, send).await;
        let names = answer.map_err(|refusal| self.wire.manage_error(&refusal))?.names;
        let names = names.into_iter().map(HubName::new).collect::<Result<_, _>>();
        names.map_err(|error| self.wire.nonsense(error))
    }

    /// Runs a stalled instance at once.
    pub(crate) async fn retry(&self, instance: &InstanceId) -> Result<(), ClientError> {
        let seen = self.inspect(instance).await?;
        let Inspected { record, .. } = seen.ok_or_else(|| ClientError::Absent(instance.clone()))?;
        if record.trouble.is_none() {
            return Err(ClientError::NotStalled { instance: instance.clone(), status: record.status });
        }
        self.retry_ids(std::slice::from_ref(instance)).await.map(drop)
    }

    /// Runs those of these instances at once that are stalled.
    pub(crate) async fn retry_ids(&self, ids: &[InstanceId]) -> Result<usize, ClientError> {
        let mut count = 0;
        for batch in ids.chunks(BATCH_MAX) {
            let message = RetryRequest { instance_ids: batch.iter().map(ToString::to_string).collect() };
            let send = |mut service: Management, request| async move { service.retry(request).await };
            let answer = self.wire.manage(message, send).await;
            let answer = answer.map_err(|refusal| self.wire.manage_error(&refusal))?;
            count += usize::try_from(answer.count).unwrap_or_default();
        }
        Ok(count)
    }

    /// Removes an ended instance for good.
    pub(crate) async fn purge(&self, instance: &InstanceId) -> Result<(), ClientError> {
        let (count, in_doubt) = self.remove(PurgeRequest::InstanceId(instance.to_string())).await?;
        if count > 0 {
            return Ok(());
        }
        match self.get(instance).await? {
            // It was this very call, the first answer to which was lost.
            None if in_doubt => Ok(()),
            None => Err(ClientError::Absent(instance.clone())),
            Some(record) if record.status.is_ended() => Err(ClientError::Engaged(instance.clone())),
            Some(record) => Err(ClientError::NotEnded { instance: instance.clone(), status: record.status }),
        }
    }

    /// Removes those of these instances that have ended; how many that were.
    pub(crate) async fn purge_ids(&self, ids: &[InstanceId]) -> Result<usize, ClientError> {
        let mut count = 0;
        for batch in ids.chunks(BATCH_MAX) {
            let instance_ids = batch.iter().map(ToString::to_string).collect();
            count += self.remove(PurgeRequest::InstanceBatch(InstanceBatch { instance_ids })).await?.0;
        }
        Ok(count)
    }

    async fn remove(&self, which: PurgeRequest) -> Result<(usize, bool), ClientError> {
        let message =
            PurgeInstancesRequest { request: Some(which), recursive: false, is_orchestration: true };
        let (answer, in_doubt) =
            self.wire.call((message, Headers::new()), Repeat::Always, rpc!(purge_instances)).await;
        let answer = answer.map_err(|refusal| self.wire.error(&refusal))?.into_inner();
        Ok((usize::try_from(answer.deleted_instance_count).unwrap_or_default(), in_doubt))
    }

    /// Removes ended instances that match, at most so many: they are looked for first, because a purge by conditions has
    /// neither all of them nor a limit.
    pub(crate) async fn purge_matching(&self, query: &Query, budget: usize) -> Result<Purged, ClientError> {
        let budget = budget.min(BATCH_MAX);
        let mut query = Query { page: BATCH_MAX, order: Order::OldestFirst, after: None, ..query.clone() };
        let mut ids = Vec::new();
        let more = loop {
            let page = self.query(query.clone()).await?;
            let ended = page.records.into_iter().filter(|(_, record)| record.status.is_ended());
            ids.extend(ended.map(|(id, _)| id));
            match page.next {
                _ if ids.len() > budget => break true,
                Some(_) if ids.len() == budget => break true,
                None => break false,
                next => query.after = next,
            }
        };
        ids.truncate(budget);
        Ok(Purged { count: self.purge_ids(&ids).await?, more })
    }
}
