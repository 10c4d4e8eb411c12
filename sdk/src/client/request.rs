//! Request ids: what makes a start that is made twice the same start.

use dauer_core::ids::{InvalidName, check_name};
use dauer_replay::Uuid;

/// The id of a request, chosen by whoever makes it. Of two starts of the same instance with the same request id, in
/// whatever process, the second does nothing.
///
/// A UUID stands for itself; any other text gets one. The command `dauer start --request-id` reads it in the same way.
///
/// ```
/// use dauer::RequestId;
///
/// let nightly = RequestId::new("nightly-2026-12-24")?;
/// assert_eq!(nightly, RequestId::new("nightly-2026-12-24")?);
/// assert_ne!(nightly, RequestId::new("nightly-2026-12-25")?);
/// assert!(RequestId::new("").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(u128);

impl RequestId {
    /// Reads a request id.
    ///
    /// # Errors
    /// [`InvalidName`] when it is empty, too long or contains a control character.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        check_name("request id", text)?;
        let uuid =
            Uuid::try_parse(text).unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()));
        Ok(Self(uuid.as_u128()))
    }

    /// As a number, which is what the store remembers.
    #[must_use]
    pub fn as_u128(self) -> u128 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is computed from a text is remembered by stores: another rule would start things twice.
    #[test]
    fn the_id_of_a_text_never_changes() {
        let id = |text: &str| format!("{:032x}", RequestId::new(text).unwrap().as_u128());
        assert_eq!(id("6fa459ea-ee8a-3ca4-894e-db77e160355e"), "6fa459eaee8a3ca4894edb77e160355e");
        assert_eq!(id("6FA459EAEE8A3CA4894EDB77E160355E"), "6fa459eaee8a3ca4894edb77e160355e");
        // Computed by Python: uuid.uuid5(uuid.NAMESPACE_OID, "nightly").
        assert_eq!(id("nightly"), "2d487f9158b659aeb19ddcdbeb0e0449");
    }
}
