//! Payloads: values as JSON text, in the one dialect that all SDKs share; and from there, by the user's codec if there is
//! one, to the text that is stored.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

/// Turns the JSON of payloads into the text that is stored, and back: to encrypt it, say, or to make it smaller.
///
/// It is applied to inputs, outputs, results, the data of events and the custom status; not to names, ids, tags and the
/// messages of failures, which stay readable. All workers and clients that share instances need codecs that understand
/// each other; SDKs of other languages read JSON only.
///
/// A codec need not give the same text twice. It is called wherever a payload is read or written, also in orchestrations,
/// which must not wait: no I/O. What it says in its errors is stored and shown, so that it must not contain the payload.
///
/// ```
/// use dauer_replay::{CodecError, PayloadCodec};
///
/// struct Reversed;
///
/// impl PayloadCodec for Reversed {
///     fn encode(&self, json: &str) -> Result<String, CodecError> {
///         Ok(json.chars().rev().collect())
///     }
///
///     fn decode(&self, stored: &str) -> Result<String, CodecError> {
///         Ok(stored.chars().rev().collect())
///     }
/// }
/// ```
pub trait PayloadCodec: Send + Sync + 'static {
    /// The text to store for this JSON. Never empty: an empty payload is none.
    ///
    /// # Errors
    /// Why it cannot be stored.
    fn encode(&self, json: &str) -> Result<String, CodecError>;

    /// The JSON of a stored text.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn decode(&self, stored: &str) -> Result<String, CodecError>;
}

/// Why a codec could not do its work.
pub type CodecError = Box<dyn StdError + Send + Sync>;

/// Why a payload could not be read or written. Where a codec is set nothing of the payload is in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// A value does not fit its JSON, or the JSON its type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The same behind a codec: what serde says of it may quote the payload.
    #[error("what the codec gave is not the JSON of the type (line {line}, column {column})")]
    Hidden {
        /// In which line of the JSON.
        line: usize,
        /// In which column.
        column: usize,
    },
    /// The codec refused.
    #[error("the payload codec refused it; use the codec that wrote it on both sides")]
    Codec(#[source] CodecError),
}

/// How payloads are read and written: as JSON, or through a codec.
#[derive(Clone, Default)]
pub struct Payloads {
    codec: Option<Arc<dyn PayloadCodec>>,
}

impl Payloads {
    /// Through that codec.
    #[must_use]
    pub fn through(codec: Arc<dyn PayloadCodec>) -> Self {
        Self { codec: Some(codec) }
    }

    /// The text to store for a value.
    ///
    /// # Errors
    /// [`PayloadError`] when it has no JSON, or the codec refuses.
    pub fn encode<T: Serialize + ?Sized>(&self, value: &T) -> Result<String, PayloadError> {
        let json = serde_json::to_string(value);
        match self.codec {
            None => Ok(json?),
            Some(_) => self.encode_json(json.map_err(hidden)?),
        }
    }

    /// The text to store for a value whose JSON is at hand.
    ///
    /// # Errors
    /// [`PayloadError::Codec`] when the codec refuses.
    pub fn encode_json(&self, json: String) -> Result<String, PayloadError> {
        match &self.codec {
            None => Ok(json),
            Some(codec) => codec.encode(&json).map_err(PayloadError::Codec),
        }
    }

    /// The value of a stored text. An absent or empty payload reads as `null`: JavaScript sends an empty one for
    /// `undefined`.
    ///
    /// # Errors
    /// [`PayloadError`] when the codec refuses, or what it gives is not the JSON of the type.
    pub fn decode<T: DeserializeOwned>(&self, stored: Option<&str>) -> Result<T, PayloadError> {
        let Some(stored) = stored.filter(|stored| !stored.is_empty()) else {
            return Ok(serde_json::from_str("null")?);
        };
        match &self.codec {
            None => Ok(serde_json::from_str(stored)?),
            Some(codec) => {
                let json = codec.decode(stored).map_err(PayloadError::Codec)?;
                serde_json::from_str(&json).map_err(hidden)
            }
        }
    }
}

fn hidden(error: serde_json::Error) -> PayloadError {
    PayloadError::Hidden { line: error.line(), column: error.column() }
}

impl fmt::Debug for Payloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payloads").field("codec", &self.codec.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_empty_read_as_null() {
        for payloads in [Payloads::default(), Payloads::through(Arc::new(Refuses))] {
            for text in [None, Some("")] {
                assert_eq!(payloads.decode::<Option<u8>>(text).unwrap(), None);
                payloads.decode::<()>(text).unwrap();
                assert!(payloads.decode::<u8>(text).is_err());
            }
        }
        let json = Payloads::default();
        assert_eq!(json.decode::<Option<u8>>(Some("null")).unwrap(), None);
        assert_eq!(json.decode::<u8>(Some(&json.encode(&7).unwrap())).unwrap(), 7);
    }

    struct Refuses;

    impl PayloadCodec for Refuses {
        fn encode(&self, _: &str) -> Result<String, CodecError> {
            Err("no key".into())
        }

        fn decode(&self, _: &str) -> Result<String, CodecError> {
            Err("no key".into())
        }
    }

    /// Gives what was stored, whatever it is.
    struct Passes;

    impl PayloadCodec for Passes {
        fn encode(&self, json: &str) -> Result<String, CodecError> {
            Ok(json.to_owned())
        }

        fn decode(&self, stored: &str) -> Result<String, CodecError> {
            Ok(stored.to_owned())
        }
    }

    fn told(error: &dyn StdError) -> String {
        error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", told(source)))
    }

    #[test]
    fn what_went_wrong_is_told_and_not_with_what() {
        let payloads = Payloads::through(Arc::new(Refuses));
        let text = "the payload codec refused it; use the codec that wrote it on both sides: no key";
        assert_eq!(told(&payloads.encode("secret").unwrap_err()), text);
        assert_eq!(told(&payloads.decode::<u8>(Some("secret")).unwrap_err()), text);
        let error = Payloads::through(Arc::new(Passes)).decode::<u8>(Some("\"secret\"")).unwrap_err();
        assert_eq!(told(&error), "what the codec gave is not the JSON of the type (line 1, column 8)");
    }
}
