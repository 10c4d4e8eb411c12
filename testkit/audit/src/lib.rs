//! The auditor: checks the invariants of a hub from a dump of its store.
//!
//! Pure but for [`collect`], which reads the dump: a [`Snapshot`] and, where there are any, journals go in, a
//! [`Report`] comes out. The invariants are those of the architecture, I1 to I19 and L1 to L4, each in a file of its
//! own under `checks`. What the given material cannot show is reported as not checked, never as clean.
//!
//! [`progress()`] compares two dumps of one hub: it finds what a living host holds and does nothing with.
//!
//! A dump is read in parts, and a part may be older than the next. Audit a hub that rests: with hosts at work, a
//! violation may be no more than the time between two parts.
//!
//! ```
//! use dauer_audit::{Evidence, Settings, Snapshot, audit};
//!
//! let report = audit(&Snapshot::default(), &Evidence::default(), &Settings::default());
//! assert!(!report.is_clean(), "nothing was checked, so nothing is known");
//! ```

mod checks;
mod journal;
pub mod journal_file;
mod progress;
mod report;
mod settings;
mod snapshot;
mod view;

pub use checks::audit;
pub use journal::{Action, ClientJournal, Commit, CommitJournal, Evidence, Operation, Outcome, Sent};
pub use journal_file::{JOURNAL_VERSION, JournalError, JournalWriter};
pub use progress::{Incomparable, LEASES_APART, Progress, Standstill, progress};
pub use report::{Finding, Invariant, Report, VIOLATIONS_SHOWN_MAX, Violation, all_clean, verdict_of_all};
pub use settings::Settings;
pub use snapshot::{Repeated, Snapshot, collect};
