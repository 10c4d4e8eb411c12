//! Pure replay: what an orchestration is written with, and the loop that runs it from its history.
//!
//! Everything here is a function of its arguments: no clock, no randomness, no I/O, no runtime (`clippy.toml` beside
//! this crate refuses them). The event model is the protocol's: `HistoryEvent` in, `OrchestratorAction` out. Read it
//! in this order:
//!
//! 1. [`Activity`], [`Orchestration`], [`Event`]: durable names with their types;
//! 2. [`OrchestrationContext`] and its futures: [`Call`], [`ChildCall`], [`Started`], [`Sleep`], [`NextEvent`], [`Timeout`];
//!    [`RetryPolicy`];
//! 3. [`Error`], [`CallError`], [`Failure`]: how things fail;
//! 4. [`Handler`], [`ActivityHandler`], [`Registry`]: how code is found by name;
//! 5. [`PayloadCodec`]: how payloads are stored, if not as JSON;
//! 6. [`Live`]: the loop; [`TurnError`]: what stops it.
//!
//! The vocabulary of `std` and the `futures` crate works as it stands (`join_all`, `FuturesUnordered`,
//! `select_biased!`), for two reasons: a durable future stores its waker and delivery wakes it, and exactly one
//! completion is delivered between polls, so that what the code sees is the order of the history. Only what chooses
//! at random (`futures::select!`, `tokio::select!` without `biased;`) is out.
//!
//! ```
//! use dauer_proto::{ExecutionStartedEvent, event};
//! use dauer_replay::{Activity, Live, Orchestration, OrchestrationContext, Registry, Result};
//! use futures::future::try_join_all;
//!
//! const PRICE: Activity<u32, u64> = Activity::new("price");
//! const TOTAL: Orchestration<Vec<u32>, u64> = Orchestration::new("total");
//!
//! async fn total(ctx: OrchestrationContext, items: Vec<u32>) -> Result<u64> {
//!     let prices = try_join_all(items.iter().map(|item| ctx.call(PRICE, item))).await?;
//!     Ok(prices.iter().sum())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut registry = Registry::new();
//! registry.orchestration(TOTAL, total)?;
//!
//! let start = event::start("total", "order-1", "0123456789abcdef0123456789abcdef");
//! let start = ExecutionStartedEvent { input: Some("[1, 2]".into()), ..start };
//! let new = [event::orchestrator_started(1_000), event::execution_started(1_000, start)];
//! let (mut live, answer) = Live::start(&registry, &[], &new)?;
//! assert_eq!(answer.actions.len(), 2); // two activities to run
//!
//! let done = |id, price: &str| event::task_completed(2_000, id, Some(price.into()));
//! let answer = live.turn(&[event::orchestrator_started(2_000), done(1, "20"), done(0, "10")])?;
//! assert_eq!(answer.actions.len(), 1); // complete, with 30
//! assert!(live.is_finished());
//! # Ok(())
//! # }
//! ```

mod activity;
mod call;
mod context;
mod error;
mod events;
mod failure;
mod guard;
mod handler;
mod live;
mod names;
mod payload;
mod registry;
mod retry;
mod signal;
mod start;
mod state;
mod timeout;

pub use activity::{
    ActivityCall, ActivityContext, ActivityError, ActivityFuture, ActivityHandler, ActivityProgram,
    InvalidRequest,
};
pub use call::{Call, ChildCall, Sleep, Started};
pub use context::OrchestrationContext;
pub use error::{CallError, Error, Result};
pub use events::NextEvent;
pub use failure::Failure;
pub use guard::{Awaited, Decision, Halt, TurnError, Waiting};
pub use handler::{Handler, Program, shape};
pub use live::{Answer, Live};
pub use names::{Activity, Event, Orchestration};
pub use payload::{CodecError, PayloadCodec, PayloadError, Payloads};
pub use registry::{RegisterError, Registry, UnknownActivity, UnknownOrchestration};
pub use retry::RetryPolicy;
pub use timeout::Timeout;
pub use uuid::Uuid;

pub use dauer_core::cancel::{CancelReason, Cancellation, Cancelled};
