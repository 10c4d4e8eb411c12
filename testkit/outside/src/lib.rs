//! What a user of dauer sees who has nothing but the repository. The tests of this crate make projects outside of the
//! workspace and run cargo in them; here is what they share, and the list of the public API.

pub mod api;
mod blocks;
#[cfg(unix)]
mod project;

pub use blocks::{Block, blocks};
#[cfg(unix)]
pub use project::{Outside, Project};

/// The code of the guide is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/GUIDE.md")]
struct Guide;
