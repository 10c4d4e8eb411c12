//! What operators ask for is asked again when the store did not do it or nobody knows, and is then what it would have been.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use dauer_core::model::Status;
use dauer_core::send::StartRequest;
use dauer_hub::{ClientError, HostOptions};
use dauer_store::{Created, Query, Refused, Reuse};

use crate::support::{Act, Chain, Fate, Op, World};

#[tokio::test(start_paused = true)]
async fn a_purge_whose_answer_is_lost_is_done() {
    let world = World::new();
    let id = world.start("chain", 1).await;
    let living = world.client.purge(&id).await.unwrap_err();
    assert!(matches!(living, ClientError::NotEnded { status: Status::Pending, .. }), "{living}");
    let _host = world.host(Chain::new(), HostOptions::default());
    world.ended(&id).await;
    world
        .plan
        .then(Op::Purge, [Fate::of(Act::Refuse), Fate::of(Act::LoseRequest), Fate::of(Act::LoseAnswer)]);
    world.client.purge(&id).await.unwrap();
    assert!(world.client.get(&id).await.unwrap().is_none());
    // Nothing was in doubt this time.
    world.plan.then(Op::Purge, [Fate::of(Act::Refuse)]);
    assert!(matches!(world.client.purge(&id).await, Err(ClientError::Absent(_))));
}

#[tokio::test(start_paused = true)]
async fn a_purge_by_query_goes_on_after_trouble() {
    let world = World::new();
    let _host = world.host(Chain::new(), HostOptions::default());
    for number in 0..3 {
        let id = world.start(&format!("chain-{number}"), 1).await;
        world.ended(&id).await;
    }
    world.plan.then(Op::Purge, [Fate::of(Act::Refuse), Fate::of(Act::LoseRequest)]);
    let purged = world.client.purge_matching(&Query::default(), 2).await.unwrap();
    assert_eq!((purged.count, purged.more), (2, true));
    world.plan.then(Op::Purge, [Fate::of(Act::LoseAnswer)]);
    let rest = world.client.purge_matching(&Query::default(), 2).await.unwrap();
    assert_eq!((rest.count, rest.more), (0, false), "what was removed unheard is not counted");
    assert!(world.client.query(Query::default()).await.unwrap().records.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_what_may_help_is_asked_again() {
    let world = World::new();
    world.start("chain", 1).await;
    world.plan.then(Op::Query, [Fate::of(Act::Refuse), Fate::of(Act::LoseRequest)]);
    assert_eq!(world.client.query(Query::default()).await.unwrap().records.len(), 1);
    assert_eq!(world.plan.count(Op::Query), 3);
    let query = Query { after: Some("nonsense".into()), ..Query::default() };
    let refused = world.client.query(query).await.unwrap_err();
    assert!(matches!(refused, ClientError::Refused(Refused::Cursor(_))), "{refused}");
    assert_eq!(world.plan.count(Op::Query), 4, "a cursor that is none stays none");
    world.plan.always.lock().unwrap().insert(Op::Query, Fate::of(Act::Refuse));
    let refused = world.client.query(Query::default()).await.unwrap_err();
    assert!(matches!(refused, ClientError::Refused(Refused::NotExecuted(_))), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_one_start_also_when_its_answer_is_lost() {
    let world = World::new();
    let id = dauer_core::InstanceId::new("chain").unwrap();
    let start = |key: u128| {
        let request = StartRequest { input: Some("1".into()), ..StartRequest::new(id.clone(), "chain") };
        world.client.start_requested(request, Reuse::default(), key)
    };
    world.plan.then(Op::Create, [Fate::of(Act::LoseRequest), Fate::of(Act::LoseAnswer)]);
    let Created::Repeat(Some(execution)) = start(7).await.unwrap() else {
        panic!("the second attempt had done it")
    };
    assert_eq!(world.client.get(&id).await.unwrap().unwrap().execution, execution);
    assert!(matches!(start(7).await.unwrap(), Created::Repeat(Some(again)) if again == execution));
    let other = start(8).await.unwrap_err();
    assert!(matches!(other, ClientError::Refused(Refused::Exists(Status::Pending))), "{other}");
}
