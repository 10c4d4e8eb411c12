//! Cursors of pages, for stores that order pages by a time and then the id.

use dauer_core::{InstanceId, Timestamp};

use crate::{Order, Refused};

/// The prefix of cursors of pages with the newest first. A cursor in the other order would repeat rows, so it is refused.
const NEWEST_FIRST: &str = "newest:";

/// The key of the last row of a page. The next page begins after this key, so that concurrent inserts neither repeat nor hide
/// rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The creation or completion time of the instance.
    pub at: Timestamp,
    /// Its id.
    pub id: InstanceId,
}

impl Cursor {
    /// Writes the cursor as text for clients.
    #[must_use]
    pub fn write(&self, order: Order) -> String {
        let order = match order {
            Order::OldestFirst => "",
            Order::NewestFirst => NEWEST_FIRST,
        };
        format!("{order}{}/{}", self.at.0, self.id)
    }

    /// Reads the text that [`write`](Self::write) returned.
    ///
    /// # Errors
    /// [`Refused::Cursor`] if the text is malformed or of the other order.
    pub fn read(text: &str, order: Order) -> Result<Self, Refused> {
        let key = match order {
            Order::OldestFirst => Some(text),
            Order::NewestFirst => text.strip_prefix(NEWEST_FIRST),
        };
        let cursor = key.and_then(|key| key.split_once('/')).and_then(|(at, id)| {
            Some(Self { at: Timestamp(at.parse().ok()?), id: InstanceId::new(id).ok()? })
        });
        cursor.ok_or_else(|| Refused::Cursor(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_is_read_back_only_in_its_own_order() {
        let ids = ["a", "/", "<", "a/b/c", "-1/x"].map(|id| InstanceId::new(id).unwrap());
        for (id, at) in ids.into_iter().zip([0, -1, i64::MIN, i64::MAX, 1_700_000_000_000]) {
            let cursor = Cursor { at: Timestamp(at), id };
            for (order, other) in
                [(Order::OldestFirst, Order::NewestFirst), (Order::NewestFirst, Order::OldestFirst)]
            {
                let text = cursor.write(order);
                assert_eq!(Cursor::read(&text, order).unwrap(), cursor);
                assert!(matches!(Cursor::read(&text, other), Err(Refused::Cursor(told)) if told == text));
            }
        }
    }
}
