//! Durable names with their types: one constant is the contract between caller, worker, client and test.
//!
//! A name is data and not a Rust symbol, so that renaming a function never renames what is stored, and so that the
//! other side may be written in another language.

use std::fmt;
use std::marker::PhantomData;

/// The name of an activity that takes an `I` and gives an `O`.
///
/// ```
/// use dauer_replay::Activity;
/// const PRICE: Activity<u32, u64> = Activity::new("price");
/// assert_eq!(PRICE.name(), "price");
/// ```
pub struct Activity<I, O> {
    name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Activity<I, O> {
    /// A name. It is checked when it is registered or scheduled.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// The name as it is stored.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// The name of an orchestration that takes an `I` and gives an `O`, and the version meant, if any.
///
/// ```
/// use dauer_replay::Orchestration;
/// const CHECKOUT: Orchestration<u32, String> = Orchestration::new("checkout");
/// const CHECKOUT_2: Orchestration<u32, String> = CHECKOUT.version("2");
/// assert_eq!((CHECKOUT_2.name(), CHECKOUT_2.version_name()), ("checkout", Some("2")));
/// ```
pub struct Orchestration<I, O> {
    name: &'static str,
    version: Option<&'static str>,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Orchestration<I, O> {
    /// A name without a version. It is checked when it is registered or scheduled.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, version: None, types: PhantomData }
    }

    /// The same name in the given version, to register it or to start it. An empty version is none.
    #[must_use]
    pub const fn version(self, version: &'static str) -> Self {
        let version = if version.is_empty() { None } else { Some(version) };
        Self { name: self.name, version, types: PhantomData }
    }

    /// The name as it is stored.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The version as it is stored.
    #[must_use]
    pub const fn version_name(&self) -> Option<&'static str> {
        self.version
    }
}

/// The name of an event that carries a `T`. Names are compared without regard to case, as all SDKs do.
///
/// ```
/// use dauer_replay::Event;
/// const APPROVED: Event<bool> = Event::new("approved");
/// assert_eq!(APPROVED.name(), "approved");
/// ```
pub struct Event<T> {
    name: &'static str,
    types: PhantomData<fn(T) -> T>,
}

impl<T> Event<T> {
    /// A name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// The name as it is stored.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

// Written out because a derive would ask the same of the types, which are only talked about.
impl<I, O> Clone for Activity<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<I, O> Copy for Activity<I, O> {}
impl<I, O> Clone for Orchestration<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<I, O> Copy for Orchestration<I, O> {}
impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Event<T> {}

impl<I, O> fmt::Debug for Activity<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Activity({:?})", self.name)
    }
}

impl<I, O> fmt::Debug for Orchestration<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            None => write!(f, "Orchestration({:?})", self.name),
            Some(version) => write!(f, "Orchestration({:?}, version {version:?})", self.name),
        }
    }
}

impl<T> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.name)
    }
}
