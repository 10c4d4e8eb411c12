//! Finding instances behind a server, and removing those that have ended.

use tonic::Code;

use dauer_core::InstanceId;
use dauer_core::model::Record;
use dauer_hub::{ClientError, RemoteError};
use dauer_proto::wire::{InstanceBatch, InstanceQuery, PurgeInstancesRequest, QueryInstancesRequest};
use dauer_proto::{OrchestrationStatus, PurgeRequest, time};
use dauer_store::{Order, Page, Purged, Query, Refused};

use super::client::RemoteClient;
use super::record;
use super::wire::{Headers, Repeat, outputs, rpc};

/// Ids that one call may name (behaviour 52).
const BATCH_MAX: usize = 500;

/// In which order a query is answered: the protocol knows only one. dauer's server says the same in its answer.
const ORDER_HEADER: &str = "dauer-order";

/// The other one.
const NEWEST_FIRST: &str = "newest-first";

impl RemoteClient {
    /// One page of the instances that match. The protocol has no condition for name and tags: what does not match is left
    /// out here, so that a page may be shorter than asked for, or empty, although there are more.
    pub(crate) async fn query(&self, query: Query) -> Result<Page, ClientError> {
        if query.stalled {
            return Err(RemoteError::Unsupported("what is stalled").into());
        }
        if query.entities {
            return Err(RemoteError::Unsupported("entities").into());
        }
        let newest = query.order == Order::NewestFirst;
        let mut headers = outputs();
        headers.extend(newest.then(|| (ORDER_HEADER, NEWEST_FIRST.to_owned())));
        let stamp = |at: dauer_core::Timestamp| time::from_millis(at.0);
        let asked = InstanceQuery {
            runtime_status: query
                .statuses
                .iter()
                .map(|status| OrchestrationStatus::from(*status).into())
                .collect(),
            created_time_from: query.created_from.map(stamp),
            created_time_to: query.created_to.map(stamp),
            // None is as many as the server likes.
            max_instance_count: i32::try_from(query.page).unwrap_or(i32::MAX),
            continuation_token: query.after.clone(),
            instance_id_prefix: query.prefix.as_deref().map(str::to_owned),
            fetch_inputs_and_outputs: true,
            ..InstanceQuery::default()
        };
        let message = QueryInstancesRequest { query: Some(asked) };
        let (answer, _) = self.wire.call((message, headers), Repeat::Always, rpc!(query_instances)).await;
        let answer = answer.map_err(|refusal| match (refusal.code(), &query.after) {
            (Code::InvalidArgument, Some(after)) => Refused::Cursor(after.clone()).into(),
            _ => self.wire.error(&refusal),
        })?;
        // A server that does not know the header does not say that it has done so.
        if newest && answer.metadata().get(ORDER_HEADER).is_none_or(|order| order != NEWEST_FIRST) {
            return Err(RemoteError::Unsupported("the newest first").into());
        }
        let answer = answer.into_inner();
        let mut records = Vec::with_capacity(answer.orchestration_state.len());
        for state in answer.orchestration_state {
            let (id, record) = record::of(state).map_err(|what| self.wire.nonsense(what))?;
            if matches(&query, &record) {
                records.push((id, record));
            }
        }
        let next = answer.continuation_token.filter(|token| !token.is_empty());
        Ok(Page { records, next, lag: std::time::Duration::ZERO })
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

/// The conditions that a server is not asked for.
fn matches(query: &Query, record: &Record) -> bool {
    let tags = query.tags.iter().all(|(key, value)| record.tags.get(key) == Some(value));
    query.name.as_ref().is_none_or(|name| *name == record.queue.name) && tags
}
