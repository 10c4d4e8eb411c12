//! Payloads are JSON text, in the one dialect that all SDKs share.

use serde::{Serialize, de::DeserializeOwned};

/// The text of a value.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::to_string(value)
}

/// The value of a text. An absent or empty payload reads as `null`: JavaScript sends an empty one for `undefined`.
pub(crate) fn decode<T: DeserializeOwned>(text: Option<&str>) -> Result<T, serde_json::Error> {
    serde_json::from_str(text.filter(|text| !text.is_empty()).unwrap_or("null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_empty_read_as_null() {
        for text in [None, Some(""), Some("null")] {
            assert_eq!(decode::<Option<u8>>(text).unwrap(), None);
            decode::<()>(text).unwrap();
            assert!(decode::<u8>(text).is_err());
        }
        assert_eq!(decode::<u8>(Some(&encode(&7).unwrap())).unwrap(), 7);
    }
}
