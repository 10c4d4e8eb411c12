//! The names of things: instances, hubs, hosts, executions, messages; and points in time.
//!
//! Names that users choose are checked when they are made, so that no other code has to ask again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::limits;

/// A name that breaks a rule. The message says which, and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// The name is empty.
    #[error("{field} is empty; give it at least one character")]
    Empty {
        /// Which name it is.
        field: &'static str,
    },
    /// The name is longer than allowed.
    #[error("{field} has {length} {unit}; at most {limit} are allowed")]
    TooLong {
        /// Which name it is.
        field: &'static str,
        /// How long it is.
        length: usize,
        /// The limit.
        limit: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// The name contains a character that is not allowed.
    #[error("{field} contains {character:?} at position {position}; {allowed}")]
    Character {
        /// Which name it is.
        field: &'static str,
        /// The offending character.
        character: char,
        /// Its position, in characters from 0.
        position: usize,
        /// What is allowed instead.
        allowed: &'static str,
    },
    /// The name is shorter than allowed.
    #[error("{field} has {length} characters; at least {limit} are needed")]
    TooShort {
        /// Which name it is.
        field: &'static str,
        /// How long it is.
        length: usize,
        /// The limit.
        limit: usize,
    },
}

fn printable(field: &'static str, text: &str) -> Result<(), InvalidName> {
    match text.chars().enumerate().find(|(_, c)| c.is_control()) {
        None => Ok(()),
        Some((position, character)) => Err(InvalidName::Character {
            field,
            character,
            position,
            allowed: "control characters are not allowed",
        }),
    }
}

fn at_most_bytes(field: &'static str, text: &str, limit: usize) -> Result<(), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty { field });
    }
    if text.len() > limit {
        return Err(InvalidName::TooLong { field, length: text.len(), limit, unit: "bytes" });
    }
    printable(field, text)
}

/// Checks the name of an orchestration, activity, event or tag key.
///
/// # Errors
/// [`InvalidName`] when it is empty, too long or contains a control character.
pub fn check_name(field: &'static str, name: &str) -> Result<(), InvalidName> {
    at_most_bytes(field, name, limits::NAME_BYTES_MAX)
}

/// The id of one instance: an orchestration, or an entity when it has the form `@name@key`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(Arc<str>);

impl InstanceId {
    /// Checks and keeps an id.
    ///
    /// # Errors
    /// [`InvalidName`] when it is empty, has more than [`limits::INSTANCE_ID_CHARS_MAX`] characters or contains a
    /// control character.
    pub fn new(id: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        let id = id.into();
        if id.is_empty() {
            return Err(InvalidName::Empty { field: "instance id" });
        }
        let length = id.chars().count();
        let limit = limits::INSTANCE_ID_CHARS_MAX;
        if length > limit {
            return Err(InvalidName::TooLong { field: "instance id", length, limit, unit: "characters" });
        }
        printable("instance id", &id)?;
        Ok(Self(id))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks that an orchestration may have this id.
    ///
    /// # Errors
    /// [`InvalidName`] when it is an entity's: a message would create the entity, and queries would mix them up.
    pub fn check_orchestration(&self) -> Result<(), InvalidName> {
        match self.entity_name() {
            None => Ok(()),
            Some(_) => Err(InvalidName::Character {
                field: "instance id",
                character: '@',
                position: 0,
                allowed: "ids of the form @name@key belong to entities",
            }),
        }
    }

    /// The name of the entity, lower case, when this is an entity's id.
    #[must_use]
    pub fn entity_name(&self) -> Option<&str> {
        self.0.strip_prefix('@')?.split_once('@').map(|(name, _key)| name).filter(|name| !name.is_empty())
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// The name of a task hub: a letter, then letters and digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HubName(Arc<str>);

impl HubName {
    /// Checks and keeps a name.
    ///
    /// # Errors
    /// [`InvalidName`] unless it has 3 to 64 characters, a letter first, then letters, digits and hyphens.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        let name = name.into();
        let length = name.chars().count();
        if length < limits::HUB_NAME_CHARS_MIN {
            return Err(InvalidName::TooShort {
                field: "task hub name",
                length,
                limit: limits::HUB_NAME_CHARS_MIN,
            });
        }
        if length > limits::HUB_NAME_CHARS_MAX {
            let limit = limits::HUB_NAME_CHARS_MAX;
            return Err(InvalidName::TooLong { field: "task hub name", length, limit, unit: "characters" });
        }
        let wrong = name.chars().enumerate().find(|&(position, character)| {
            let inside = character.is_ascii_digit() || character == '-';
            !(character.is_ascii_alphabetic() || position > 0 && inside)
        });
        match wrong {
            None => Ok(Self(name)),
            Some((position, character)) => Err(InvalidName::Character {
                field: "task hub name",
                character,
                position,
                allowed: "use an ASCII letter first, then ASCII letters, digits and hyphens",
            }),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for HubName {
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// The name of one host: one process that claims work.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(Arc<str>);

impl HostId {
    /// Checks and keeps a name.
    ///
    /// # Errors
    /// [`InvalidName`] when it is empty, longer than 255 bytes or contains a control character.
    pub fn new(id: impl Into<Arc<str>>) -> Result<Self, InvalidName> {
        let id = id.into();
        at_most_bytes("host id", &id, limits::NAME_BYTES_MAX)?;
        Ok(Self(id))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One run of an instance. Continue-as-new, restart and rewind start the next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(pub u128);

impl ExecutionId {
    /// Reads the 32 lower-case hexadecimal digits of [`fmt::Display`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if digits { u128::from_str_radix(text, 16).ok().map(Self) } else { None }
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where an instance stands in the order of its commits. Grows by one with each, and is never reset. A new instance begins at
/// the floor of its hub, not at zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision after the next commit.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Whose turn it is: grows whenever an instance comes from the store's hands into a session's, and with every
/// amendment; never by a renewal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the next owner.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// One host in one hub, from attach to its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u128);

/// The identity of a message or task: the same message sent again has the same id. See [`crate::identity`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub [u8; 16]);

impl MessageId {
    /// The half of a start's id that equal starts share, when the client named no request. See [`crate::identity::alike`].
    #[must_use]
    pub fn likeness(self) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        [a, b, c, d, e, f, g, h]
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The secret of one hub. It seals the tokens of work items, so that a token is valid in every process that serves the hub.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HubKey(pub [u8; 32]);

/// Shows no byte: the key stays out of logs.
impl fmt::Debug for HubKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HubKey")
    }
}

/// A point in time: milliseconds since 1970 UTC, by the clock of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The latest time there is: further than any limit allows.
    pub const MAX: Self = Self(i64::MAX);

    /// This much later; stops at [`Timestamp::MAX`] instead of wrapping around.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// This much earlier.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How much later this is than `earlier`; zero when it is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_id_names_the_rule_it_breaks() {
        assert_eq!(InstanceId::new(""), Err(InvalidName::Empty { field: "instance id" }));
        let long = "x".repeat(101);
        let error = InstanceId::new(long.as_str()).unwrap_err().to_string();
        assert_eq!(error, "instance id has 101 characters; at most 100 are allowed");
        // Characters count, not bytes: 100 two-byte letters are fine.
        assert!(InstanceId::new("é".repeat(100)).is_ok());
        let error = InstanceId::new("a\nb").unwrap_err().to_string();
        assert_eq!(error, r"instance id contains '\n' at position 1; control characters are not allowed");
    }

    #[test]
    fn an_entity_id_has_a_name() {
        let name = |id: &str| InstanceId::new(id).unwrap().entity_name().map(str::to_owned);
        assert_eq!(name("@counter@7"), Some("counter".into()));
        assert_eq!(name("@counter@a@b"), Some("counter".into()));
        assert_eq!(name("counter@7"), None);
        assert_eq!(name("@counter"), None);
        assert_eq!(name("@@key"), None);
    }

    #[test]
    fn a_hub_name_has_3_to_64_letters_digits_and_hyphens() {
        for good in ["abc", "Orders2", "my-task-hub", &"h".repeat(64)] {
            assert!(HubName::new(good).is_ok(), "{good}");
        }
        for bad in ["ab", "2ab", "-ab", "a b", "a_b", "äbc", &"h".repeat(65)] {
            assert!(HubName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_kept_as_they_were_given() {
        let (instance, hub, host) = (
            InstanceId::new("Order 7").unwrap(),
            HubName::new("Orders2").unwrap(),
            HostId::new("h\u{f6}st").unwrap(),
        );
        assert_eq!((instance.as_str(), instance.to_string()), ("Order 7", "Order 7".to_owned()));
        assert_eq!((hub.as_str(), hub.to_string()), ("Orders2", "Orders2".to_owned()));
        assert_eq!((host.as_str(), host.to_string()), ("h\u{f6}st", "h\u{f6}st".to_owned()));
        assert_eq!(HubName::default().as_str(), "default");
        assert!(HostId::new("").is_err() && HostId::new("a\tb").is_err());
    }

    #[test]
    fn revisions_and_epochs_grow_by_one() {
        assert_eq!((Revision::default().next(), Revision(7).next()), (Revision(1), Revision(8)));
        assert_eq!((Epoch::default().next(), Epoch(7).next()), (Epoch(1), Epoch(8)));
    }

    #[test]
    fn an_execution_id_reads_back_what_it_prints() {
        let id = ExecutionId(0x00ab);
        assert_eq!(id.to_string(), "000000000000000000000000000000ab");
        assert_eq!(ExecutionId::parse(&id.to_string()), Some(id));
        for bad in ["", "ab", &"G".repeat(32), &"A".repeat(32), &"a".repeat(33)] {
            assert_eq!(ExecutionId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn time_saturates_and_rounds_up() {
        assert_eq!(Timestamp(10).after(Duration::from_micros(1)), Timestamp(11));
        assert_eq!(Timestamp(10).after(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp(10).since(Timestamp(3)), Duration::from_millis(7));
        assert_eq!(Timestamp(3).since(Timestamp(10)), Duration::ZERO);
        assert_eq!(Timestamp(10).before(Duration::from_millis(7)), Timestamp(3));
        assert_eq!(Timestamp(10).before(Duration::from_micros(999)), Timestamp(10));
        assert_eq!(Timestamp(-10).before(Duration::MAX), Timestamp(i64::MIN));
    }
}
