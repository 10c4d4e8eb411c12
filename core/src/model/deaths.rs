//! How often an item was lost with the process that held it.
//!
//! The two counts are kept apart, because only the first says something about the item: a worker executes its code.

/// Deaths of the processes that held an instance or task, since its last commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deaths {
    /// Deaths of processes that execute user code. The item may be what killed them.
    pub workers: u32,
    /// Deaths of servers, whose workers execute the code elsewhere. The item cannot have killed them.
    pub servers: u32,
}

impl Deaths {
    /// The deaths after one more. `runs_code` says whether the process that died executes user code.
    #[must_use]
    pub fn after(self, runs_code: bool) -> Self {
        let Self { workers, servers } = self;
        if runs_code {
            Self { workers: workers.saturating_add(1), servers }
        } else {
            Self { workers, servers: servers.saturating_add(1) }
        }
    }

    /// Deaths of any kind.
    #[must_use]
    pub fn all(self) -> u32 {
        self.workers.saturating_add(self.servers)
    }

    /// Both counts as one number, for a column or field.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.servers) << 32 | u64::from(self.workers)
    }

    /// Reads [`Self::to_bits`].
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self { workers: bits as u32, servers: (bits >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_of_workers_and_servers_count_apart() {
        let deaths = Deaths::default().after(true).after(false).after(true);
        assert_eq!((deaths, deaths.all()), (Deaths { workers: 2, servers: 1 }, 3));
        let full = Deaths { workers: u32::MAX, servers: 7 };
        assert_eq!(full.after(true), full);
    }

    #[test]
    fn deaths_are_read_as_they_were_written() {
        for deaths in [Deaths::default(), Deaths { workers: 3, servers: u32::MAX }] {
            assert_eq!(Deaths::from_bits(deaths.to_bits()), deaths);
        }
    }
}
