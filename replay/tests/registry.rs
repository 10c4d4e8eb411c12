//! Registration, look-up, and activities as code.

#![allow(clippy::unwrap_used)]

use dauer_proto::failure::failure;
use dauer_proto::{ActivityRequest, OrchestrationInstance, TaskFailureDetails};
use dauer_replay::{
    Activity, ActivityContext, ActivityError, ActivityProgram, CallError, Error, InvalidRequest,
    Orchestration, OrchestrationContext, RegisterError, Registry, Result, UnknownActivity,
    UnknownOrchestration,
};
use futures::executor::block_on;

const PRICE: Activity<u32, u32> = Activity::new("price");
const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");

async fn shop(_: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(n)
}

async fn price(ctx: ActivityContext, n: u32) -> Result<u32> {
    match n {
        0 => Err(Error::fatal("nothing to price")),
        1 => Err(CallError::Failed(failure("Down", "later").into()).into()),
        n => Ok(n * ctx.attempt()),
    }
}

fn request() -> ActivityRequest {
    ActivityRequest {
        name: "price".into(),
        orchestration_instance: Some(OrchestrationInstance {
            instance_id: "order-1".into(),
            execution_id: Some("a".repeat(32)),
        }),
        task_id: 4,
        tags: [("k".to_owned(), "v".to_owned())].into(),
        ..ActivityRequest::default()
    }
}

#[test]
fn a_name_and_version_is_registered_once() {
    let mut registry = Registry::new();
    registry.orchestration(SHOP, shop).unwrap().orchestration(SHOP.version("2"), shop).unwrap();
    registry.activity(PRICE, price).unwrap();
    let twice = registry.orchestration(SHOP, shop).unwrap_err();
    let text =
        "orchestration 'shop' is registered twice without a version; remove one, or give it another version";
    assert_eq!(twice.to_string(), text);
    let twice = registry.orchestration(SHOP.version("2"), shop).unwrap_err();
    assert_eq!(
        twice,
        RegisterError::DuplicateOrchestration { name: "shop".into(), version: Some("2".into()) }
    );
    let twice = registry.activity(PRICE, price).unwrap_err();
    assert_eq!(twice, RegisterError::DuplicateActivity { name: "price".into() });
    let names: Vec<_> = registry.orchestrations().map(|p| (p.name(), p.version())).collect();
    assert_eq!(names, [("shop", None), ("shop", Some("2"))]);
    assert_eq!(registry.activities().map(|p| p.name()).collect::<Vec<_>>(), ["price"]);
}

#[test]
fn a_name_the_store_would_refuse_is_refused() {
    let mut registry = Registry::new();
    let nameless = registry.activity(Activity::new(""), price).unwrap_err();
    assert!(matches!(nameless, RegisterError::Name(_)), "{nameless}");
    let nameless = registry.orchestration(Orchestration::new("a\nb"), shop).unwrap_err();
    assert!(matches!(nameless, RegisterError::Name(_)), "{nameless}");
    assert!(registry.orchestrations().next().is_none() && registry.activities().next().is_none());
}

#[test]
fn versions_match_exactly() {
    let mut registry = Registry::new();
    registry.orchestration(SHOP, shop).unwrap().orchestration(SHOP.version("2"), shop).unwrap();
    let version = |asked| registry.find_orchestration("shop", asked).map(|program| program.version());
    assert_eq!(version(None), Ok(None));
    assert_eq!(version(Some("")), Ok(None));
    assert_eq!(version(Some("2")), Ok(Some("2")));
    let known = vec![None, Some("2".to_owned())];
    let unknown = UnknownOrchestration::Version { name: "shop".into(), version: Some("3".into()), known };
    assert_eq!(version(Some("3")), Err(unknown));
    let unknown = registry.find_orchestration("Shop", None).unwrap_err();
    assert_eq!(unknown, UnknownOrchestration::Name { name: "Shop".into() });
    assert_eq!(registry.find_activity("price").unwrap_err(), UnknownActivity { name: "price".into() });
}

#[test]
fn an_activity_runs_on_json() {
    let mut registry = Registry::new();
    registry.activity(PRICE, price).unwrap();
    let program = registry.find_activity("price").unwrap();
    let run =
        |input: &str| block_on(program.begin(ActivityContext::new(&request(), 2).unwrap(), Some(input)));
    assert_eq!(run("21").unwrap(), "42");
    let details = |input: &str| TaskFailureDetails::from(run(input).unwrap_err());
    assert_eq!(details("0"), failure("Error", "nothing to price").non_retriable());
    assert_eq!(details("1"), failure("Down", "later"));
    assert!(matches!(run("{}"), Err(ActivityError::Undecodable(_))));
    let undecodable = details("{}");
    assert_eq!((undecodable.error_type.as_str(), undecodable.is_non_retriable), ("Undecodable", true));
    assert!(undecodable.inner_failure.unwrap().error_message.contains("invalid type: map"));
}

/// Trying again would give the same: the orchestration is told that it is final, and why.
#[test]
fn an_output_that_cannot_be_written_is_final() {
    type Odd = std::collections::BTreeMap<Vec<u8>, u8>;
    async fn odd(_: ActivityContext, _: u32) -> Result<Odd> {
        Ok([(vec![1], 1)].into())
    }
    let program = ActivityProgram::new(Activity::<u32, Odd>::new("odd"), odd);
    let context = ActivityContext::new(&request(), 1).unwrap();
    let error = block_on(program.begin(context, Some("1"))).unwrap_err();
    assert!(matches!(error, ActivityError::Unencodable(_)), "{error}");
    let details = TaskFailureDetails::from(error);
    assert_eq!((details.error_type.as_str(), details.is_non_retriable), ("Unencodable", true));
    assert!(details.inner_failure.unwrap().error_message.contains("key must be a string"));
}

#[test]
fn an_activity_knows_which_call_it_is() {
    let ctx = ActivityContext::new(&request(), 3).unwrap();
    assert_eq!((ctx.instance().as_str(), ctx.execution().to_string()), ("order-1", "a".repeat(32)));
    assert_eq!((ctx.task_id(), ctx.name(), ctx.attempt()), (4, "price", 3));
    assert_eq!(ctx.tags()["k"], "v");
    let nobody = ActivityRequest { orchestration_instance: None, ..request() };
    assert!(matches!(ActivityContext::new(&nobody, 1), Err(InvalidRequest::Field(_))));
    let mut nameless = request();
    nameless.orchestration_instance.as_mut().unwrap().instance_id.clear();
    assert!(matches!(ActivityContext::new(&nameless, 1), Err(InvalidRequest::Instance(_))));
}
