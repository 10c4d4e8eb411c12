//! The outcomes that are not success. Callers act on the variant, never on the text.

use std::fmt;
use std::sync::Arc;

use dauer_core::model::Status;

/// What lies behind a refusal, kept as the source of the error.
#[derive(Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    /// Wraps an error, or a sentence.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// A limit that was passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Of what, e.g. `checkpoint bytes`.
    pub name: &'static str,
    /// How much it was.
    pub found: u64,
    /// How much is allowed.
    pub allowed: u64,
}

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The item changed hands or moved on. Nothing was changed; drop all that is known of it.
    #[error("the item is no longer held, or has moved on")]
    Fenced,
    /// Nothing was changed. The same may be tried again.
    #[error("the store did not execute the request")]
    NotExecuted(#[source] Cause),
    /// It may or may not have happened. Send the same again to find out.
    #[error("the outcome is unknown")]
    Unknown(#[source] Cause),
    /// A limit was passed; trying again does not help.
    #[error("{} is {}, the store allows {}", .0.name, .0.found, .0.allowed)]
    TooLarge(Limit),
    /// The instance exists in that status, and the reuse policy keeps it.
    #[error("the instance exists and is {0:?}")]
    Exists(Status),
    /// An amendment names a message that the instance has applied before. Nothing was changed; there is nothing left to do.
    #[error("the message was applied before")]
    Repeat,
    /// What a query or list was to go on behind is nothing that a page of this store ended with; trying again does not
    /// help.
    #[error("'{0}' is no cursor of this store; give `next` of the last page in the same order, or nothing")]
    Cursor(String),
    /// The store was written by a newer dauer.
    #[error("the store has format {0}; use a newer dauer")]
    Newer(u32),
    /// The stored data makes no sense.
    #[error("the stored data is damaged")]
    Corrupt(#[source] Cause),
}
