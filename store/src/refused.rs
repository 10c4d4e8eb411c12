//! The outcomes that are not success. Callers act on the variant, never on the text.

use std::fmt;
use std::sync::Arc;

use dauer_core::model::Status;

/// The cause of a refusal, kept as the source of the error.
#[derive(Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    /// Wraps an error or a text.
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

/// A limit of [`StoreLimits`](crate::StoreLimits) that was exceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The name of the limit, e.g. `checkpoint bytes`.
    pub name: &'static str,
    /// The value found.
    pub found: u64,
    /// The largest value allowed.
    pub allowed: u64,
}

/// Why a store refused a request.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Another claim or commit of the item came first. Nothing was changed. Drop all cached state of the item.
    #[error("the item is no longer held under this fence, or has a later commit")]
    Fenced,
    /// Nothing was changed. The caller may retry.
    #[error("the store did not execute the request")]
    NotExecuted(#[source] Cause),
    /// The request may have happened. The caller sends the same request again (rule 3).
    #[error("the outcome of the request is unknown")]
    Unknown(#[source] Cause),
    /// A limit was exceeded. Retrying does not help.
    #[error("{} is {}, the store allows {}", .0.name, .0.found, .0.allowed)]
    TooLarge(Limit),
    /// The instance exists in this status, and the reuse policy does not replace it.
    #[error("the instance exists and is {0:?}")]
    Exists(Status),
    /// An amendment names a message that was applied before (rule 10). Nothing was changed; nothing is left to do.
    #[error("the message was applied before")]
    Repeat,
    /// `after` is not a cursor issued by this store in this order. Retrying does not help.
    #[error("'{0}' is no cursor of this store; give `next` of the last page in the same order, or nothing")]
    Cursor(String),
    /// The store was written by a newer dauer.
    #[error("the store has format {0}; use a newer dauer")]
    Newer(u32),
    /// The stored data cannot be decoded or contradicts itself.
    #[error("the stored data is damaged")]
    Corrupt(#[source] Cause),
}
