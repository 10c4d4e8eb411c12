//! Removing instances.

use dauer_proto::wire::{InstanceBatch, PurgeInstanceFilter, PurgeInstancesRequest, PurgeInstancesResponse};
use dauer_proto::{OrchestrationStatus, PurgeRequest, action};
use tonic::{Code, Status};

use super::{Client, Fixture};
use crate::support::worker::{Worker, complete};
use crate::support::{ended, get, refused, start, until};

async fn purge(client: &Client, what: PurgeRequest, recursive: bool) -> Result<(i32, Option<bool>), Status> {
    let request = PurgeInstancesRequest { request: Some(what), recursive, ..Default::default() };
    let PurgeInstancesResponse { deleted_instance_count, is_complete } =
        client.clone().purge_instances(request).await?.into_inner();
    Ok((deleted_instance_count, is_complete))
}

fn one(id: &str) -> PurgeRequest {
    PurgeRequest::InstanceId(id.to_owned())
}

async fn exists(client: &Client, id: &str) -> bool {
    client.clone().get_instance(get(id)).await.unwrap().into_inner().exists
}

/// behaviour-52.
pub(crate) async fn purge_instances(fixture: &Fixture) {
    by_id(fixture).await;
    with_children(fixture).await;
    by_filter(fixture).await;
    let client = &fixture.client;
    let nothing = client.clone().purge_instances(PurgeInstancesRequest::default()).await;
    assert_eq!(refused(nothing).0, Code::InvalidArgument);
    assert_eq!(refused(purge(client, one(&"x".repeat(101)), false).await).0, Code::InvalidArgument);
    let many = InstanceBatch { instance_ids: vec!["a".into(); 501] };
    let (code, text) = refused(purge(client, PurgeRequest::InstanceBatch(many), false).await);
    assert_eq!((code, text.contains("at most 500")), (Code::InvalidArgument, true), "{text}");
}

async fn by_id(Fixture { client, .. }: &Fixture) {
    for id in ["a", "b", "c"] {
        client.clone().start_instance(start(id, "one")).await.unwrap();
    }
    let mut worker = Worker::connect(client).await;
    worker.finish("1").await;
    worker.finish("1").await;
    for id in ["a", "b"] {
        ended(client, id).await;
    }
    assert_eq!(purge(client, one("absent"), false).await.unwrap(), (0, Some(true)));
    assert_eq!(purge(client, one("c"), false).await.unwrap(), (0, Some(true)), "it has not ended");
    assert_eq!(purge(client, one("a"), false).await.unwrap(), (1, Some(true)));
    assert!(!exists(client, "a").await && exists(client, "c").await);
    let batch = InstanceBatch { instance_ids: ["a", "b", "c"].map(str::to_owned).to_vec() };
    assert_eq!(purge(client, PurgeRequest::InstanceBatch(batch), false).await.unwrap(), (1, Some(true)));
    worker.finish("1").await;
    ended(client, "c").await;
    assert_eq!(purge(client, one("c"), false).await.unwrap(), (1, Some(true)));
}

/// Ends a parent, its child and its grandchild. Their ids begin with the parent's.
async fn family(client: &Client, worker: &mut Worker, parent: &str) {
    client.clone().start_instance(start(parent, "parent")).await.unwrap();
    let mut id = parent.to_owned();
    let mut open = Vec::new();
    for _ in 0..2 {
        let turn = worker.turn().await;
        assert_eq!(turn.request.instance_id, id);
        id.push_str("-child");
        worker.answer(turn.answer(vec![action::create_sub_orchestration(1, &id, "child", None)])).await;
        open.push(turn);
    }
    worker.finish("1").await;
    for _ in open {
        let turn = worker.turn().await;
        worker.answer(turn.answer(vec![complete(2, "1")])).await;
    }
    ended(client, parent).await;
}

async fn with_children(Fixture { client, .. }: &Fixture) {
    let mut worker = Worker::connect(client).await;
    family(client, &mut worker, "p").await;
    assert_eq!(purge(client, one("p"), true).await.unwrap(), (3, Some(true)));
    for id in ["p", "p-child", "p-child-child"] {
        assert!(!exists(client, id).await, "{id}");
    }
    family(client, &mut worker, "q").await;
    assert_eq!(purge(client, one("q"), false).await.unwrap(), (1, Some(true)));
    assert!(exists(client, "q-child").await && exists(client, "q-child-child").await);
    // Somebody else's instance that has the id of a child by now stays.
    family(client, &mut worker, "r").await;
    client.clone().start_instance(start("r-child", "one")).await.unwrap();
    worker.finish("1").await;
    ended(client, "r-child").await;
    assert_eq!(purge(client, one("r"), true).await.unwrap(), (1, Some(true)));
    assert!(exists(client, "r-child").await);
}

async fn by_filter(Fixture { client, .. }: &Fixture) {
    let filter = |statuses: &[OrchestrationStatus]| PurgeInstanceFilter {
        runtime_status: statuses.iter().map(|status| (*status).into()).collect(),
        ..Default::default()
    };
    let matching = PurgeRequest::PurgeInstanceFilter;
    client.clone().start_instance(start("living", "one")).await.unwrap();
    assert_eq!(
        purge(client, matching(filter(&[OrchestrationStatus::Pending])), false).await.unwrap(),
        (0, Some(true))
    );
    assert_eq!(
        purge(client, matching(filter(&[OrchestrationStatus::Failed])), false).await.unwrap(),
        (0, Some(true))
    );
    // What is left of the families above: a child and a grandchild of "q", what took an id of the family of "r", its
    // grandchild.
    let old = prost_types::Timestamp { seconds: 1, nanos: 0 };
    let before = PurgeInstanceFilter { created_time_to: Some(old), ..filter(&[]) };
    assert_eq!(purge(client, matching(before), false).await.unwrap(), (0, Some(true)));
    let negative = prost_types::Duration { seconds: -1, nanos: 0 };
    let wrong = PurgeInstanceFilter { timeout: Some(negative), ..filter(&[]) };
    assert_eq!(refused(purge(client, matching(wrong), false).await).0, Code::InvalidArgument);
    let all = PurgeInstanceFilter { created_time_from: Some(old), ..filter(&[]) };
    assert_eq!(purge(client, matching(all), true).await.unwrap(), (4, Some(true)));
    assert!(exists(client, "living").await);
    // More than one step of it, and no time: it says that there is more.
    let mut worker = Worker::connect(client).await;
    for number in 0..150 {
        client.clone().start_instance(start(&format!("n{number}"), "one")).await.unwrap();
    }
    for _ in 0..151 {
        worker.finish("1").await;
    }
    let short = PurgeInstanceFilter { timeout: Some(prost_types::Duration::default()), ..filter(&[]) };
    let first = purge(client, matching(short), false).await.unwrap();
    assert_eq!((first.0 > 0 && first.0 < 151, first.1), (true, Some(false)), "{first:?}");
    until(|| async {
        (purge(client, matching(filter(&[])), false).await.unwrap().1 == Some(true)).then_some(())
    })
    .await;
    assert!(!exists(client, "living").await && !exists(client, "n149").await);
}
