//! Clients over a server: starts, queries, hubs, tokens, codecs.

use dauer::{
    ClientError, CodecError, HubName, InstanceId, PayloadCodec, RawClientError, RemoteError, Server, Status,
};
use futures::TryStreamExt;

use crate::code::{ASKS, CHAIN, GO, worker};
use crate::support::{SOON, Served, Working};

async fn ids(query: dauer::QueryCall) -> Vec<String> {
    let found: Vec<_> = query.stream().try_collect().await.unwrap();
    found.iter().map(|instance| instance.id().to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_repeated_is_the_same_start() {
    let served = Served::new().await;
    let client = served.hub().client();
    let first = client.start(ASKS, &1).request_id("cart-4711").await.unwrap();
    let again = client.start(ASKS, &2).request_id("cart-4711").await.unwrap();
    assert_eq!(first.id(), again.id());
    let inside = served.inside().client();
    let same = inside.start(ASKS, &3).request_id("cart-4711").await.unwrap();
    assert_eq!(first.id(), same.id(), "a client of the store gives the request the same id");
    assert_eq!(ids(inside.query()).await.len(), 1);
    let refused = client.start(ASKS, &1).id(first.id().as_str()).request_id("another").await;
    let refused = refused.map(drop).unwrap_err();
    assert!(matches!(refused, ClientError::Client(RawClientError::Refused(_))), "{refused}");
    served.stop().await;
}

/// Pages in both orders, with every condition.
#[tokio::test(flavor = "multi_thread")]
async fn queries_find_what_matches_page_by_page() {
    let served = Served::new().await;
    let client = served.hub().client();
    for number in 0..7 {
        let zone = if number % 2 == 0 { "north" } else { "south" };
        let start = client.start(ASKS, &number).id(format!("a{number}")).tag("zone", zone);
        start.await.unwrap();
    }
    client.start(CHAIN, &1).id("b0").await.unwrap();
    assert_eq!(ids(client.query().page_size(2)).await, ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "b0"]);
    assert_eq!(ids(client.query().name("chain")).await, ["b0"]);
    assert_eq!(ids(client.query().tag("zone", "south").page_size(2)).await, ["a1", "a3", "a5"]);
    assert_eq!(ids(client.query().id_prefix("b")).await, ["b0"]);
    assert_eq!(ids(client.query().status(Status::Completed)).await, Vec::<String>::new());
    assert_eq!(
        ids(client.query().newest_first().page_size(3)).await,
        ["b0", "a6", "a5", "a4", "a3", "a2", "a1", "a0"]
    );
    let created = client.get(&InstanceId::new("a3").unwrap()).await.unwrap().unwrap().created();
    assert!(ids(client.query().created_from(created)).await.contains(&"a3".to_owned()));
    assert!(!ids(client.query().created_to(created)).await.contains(&"a3".to_owned()));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_removes_what_has_ended_and_matches() {
    let served = Served::new().await;
    let hub = served.hub();
    let client = hub.client();
    let working = Working::start(worker(&hub));
    for number in 0..5 {
        let zone = if number == 0 { "north" } else { "south" };
        let chain =
            client.start(CHAIN, &number).id(format!("chain-{number}")).tag("zone", zone).await.unwrap();
        chain.output_within(SOON).await.unwrap();
    }
    client.start(ASKS, &0).id("living").tag("zone", "south").await.unwrap();
    let some = client.query().tag("zone", "south").purge().at_most(3).await.unwrap();
    assert_eq!((some.count, some.more), (3, true));
    let rest = client.query().tag("zone", "south").purge().await.unwrap();
    assert_eq!((rest.count, rest.more), (1, false));
    assert_eq!(ids(client.query()).await, ["chain-0", "living"]);
    working.stop().await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hubs_are_worlds_of_their_own() {
    let served = Served::new().await;
    let server = Server::at(&served.url()).unwrap();
    let north = server.hub(HubName::new("north").unwrap());
    north.client().start(ASKS, &0).id("here").await.unwrap();
    let id = InstanceId::new("here").unwrap();
    assert!(north.client().get(&id).await.unwrap().is_some());
    assert!(served.hub().client().get(&id).await.unwrap().is_none());
    let named = dauer::connect(&format!("{}?hub=north", served.url())).unwrap();
    assert!(named.client().get(&id).await.unwrap().is_some());
    assert!(named.is_remote() && named.manage().dump(None).await.is_err());
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_nobody_is_let_in() {
    let file = std::env::temp_dir().join(format!("dauer-rust-sdk-tokens-{}", std::process::id()));
    std::fs::write(&file, "default secret-of-default-0123456789\n").unwrap();
    let served = Served::with(|options| options.tokens = Some(file.clone())).await;
    let refused = served.hub().client().start(ASKS, &0).await.map(drop).unwrap_err();
    let denied = matches!(&refused, ClientError::Client(RawClientError::Remote(RemoteError::Denied { .. })));
    assert!(denied && refused.to_string().contains(&served.url()), "{refused}");
    let ended = Working::start(worker(&served.hub())).end().await.unwrap_err();
    assert!(format!("{ended:?}").contains("Denied"), "a worker does not try for ever: {ended:?}");
    let server = Server::at(&served.url()).unwrap().token("secret-of-default-0123456789").unwrap();
    server.connect().client().start(ASKS, &0).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    served.stop().await;
}

/// Payloads that only those can read who have the codec.
struct Reversed;

impl PayloadCodec for Reversed {
    fn encode(&self, json: &str) -> Result<String, CodecError> {
        Ok(json.chars().rev().collect())
    }

    fn decode(&self, stored: &str) -> Result<String, CodecError> {
        Ok(stored.chars().rev().collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_codec_works_over_a_server_too() {
    let served = Served::new().await;
    let hub = served.hub().codec(Reversed);
    let working = Working::start(worker(&hub));
    let asks = hub.client().start(ASKS, &0).id("asks").await.unwrap();
    asks.raise(GO, &"secret".to_owned()).await.unwrap();
    assert_eq!(asks.output_within(SOON).await.unwrap(), "secret");
    let stored = served.inside().client().get(asks.id()).await.unwrap().unwrap();
    assert_eq!(stored.record().details.output().unwrap().as_str(), "\"terces\"");
    working.stop().await;
    served.stop().await;
}

/// The server itself waits for minutes (behaviour 48).
#[tokio::test(flavor = "multi_thread")]
async fn wait_for_an_unknown_instance_fails_at_once() {
    const HOUR: std::time::Duration = std::time::Duration::from_secs(3_600);
    let served = Served::new().await;
    let unknown = served.hub().client().handle(CHAIN, "unknown").unwrap();
    let waits = async {
        let started = unknown.started_within(HOUR).await.map(drop);
        [started, unknown.ended_within(HOUR).await.map(drop), unknown.output_within(HOUR).await.map(drop)]
    };
    for waited in tokio::time::timeout(SOON, waits).await.expect("it waits for what is not there") {
        assert!(matches!(waited, Err(ClientError::Client(RawClientError::Absent(_)))), "{waited:?}");
    }
    served.stop().await;
}
