//! Queries and lists.

use dauer_proto::OrchestrationStatus;
use dauer_proto::wire::{
    InstanceQuery, ListInstanceIdsRequest, QueryInstancesRequest, QueryInstancesResponse,
};
use tonic::{Code, Status};

use super::{Client, Fixture};
use crate::support::worker::Worker;
use crate::support::{Running, ended, refused, start, state};

async fn query(client: &Client, query: InstanceQuery) -> Result<QueryInstancesResponse, Status> {
    let request = QueryInstancesRequest { query: Some(query) };
    client.clone().query_instances(request).await.map(tonic::Response::into_inner)
}

fn ids(response: &QueryInstancesResponse) -> Vec<&str> {
    response.orchestration_state.iter().map(|state| state.instance_id.as_str()).collect()
}

/// Instances, the first so many of which have ended.
async fn instances(client: &Client, all: &[&str], ended_count: usize) {
    for id in all {
        let input = Some(format!("\"{id}\""));
        let request = dauer_proto::CreateInstanceRequest { input, ..start(id, "one") };
        client.clone().start_instance(request).await.unwrap();
    }
    let mut worker = Worker::connect(client).await;
    for id in &all[..ended_count] {
        worker.finish("1").await;
        ended(client, id).await;
    }
}

/// behaviour-2, behaviour-50: oldest first, page by page, no token at the end, hubs by header only.
pub(crate) async fn query_instances(fixture: &Fixture) {
    let client = &fixture.client;
    assert_eq!(query(client, InstanceQuery::default()).await.unwrap(), QueryInstancesResponse::default());
    let nothing = client.clone().query_instances(QueryInstancesRequest::default()).await.unwrap();
    assert!(nothing.into_inner().continuation_token.is_none());
    instances(client, &["a1", "a2", "b1", "b2", "b3"], 2).await;
    let names = InstanceQuery { task_hub_names: vec!["elsewhere".into()], ..Default::default() };
    assert_eq!(ids(&query(client, names).await.unwrap()), ["a1", "a2", "b1", "b2", "b3"]);
    for unlimited in [0, i32::MAX, -1] {
        let all = InstanceQuery { max_instance_count: unlimited, ..Default::default() };
        assert_eq!(query(client, all).await.unwrap().orchestration_state.len(), 5);
    }
    let (mut found, mut tokens, mut token) = (Vec::new(), Vec::new(), Some(String::new()));
    while let Some(continuation_token) = token {
        let page = InstanceQuery {
            max_instance_count: 2,
            continuation_token: Some(continuation_token),
            fetch_inputs_and_outputs: true,
            ..Default::default()
        };
        let page = query(client, page).await.unwrap();
        found.extend(page.orchestration_state);
        token = page.continuation_token;
        tokens.extend(token.clone());
    }
    assert_eq!(
        found.iter().map(|state| state.instance_id.as_str()).collect::<Vec<_>>(),
        ["a1", "a2", "b1", "b2", "b3"]
    );
    assert_eq!((tokens.len(), tokens[0] != tokens[1]), (2, true), "no token twice, and none at the end");
    assert_eq!((found[0].input.as_deref(), found[0].output.as_deref()), (Some("\"a1\""), Some("1")));
    let status = |status: OrchestrationStatus| InstanceQuery {
        runtime_status: vec![status.into()],
        ..Default::default()
    };
    let completed = query(client, status(OrchestrationStatus::Completed)).await.unwrap();
    assert_eq!(ids(&completed), ["a1", "a2"]);
    assert_eq!(
        (&completed.orchestration_state[0].input, &completed.orchestration_state[0].output),
        (&None, &None)
    );
    let prefix = InstanceQuery { instance_id_prefix: Some("b".into()), ..Default::default() };
    assert_eq!(ids(&query(client, prefix).await.unwrap()), ["b1", "b2", "b3"]);
    let at = state(client, "b1").await.created_timestamp;
    let from = InstanceQuery { created_time_from: at, ..Default::default() };
    assert!(ids(&query(client, from).await.unwrap()).contains(&"b1"), "the time itself is in");
    let to = InstanceQuery { created_time_to: at, ..Default::default() };
    assert!(!ids(&query(client, to).await.unwrap()).contains(&"b1"), "the time itself is out");
    let wrong = InstanceQuery { continuation_token: Some("wrong".into()), ..Default::default() };
    let (code, text) = refused(query(client, wrong).await);
    assert_eq!((code, text.contains("continuationToken")), (Code::InvalidArgument, true), "{text}");
    let wrong = InstanceQuery { runtime_status: vec![99], ..Default::default() };
    assert_eq!(refused(query(client, wrong).await).0, Code::InvalidArgument);
}

/// behaviour-10, behaviour-50: a page ends where clients stop reading, and the next one goes on there.
#[tokio::test]
async fn a_page_is_no_larger_than_clients_read() {
    let server = Running::with(|options| options.limits.page_bytes = 3_000).await;
    let client = server.client().await;
    let all = ["a", "b", "c", "d", "e"];
    for id in all {
        client.clone().start_instance(start(id, "one")).await.unwrap();
    }
    let mut worker = Worker::connect(&client).await;
    for id in all {
        worker.finish(&"x".repeat(1_000)).await;
        ended(&client, id).await;
    }
    let (mut found, mut pages, mut token) = (Vec::new(), 0, Some(String::new()));
    while let Some(continuation_token) = token {
        let continuation_token = Some(continuation_token);
        let page = InstanceQuery { continuation_token, fetch_inputs_and_outputs: true, ..Default::default() };
        let page = query(&client, page).await.unwrap();
        assert!(prost::Message::encoded_len(&page) <= 3_100);
        found.extend(page.orchestration_state.into_iter().map(|state| state.instance_id));
        (token, pages) = (page.continuation_token, pages + 1);
    }
    assert_eq!((found, pages), (all.map(str::to_owned).to_vec(), 3));
    server.stop().await.unwrap();
}

/// behaviour-51: ended ones only, by the time of their end; the token has the last id in it.
pub(crate) async fn list_instance_ids(fixture: &Fixture) {
    let client = &fixture.client;
    let list =
        async |request| client.clone().list_instance_ids(request).await.map(tonic::Response::into_inner);
    instances(client, &["a", "b", "c", "d"], 3).await;
    let page = |key: &str| ListInstanceIdsRequest {
        page_size: 2,
        last_instance_key: Some(key.to_owned()),
        ..Default::default()
    };
    let first = list(page("")).await.unwrap();
    assert_eq!(first.instance_ids, ["a", "b"]);
    let key = first.last_instance_key.unwrap();
    assert!(key.contains('b'), "{key}");
    let second = list(page(&key)).await.unwrap();
    assert_eq!((second.instance_ids, second.last_instance_key), (vec!["c".to_owned()], None));
    assert_eq!(list(ListInstanceIdsRequest::default()).await.unwrap().instance_ids.len(), 3);
    let status = |status: OrchestrationStatus| ListInstanceIdsRequest {
        runtime_status: vec![status.into()],
        ..Default::default()
    };
    assert_eq!(list(status(OrchestrationStatus::Pending)).await.unwrap(), Default::default());
    assert_eq!(list(status(OrchestrationStatus::Failed)).await.unwrap(), Default::default());
    let from = state(client, "b").await.completed_timestamp;
    let window = ListInstanceIdsRequest { completed_time_from: from, ..Default::default() };
    assert!(list(window).await.unwrap().instance_ids.contains(&"b".to_owned()));
    let later = from.map(|from| dauer_proto::Timestamp { seconds: from.seconds + 60, ..from });
    let window = ListInstanceIdsRequest { completed_time_from: later, ..Default::default() };
    assert_eq!(list(window).await.unwrap(), Default::default());
    let window = ListInstanceIdsRequest { completed_time_to: from, ..Default::default() };
    assert!(!list(window).await.unwrap().instance_ids.contains(&"b".to_owned()));
    assert_eq!(refused(list(page("wrong")).await).0, Code::InvalidArgument);
    let wrong = ListInstanceIdsRequest { runtime_status: vec![99], ..Default::default() };
    assert_eq!(refused(list(wrong).await).0, Code::InvalidArgument);
}
