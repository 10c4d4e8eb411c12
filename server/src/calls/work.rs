//! What workers call: the stream of their work items, and their answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{self, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use tonic::Status;
use tonic::metadata::MetadataMap;

use dauer_core::model::{Filter, Queues, VersionRule};
use dauer_core::{InstanceId, MessageId};
use dauer_proto::wire::{GetWorkItemsRequest, WorkItemFilters};
use dauer_proto::{ActivityResponse, WorkItem, WorkerCapability};
use dauer_remote::{Brought, Worker};
use dauer_rpc::{ExecutedActivity, Executing, Resumed};

use crate::gate::header;
use crate::hub::Hub;
use crate::hubs::Hubs;
use crate::options::{JAVA_ITEMS_MAX, Limits};
use crate::status;

/// The name under which a worker comes again: SDKs of the Durable Task Scheduler send one, different for each process.
const WORKER_HEADER: &str = "workerid";

/// Sent by a worker that says what it executes before it opens its stream again: dauer's own.
const RESUMES_HEADER: &str = "dauer-resumes";

/// What clients in Java, Go and JavaScript call themselves.
const JAVA: &str = "grpc-java";
const GO: &str = "grpc-go";
const JAVASCRIPT: &str = "grpc-node-js";

/// The header by which workers of dauer's SDKs name the build of their program.
const BUILD: &str = "dauer-build";

/// The most bytes of a build id: it lies in the record of each instance that is stalled.
const BUILD_BYTES_MAX: usize = 100;

/// The items of one worker, until the hub is closed or the stream is old: then it is to come again.
pub(crate) fn items(
    hub: &Arc<Hub>,
    metadata: &MetadataMap,
    request: GetWorkItemsRequest,
    limits: &Limits,
) -> Result<BoxStream<'static, Result<WorkItem, Status>>, Status> {
    let open = hub.workers.figures().streams;
    if open >= limits.worker_streams {
        return Err(Status::resource_exhausted(format!(
            "the task hub '{}' has {open} streams of work items; at most {} are allowed",
            hub.name, limits.worker_streams
        )));
    }
    let worker = worker(metadata, request, limits);
    hub.mend(&worker);
    let items = hub.workers.connect(worker).map(Ok);
    let old = tokio::time::sleep(limits.connection_age);
    let items = items.take_until(old.boxed());
    // Never CANCELLED, after which older SDKs do not come again (behaviour 6).
    let end = stream::once(future::ready(Err(Status::unavailable("the stream is closed; open another"))));
    Ok(items.chain(end).boxed())
}

fn worker(metadata: &MetadataMap, request: GetWorkItemsRequest, limits: &Limits) -> Worker {
    let agent = header(metadata, "user-agent").unwrap_or_default();
    // Zero is no limit given, never none (behaviour 1.2); less makes no sense.
    let at_once = |given: i32| {
        usize::try_from(given).ok().filter(|given| *given > 0).unwrap_or(Worker::UNSPECIFIED_MAX)
    };
    let streams_history = request.capabilities.contains(&WorkerCapability::HistoryStreaming.into());
    Worker {
        queues: queues(request.work_item_filters),
        turns_max: at_once(request.max_concurrent_orchestration_work_items),
        activities_max: at_once(request.max_concurrent_activity_work_items),
        // Whatever it says of itself: it does one thing at a time.
        items_max: if agent.contains(JAVA) { JAVA_ITEMS_MAX } else { usize::MAX },
        names_tokens: !agent.contains(GO),
        name: header(metadata, WORKER_HEADER).map(Into::into),
        resumes: header(metadata, RESUMES_HEADER).is_some(),
        streams_history,
        // The JavaScript SDK reads whatever comes (behaviour 10).
        item_bytes_max: if agent.contains(JAVASCRIPT) { usize::MAX } else { limits.item_bytes },
        build: header(metadata, BUILD).filter(|build| build.len() <= BUILD_BYTES_MAX).map(Into::into),
    }
}

/// Without filters everything; with them, nothing of a kind that none is given for (behaviour 56).
fn queues(filters: Option<WorkItemFilters>) -> Queues {
    let Some(filters) = filters else { return Queues::default() };
    Queues {
        orchestrations: names(
            filters.orchestrations.into_iter().map(|filter| (filter.name, filter.versions)),
        ),
        activities: names(filters.activities.into_iter().map(|filter| (filter.name, filter.versions))),
        entities: names(filters.entities.into_iter().map(|filter| (filter.name, Vec::new()))),
    }
}

fn names(filters: impl Iterator<Item = (String, Vec<String>)>) -> Filter {
    let mut names = BTreeMap::<Arc<str>, VersionRule>::new();
    for (name, versions) in filters {
        let listed = versions.into_iter().map(Into::into);
        // A name that stands there twice is given both times.
        let rule = names.entry(name.into()).or_insert_with(|| VersionRule::Listed(Vec::new()));
        match rule {
            VersionRule::Listed(_) if listed.len() == 0 => *rule = VersionRule::Any,
            VersionRule::Listed(known) => known.extend(listed),
            VersionRule::Any => {}
        }
    }
    Filter::Names(Arc::new(names))
}

/// Takes the answer to an activity. It may come before any worker, and from a worker of another server of the hub.
pub(crate) async fn complete_activity(
    hubs: &Arc<Hubs>,
    hub: &Arc<Hub>,
    response: ActivityResponse,
) -> Result<(), Status> {
    if hub.has_never_had_a_host() {
        let exists = hub.exists(&hubs.store().await?).await.map_err(|refused| status::refusal(&refused))?;
        if !exists {
            return Ok(());
        }
        hubs.ensure_host(hub)?;
    }
    let brought = match hub.workers.complete_activity(response).await {
        Brought::Unnamed(response) => {
            let open = open_tasks(hub, &response).await?;
            hub.workers.complete_unnamed(response, &open).await
        }
        brought => brought,
    };
    match brought {
        Brought::NotTaken => Err(status::stopping()),
        Brought::Taken | Brought::Unnamed(_) => Ok(()),
    }
}

/// The open tasks of the instance that an answer names.
async fn open_tasks(hub: &Hub, response: &ActivityResponse) -> Result<Vec<MessageId>, Status> {
    let Ok(instance) = InstanceId::new(response.instance_id.as_str()) else { return Ok(Vec::new()) };
    let found = hub.client.hub().inspect(vec![instance]).await;
    let found = found.map_err(|refused| status::refusal(&refused))?;
    Ok(found.into_iter().flatten().flat_map(|inspection| inspection.tasks).map(|task| task.id).collect())
}

/// Notes what a worker executes that comes again. Its stream follows.
pub(crate) async fn resume(
    hubs: &Arc<Hubs>,
    hub: &Arc<Hub>,
    executing: Executing,
) -> Result<Resumed, Status> {
    hubs.ensure_host(hub)?;
    let Executing { worker, activities } = executing;
    // What is no instance was issued by no server.
    let tasks = activities.into_iter().filter_map(|ExecutedActivity { instance_id, completion_token }| {
        Some((InstanceId::new(instance_id).ok()?, completion_token))
    });
    let unknown = hub.workers.resume(&worker.into(), tasks.collect()).await;
    Ok(Resumed { unknown })
}

/// Entities are not there yet.
pub(crate) fn no_entities<T>() -> Result<T, Status> {
    Err(status::entities())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::model::{Kind, QueueKey};
    use dauer_proto::wire::{ActivityFilter, OrchestrationFilter};
    use tonic::metadata::MetadataValue;

    fn agent(name: &'static str) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        metadata.insert("user-agent", MetadataValue::from_static(name));
        metadata
    }

    /// behaviour-9, behaviour-10.
    #[test]
    fn what_a_worker_does_not_say_is_known_by_its_language() {
        let limits = Limits::default();
        let made = |name, request| worker(&agent(name), request, &limits);
        let java = made("grpc-java-netty/1.59.0", GetWorkItemsRequest::default());
        assert_eq!((java.items_max, java.item_bytes_max), (1, 4 * 1024 * 1024));
        let go = made("grpc-go/1.56.3", GetWorkItemsRequest::default());
        assert!(java.names_tokens && !go.names_tokens && go.items_max == usize::MAX);
        let js = made("grpc-node-js/1.14.0", GetWorkItemsRequest::default());
        assert_eq!((js.turns_max, js.activities_max, js.item_bytes_max), (100, 100, usize::MAX));
        let said = GetWorkItemsRequest {
            max_concurrent_orchestration_work_items: 7,
            max_concurrent_activity_work_items: -1,
            capabilities: vec![WorkerCapability::HistoryStreaming.into()],
            ..GetWorkItemsRequest::default()
        };
        let said = made("grpc-java-netty/1.59.0", said);
        assert_eq!((said.turns_max, said.activities_max, said.streams_history), (7, 100, true));
        assert!(!java.streams_history);
    }

    /// behaviour-56.
    #[test]
    fn filters_admit_what_they_name() {
        let orchestration = |name, version| QueueKey::new(Kind::Orchestration, name, version);
        let activity = |name, version| QueueKey::new(Kind::Activity, name, version);
        let all = queues(None);
        assert!(all.admits(&orchestration("a", None)) && all.admits(&activity("a", Some("1"))));
        let none = queues(Some(WorkItemFilters::default()));
        assert!(!none.admits(&orchestration("a", None)) && !none.admits(&activity("a", None)));
        let filter = |name: &str, versions: &[&str]| OrchestrationFilter {
            name: name.to_owned(),
            versions: versions.iter().map(|version| (*version).to_owned()).collect(),
        };
        let some = queues(Some(WorkItemFilters {
            orchestrations: vec![
                filter("a", &["1"]),
                filter("a", &["2"]),
                filter("b", &["1"]),
                filter("b", &[]),
            ],
            activities: vec![ActivityFilter { name: "c".into(), versions: vec!["1".into()] }],
            entities: Vec::new(),
        }));
        assert!(some.admits(&orchestration("a", Some("1"))) && some.admits(&orchestration("a", Some("2"))));
        assert!(!some.admits(&orchestration("a", None)) && !some.admits(&orchestration("A", Some("1"))));
        assert!(some.admits(&orchestration("b", None)) && some.admits(&orchestration("b", Some("9"))));
        assert!(some.admits(&activity("c", None)) && !some.admits(&activity("c", Some("2"))));
    }
}
