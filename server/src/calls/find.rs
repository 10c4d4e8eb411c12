//! Finding instances, a page at a time.

use prost::Message;
use tonic::Status;
use tonic::metadata::MetadataMap;

use dauer_core::model::{Record, Status as InstanceStatus};
use dauer_core::{InstanceId, Timestamp};
use dauer_proto::wire::{
    InstanceQuery, ListInstanceIdsRequest, ListInstanceIdsResponse, QueryInstancesRequest,
    QueryInstancesResponse,
};
use dauer_store::{Cursor, List, Order, Query};

use crate::calls::state::{self, Payloads};
use crate::calls::{statuses, time};
use crate::hub::Hub;
use crate::options::{Limits, PAGE_DEFAULT};
use crate::status;

/// Statuses of a run that has ended.
const ENDED: [InstanceStatus; 4] =
    [InstanceStatus::Completed, InstanceStatus::Failed, InstanceStatus::Terminated, InstanceStatus::Canceled];

/// A page of orchestrations by their creation. The last page has no token (behaviour 50).
pub(crate) async fn query(
    hub: &Hub,
    (metadata, request): (&MetadataMap, QueryInstancesRequest),
    limits: &Limits,
) -> Result<QueryInstancesResponse, Status> {
    let query = request.query.unwrap_or_default();
    let payloads = Payloads::asked(metadata, query.fetch_inputs_and_outputs);
    // Nothing, or as many as there are: both are asked for without a thought, and get a page.
    let wanted = usize::try_from(query.max_instance_count).ok().filter(|count| *count > 0);
    let page = wanted.unwrap_or(limits.page_instances).min(limits.page_instances);
    let page = hub.client.query(Query { page, ..asked(query)? }).await.map_err(status::of)?;
    let keys = keys(&page.records);
    let mut told = state::all_told(&hub.client, page.records, payloads).await?;
    let next = cut(&mut told, &keys, (Order::OldestFirst, limits.page_bytes)).or(page.next);
    Ok(QueryInstancesResponse { orchestration_state: told, continuation_token: next })
}

fn asked(query: InstanceQuery) -> Result<Query, Status> {
    Ok(Query {
        statuses: statuses("query.runtimeStatus", &query.runtime_status)?,
        created_from: time("query.createdTimeFrom", query.created_time_from)?,
        created_to: time("query.createdTimeTo", query.created_time_to)?,
        prefix: query.instance_id_prefix.filter(|prefix| !prefix.is_empty()).map(Into::into),
        after: query.continuation_token.filter(|token| !token.is_empty()),
        ..Query::default()
    })
}

/// Creation time and id of each record: what cursors are made of.
pub(crate) fn keys(records: &[(InstanceId, Record)]) -> Vec<(Timestamp, InstanceId)> {
    records.iter().map(|(id, record)| (record.times.created, id.clone())).collect()
}

/// Cuts a page to the entries that fit into one message. Returns the cursor behind the last of them, if any were cut off.
pub(crate) fn cut<M: Message>(
    told: &mut Vec<M>,
    keys: &[(Timestamp, InstanceId)],
    (order, bytes_max): (Order, usize),
) -> Option<String> {
    let fitting = fitting(told, bytes_max);
    let (at, id) = keys.get(fitting.checked_sub(1)?).filter(|_| fitting < told.len())?;
    told.truncate(fitting);
    Some(Cursor { at: *at, id: id.clone() }.write(order))
}

/// How many of them fit into one message; one always does.
fn fitting<M: Message>(told: &[M], bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fit = told.iter().take_while(|state| {
        bytes += state.encoded_len() + PAGE_ENTRY_OVERHEAD_BYTES;
        bytes <= bytes_max
    });
    fit.count().max(1)
}

/// What an entry has besides itself in a page: the tag and its length.
const PAGE_ENTRY_OVERHEAD_BYTES: usize = 6;

/// A page of the ids of ended instances, by the time of their end (behaviour 51).
pub(crate) async fn list(
    hub: &Hub,
    request: ListInstanceIdsRequest,
    limits: &Limits,
) -> Result<ListInstanceIdsResponse, Status> {
    let Some(statuses) = ended(&statuses("runtimeStatus", &request.runtime_status)?) else {
        return Ok(ListInstanceIdsResponse::default());
    };
    let wanted = usize::try_from(request.page_size).ok().filter(|size| *size > 0).unwrap_or(PAGE_DEFAULT);
    let list = List {
        statuses,
        completed_from: time("completedTimeFrom", request.completed_time_from)?,
        completed_to: time("completedTimeTo", request.completed_time_to)?,
        page: wanted.min(limits.page_instances),
        after: request.last_instance_key.filter(|key| !key.is_empty()),
    };
    let page = hub.client.hub().list(list).await.map_err(|refused| status::refusal(&refused))?;
    let instance_ids = page.ids.iter().map(ToString::to_string).collect();
    Ok(ListInstanceIdsResponse { instance_ids, last_instance_key: page.next })
}

/// Those of the statuses that a run ends in; all of them when none is asked for, nothing when only others are.
pub(crate) fn ended(asked: &[InstanceStatus]) -> Option<Vec<InstanceStatus>> {
    if asked.is_empty() {
        return Some(ENDED.to_vec());
    }
    let ended: Vec<_> = asked.iter().copied().filter(|status| status.is_ended()).collect();
    (!ended.is_empty()).then_some(ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_proto::OrchestrationState;

    #[test]
    fn a_page_is_cut_where_clients_stop_reading() {
        let sized = |size: usize| OrchestrationState { output: Some("x".repeat(size)), ..Default::default() };
        let told = [sized(400), sized(400), sized(400)];
        assert_eq!(fitting(&told, 10_000), 3);
        assert_eq!(fitting(&told, 1_000), 2);
        assert_eq!(fitting(&told, 100), 1, "one is always told");
    }
}
