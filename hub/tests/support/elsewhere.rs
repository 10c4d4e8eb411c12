//! A handle of the hub in another process: it learns that the store has changed, not how.

use dauer_faults::Interceptor;
use dauer_store::{Changes, Hint};
use futures::StreamExt;

pub(crate) struct Elsewhere;

impl Interceptor for Elsewhere {
    fn changes(&self, changes: Changes) -> Changes {
        let told = |hint| async move {
            matches!(hint, Hint::Status(..) | Hint::Ended(..)).then_some(Hint::Elsewhere)
        };
        Box::pin(changes.filter_map(told))
    }
}
