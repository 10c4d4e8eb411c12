//! Code by name and version.

use std::collections::BTreeMap;

use dauer_core::ids::{InvalidName, check_name};

use crate::activity::{ActivityHandler, ActivityProgram};
use crate::handler::{Handler, Program};
use crate::names::{Activity, Orchestration};
use crate::payload::Payloads;

/// Why code could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The orchestration is registered already, in this version.
    #[error(
        "orchestration '{name}' is registered twice{}; remove one, or give it another version",
        in_version(.version.as_deref())
    )]
    DuplicateOrchestration {
        /// Its name.
        name: String,
        /// Its version, if any.
        version: Option<String>,
    },
    /// The activity is registered already.
    #[error("activity '{name}' is registered twice; remove one, or give it another name")]
    DuplicateActivity {
        /// Its name.
        name: String,
    },
    /// The name breaks a rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// Why an orchestration cannot be run here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownOrchestration {
    /// No orchestration has the name.
    #[error("no orchestration is registered as '{name}'; register it, or run a worker that has it")]
    Name {
        /// The name asked for.
        name: String,
    },
    /// The orchestration exists, but not in this version.
    #[error(
        "orchestration '{name}' is not registered{}, only {}; register that version, or run a worker that has it",
        in_version(.version.as_deref()), list(.known)
    )]
    Version {
        /// The name asked for.
        name: String,
        /// The version asked for, if any.
        version: Option<String>,
        /// The versions there are.
        known: Vec<Option<String>>,
    },
}

/// Why an activity cannot be run here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no activity is registered as '{name}'; register it, or run a worker that has it")]
pub struct UnknownActivity {
    /// The name asked for.
    pub name: String,
}

fn in_version(version: Option<&str>) -> String {
    match version {
        Some(version) => format!(" in version '{version}'"),
        None => " without a version".to_owned(),
    }
}

fn list(known: &[Option<String>]) -> String {
    let known: Vec<_> = known.iter().map(|version| in_version(version.as_deref())).collect();
    known.join(",").trim_start().to_owned()
}

/// All orchestrations and activities that a worker can run.
///
/// Versions are matched exactly: an instance that was started without a version runs the code that is registered
/// without one, and is never upgraded silently. Activities have no versions.
#[derive(Debug, Default, Clone)]
pub struct Registry {
    /// By name and version, where the empty version is none.
    orchestrations: BTreeMap<&'static str, BTreeMap<&'static str, Program>>,
    activities: BTreeMap<&'static str, ActivityProgram>,
    payloads: Payloads,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With payloads that are read and written so, in all of its code.
    #[must_use]
    pub fn with_payloads(self, payloads: Payloads) -> Self {
        Self { payloads, ..self }
    }

    /// How payloads are read and written.
    #[must_use]
    pub fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    /// Adds an orchestration under its name and version.
    ///
    /// # Errors
    /// When that name and version is taken, or breaks a rule.
    pub fn orchestration<I: 'static, O: 'static, S: 'static>(
        &mut self,
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
    ) -> Result<&mut Self, RegisterError> {
        let (name, version) = (orchestration.name(), orchestration.version_name());
        check_name("orchestration name", name)?;
        if let Some(version) = version {
            check_name("orchestration version", version)?;
        }
        let versions = self.orchestrations.entry(name).or_default();
        let key = version.unwrap_or_default();
        if versions.contains_key(key) {
            let (name, version) = (name.to_owned(), version.map(str::to_owned));
            return Err(RegisterError::DuplicateOrchestration { name, version });
        }
        versions.insert(key, Program::new(orchestration, handler));
        Ok(self)
    }

    /// Adds an activity under its name.
    ///
    /// # Errors
    /// When that name is taken, or breaks a rule.
    pub fn activity<I: 'static, O: 'static>(
        &mut self,
        activity: Activity<I, O>,
        handler: impl ActivityHandler<I, O>,
    ) -> Result<&mut Self, RegisterError> {
        let name = activity.name();
        check_name("activity name", name)?;
        if self.activities.contains_key(name) {
            return Err(RegisterError::DuplicateActivity { name: name.to_owned() });
        }
        self.activities.insert(name, ActivityProgram::new(activity, handler));
        Ok(self)
    }

    /// The code of an orchestration. An empty version is none.
    ///
    /// # Errors
    /// When there is none of that name, or not in that version.
    pub fn find_orchestration(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<&Program, UnknownOrchestration> {
        let version = version.unwrap_or_default();
        let Some(versions) = self.orchestrations.get(name) else {
            return Err(UnknownOrchestration::Name { name: name.to_owned() });
        };
        let given = |version: &str| Some(version.to_owned()).filter(|version| !version.is_empty());
        versions.get(version).ok_or_else(|| UnknownOrchestration::Version {
            name: name.to_owned(),
            version: given(version),
            known: versions.keys().map(|version| given(version)).collect(),
        })
    }

    /// The code of an activity.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn find_activity(&self, name: &str) -> Result<&ActivityProgram, UnknownActivity> {
        self.activities.get(name).ok_or_else(|| UnknownActivity { name: name.to_owned() })
    }

    /// All orchestrations, by name and version: what a worker asks the hub for.
    pub fn orchestrations(&self) -> impl Iterator<Item = &Program> {
        self.orchestrations.values().flat_map(BTreeMap::values)
    }

    /// All activities, by name: what a worker asks the hub for.
    pub fn activities(&self) -> impl Iterator<Item = &ActivityProgram> {
        self.activities.values()
    }
}
