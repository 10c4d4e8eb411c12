//! Failures as the protocol carries them.

use prost_types::Value;

use crate::TaskFailureDetails;

/// A failure of the given kind, as in `failure("ActivityPanicked", "index out of bounds")`.
///
/// Retriable, without stack trace, cause or properties; the methods on [`TaskFailureDetails`] add them.
pub fn failure(kind: impl Into<String>, message: impl Into<String>) -> TaskFailureDetails {
    TaskFailureDetails { error_type: kind.into(), error_message: message.into(), ..Default::default() }
}

impl TaskFailureDetails {
    /// Adds where it happened.
    #[must_use]
    pub fn with_stack(mut self, stack_trace: impl Into<String>) -> Self {
        self.stack_trace = Some(stack_trace.into());
        self
    }

    /// Adds what caused it. Validation allows [`FAILURE_DEPTH_MAX`](crate::decode::FAILURE_DEPTH_MAX) failures in all.
    #[must_use]
    pub fn with_inner(mut self, cause: Self) -> Self {
        self.inner_failure = Some(Box::new(cause));
        self
    }

    /// Says that trying again cannot help, so retry policies stop here.
    #[must_use]
    pub fn non_retriable(mut self) -> Self {
        self.is_non_retriable = true;
        self
    }

    /// Adds a property for handlers to look at.
    #[must_use]
    pub fn with_property(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.properties.insert(key.into(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_failure_has_kind_and_message_only() {
        let plain = failure("Broken", "it broke");
        let expected = TaskFailureDetails {
            error_type: "Broken".into(),
            error_message: "it broke".into(),
            stack_trace: None,
            inner_failure: None,
            is_non_retriable: false,
            properties: Default::default(),
        };
        assert_eq!(plain, expected);
    }

    #[test]
    fn builder_sets_each_part() {
        let cause = failure("Cause", "first");
        let built = failure("Broken", "it broke")
            .with_stack("at main")
            .with_inner(cause.clone())
            .with_property("code", 7.0)
            .non_retriable();
        assert_eq!(built.stack_trace.as_deref(), Some("at main"));
        assert_eq!(built.inner_failure.as_deref(), Some(&cause));
        assert_eq!(built.properties.get("code"), Some(&Value::from(7.0)));
        assert!(built.is_non_retriable);
    }
}
