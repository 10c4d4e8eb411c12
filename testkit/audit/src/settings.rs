//! How the audited hub was set up: what its limits are and what its store promises.

use dauer_core::limits::{MEMORY_IDS_MAX, TurnLimits};

/// How the hub was set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The limits of turns and payloads.
    pub limits: TurnLimits,
    /// How many applied ids an instance may remember.
    pub memory_ids: usize,
    /// After how many failed attempts a task must have been given up; `None` when it never is.
    pub task_attempts: Option<u32>,
    /// After how many failed attempts a turn must have been given up; `None` when it never is, the default for
    /// mismatches and unknown names.
    pub turn_attempts: Option<u32>,
    /// Whether the store writes a turn in one transaction. One that does not may hold tasks and own timers of a turn
    /// that was never committed, but nothing else of it.
    pub transactional: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: TurnLimits::default(),
            memory_ids: MEMORY_IDS_MAX,
            task_attempts: None,
            turn_attempts: None,
            transactional: true,
        }
    }
}
