//! Queues: what claims filter by. A host asks only for work it can do.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What kind of work a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Turns of orchestrations.
    Orchestration,
    /// Turns of entities.
    Entity,
    /// Activity tasks.
    Activity,
}

/// The queue that a turn or a task waits in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    /// The kind of work.
    pub kind: Kind,
    /// The name of the orchestration, entity or activity.
    pub name: Arc<str>,
    /// The version of its code, if one was asked for.
    pub version: Option<Arc<str>>,
}

impl QueueKey {
    /// The queue of a kind, name and version.
    pub fn new(kind: Kind, name: impl Into<Arc<str>>, version: Option<&str>) -> Self {
        Self { kind, name: name.into(), version: version.map(Arc::from) }
    }
}

/// Which versions of a name a worker takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionRule {
    /// All, and work without a version too.
    Any,
    /// These; an empty one is none. Orchestrations without a version do not match any other, activities without one match
    /// by name (behaviour 56).
    Listed(Vec<Arc<str>>),
}

/// What a worker takes of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Filter {
    /// Everything.
    #[default]
    All,
    /// Only these names, each with its versions. An empty list is nothing. Shared: every claim carries it.
    Names(Arc<BTreeMap<Arc<str>, VersionRule>>),
}

impl Filter {
    /// Takes nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::from_iter([])
    }
}

impl FromIterator<(Arc<str>, VersionRule)> for Filter {
    fn from_iter<N: IntoIterator<Item = (Arc<str>, VersionRule)>>(names: N) -> Self {
        Self::Names(Arc::new(names.into_iter().collect()))
    }
}

/// What a worker takes: one filter for each kind of work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queues {
    /// Turns of orchestrations.
    pub orchestrations: Filter,
    /// Turns of entities.
    pub entities: Filter,
    /// Activity tasks.
    pub activities: Filter,
}

impl Queues {
    /// Whether work in that queue may be handed to the worker.
    #[must_use]
    pub fn admits(&self, queue: &QueueKey) -> bool {
        let filter = match queue.kind {
            Kind::Orchestration => &self.orchestrations,
            Kind::Entity => &self.entities,
            Kind::Activity => &self.activities,
        };
        let Filter::Names(names) = filter else { return true };
        match (names.get(&queue.name), &queue.version) {
            (None, _) => false,
            (Some(VersionRule::Any), _) => true,
            (Some(VersionRule::Listed(versions)), None) => {
                queue.kind != Kind::Orchestration || versions.iter().any(|version| version.is_empty())
            }
            (Some(VersionRule::Listed(versions)), Some(version)) => versions.contains(version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(name: &str, rule: VersionRule) -> Queues {
        let filter = Filter::from_iter([(name.into(), rule)]);
        Queues { orchestrations: filter.clone(), entities: filter.clone(), activities: filter }
    }

    #[test]
    fn an_empty_list_is_nothing_and_no_list_is_everything() {
        let queue = QueueKey::new(Kind::Activity, "pay", None);
        assert!(Queues::default().admits(&queue));
        assert!(!Queues { activities: Filter::none(), ..Queues::default() }.admits(&queue));
    }

    #[test]
    fn work_without_a_version_matches_a_version_list_only_for_activities() {
        let queues = only("pay", VersionRule::Listed(vec!["2".into()]));
        let admits = |kind, version| queues.admits(&QueueKey::new(kind, "pay", version));
        assert!(admits(Kind::Activity, None));
        assert!(!admits(Kind::Orchestration, None));
        assert!(admits(Kind::Orchestration, Some("2")));
        assert!(!admits(Kind::Orchestration, Some("1")));
        assert!(!admits(Kind::Activity, Some("1")));
        assert!(!queues.admits(&QueueKey::new(Kind::Activity, "ship", None)));
        let queues = only("pay", VersionRule::Listed(vec!["".into(), "2".into()]));
        let admits = |version| queues.admits(&QueueKey::new(Kind::Orchestration, "pay", version));
        assert!(admits(None) && admits(Some("2")) && !admits(Some("1")), "an empty one is none");
        assert!(only("pay", VersionRule::Any).admits(&QueueKey::new(Kind::Orchestration, "pay", None)));
    }
}
