//! Who holds what: the proof that a kill hit a process with a lease. The store says so, unless another process has
//! taken it all before anyone could look; then the dead say so themselves, who had begun what they never finished.

use dauer_audit::Snapshot;
use dauer_store::{HostId, SessionId};

/// What the sessions of one process hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Held {
    /// The sessions of the process that are still in the store.
    pub(crate) sessions: Vec<SessionId>,
    /// Instances whose turn it holds.
    pub(crate) turns: usize,
    /// Tasks it holds.
    pub(crate) tasks: usize,
    /// Activities that it was heard to begin and not to finish, each on a task it held.
    pub(crate) in_hand: usize,
}

impl Held {
    /// What that process holds. Numbers of processes come back only after all others have been used, which is longer
    /// than a storm lasts.
    pub(crate) fn by(snapshot: &Snapshot, process: u32) -> Self {
        let sessions =
            snapshot.sessions.values().filter(|session| process_of(&session.host) == Some(process));
        let sessions: Vec<SessionId> = sessions.map(|session| session.id).collect();
        let is_its = |holder: &Option<SessionId>| holder.is_some_and(|holder| sessions.contains(&holder));
        let turns = snapshot.instances.values().filter(|instance| is_its(&instance.holder)).count();
        let tasks = snapshot.tasks.values().filter(|task| is_its(&task.holder)).count();
        Self { sessions, turns, tasks, in_hand: 0 }
    }

    /// Whether the store says that it holds anything.
    pub(crate) fn is_in_store(&self) -> bool {
        self.turns + self.tasks > 0
    }

    /// Whether it holds anything.
    pub(crate) fn is_something(&self) -> bool {
        self.is_in_store() || self.in_hand > 0
    }
}

/// The process in a host's name, which is `{machine}-{process}-{random}`.
pub(crate) fn process_of(host: &HostId) -> Option<u32> {
    host.as_str().rsplit('-').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_found_in_the_name_of_its_host() {
        let host = |name: &str| HostId::new(name).unwrap();
        assert_eq!(process_of(&host("a-b-417-00ff00ff")), Some(417));
        assert_eq!(process_of(&host("host")), None);
    }
}
