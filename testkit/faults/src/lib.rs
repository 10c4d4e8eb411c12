//! Calls of the store contract as data, and faults between a caller and its store.
//!
//! - [`Call`] is a call with its arguments, [`Answer`] its answer, [`Op`] its name. All three come from one table.
//! - An [`Interceptor`] stands between a caller and a store: each call passes through one function, which may look at it,
//!   delay it, carry it out any number of times, or answer by itself. [`wrap_store`], [`wrap_hub`] and [`wrap_session`]
//!   put it there. What the wrapped store hands out is wrapped too.
//! - [`Faulty`] is the interceptor that disturbs calls and hints as a [`Plan`] decides. [`Act::impossible`] says which
//!   fault cannot happen to which operation, and why.
//!
//! A new operation of the contract does not compile here before it has a row in the table, is carried out and can be
//! refused.

mod call;
mod faulty;
mod hints;
mod interceptor;
mod plan;

pub use call::{Answer, Call, Op, Session};
pub use faulty::Faulty;
pub use hints::disturb;
pub use interceptor::{Destination, Interceptor, wrap_hub, wrap_session, wrap_store};
pub use plan::{Act, Fate, HintFate, Plan, Struck};
