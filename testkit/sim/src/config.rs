//! How a run is made, besides its seed: what is switched off, left out or broken.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

#[cfg(feature = "planted")]
use dauer_core::planted::Bug;
#[cfg(feature = "planted")]
use dauer_memory::Defect;
use dauer_memory::{ManualClock, MemoryStore};
use dauer_store::Store;

use crate::hosts::HOSTS;
use crate::kinds::Kind;

/// How a run is made. By default it has all that its seed says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// Whether lines of the trace are kept.
    pub trace: bool,
    /// No faults at all, whatever the seed says.
    pub calm: bool,
    /// Faults that the seed may not have.
    pub without: BTreeSet<Kind>,
    /// The cases that are left out, by number.
    pub without_cases: BTreeSet<usize>,
    /// The steps that are left out, by case and number.
    pub without_steps: BTreeSet<(usize, usize)>,
    /// Hosts that are missing.
    pub without_hosts: usize,
    /// The hub whose instances come and go is missing.
    pub without_churn: bool,
    /// The world whose code kills its process is missing.
    pub without_killers: bool,
    /// Neither the operator nor its poison are there.
    pub without_operator: bool,
    /// The scenario of servers whose workers have lives of their own.
    pub apart: bool,
    /// What is wrong in the code.
    #[cfg(feature = "planted")]
    pub planted: Option<Bug>,
    /// What the store does wrong.
    #[cfg(feature = "planted")]
    pub defect: Option<Defect>,
    /// Calls that are refused as not executed are executed.
    #[cfg(feature = "planted")]
    pub lies: bool,
    /// Hosts forget the revision of their fence. Together with a store that does not compare epochs there is no fence.
    #[cfg(feature = "planted")]
    pub without_revision: bool,
}

impl Config {
    pub(crate) fn store(&self, clock: Arc<ManualClock>) -> MemoryStore {
        let store = MemoryStore::new(clock);
        #[cfg(feature = "planted")]
        if let Some(defect) = self.defect {
            return store.with_defect(defect);
        }
        store
    }

    /// The store behind what is wrong on the way to it.
    pub(crate) fn wrong(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        #[cfg(feature = "planted")]
        return crate::wrong::wrap(store, self);
        #[cfg(not(feature = "planted"))]
        store
    }

    pub(crate) fn without_revision(&self) -> bool {
        #[cfg(feature = "planted")]
        return self.without_revision;
        #[cfg(not(feature = "planted"))]
        false
    }

    /// How many hosts there are.
    #[must_use]
    pub fn hosts(&self) -> usize {
        HOSTS.saturating_sub(self.without_hosts).max(1)
    }
}

impl fmt::Display for Config {
    /// The arguments of the command that runs it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, name: &str, items: Vec<String>| {
            if items.is_empty() { Ok(()) } else { write!(f, " --{name} {}", items.join(",")) }
        };
        if self.apart {
            f.write_str(" --apart")?;
        }
        if self.calm {
            f.write_str(" --calm")?;
        }
        list(f, "without", self.without.iter().map(ToString::to_string).collect())?;
        list(f, "without-cases", self.without_cases.iter().map(ToString::to_string).collect())?;
        let steps = self.without_steps.iter().map(|(case, step)| format!("{case}.{step}"));
        list(f, "without-steps", steps.collect())?;
        if self.without_hosts > 0 {
            write!(f, " --without-hosts {}", self.without_hosts)?;
        }
        if self.without_churn {
            f.write_str(" --without-churn")?;
        }
        if self.without_killers {
            f.write_str(" --without-killers")?;
        }
        if self.without_operator {
            f.write_str(" --without-operator")?;
        }
        #[cfg(feature = "planted")]
        if let Some(bug) = self.planted {
            write!(f, " --planted {}", bug.name())?;
        }
        Ok(())
    }
}
