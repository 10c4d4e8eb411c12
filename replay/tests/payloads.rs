//! Payloads through a codec: whatever an orchestration or an activity reads and writes is what the codec made of it.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;

use dauer_core::InstanceId;
use dauer_proto::{
    ActionType, ActivityRequest, ExecutionStartedEvent, HistoryEvent, OrchestrationInstance, event,
};
use dauer_replay::{
    Activity, ActivityContext, ActivityProgram, Answer, CancelReason, Cancellation, CodecError, Error, Event,
    Live, Orchestration, OrchestrationContext, PayloadCodec, Payloads, Registry, Result,
};
use futures::executor::block_on;

const PRICE: Activity<u32, u32> = Activity::new("price");
const PAID: Event<u32> = Event::new("paid");
const CHILD: Orchestration<u32, u32> = Orchestration::new("child");
const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");

/// JSON behind a mark, without which nothing is read.
struct Marked;

impl PayloadCodec for Marked {
    fn encode(&self, json: &str) -> std::result::Result<String, CodecError> {
        Ok(format!("~{json}"))
    }

    fn decode(&self, stored: &str) -> std::result::Result<String, CodecError> {
        Ok(stored.strip_prefix('~').ok_or("no mark")?.to_owned())
    }
}

fn payloads() -> Payloads {
    Payloads::through(Arc::new(Marked))
}

async fn shop(ctx: OrchestrationContext, item: u32) -> Result<ControlFlow<u32, u32>> {
    ctx.set_status("pricing");
    let price = ctx.call(PRICE, &item).await?;
    let paid = ctx.event(PAID).await?;
    ctx.send_event(&InstanceId::new("till")?, PAID, &paid);
    let sum = ctx.call_orchestration(CHILD, &(price + paid)).await?;
    ctx.continue_in_version("2");
    Ok(ControlFlow::Continue(sum))
}

fn payload_of(answer: &Answer, position: usize) -> Option<String> {
    match answer.actions[position].orchestrator_action_type.clone().unwrap() {
        ActionType::ScheduleTask(task) => task.input,
        ActionType::SendEvent(send) => send.data,
        ActionType::CreateSubOrchestration(child) => child.input,
        ActionType::CompleteOrchestration(end) => end.result,
        other => panic!("{other:?}"),
    }
}

fn turn(events: Vec<HistoryEvent>) -> Vec<HistoryEvent> {
    [vec![event::orchestrator_started(1_000)], events].concat()
}

#[test]
fn an_orchestration_reads_and_writes_through_the_codec() {
    let mut registry = Registry::new().with_payloads(payloads());
    registry.orchestration(SHOP, shop).unwrap();
    let start = event::start("shop", crate::support::INSTANCE, crate::support::EXECUTION);
    let start = ExecutionStartedEvent { input: Some("~7".into()), ..start };
    let new = turn(vec![event::execution_started(0, start)]);
    let (mut live, answer) = Live::start(&registry, &[], &new).unwrap();
    assert_eq!(answer.custom_status.as_deref(), Some("~\"pricing\""));
    assert_eq!(payload_of(&answer, 0).as_deref(), Some("~7"), "the input of an activity");

    let priced = event::task_completed(2_000, answer.actions[0].id, Some("~30".into()));
    let paid = event::event_raised(2_000, "paid", Some("~4".into()));
    let answer = live.turn(&turn(vec![priced, paid])).unwrap();
    assert_eq!(payload_of(&answer, 0).as_deref(), Some("~4"), "the data of an event");
    assert_eq!(payload_of(&answer, 1).as_deref(), Some("~34"), "the input of a child");

    let done = event::sub_orchestration_completed(3_000, answer.actions[1].id, Some("~35".into()));
    let answer = live.turn(&turn(vec![done])).unwrap();
    assert_eq!(payload_of(&answer, 0).as_deref(), Some("~35"), "the input of the next run");
    let Some(ActionType::CompleteOrchestration(end)) = &answer.actions[0].orchestrator_action_type else {
        panic!("{answer:?}")
    };
    assert_eq!(end.new_version.as_deref(), Some("2"), "the next run is of that version");
}

fn request() -> ActivityRequest {
    let caller = OrchestrationInstance {
        instance_id: "order-1".into(),
        execution_id: Some(crate::support::EXECUTION.into()),
    };
    ActivityRequest { name: "price".into(), orchestration_instance: Some(caller), ..Default::default() }
}

#[test]
fn an_activity_reads_and_writes_through_the_codec() {
    let program = ActivityProgram::new(PRICE, |_: ActivityContext, n: u32| async move { Ok(n * 2) });
    let context = ActivityContext::new(&request(), 1).unwrap().payloads(payloads());
    assert_eq!(block_on(program.begin(context, Some("~21"))).unwrap(), "~42");
    let plain = ActivityContext::new(&request(), 1).unwrap();
    assert_eq!(block_on(program.begin(plain, Some("21"))).unwrap(), "42");
}

#[test]
fn an_activity_sees_the_signal_of_its_host() {
    let signal = Cancellation::new();
    let context = ActivityContext::new(&request(), 1).unwrap().cancelled_by(signal.clone());
    let never = ActivityContext::new(&request(), 1).unwrap();
    assert_eq!((context.is_cancelled(), context.cancel_reason()), (false, None));
    signal.cancel(CancelReason::Terminated);
    assert_eq!((context.is_cancelled(), context.cancel_reason()), (true, Some(CancelReason::Terminated)));
    assert_eq!(block_on(context.cancelled()), CancelReason::Terminated);
    assert!(!never.is_cancelled(), "each call has its own signal");
    let ended = Error::from(CancelReason::Terminated);
    assert_eq!(
        ended.downcast_ref::<CancelReason>(),
        Some(&CancelReason::Terminated),
        "its host knows it by that"
    );
}
