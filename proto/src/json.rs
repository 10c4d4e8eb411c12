//! Histories as JSON: the standard proto3 mapping of the protocol's messages, both ways.
//!
//! Names are in lowerCamelCase, times in RFC 3339, optional texts plain strings, enums by name, and what has its default
//! is left out. Any tool that knows the `.proto` reads the same. Keys are sorted, so that equal events are equal texts.
//!
//! ```
//! use dauer_proto::json::{self, HistoryDocument};
//! use dauer_proto::event;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let raised = event::event_raised(1_500, "approved", Some("true".into()));
//! assert_eq!(
//!     json::event_to_value(&raised)?.to_string(),
//!     r#"{"eventId":-1,"eventRaised":{"input":"true","name":"approved"},"timestamp":"1970-01-01T00:00:01.500Z"}"#
//! );
//!
//! let document = HistoryDocument {
//!     instance_id: "order-1".into(),
//!     execution_id: "0123456789abcdef0123456789abcdef".into(),
//!     events: vec![raised],
//! };
//! assert_eq!(HistoryDocument::parse(&document.to_text()?)?, document);
//! # Ok(())
//! # }
//! ```

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::decode::validate_event;
use crate::{HistoryEvent, Invalid};

/// The version of the document that this dauer writes, and the newest that it reads. It grows when an older reader would
/// misunderstand what a newer one writes; a new kind of event is no such thing.
pub const HISTORY_VERSION: u64 = 1;

/// The key whose value is [`HISTORY_VERSION`], and by which the document is known.
const VERSION_KEY: &str = "dauer_history";
const INSTANCE_KEY: &str = "instanceId";
const EXECUTION_KEY: &str = "executionId";
const EVENTS_KEY: &str = "events";
const KEYS: [&str; 4] = [VERSION_KEY, INSTANCE_KEY, EXECUTION_KEY, EVENTS_KEY];

static HISTORY_EVENT: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let descriptors = crate::FILE_DESCRIPTORS;
    let event =
        DescriptorPool::decode(descriptors).ok().and_then(|pool| pool.get_message_by_name("HistoryEvent"));
    // Made from the same .proto, by the same build, as the types themselves: it is there or nothing compiles.
    event.unwrap_or_else(|| unreachable!("the descriptors of the build have HistoryEvent"))
});

/// Why something is no history as JSON, or cannot be written as one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The text is not JSON.
    #[error("the text is not JSON; give the whole output of `dauer history -o json`")]
    Syntax(#[source] serde_json::Error),
    /// The document is of a version that this dauer does not know.
    #[error(
        "{VERSION_KEY}: the document has version {found}, this dauer reads {HISTORY_VERSION}; use a newer dauer"
    )]
    Newer {
        /// The version found.
        found: u64,
    },
    /// The document has another form.
    #[error("{place}: {problem}; give the whole output of `dauer history -o json`")]
    Shape {
        /// Where in the document.
        place: String,
        /// What is wrong there.
        problem: &'static str,
    },
    /// An event is not of the protocol.
    #[error("{place}: this is no event of the protocol")]
    Event {
        /// Where in the document.
        place: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// An event is of the protocol and makes no sense.
    #[error("an event makes no sense")]
    Invalid(#[from] Invalid),
    /// An event that JSON has no form for, as with a property that is not a number.
    #[error("{place}: this event cannot be written as JSON")]
    Unwritable {
        /// Which event.
        place: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// One event as JSON.
///
/// # Errors
/// [`JsonError::Unwritable`] when a failure has a property that is an infinite number or none.
pub fn event_to_value(event: &HistoryEvent) -> Result<Value, JsonError> {
    write_event(event).map_err(|source| JsonError::Unwritable { place: "event".into(), source })
}

/// The event of a JSON value. Fields that the protocol does not have are refused.
///
/// # Errors
/// [`JsonError`] when the value is no event, or one that makes no sense.
pub fn event_from_value(value: Value) -> Result<HistoryEvent, JsonError> {
    read_event(value, "event")
}

/// A whole history as one document: `{"dauer_history":1,"instanceId":…,"executionId":…,"events":[…]}`.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryDocument {
    /// Whose history it is.
    pub instance_id: String,
    /// The run it is of.
    pub execution_id: String,
    /// The events, in order.
    pub events: Vec<HistoryEvent>,
}

/// The document as it is written: its keys in this order.
#[derive(Serialize)]
struct Written<'a> {
    dauer_history: u64,
    #[serde(rename = "instanceId")]
    instance_id: &'a str,
    #[serde(rename = "executionId")]
    execution_id: &'a str,
    events: Vec<Value>,
}

impl HistoryDocument {
    /// The document as JSON.
    ///
    /// # Errors
    /// [`JsonError::Unwritable`] when an event cannot be written; its place says which.
    pub fn to_value(&self) -> Result<Value, JsonError> {
        let unwritable = |source| JsonError::Unwritable { place: EVENTS_KEY.into(), source };
        serde_json::to_value(self.written()?).map_err(unwritable)
    }

    /// The document as indented text that ends with a line break, made to be kept beside a test.
    ///
    /// # Errors
    /// As [`HistoryDocument::to_value`].
    pub fn to_text(&self) -> Result<String, JsonError> {
        let unwritable = |source| JsonError::Unwritable { place: EVENTS_KEY.into(), source };
        let mut text = serde_json::to_string_pretty(&self.written()?).map_err(unwritable)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads what [`HistoryDocument::to_text`] or [`HistoryDocument::to_value`] wrote.
    ///
    /// # Errors
    /// [`JsonError`] when the text is no such document, is of a newer version, or has an event that is none.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Self::from_value(serde_json::from_str(text).map_err(JsonError::Syntax)?)
    }

    /// Reads what [`HistoryDocument::to_value`] wrote.
    ///
    /// # Errors
    /// As [`HistoryDocument::parse`].
    pub fn from_value(value: Value) -> Result<Self, JsonError> {
        let Value::Object(mut document) = value else {
            return Err(shape("document", "is no JSON object"));
        };
        check_version(&document)?;
        // After the version: a newer document may well have other keys.
        if let Some(key) = document.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(shape(key, "is no part of a history document"));
        }
        let instance_id = text(&mut document, INSTANCE_KEY)?;
        let execution_id = text(&mut document, EXECUTION_KEY)?;
        let Some(Value::Array(events)) = document.remove(EVENTS_KEY) else {
            return Err(shape(EVENTS_KEY, "is no list"));
        };
        let place = |index: usize| format!("{EVENTS_KEY}[{index}]");
        let events = events.into_iter().enumerate().map(|(index, event)| read_event(event, &place(index)));
        Ok(Self { instance_id, execution_id, events: events.collect::<Result<_, _>>()? })
    }

    fn written(&self) -> Result<Written<'_>, JsonError> {
        let unwritable =
            |index, source| JsonError::Unwritable { place: format!("{EVENTS_KEY}[{index}]"), source };
        let events = self.events.iter().enumerate();
        let events =
            events.map(|(index, event)| write_event(event).map_err(|source| unwritable(index, source)));
        Ok(Written {
            dauer_history: HISTORY_VERSION,
            instance_id: &self.instance_id,
            execution_id: &self.execution_id,
            events: events.collect::<Result<_, _>>()?,
        })
    }
}

fn write_event(event: &HistoryEvent) -> Result<Value, serde_json::Error> {
    let mut message = DynamicMessage::new(HISTORY_EVENT.clone());
    message.transcode_from(event).map_err(serde::ser::Error::custom)?;
    let mut value =
        message.serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new())?;
    // Reflection keeps maps in no order, and another crate may make serde_json keep the order in which it was given.
    value.sort_all_objects();
    Ok(value)
}

fn read_event(value: Value, place: &str) -> Result<HistoryEvent, JsonError> {
    let no_event = |source| JsonError::Event { place: place.to_owned(), source };
    let message = DynamicMessage::deserialize(HISTORY_EVENT.clone(), value).map_err(no_event)?;
    let event = message.transcode_to::<HistoryEvent>();
    let event = event.map_err(|error| no_event(serde::de::Error::custom(error)))?;
    validate_event(&event).map_err(|invalid| invalid.within(place))?;
    Ok(event)
}

fn check_version(document: &Map<String, Value>) -> Result<(), JsonError> {
    match document.get(VERSION_KEY).map(Value::as_u64) {
        Some(Some(HISTORY_VERSION)) => Ok(()),
        Some(Some(found)) if found > HISTORY_VERSION => Err(JsonError::Newer { found }),
        Some(_) => Err(shape(VERSION_KEY, "is no version of a history document")),
        None => Err(shape(VERSION_KEY, "is missing: this is no history document")),
    }
}

fn text(document: &mut Map<String, Value>, key: &str) -> Result<String, JsonError> {
    match document.remove(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        Some(_) => Err(shape(key, "is no text, or an empty one")),
        None => Err(shape(key, "is missing")),
    }
}

fn shape(place: &str, problem: &'static str) -> JsonError {
    JsonError::Shape { place: place.to_owned(), problem }
}
