//! **dauer**: durable orchestrations. Ordinary async code whose progress survives crashes, restarts and months of
//! waiting, because every step is recorded in a history and replayed from it.
//!
//! ```
//! use dauer::{Activity, ActivityContext, Orchestration, OrchestrationContext, Result};
//!
//! const GREET: Activity<String, String> = Activity::new("greet");
//! const HELLO: Orchestration<String, String> = Orchestration::new("hello");
//!
//! // Activities do the work. They run at least once; their results are applied once.
//! async fn greet(_: ActivityContext, name: String) -> Result<String> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! // Orchestrations decide what is done. They are replayed, so they only await what the context gives.
//! async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
//!     Ok(ctx.call(GREET, &name).await?)
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//!     let hub = dauer::open("memory:")?;
//!     let worker = hub.worker().orchestration(HELLO, hello).activity(GREET, greet).build()?;
//!     tokio::spawn(worker.run(std::future::pending()));
//!
//!     let greeting = hub.client().start(HELLO, &"world".to_owned()).id("hello-1").await?;
//!     assert_eq!(greeting.output().await?, "Hello, world!");
//!     Ok(())
//! }
//! ```

mod client;
mod local;
mod open;
mod runtime;
mod shutdown;
mod worker;

pub use client::{
    Client, Error as ClientError, Handle, HistoryStream, Instance, InstancePage, InstanceStream,
    PAGE_SIZE_MAX, PurgeCall, Purged, QueryCall, RequestId, StartCall,
};
pub use local::LocalExecutor;
pub use open::{Hub, OpenError, open, open_existing};
pub use shutdown::{ShutdownSignal, shutdown_signal, shutdown_signal_once};
pub use worker::{Worker, WorkerBuilder};

// What users know best is written in other crates, which know nothing of hubs and runtimes: its examples are given here.
#[doc = include_str!("docs/timestamp.md")]
pub use dauer_core::Timestamp;
#[doc = include_str!("docs/ids.md")]
pub use dauer_core::ids::InvalidName;
#[doc = include_str!("docs/options.md")]
pub use dauer_core::limits::TurnLimits;
#[doc = include_str!("docs/record.md")]
pub use dauer_core::model::{Record, Status, Trouble, TroubleKind};
#[doc = include_str!("docs/refusals.md")]
pub use dauer_core::send::InvalidRequest;
#[doc = include_str!("docs/ids.md")]
pub use dauer_core::{ExecutionId, HostId, InstanceId};
#[doc = include_str!("docs/tools.md")]
pub use dauer_hub::Client as RawClient;
#[doc = include_str!("docs/refusals.md")]
pub use dauer_hub::ClientError as RawClientError;
#[doc = include_str!("docs/executors.md")]
pub use dauer_hub::Executor;
#[doc = include_str!("docs/options.md")]
pub use dauer_hub::{HostOptions, TroublePolicy};
#[doc = include_str!("docs/history.md")]
pub use dauer_proto::{EventType, HistoryEvent};
#[doc = include_str!("docs/executors.md")]
pub use dauer_replay::Registry;
pub use dauer_replay::{Activity, Event, Orchestration, PayloadCodec, RetryPolicy, Uuid};
#[doc = include_str!("docs/activity_context.md")]
pub use dauer_replay::{ActivityContext, CancelReason, Cancelled};
#[doc = include_str!("docs/handlers.md")]
pub use dauer_replay::{ActivityHandler, Handler, RegisterError};
#[doc = include_str!("docs/calls.md")]
pub use dauer_replay::{Call, ChildCall, NextEvent, OrchestrationContext, Sleep, Started, Timeout};
#[doc = include_str!("docs/errors.md")]
pub use dauer_replay::{CallError, Error, Failure, Result};
#[doc = include_str!("docs/codecs.md")]
pub use dauer_replay::{CodecError, PayloadError};
#[doc = include_str!("docs/turns.md")]
pub use dauer_replay::{Decision, TurnError, UnknownOrchestration};
#[doc = include_str!("docs/tools.md")]
pub use dauer_store::Manage;
#[doc = include_str!("docs/refusals.md")]
pub use dauer_store::{Refused, Reuse};
pub use dauer_testhub::{Blocked, BlockedOn, Called, Case, Injected, Script, TestError, TestHub};

/// The crates under this one, for tools, stores and hosts of one's own: every type that a signature of this crate names
/// is here under its own name. What is exported above is what programs need, and changes least.
///
/// ```
/// use dauer::lower::core::cancel::Cancellation;
/// use dauer::lower::core::model::{Encoded, EntityRecord, Hold, Parent, Payload, QueueKey, Tags, Times};
/// use dauer::lower::core::{MessageId, Revision};
/// use dauer::lower::hub::Unusable;
/// use dauer::lower::proto::{ActivityRequest, TaskFailureDetails};
/// use dauer::lower::replay::{Halt, Payloads};
/// use dauer::lower::store::{Cause, Limit};
/// # #[cfg(feature = "sqlite")]
/// use dauer::lower::sqlite::OpenError;
/// ```
pub mod lower {
    pub use dauer_core as core;
    pub use dauer_hub as hub;
    pub use dauer_proto as proto;
    pub use dauer_replay as replay;
    #[cfg(feature = "sqlite")]
    pub use dauer_sqlite as sqlite;
    pub use dauer_store as store;
    pub use dauer_testhub as testhub;
}

/// The README's program is compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
