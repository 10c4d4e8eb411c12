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

pub use dauer_core::ids::InvalidName;
pub use dauer_core::model::{Record, Status, Trouble, TroubleKind};
pub use dauer_core::send::InvalidRequest;
pub use dauer_core::{ExecutionId, HostId, InstanceId, Timestamp};
pub use dauer_hub::{ClientError as RawClientError, HostOptions, TroublePolicy};
pub use dauer_proto::{EventType, HistoryEvent};
pub use dauer_replay::{
    Activity, ActivityContext, Call, CallError, CancelReason, Cancelled, ChildCall, Error, Event, Failure,
    NextEvent, Orchestration, OrchestrationContext, RegisterError, Result, RetryPolicy, Sleep, Started,
    Timeout, Uuid,
};
pub use dauer_replay::{CodecError, PayloadCodec, PayloadError};
pub use dauer_replay::{Decision, TurnError, UnknownOrchestration};
pub use dauer_store::{Refused, Reuse};
pub use dauer_testhub::{Blocked, BlockedOn, Called, Case, Injected, Script, TestError, TestHub};

/// The README's program is compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
