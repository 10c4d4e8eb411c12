//! Failures as orchestrations see them: the protocol's failure details, nothing lost either way.

use std::collections::BTreeMap;
use std::fmt;

use dauer_proto::decode::{FAILURE_DEPTH_MAX, validate_failure};
use dauer_proto::{TaskFailureDetails, Value};

/// Why an activity or child failed, in whatever language it was written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Failure {
    /// The type of the error, as its language names it.
    pub kind: String,
    /// What happened, for people.
    pub message: String,
    /// Where it happened, if known.
    pub stack: Option<String>,
    /// What caused it.
    pub cause: Option<Box<Failure>>,
    /// Whether trying again may help.
    pub retryable: bool,
    /// What the failing side added for programs to look at.
    pub properties: BTreeMap<String, Value>,
}

impl Failure {
    /// A failure that may be retried, without cause, stack or properties.
    #[must_use]
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
            stack: None,
            cause: None,
            retryable: true,
            properties: BTreeMap::new(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

impl From<TaskFailureDetails> for Failure {
    fn from(details: TaskFailureDetails) -> Self {
        let cause = details.inner_failure.map(|inner| Box::new(Self::from(*inner)));
        Self {
            kind: details.error_type,
            message: details.error_message,
            stack: details.stack_trace,
            cause,
            retryable: !details.is_non_retriable,
            properties: details.properties,
        }
    }
}

impl From<Failure> for TaskFailureDetails {
    fn from(failure: Failure) -> Self {
        Self {
            error_type: failure.kind,
            error_message: failure.message,
            stack_trace: failure.stack,
            inner_failure: failure.cause.map(|cause| Box::new(Self::from(*cause))),
            is_non_retriable: !failure.retryable,
            properties: failure.properties,
        }
    }
}

/// Makes a chain of failures, outermost first, into one that every reader accepts: deeper causes are cut, because an
/// answer that the server refuses would stall the instance for ever.
pub(crate) fn chained(chain: Vec<TaskFailureDetails>) -> TaskFailureDetails {
    let mut flat = Vec::new();
    for mut link in chain {
        loop {
            let inner = link.inner_failure.take();
            flat.push(link);
            match inner {
                Some(inner) => link = *inner,
                None => break,
            }
        }
    }
    flat.truncate(FAILURE_DEPTH_MAX);
    let nest = |flat: Vec<TaskFailureDetails>| {
        let nested = flat.into_iter().rev().reduce(|inner, outer| outer.with_inner(inner));
        nested.unwrap_or_default()
    };
    let nested = nest(flat.clone());
    if validate_failure(&nested).is_ok() {
        return nested;
    }
    // Only properties can still be too deep. They are an extra; the causes say what happened.
    flat.iter_mut().for_each(|link| link.properties.clear());
    nest(flat)
}

#[cfg(test)]
mod tests {
    use dauer_proto::failure::failure;

    use super::*;

    #[test]
    fn nothing_is_lost_either_way() {
        let details = failure("Outer", "it broke")
            .with_stack("at checkout")
            .with_property("code", 7.0)
            .non_retriable()
            .with_inner(failure("Inner", "").with_inner(failure("Root", "disk")).with_property("a", true));
        let seen = Failure::from(details.clone());
        assert!(!seen.retryable);
        assert_eq!(seen.cause.as_ref().unwrap().cause.as_ref().unwrap().kind, "Root");
        assert_eq!(TaskFailureDetails::from(seen), details);
    }

    #[test]
    fn a_chain_too_deep_is_cut_and_accepted() {
        let chain: Vec<_> = (0..200).map(|depth| failure("E", depth.to_string())).collect();
        let nested = chained(chain);
        assert_eq!(validate_failure(&nested), Ok(()));
        let mut depth = 0;
        let mut next = Some(&nested);
        while let Some(link) = next {
            assert_eq!(link.error_message, depth.to_string());
            depth += 1;
            next = link.inner_failure.as_deref();
        }
        assert_eq!(depth, FAILURE_DEPTH_MAX);
    }

    #[test]
    fn properties_too_deep_below_causes_are_left_out() {
        use dauer_proto::Value;
        let mut value = Value::from(1.0);
        for _ in 0..40 {
            value = Value::from(vec![value]);
        }
        let root = failure("Root", "r").with_property("deep", value);
        assert_eq!(validate_failure(&root), Ok(()));
        let mut chain: Vec<_> = (0..40).map(|depth| failure("E", depth.to_string())).collect();
        chain.push(root);
        assert_eq!(validate_failure(&chained(chain)), Ok(()));
    }
}
