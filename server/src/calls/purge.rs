//! Removing instances that have ended.

use std::collections::BTreeSet;

use tonic::Status;

use dauer_core::InstanceId;
use dauer_core::model::Record;
use dauer_hub::ClientError;
use dauer_proto::wire::{PurgeInstanceFilter, PurgeInstancesRequest, PurgeInstancesResponse};
use dauer_proto::{EventType, PurgeRequest};
use dauer_store::{Query, Steady};

use crate::calls::{find, instance, statuses, time};
use crate::hub::Hub;
use crate::options::{BATCH_INSTANCES_MAX, Limits, PURGE_STEP};
use crate::status;

/// How much was removed, and whether that was all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Removed {
    count: usize,
    is_complete: bool,
}

/// Removes what has ended; what has not, or is not there, counts nothing and is no error (behaviour 52).
pub(crate) async fn purge(
    hub: &Hub,
    request: PurgeInstancesRequest,
    limits: &Limits,
) -> Result<PurgeInstancesResponse, Status> {
    let recursive = request.recursive;
    let removed = match request.request {
        None => {
            return Err(Status::invalid_argument(
                "request: no known kind is set; name instances or a filter",
            ));
        }
        Some(PurgeRequest::InstanceId(id)) => these(hub, vec![id], recursive).await?,
        Some(PurgeRequest::InstanceBatch(batch)) => {
            let count = batch.instance_ids.len();
            if count > BATCH_INSTANCES_MAX {
                return Err(status::too_many("instanceBatch.instanceIds", count, BATCH_INSTANCES_MAX));
            }
            these(hub, batch.instance_ids, recursive).await?
        }
        Some(PurgeRequest::PurgeInstanceFilter(filter)) => matching(hub, filter, recursive, limits).await?,
    };
    let deleted_instance_count = i32::try_from(removed.count).unwrap_or(i32::MAX);
    Ok(PurgeInstancesResponse { deleted_instance_count, is_complete: Some(removed.is_complete) })
}

async fn these(hub: &Hub, ids: Vec<String>, recursive: bool) -> Result<Removed, Status> {
    let mut all = Removed { count: 0, is_complete: true };
    for id in ids {
        let removed = one(hub, &instance(&id)?, recursive).await?;
        all.count += removed.count;
        all.is_complete &= removed.is_complete;
    }
    Ok(all)
}

/// Removes one; with its children, before it, when `recursive`.
async fn one(hub: &Hub, id: &InstanceId, recursive: bool) -> Result<Removed, Status> {
    let mut all = Removed { count: 0, is_complete: true };
    let family = if recursive { family(hub, id).await? } else { vec![id.clone()] };
    // Those who were found last are the youngest.
    for member in family.iter().rev() {
        match hub.client.purge(member).await {
            Ok(()) => all.count += 1,
            Err(ClientError::Absent(_) | ClientError::NotEnded { .. }) => {}
            // It will be possible later.
            Err(ClientError::Engaged(_)) => all.is_complete = false,
            Err(error) => return Err(status::of(error)),
        }
    }
    Ok(all)
}

/// An ended instance and the ended children of its last run, theirs and so on. One that has not ended is alone: nothing is
/// taken from under it.
async fn family(hub: &Hub, id: &InstanceId) -> Result<Vec<InstanceId>, Status> {
    let (mut found, mut seen, mut looked) = (vec![id.clone()], BTreeSet::from([id.clone()]), 0);
    while let Some(member) = found.get(looked).cloned() {
        looked += 1;
        let record = hub.client.get(&member).await.map_err(status::of)?;
        let Some(record) = record.filter(|record| record.status.is_ended()) else { continue };
        for child in children(hub, &member, &record).await? {
            if seen.insert(child.clone()) && is_child(hub, &child, &member).await? {
                found.push(child);
            }
        }
    }
    Ok(found)
}

/// The ids that a run started children under.
async fn children(hub: &Hub, id: &InstanceId, record: &Record) -> Result<Vec<InstanceId>, Status> {
    let (mut reader, mut children) = (hub.client.history_of(id, record), Vec::new());
    while let Some(batches) = reader.next().await.map_err(status::of)? {
        for stored in batches {
            let unreadable = |_| Status::data_loss(format!("the history of '{id}' cannot be read"));
            for event in stored.batch.decode().map_err(unreadable)? {
                if let Some(EventType::SubOrchestrationInstanceCreated(created)) = event.event_type {
                    children.extend(InstanceId::new(created.instance_id));
                }
            }
        }
    }
    Ok(children)
}

/// Whether an instance has that parent: the id may have been given to somebody else meanwhile.
async fn is_child(hub: &Hub, id: &InstanceId, parent: &InstanceId) -> Result<bool, Status> {
    let record = hub.client.get(id).await.map_err(status::of)?;
    Ok(record.and_then(|record| record.parent).is_some_and(|found| found.instance == *parent))
}

async fn matching(
    hub: &Hub,
    filter: PurgeInstanceFilter,
    recursive: bool,
    limits: &Limits,
) -> Result<Removed, Status> {
    let asked = statuses("purgeInstanceFilter.runtimeStatus", &filter.runtime_status)?;
    let Some(statuses) = find::ended(&asked) else { return Ok(Removed { count: 0, is_complete: true }) };
    let query = Query {
        statuses,
        created_from: time("purgeInstanceFilter.createdTimeFrom", filter.created_time_from)?,
        created_to: time("purgeInstanceFilter.createdTimeTo", filter.created_time_to)?,
        page: PURGE_STEP,
        ..Query::default()
    };
    let wanted = filter.timeout.map(std::time::Duration::try_from).transpose();
    let wanted =
        wanted.map_err(|_| Status::invalid_argument("purgeInstanceFilter.timeout is negative or no time"))?;
    let until = hub.env().steady().after(wanted.unwrap_or(limits.purge_time).min(limits.purge_time));
    if recursive { families(hub, query, until).await } else { steps(hub, &query, until).await }
}

async fn steps(hub: &Hub, query: &Query, until: Steady) -> Result<Removed, Status> {
    let mut count = 0;
    loop {
        let purged = hub.client.purge_matching(query, PURGE_STEP).await.map_err(status::of)?;
        count += purged.count;
        if !purged.more {
            return Ok(Removed { count, is_complete: true });
        }
        if hub.env().steady() >= until {
            return Ok(Removed { count, is_complete: false });
        }
    }
}

async fn families(hub: &Hub, mut query: Query, until: Steady) -> Result<Removed, Status> {
    let mut all = Removed { count: 0, is_complete: true };
    loop {
        let page = hub.client.query(query.clone()).await.map_err(status::of)?;
        for (id, _) in &page.records {
            if hub.env().steady() >= until {
                return Ok(Removed { is_complete: false, ..all });
            }
            let removed = one(hub, id, true).await?;
            all.count += removed.count;
            all.is_complete &= removed.is_complete;
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(all),
        }
    }
}
