//! How often an item was lost with the process that held it.
//!
//! The counts of workers and servers are kept apart, because only the first says something about the item: a worker executes
//! its code.

/// Deaths of the processes that held an instance or task, since its last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deaths {
    /// Deaths of processes that execute user code. The item may be what killed them.
    pub workers: u32,
    /// Deaths of servers, whose workers execute the code elsewhere. The item cannot have killed them.
    pub servers: u32,
    /// Deaths of workers during a trial, in which the item began alone. They are among `workers`.
    pub trials: u32,
}

impl Deaths {
    /// The deaths after one more. `runs_code` says whether the process that died executes user code.
    #[must_use]
    pub fn after(self, runs_code: bool) -> Self {
        let Self { workers, servers, .. } = self;
        if runs_code {
            Self { workers: workers.saturating_add(1), ..self }
        } else {
            Self { servers: servers.saturating_add(1), ..self }
        }
    }

    /// The deaths after that of a process which held the item. During a trial, the death of a worker counts as one of a trial.
    #[must_use]
    pub fn after_trial(self, runs_code: bool, trial: bool) -> Self {
        let trials = self.trials.saturating_add(u32::from(runs_code && trial));
        Self { trials, ..self.after(runs_code) }
    }

    /// Deaths of any kind.
    #[must_use]
    pub fn all(self) -> u32 {
        self.workers.saturating_add(self.servers)
    }

    /// The counts of workers and servers as one number, for a column or field. Those of trials are stored apart.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.servers) << 32 | u64::from(self.workers)
    }

    /// Reads [`Self::to_bits`], with the deaths during trials.
    #[must_use]
    pub fn from_bits(bits: u64, trials: u32) -> Self {
        Self { workers: bits as u32, servers: (bits >> 32) as u32, trials }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_of_workers_and_servers_count_apart() {
        let deaths = Deaths::default().after(true).after(false).after(true);
        assert_eq!((deaths, deaths.all()), (Deaths { workers: 2, servers: 1, trials: 0 }, 3));
        let full = Deaths { workers: u32::MAX, servers: 7, trials: 0 };
        assert_eq!(full.after(true), full);
    }

    #[test]
    fn only_the_death_of_a_worker_counts_as_one_of_a_trial() {
        let deaths =
            Deaths::default().after_trial(true, true).after_trial(false, true).after_trial(true, false);
        assert_eq!(deaths, Deaths { workers: 2, servers: 1, trials: 1 });
    }

    #[test]
    fn deaths_are_read_as_they_were_written() {
        for deaths in [Deaths::default(), Deaths { workers: 3, servers: u32::MAX, trials: 2 }] {
            assert_eq!(Deaths::from_bits(deaths.to_bits(), deaths.trials), deaths);
        }
    }
}
