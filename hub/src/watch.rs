//! Waits for changes of instances: one subscription for all that a client waits for, and a wake-up for those whose
//! instance changed. A thousand waits cost a thousand entries in a map, not a thousand streams of all hints.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt};

use dauer_core::InstanceId;
use dauer_store::{Changes, Env, Hint, Manage};

use crate::options::LOOK_EVERY;

/// Who waits for which instance.
#[derive(Default)]
pub(crate) struct Watch {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listening: bool,
    waiting: BTreeMap<InstanceId, Vec<oneshot::Sender<()>>>,
}

impl Watch {
    /// Ready once the instance has changed, as far as hints tell. They may be lost: look again after a while.
    pub(crate) fn changed(
        self: &Arc<Self>,
        instance: &InstanceId,
        hub: &Arc<dyn Manage>,
        env: &dyn Env,
    ) -> BoxFuture<'static, ()> {
        let (wake, woken) = oneshot::channel();
        let mut state = self.lock();
        state.waiting.entry(instance.clone()).or_default().push(wake);
        if !state.listening {
            state.listening = true;
            env.spawn(listen(Arc::clone(self), hub.changes()).boxed());
        }
        // A watch that ends without a word leaves the wait to its own look.
        async move {
            if woken.await.is_err() {
                futures::future::pending::<()>().await;
            }
        }
        .boxed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, instance: &InstanceId) {
        for wake in self.lock().waiting.remove(instance).unwrap_or_default() {
            // Whoever gave up waiting is not there to hear it.
            let _ = wake.send(());
        }
    }

    /// Forgets waits that were given up; whether any are left.
    fn is_needed(&self) -> bool {
        let mut state = self.lock();
        state.waiting.retain(|_, waits| {
            waits.retain(|wake| !wake.is_canceled());
            !waits.is_empty()
        });
        state.listening = !state.waiting.is_empty();
        state.listening
    }
}

/// Hears hints for as long as anyone waits.
async fn listen(watch: Arc<Watch>, mut changes: Changes) {
    let mut heard = 0_u32;
    while let Some(hint) = changes.next().await {
        if let Hint::Status(instance, _) = hint {
            watch.wake(&instance);
        }
        heard = heard.wrapping_add(1);
        if heard.is_multiple_of(LOOK_EVERY) && !watch.is_needed() {
            return;
        }
    }
    watch.lock().listening = false;
}
