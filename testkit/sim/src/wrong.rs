//! Mistakes on the way between hosts and the store, where no store can make them.

use std::sync::Arc;

use async_trait::async_trait;
use dauer_core::planted::Bug;
use dauer_faults::{Answer, Call, Destination, Interceptor, wrap_store};
use dauer_store::{Checkpoint, Refused, Store};

use crate::config::Config;

/// What is wrong.
struct Wrong {
    /// What is refused as not executed is executed.
    lies: bool,
    /// A commit of unknown outcome is applied without its timers and messages.
    tears: bool,
}

/// The store behind the mistakes that the settings ask for.
pub(crate) fn wrap(store: Arc<dyn Store>, config: &Config) -> Arc<dyn Store> {
    let wrong = Wrong { lies: config.lies, tears: config.planted == Some(Bug::SplitOutbox) };
    if wrong.lies || wrong.tears { wrap_store(store, Arc::new(wrong)) } else { store }
}

#[async_trait]
impl Interceptor for Wrong {
    async fn call(&self, call: Call, to: Destination<'_>) -> Answer {
        let answer = to.carry_out(call.clone()).await;
        let all = |is: fn(&Refused) -> bool| answer.results().iter().all(|result| result.is_some_and(is));
        match call {
            Call::CommitTurns { batch } if self.tears && all(|it| matches!(it, Refused::Unknown(_))) => {
                let batch = batch.into_iter().map(torn).collect();
                drop(to.carry_out(Call::CommitTurns { batch }).await);
            }
            // What was refused for a reason is refused again.
            call if self.lies && all(|it| matches!(it, Refused::NotExecuted(_))) => {
                drop(to.carry_out(call).await);
            }
            _ => {}
        }
        answer
    }
}

fn torn(checkpoint: Arc<Checkpoint>) -> Arc<Checkpoint> {
    let (timers, messages) = (Vec::new(), Vec::new());
    Arc::new(Checkpoint { timers, messages, ..Arc::unwrap_or_clone(checkpoint) })
}
