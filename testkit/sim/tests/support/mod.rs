//! What the tests share: settings from the environment.

/// A number from the environment, for those who want more seeds, or one in particular.
#[expect(clippy::disallowed_methods, reason = "a test's size is a setting; a run is a function of its seed")]
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
