//! dauer's own management service: calls that the Durable Task protocol does not have.

use prost::Message as _;
use tonic::{Request, Response, Status};

use dauer_core::model::{Record, Trouble as Stalled, TroubleKind as StalledKind};
use dauer_core::{HubName, InstanceId};
use dauer_proto::time;
use dauer_rpc::management::management_server::Management;
use dauer_rpc::management::{
    Entity, Holder, HubsRequest, HubsResponse, InspectRequest, InspectResponse, Inspection, Instance,
    ListRequest, ListResponse, OpenTask, Order as WireOrder, RetryRequest, RetryResponse, Session,
    SessionsRequest, SessionsResponse, Trouble, TroubleKind, WaitingClass as WireClass, WaitingMessage,
};
use dauer_store::{Control, Order, Query, SessionInfo, Waiting, WaitingClass};

use crate::calls::state::{self, Payloads};
use crate::calls::{find, statuses, time as stamp};
use crate::gate::header;
use crate::hub::Hub;
use crate::options::Limits;
use crate::service::Calls;
use crate::status;

/// Ids that one `Inspect` may name. Each costs two reads of the store, and its answer has up to 200 messages and tasks.
const INSPECT_IDS_MAX: usize = 100;

/// Ids that one `Retry` may name. All of them are one write.
const RETRY_IDS_MAX: usize = 500;

#[tonic::async_trait]
impl Management for Calls {
    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let hub = self.hub(&request).await?;
        list(&hub, request.into_inner(), &self.limits).await.map(Response::new)
    }

    async fn inspect(&self, request: Request<InspectRequest>) -> Result<Response<InspectResponse>, Status> {
        let hub = self.hub(&request).await?;
        inspect(&hub, request.into_inner(), &self.limits).await.map(Response::new)
    }

    async fn sessions(
        &self,
        request: Request<SessionsRequest>,
    ) -> Result<Response<SessionsResponse>, Status> {
        let hub = self.hub(&request).await?;
        let sessions = hub.client.sessions().await.map_err(status::of)?;
        let sessions = sessions.into_iter().map(|found| session(&hub, found)).collect();
        Ok(Response::new(SessionsResponse { sessions }))
    }

    async fn hubs(&self, request: Request<HubsRequest>) -> Result<Response<HubsResponse>, Status> {
        let there: Vec<HubName> = match self.gate.hubs() {
            Some(listed) => listed.iter().cloned().collect(),
            None => {
                let stored = self.hubs.store().await?.hubs().await;
                stored.map_err(|refused| status::refusal(&refused))?
            }
        };
        // A token of one hub does not show the names of the others.
        let authorization = header(request.metadata(), "authorization");
        let usable = |name: &&HubName| self.gate.admit(authorization, Some(name.as_str().as_bytes())).is_ok();
        let names = there.iter().filter(usable).map(ToString::to_string).collect();
        Ok(Response::new(HubsResponse { names }))
    }

    async fn retry(&self, request: Request<RetryRequest>) -> Result<Response<RetryResponse>, Status> {
        let hub = self.hub(&request).await?;
        let ids = request.into_inner().instance_ids;
        if ids.len() > RETRY_IDS_MAX {
            return Err(status::too_many("instance_ids", ids.len(), RETRY_IDS_MAX));
        }
        let ids = ids.into_iter().map(InstanceId::new).collect::<Result<Vec<_>, _>>();
        let ids = ids.map_err(|error| status::name(&error))?;
        let count = hub.client.retry_ids(&ids).await.map_err(status::of)?;
        Ok(Response::new(RetryResponse { count: count as u64 }))
    }
}

/// A page of instances. The store applies every condition, so that a page is short only for its bytes.
async fn list(hub: &Hub, request: ListRequest, limits: &Limits) -> Result<ListResponse, Status> {
    let order = match WireOrder::try_from(request.order) {
        Ok(WireOrder::OldestFirst) => Order::OldestFirst,
        Ok(WireOrder::NewestFirst) => Order::NewestFirst,
        Err(_) => {
            return Err(Status::invalid_argument(format!(
                "order is {}, which this server does not know; use a server as new as the client",
                request.order
            )));
        }
    };
    let wanted = usize::try_from(request.page).ok().filter(|count| *count > 0);
    let query = Query {
        statuses: statuses("statuses", &request.statuses)?,
        created_from: stamp("created_from", request.created_from)?,
        created_to: stamp("created_to", request.created_to)?,
        name: request.name.map(Into::into),
        prefix: request.prefix.map(Into::into),
        tags: request.tags.into_iter().collect(),
        stalled: request.stalled,
        entities: request.entities,
        order,
        page: wanted.unwrap_or(limits.page_instances).min(limits.page_instances),
        after: request.after.filter(|after| !after.is_empty()),
    };
    let page = hub.client.query(query).await.map_err(status::of)?;
    let keys = find::keys(&page.records);
    let mut instances = Vec::with_capacity(page.records.len());
    for (id, record) in page.records {
        instances.push(instance(hub, id, record).await?);
    }
    let next = find::cut(&mut instances, &keys, (order, limits.page_bytes)).or(page.next);
    let lag_ms = u64::try_from(page.lag.as_millis()).unwrap_or(u64::MAX);
    Ok(ListResponse { instances, next, lag_ms })
}

/// Instances with their holders, waiting messages and open tasks.
async fn inspect(hub: &Hub, request: InspectRequest, limits: &Limits) -> Result<InspectResponse, Status> {
    if request.instance_ids.len() > INSPECT_IDS_MAX {
        return Err(Status::invalid_argument(format!(
            "instance_ids has {} ids, and {INSPECT_IDS_MAX} are allowed; ask in several calls",
            request.instance_ids.len()
        )));
    }
    let (mut instances, mut bytes) = (Vec::with_capacity(request.instance_ids.len()), 0);
    for id in request.instance_ids {
        let id = InstanceId::new(id).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let record = hub.client.get(&id).await.map_err(status::of)?;
        let seen = hub.client.inspect(&id).await.map_err(status::of)?;
        let (Some(record), Some(seen)) = (record, seen) else { continue };
        let inspection = Inspection {
            instance: Some(instance(hub, id, record).await?),
            now: Some(time::from_millis(seen.now.0)),
            holder: seen.holder.map(holder),
            ready_at: seen.ready_at.map(|at| time::from_millis(at.0)),
            waiting: seen.waiting,
            messages: seen.messages.iter().map(waiting).collect(),
            open: seen.open,
            tasks: seen.tasks.into_iter().map(task).collect(),
        };
        bytes += inspection.encoded_len();
        // One instance alone is never too large.
        if bytes > limits.page_bytes && !instances.is_empty() {
            return Err(Status::resource_exhausted(format!(
                "the answer has more than {} bytes after {} of the ids; ask in several calls",
                limits.page_bytes,
                instances.len()
            )));
        }
        instances.push(inspection);
    }
    Ok(InspectResponse { instances })
}

fn session(hub: &Hub, session: SessionInfo) -> Session {
    let workers = hub.workers_of(&session.host);
    Session {
        id: format!("{:032x}", session.id.0),
        host: session.host.to_string(),
        expires_at: Some(time::from_millis(session.expires_at.0)),
        lives: session.lives,
        runs_code: Some(session.runs_code),
        workers: workers.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
    }
}

fn holder(holder: dauer_store::Holder) -> Holder {
    let dauer_store::Holder { session, host, lives } = holder;
    Holder { session: format!("{:032x}", session.0), host: host.map(|host| host.to_string()), lives }
}

fn waiting(message: &Waiting) -> WaitingMessage {
    let class = match message.class {
        WaitingClass::Start => WireClass::Start,
        WaitingClass::Replacement => WireClass::Replacement,
        WaitingClass::Rewind => WireClass::Rewind,
        WaitingClass::Control(Control::Suspend) => WireClass::Suspend,
        WaitingClass::Control(Control::Resume) => WireClass::Resume,
        WaitingClass::Control(Control::Terminate) => WireClass::Terminate,
        WaitingClass::Ordinary => WireClass::Ordinary,
    };
    WaitingMessage {
        id: message.id.to_string(),
        class: class.into(),
        visible_at: Some(time::from_millis(message.visible_at.0)),
    }
}

fn task(task: dauer_store::OpenTask) -> OpenTask {
    OpenTask {
        id: task.id.to_string(),
        event_id: task.event_id,
        name: task.queue.name.to_string(),
        version: task.queue.version.as_deref().map(str::to_owned),
        holder: task.holder.map(holder),
        attempts: task.attempts,
        not_before: Some(time::from_millis(task.not_before.0)),
        withdrawn: task.withdrawn,
        worker_deaths: task.deaths.workers,
        server_deaths: task.deaths.servers,
        trial_deaths: task.deaths.trials,
        marked_at: task.mark.map(|at| time::from_millis(at.0)),
    }
}

async fn instance(hub: &Hub, id: InstanceId, record: Record) -> Result<Instance, Status> {
    let entity = record.details.entity().map(|entity| Entity {
        state: entity.state.as_ref().map(|state| state.as_str().to_owned()),
        locked_by: entity.lock.as_ref().map(|lock| lock.owner.to_string()),
    });
    Ok(Instance {
        generation: record.generation,
        revision: record.revision.0,
        history_events: record.history_len,
        history_bytes: record.history_bytes,
        attempts: record.attempts,
        worker_deaths: record.deaths.workers,
        server_deaths: record.deaths.servers,
        trial_deaths: record.deaths.trials,
        trouble: record.trouble.as_deref().map(trouble),
        entity,
        state: Some(state::told(&hub.client, (&id, record), Payloads::Outputs).await?),
    })
}

fn trouble(stalled: &Stalled) -> Trouble {
    let kind = match stalled.kind {
        StalledKind::Mismatch => TroubleKind::Mismatch,
        StalledKind::Panic => TroubleKind::Panic,
        StalledKind::UnknownName => TroubleKind::UnknownName,
        StalledKind::Undecodable => TroubleKind::Undecodable,
        StalledKind::NotDurable => TroubleKind::NotDurable,
        StalledKind::InvalidAnswer => TroubleKind::InvalidAnswer,
        StalledKind::TooLarge => TroubleKind::TooLarge,
        StalledKind::HostDied => TroubleKind::HostDied,
        _ => TroubleKind::Unspecified,
    };
    Trouble {
        kind: kind.into(),
        reason: stalled.reason.clone(),
        since: Some(time::from_millis(stalled.since.0)),
        attempts: stalled.attempts,
        build: stalled.build.as_deref().map(str::to_owned),
    }
}
