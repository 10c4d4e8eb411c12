//! The Durable Task protocol: the one event model that dauer stores, sends and replays.
//!
//! - [`wire`]: the types generated from `proto/durable_task.proto`, the ones in daily use also at the crate root
//! - [`event`], [`action`], [`failure`]: constructors that keep the id conventions of the protocol
//! - [`decode`]: decoding and validation that reject what makes no sense, naming the field
//! - [`time`]: timestamps to and from milliseconds
//! - `json` (with the feature of that name): events and whole histories as proto3 JSON
//!
//! Everything here is a function of its arguments: no clock, no I/O.

pub mod action;
pub mod decode;
mod error;
pub mod event;
pub mod failure;
#[cfg(feature = "json")]
pub mod json;
pub mod time;

/// The generated types, with the names of the `.proto` in Rust's spelling.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rustdoc::all)]
pub mod wire {
    include!("generated/wire.rs");
}

/// The protocol as an encoded `FileDescriptorSet`, with all that it imports: for servers that describe themselves.
pub const FILE_DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

pub use error::{Invalid, Problem};
pub use prost_types::{Duration, Timestamp, Value};

pub use wire::history_event::EventType;
pub use wire::operation_action::OperationActionType;
pub use wire::operation_result::ResultType;
pub use wire::orchestrator_action::OrchestratorActionType as ActionType;
pub use wire::purge_instances_request::Request as PurgeRequest;
pub use wire::send_entity_message_action::EntityMessageType;
pub use wire::work_item::Request as WorkItemRequest;

pub use wire::{
    ActivityRequest, ActivityResponse, CompleteOrchestrationAction, CreateInstanceRequest,
    CreateSubOrchestrationAction, CreateTimerAction, EntityBatchResult, EntityLockGrantedEvent,
    EntityLockRequestedEvent, EntityOperationCalledEvent, EntityOperationCompletedEvent,
    EntityOperationFailedEvent, EntityOperationSignaledEvent, EntityRequest, EntityUnlockSentEvent,
    EventRaisedEvent, EventSentEvent, ExecutionCompletedEvent, ExecutionResumedEvent, ExecutionRewoundEvent,
    ExecutionStartedEvent, ExecutionSuspendedEvent, ExecutionTerminatedEvent, HistoryEvent,
    OrchestrationInstance, OrchestrationState, OrchestrationStatus, OrchestrationTraceContext,
    OrchestratorAction, OrchestratorRequest, OrchestratorResponse, ParentInstanceInfo,
    RewindOrchestrationAction, ScheduleTaskAction, SendEntityMessageAction, SendEventAction,
    SubOrchestrationInstanceCompletedEvent, SubOrchestrationInstanceCreatedEvent,
    SubOrchestrationInstanceFailedEvent, TaskCompletedEvent, TaskFailedEvent, TaskFailureDetails,
    TaskScheduledEvent, TerminateOrchestrationAction, TimerCreatedEvent, TimerFiredEvent, TraceContext,
    WorkItem, WorkerCapability,
};
