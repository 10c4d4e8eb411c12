//! Where a page ended, as text: for stores whose pages are in the order of a time and then the id.

use dauer_core::{InstanceId, Timestamp};

use crate::{Order, Refused};

/// What the cursors of pages with the newest first begin with: one that is given for the other order is refused, as it
/// would lead back over what was seen.
const NEWEST_FIRST: &str = "newest:";

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
    pub fn write(&self, order: Order) -> String {
        let order = match order {
            Order::OldestFirst => "",
            Order::NewestFirst => NEWEST_FIRST,
        };
        format!("{order}{}/{}", self.at.0, self.id)
    }

    /// As it comes back from them.
    ///
    /// # Errors
    /// [`Refused::Cursor`] when it is nothing that [`Cursor::write`] gave for that order.
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
    fn a_cursor_is_read_as_it_was_written_in_its_own_order() {
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
