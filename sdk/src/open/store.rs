//! An open store of any kind.

use std::sync::Arc;

use tokio::runtime::Handle;

use dauer_core::HubName;
use dauer_replay::Payloads;
use dauer_store::Refused;

use super::url::StoreUrl;
use super::{Hub, OpenError, Place};
use crate::client::RawClient;
use crate::runtime::TokioEnv;

/// An open store, which holds any number of task hubs. Cheap to clone. [`open`](crate::open) is its
/// default hub, which is all that most programs need.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::{HubName, Store};
///
/// let store = Store::open("memory:")?;
/// let (north, south) = (store.hub(HubName::new("north")?), store.hub(HubName::new("south")?));
/// # let _ = (north, south);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    store: Arc<dyn dauer_store::Store>,
    runtime: Handle,
    /// The hub that its URL names, if it does.
    named: Option<HubName>,
}

impl Store {
    /// Opens a store by URL, as [`open`](crate::open) does.
    ///
    /// # Errors
    /// As [`open`](crate::open).
    pub fn open(url: &str) -> Result<Self, OpenError> {
        Self::open_parsed(StoreUrl::parse(url)?)
    }

    /// Opens a store that is there, as [`open_existing`](crate::open_existing) does.
    ///
    /// # Errors
    /// As [`open_existing`](crate::open_existing).
    pub fn open_existing(url: &str) -> Result<Self, OpenError> {
        let url = StoreUrl::parse(url)?;
        url.check_exists()?;
        Self::open_parsed(url)
    }

    fn open_parsed(url: StoreUrl<'_>) -> Result<Self, OpenError> {
        let runtime = Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
        let named = url.hub.clone();
        Ok(Self { store: url.open()?, runtime, named })
    }

    /// One of its hubs. It exists from the first write on.
    #[must_use]
    pub fn hub(&self, name: HubName) -> Hub {
        let (manage, runtime, place) =
            (self.store.hub(name), self.runtime.clone(), Place::Store(self.clone()));
        let env = Arc::new(TokioEnv::new(runtime.clone()));
        let raw = RawClient::local(dauer_hub::Client::new(Arc::clone(&manage), env).refusing_absent());
        Hub { manage, runtime, payloads: Payloads::default(), raw, place }
    }

    /// The hub that its URL names, if it does: `sqlite:FILE?hub=NAME`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// assert_eq!(dauer::Store::open("memory:")?.named_hub(), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn named_hub(&self) -> Option<&HubName> {
        self.named.as_ref()
    }

    /// The names of the hubs that are in it, in their order.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::{HubName, Orchestration, Store};
    ///
    /// const HELLO: Orchestration<String, String> = Orchestration::new("hello");
    ///
    /// let store = Store::open("memory:")?;
    /// let north = HubName::new("north")?;
    /// store.hub(north.clone()).client().start(HELLO, &"world".to_owned()).await?;
    /// assert_eq!(store.hubs().await?, [north]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Refused`] when the store cannot be read.
    pub async fn hubs(&self) -> Result<Vec<HubName>, Refused> {
        self.store.hubs().await
    }

    /// Whether a hub exists. It does once something was put into it: an instance, a message or a worker's session. Reading
    /// never makes one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::{HubName, InstanceId, Store};
    ///
    /// let (store, north) = (Store::open("memory:")?, HubName::new("north")?);
    /// store.hub(north.clone()).client().get(&InstanceId::new("order-7")?).await?;
    /// assert!(!store.has_hub(&north).await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Refused`] when the store cannot be read.
    pub async fn has_hub(&self, name: &HubName) -> Result<bool, Refused> {
        self.store.has_hub(name).await
    }

    /// Deletes a hub and all that is in it, for good. One that is absent is deleted already.
    ///
    /// # Errors
    /// [`Refused`] when a living host works in the hub, or the store cannot do it.
    pub async fn delete_hub(&self, name: &HubName) -> Result<(), Refused> {
        self.store.delete_hub(name).await
    }

    /// Closes the store, as [`Hub::close`] does.
    pub async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use dauer_faults::{Call, Fate, Faulty, Op, Plan, wrap_store};
    use dauer_memory::{MemoryStore, SystemClock};
    use dauer_replay::{Orchestration, OrchestrationContext};

    use super::*;

    const ECHO: Orchestration<u32, u32> = Orchestration::new("echo");

    /// Counts the looks at records, and lets everything succeed.
    #[derive(Default)]
    struct Looks(AtomicUsize);

    impl Plan for Looks {
        fn fate(&self, call: &Call) -> Fate {
            self.0.fetch_add(usize::from(call.op() == Op::Get), Ordering::Relaxed);
            Fate::PASS
        }
    }

    /// Counts looks instead of time: a client with a subscription of its own would look at the record for every wait.
    #[tokio::test]
    async fn client_per_call_looks_no_more_than_one_client() {
        let looks = Arc::new(Looks::default());
        let memory = MemoryStore::new(Arc::new(SystemClock::new()));
        let store = wrap_store(Arc::new(memory), Arc::new(Faulty::new(looks.clone())));
        let store = Store { store, runtime: Handle::current(), named: None };
        let hub = store.hub(HubName::default());
        let code = |_: OrchestrationContext, number: u32| async move { Ok(number) };
        let worker = hub.worker().orchestration(ECHO, code).build().expect("a worker");
        let worker = tokio::spawn(worker.run(std::future::pending()));
        for number in 0..50 {
            let output = hub.client().start(ECHO, &number).await.expect("started").output().await;
            assert_eq!(output.expect("an output"), number);
        }
        worker.abort();
        let looks = looks.0.load(Ordering::Relaxed);
        assert!(looks < 10, "50 calls looked {looks} times");
    }
}
