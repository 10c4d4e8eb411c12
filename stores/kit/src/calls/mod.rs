//! Calls of sessions: credit, what it has won, and the one wait (rules 3 and 12).
//!
//! A handle on a store has one [`Desks`]: a [`Desk`] for each session that is open on it. The data of one win:
//!
//! ```text
//! host ── credit ──▶ Desk ── offer ──▶ the store's write or look, which wins
//!                     │ ▲                          │ durable
//! host ◀── next ──────┘ └────────── settle ────────┘
//! ```
//!
//! Nothing here is stored: when a handle is gone, its sessions expire, and others take what they held.

mod desk;
mod desks;
mod offer;
#[cfg(test)]
mod tests;
mod wait;

pub use desk::{Desk, Look, Looked};
pub use desks::Desks;
pub use offer::{Offer, Won};
pub use wait::next;
