//! What a record has beside its head: seldom changed, perhaps large, and shared by all copies.
//!
//! Invariant: what is shared never changes. A setter with the value that is there changes nothing; with another value it writes
//! a copy, unless nothing else refers to the old fields. So two values with the same pointer are equal, and [`Details::is_shared_with`] looks at nothing
//! else. Details of which every field is absent have no pointer.

use std::fmt;
use std::sync::Arc;

use crate::model::{Encoded, EntityRecord, Payload};

/// Output, custom status, failure, trace context and the entity's part of a record. Copying them copies a pointer.
#[derive(Clone, Default)]
pub struct Details(Option<Arc<Fields>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Fields {
    output: Option<Payload>,
    custom_status: Option<Payload>,
    failure: Option<Encoded>,
    trace: Option<Encoded>,
    /// Boxed: orchestrations have none.
    entity: Option<Box<EntityRecord>>,
}

static NONE: Fields = Fields { output: None, custom_status: None, failure: None, trace: None, entity: None };

impl Details {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// The result, once there is one.
    #[must_use]
    pub fn output(&self) -> Option<&Payload> {
        self.fields().output.as_ref()
    }

    /// What the code last reported of itself.
    #[must_use]
    pub fn custom_status(&self) -> Option<&Payload> {
        self.fields().custom_status.as_ref()
    }

    /// The encoded failure details, if the run failed.
    #[must_use]
    pub fn failure(&self) -> Option<&Encoded> {
        self.fields().failure.as_ref()
    }

    /// The encoded trace context the worker last answered with.
    #[must_use]
    pub fn trace(&self) -> Option<&Encoded> {
        self.fields().trace.as_ref()
    }

    /// The entity's part.
    #[must_use]
    pub fn entity(&self) -> Option<&EntityRecord> {
        self.fields().entity.as_deref()
    }

    /// Sets the result.
    pub fn set_output(&mut self, output: Option<Payload>) {
        self.set(output, |fields| &fields.output, |fields| &mut fields.output);
    }

    /// Sets what the code last reported of itself.
    pub fn set_custom_status(&mut self, status: Option<Payload>) {
        self.set(status, |fields| &fields.custom_status, |fields| &mut fields.custom_status);
    }

    /// Sets the failure.
    pub fn set_failure(&mut self, failure: Option<Encoded>) {
        self.set(failure, |fields| &fields.failure, |fields| &mut fields.failure);
    }

    /// Sets the trace context.
    pub fn set_trace(&mut self, trace: Option<Encoded>) {
        self.set(trace, |fields| &fields.trace, |fields| &mut fields.trace);
    }

    /// Sets the entity's part.
    pub fn set_entity(&mut self, entity: Option<EntityRecord>) {
        self.set(entity.map(Box::new), |fields| &fields.entity, |fields| &mut fields.entity);
    }

    /// Whether both are the same value, by their pointers. Then they are equal; otherwise they may still be.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether every field is absent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn fields(&self) -> &Fields {
        self.0.as_deref().unwrap_or(&NONE)
    }

    fn set<T: PartialEq>(
        &mut self,
        value: Option<T>,
        read: fn(&Fields) -> &Option<T>,
        write: fn(&mut Fields) -> &mut Option<T>,
    ) {
        if *read(self.fields()) == value {
            return;
        }
        let fields = Arc::make_mut(self.0.get_or_insert_default());
        *write(fields) = value;
        if *fields == NONE {
            self.0 = None;
        }
    }
}

impl PartialEq for Details {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || self.fields() == other.fields()
    }
}

impl Eq for Details {}

impl fmt::Debug for Details {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.fields(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half() -> Details {
        let mut details = Details::new();
        details.set_custom_status(Some("half".into()));
        details
    }

    #[test]
    fn same_value_set_again_stays_shared() {
        let details = half();
        let mut copy = details.clone();
        copy.set_custom_status(Some("half".into()));
        copy.set_output(None);
        assert!(copy.is_shared_with(&details));
        let mut none = Details::new();
        none.set_failure(None);
        assert!(none.is_empty() && none.is_shared_with(&Details::new()));
    }

    #[test]
    fn change_of_a_copy_leaves_the_original() {
        let details = half();
        let mut copy = details.clone();
        copy.set_output(Some("1".into()));
        assert!(!copy.is_shared_with(&details));
        assert_eq!((details.output(), details.custom_status()), (None, copy.custom_status()));
        assert_eq!(copy.output().map(Payload::as_str), Some("1"));
    }

    #[test]
    fn details_without_a_field_are_none() {
        let mut details = half();
        details.set_entity(Some(EntityRecord::default()));
        details.set_custom_status(None);
        assert!(!details.is_empty());
        details.set_entity(None);
        assert!(details.is_empty());
        assert_eq!(details, Details::default());
    }

    #[test]
    fn equal_fields_apart_are_equal_and_not_shared() {
        assert_eq!(half(), half());
        assert!(!half().is_shared_with(&half()));
        assert_ne!(half(), Details::new());
    }
}
