//! Sessions (rule 8).

use std::time::Duration;

/// How long an expired session that holds nothing is remembered. A host that slept longer attaches again.
pub const EXPIRED_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The lease of a loaded session until its host attaches again: a dump has only the time of expiry.
pub const LEASE_UNKNOWN: Duration = Duration::from_secs(30);
