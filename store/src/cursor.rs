//! Where a page ended, as text: for stores whose pages are in the order of a time and then the id.

use dauer_core::{InstanceId, Timestamp};

use crate::Refused;

/// The last row of a page. The next page begins behind it, so that what is inserted meanwhile neither repeats nor hides one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// When that instance was created, or ended.
    pub at: Timestamp,
    /// Its id.
    pub id: InstanceId,
}

impl Cursor {
    /// As it is given to clients.
    #[must_use]
    pub fn write(&self) -> String {
        format!("{}/{}", self.at.0, self.id)
    }

    /// As it comes back from them.
    ///
    /// # Errors
    /// [`Refused::Cursor`] when it is nothing that [`Cursor::write`] gave.
    pub fn read(text: &str) -> Result<Self, Refused> {
        let parts = text.split_once('/');
        let cursor = parts.and_then(|(at, id)| {
            Some(Self { at: Timestamp(at.parse().ok()?), id: InstanceId::new(id).ok()? })
        });
        cursor.ok_or_else(|| Refused::Cursor(text.to_owned()))
    }
}
