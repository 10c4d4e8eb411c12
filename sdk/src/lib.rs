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

mod build_id;
mod client;
mod local;
mod open;
#[cfg(feature = "grpc")]
mod remote;
mod runtime;
mod shutdown;
mod worker;

pub use client::{
    Attached, Client, Error as ClientError, Handle, HistoryStream, Inspected, Instance, InstancePage,
    InstanceStream, PAGE_SIZE_MAX, PurgeCall, Purged, QueryCall, RawClient, RequestId, StartCall,
};
pub use local::LocalExecutor;
pub use open::{Hub, OpenError, Store, open, open_existing};
#[cfg(feature = "grpc")]
pub use remote::{Server, connect};
pub use runtime::TokioEnv;
pub use shutdown::{ShutdownSignal, shutdown_signal, shutdown_signal_once};
pub use worker::{Worker, WorkerBuilder};

// What users know best is written in other crates, which know nothing of hubs and runtimes: its examples are given here.
/// The id of one run of an instance.
///
#[doc = include_str!("docs/ids.md")]
pub use dauer_core::ExecutionId;
/// The name of a worker.
///
#[doc = include_str!("docs/ids.md")]
pub use dauer_core::HostId;
/// The name of a task hub.
///
#[doc = include_str!("docs/ids.md")]
pub use dauer_core::HubName;
/// The id of an instance.
///
#[doc = include_str!("docs/ids.md")]
pub use dauer_core::InstanceId;
/// A moment, to the millisecond.
///
#[doc = include_str!("docs/timestamp.md")]
pub use dauer_core::Timestamp;
/// What is wrong with an id or a name.
///
#[doc = include_str!("docs/ids.md")]
pub use dauer_core::ids::InvalidName;
/// How much one turn may ask for.
///
#[doc = include_str!("docs/options.md")]
pub use dauer_core::limits::TurnLimits;
/// All that a store has of an instance, but its history.
///
#[doc = include_str!("docs/record.md")]
pub use dauer_core::model::Record;
/// Where an instance stands.
///
#[doc = include_str!("docs/record.md")]
pub use dauer_core::model::Status;
/// Why the next turn of an instance cannot run.
///
#[doc = include_str!("docs/record.md")]
pub use dauer_core::model::Trouble;
/// The kinds of trouble.
///
#[doc = include_str!("docs/record.md")]
pub use dauer_core::model::TroubleKind;
/// What is wrong with a request.
///
#[doc = include_str!("docs/refusals.md")]
pub use dauer_core::send::InvalidRequest;
/// Why a call of a client was refused.
///
#[doc = include_str!("docs/refusals.md")]
pub use dauer_hub::ClientError as RawClientError;
/// What runs turns and activities, for hosts of one's own.
///
#[doc = include_str!("docs/executors.md")]
pub use dauer_hub::Executor;
/// The settings of a worker.
///
#[doc = include_str!("docs/options.md")]
pub use dauer_hub::HostOptions;
/// What can go wrong between a client and a server.
///
#[doc = include_str!("docs/refusals.md")]
pub use dauer_hub::RemoteError;
/// After how many attempts trouble becomes a failure.
///
#[doc = include_str!("docs/options.md")]
pub use dauer_hub::TroublePolicy;
/// What an event of a history says.
///
#[doc = include_str!("docs/history.md")]
pub use dauer_proto::EventType;
/// One event of a history.
///
#[doc = include_str!("docs/history.md")]
pub use dauer_proto::HistoryEvent;
/// What an activity is told: whose it is, which attempt, and whether anybody still wants its answer.
///
#[doc = include_str!("docs/activity_context.md")]
pub use dauer_replay::ActivityContext;
/// The code of an activity.
///
#[doc = include_str!("docs/handlers.md")]
pub use dauer_replay::ActivityHandler;
/// A call of an activity.
///
#[doc = include_str!("docs/calls.md")]
pub use dauer_replay::Call;
/// Why a call gave no value.
///
#[doc = include_str!("docs/errors.md")]
pub use dauer_replay::CallError;
/// Why nobody wants the answer of an activity any more.
///
#[doc = include_str!("docs/activity_context.md")]
pub use dauer_replay::CancelReason;
/// Ready when nobody wants the answer of an activity any more.
///
#[doc = include_str!("docs/activity_context.md")]
pub use dauer_replay::Cancelled;
/// A call of another orchestration.
///
#[doc = include_str!("docs/calls.md")]
pub use dauer_replay::ChildCall;
/// Why a codec could not do its work.
///
#[doc = include_str!("docs/codecs.md")]
pub use dauer_replay::CodecError;
/// What code asked for, as errors tell it.
///
#[doc = include_str!("docs/turns.md")]
pub use dauer_replay::Decision;
/// What orchestrations and activities fail with: any error, by `?`.
///
#[doc = include_str!("docs/errors.md")]
pub use dauer_replay::Error;
/// A failure as it is recorded.
///
#[doc = include_str!("docs/errors.md")]
pub use dauer_replay::Failure;
/// The code of an orchestration.
///
#[doc = include_str!("docs/handlers.md")]
pub use dauer_replay::Handler;
/// The next event of a name.
///
#[doc = include_str!("docs/calls.md")]
pub use dauer_replay::NextEvent;
/// What an orchestration does, it does through this.
///
#[doc = include_str!("docs/calls.md")]
pub use dauer_replay::OrchestrationContext;
/// Why a payload could not be read or written.
///
#[doc = include_str!("docs/codecs.md")]
pub use dauer_replay::PayloadError;
/// Why code cannot be registered.
///
#[doc = include_str!("docs/handlers.md")]
pub use dauer_replay::RegisterError;
/// Code by its name and version.
///
#[doc = include_str!("docs/executors.md")]
pub use dauer_replay::Registry;
/// What orchestrations and activities give.
///
#[doc = include_str!("docs/errors.md")]
pub use dauer_replay::Result;
/// A durable timer.
///
#[doc = include_str!("docs/calls.md")]
pub use dauer_replay::Sleep;
/// A call that has been asked for already.
///
#[doc = include_str!("docs/calls.md")]
pub use dauer_replay::Started;
/// A wait that ends at a time.
///
#[doc = include_str!("docs/calls.md")]
pub use dauer_replay::Timeout;
/// Why a turn could not run.
///
#[doc = include_str!("docs/turns.md")]
pub use dauer_replay::TurnError;
/// Code that is not registered.
///
#[doc = include_str!("docs/turns.md")]
pub use dauer_replay::UnknownOrchestration;
pub use dauer_replay::{Activity, Event, Orchestration, PayloadCodec, RetryPolicy, Uuid};
/// One hub as its store sees it, for tools.
///
#[doc = include_str!("docs/tools.md")]
pub use dauer_store::Manage;
/// Why a store did not do what it was asked.
///
#[doc = include_str!("docs/refusals.md")]
pub use dauer_store::Refused;
/// Which instances a start may replace.
///
#[doc = include_str!("docs/refusals.md")]
pub use dauer_store::Reuse;
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
