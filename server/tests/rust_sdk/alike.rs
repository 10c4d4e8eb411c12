//! The same code, once on a store in this process and once over a server: it comes to the same.

use dauer::{ClientError, Hub, RawClientError, Refused, Reuse, Status};
use dauer_proto::event::kind_name;
use futures::TryStreamExt;

use crate::code::{ASKS, CHAIN, COUNTDOWN, FAILS, FAMILY, GO, worker};
use crate::support::{SOON, Served, Working};

/// What became of an instance, in a line: status, output or failure, custom status, and the kinds of its events.
async fn told(hub: &Hub, id: &str) -> String {
    let client = hub.client();
    let id = dauer::InstanceId::new(id).unwrap();
    let instance = client.get(&id).await.unwrap().unwrap();
    let events: Vec<_> = client.history(&id).await.unwrap().try_collect().await.unwrap();
    let kinds = events.iter().map(|event| format!("{}{}", kind_name(event), event.event_id));
    // How many answers come with one turn, and in which order those come that are waited for at once, is chance.
    let mut kinds: Vec<_> = kinds.filter(|kind| !kind.starts_with("OrchestratorStarted")).collect();
    kinds.sort();
    let output = instance.record().details.output().map(|output| output.as_str().to_owned());
    let failure = instance.failure().map(|failure| format!("{}: {failure}", failure.kind));
    let status: Option<String> = instance.custom_status().unwrap();
    let name =
        (instance.name().to_owned(), instance.parent().cloned(), instance.tag("zone").map(str::to_owned));
    format!("{name:?} {:?} {output:?} {failure:?} {status:?} {kinds:?}", instance.status())
}

/// A day in the life of a program.
async fn day(hub: &Hub) -> Vec<String> {
    let client = hub.client();
    let working = Working::start(worker(hub));
    let chain = client.start(CHAIN, &1).id("chain").tag("zone", "north").await.unwrap();
    assert_eq!(chain.output_within(SOON).await.unwrap(), 4);
    let family = client.start(FAMILY, &3).id("family").await.unwrap();
    assert_eq!(family.output_within(SOON).await.unwrap(), 12);
    let asks = client.start(ASKS, &0).id("asks").await.unwrap();
    asks.started_within(SOON).await.unwrap();
    asks.raise(GO, &"now".to_owned()).await.unwrap();
    assert_eq!(asks.output_within(SOON).await.unwrap(), "now");
    let countdown = client.start(COUNTDOWN, &0).id("countdown").await.unwrap();
    assert_eq!(countdown.output_within(SOON).await.unwrap(), 4);
    let fails = client.start(FAILS, &7).id("fails").await.unwrap();
    let failed = fails.output_within(SOON).await.unwrap_err();
    assert!(matches!(failed, ClientError::Failed { .. }), "{failed}");
    let ended = client.start(ASKS, &0).id("ended").await.unwrap();
    ended.started_within(SOON).await.unwrap();
    ended.suspend("wait").await.unwrap();
    ended.terminate("enough").await.unwrap();
    let ended = ended.output_within(SOON).await.unwrap_err();
    assert!(matches!(ended, ClientError::Ended { status: Status::Terminated, .. }), "{ended}");
    working.stop().await;
    let mut lines = Vec::new();
    for id in ["chain", "family", "asks", "countdown", "fails", "ended"] {
        lines.push(told(hub, id).await);
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_code_comes_to_the_same_over_a_server() {
    let inside = day(&dauer::open("memory:").unwrap()).await;
    let served = Served::new().await;
    let outside = day(&served.hub()).await;
    for (inside, outside) in inside.iter().zip(&outside) {
        assert_eq!(outside, inside);
    }
    served.stop().await;
}

/// What each mistake is called.
async fn mistakes(hub: &Hub) -> Vec<String> {
    let client = hub.client();
    let name = |error: ClientError| match error {
        ClientError::Client(RawClientError::Refused(Refused::Exists(status))) => format!("exists {status:?}"),
        ClientError::Client(RawClientError::NotEnded { status, .. }) => format!("not ended, {status:?}"),
        ClientError::Client(RawClientError::NotFailed { status, .. }) => format!("not failed, {status:?}"),
        ClientError::Client(error) => format!("{error:?}"),
        other => format!("{other:?}"),
    };
    let working = Working::start(worker(hub));
    let asks = client.start(ASKS, &0).id("asks").await.unwrap();
    asks.started_within(SOON).await.unwrap();
    let nobody = client.handle(ASKS, "nobody").unwrap();
    let moment = std::time::Duration::from_millis(20);
    let never = Reuse { replaceable: Vec::new() };
    let mut found = vec![
        client.start(ASKS, &0).id("asks").await.map(drop).unwrap_err(),
        client.start(ASKS, &0).id("").await.map(drop).unwrap_err(),
        client.start(ASKS, &0).id("x".repeat(101)).await.map(drop).unwrap_err(),
        asks.purge().await.unwrap_err(),
        asks.rewind("why not").await.unwrap_err(),
        asks.restart().await.unwrap_err(),
        asks.restart_as("asks").await.map(drop).unwrap_err(),
        asks.ended_within(moment).await.map(drop).unwrap_err(),
        nobody.raise(GO, &String::new()).await.unwrap_err(),
        nobody.suspend("x").await.unwrap_err(),
        nobody.resume("x").await.unwrap_err(),
        nobody.terminate("x").await.unwrap_err(),
        nobody.rewind("x").await.unwrap_err(),
        nobody.restart().await.unwrap_err(),
        nobody.restart_as("other").await.map(drop).unwrap_err(),
        nobody.purge().await.unwrap_err(),
        nobody.history().await.map(drop).unwrap_err(),
        nobody.ended_within(moment).await.map(drop).unwrap_err(),
        client.query().after("nonsense").page().await.map(drop).unwrap_err(),
        client.query().page_size(0).page().await.map(drop).unwrap_err(),
    ];
    asks.raise(GO, &"now".to_owned()).await.unwrap();
    asks.output_within(SOON).await.unwrap();
    found.push(client.start(ASKS, &0).id("asks").reuse(never).await.map(drop).unwrap_err());
    found.push(asks.rewind("why not").await.unwrap_err());
    assert!(asks.raise(GO, &"again".to_owned()).await.is_ok(), "one that has ended does not mind");
    working.stop().await;
    found.into_iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_called_the_same_over_a_server() {
    let inside = mistakes(&dauer::open("memory:").unwrap()).await;
    let served = Served::new().await;
    let outside = mistakes(&served.hub()).await;
    for (inside, outside) in inside.iter().zip(&outside) {
        assert_eq!(outside, inside);
    }
    served.stop().await;
}
