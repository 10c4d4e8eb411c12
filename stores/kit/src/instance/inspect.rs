//! What an operator sees of an instance (rules 13 and 23).

use dauer_store::{INSPECTED_MAX, Message, WaitingClass};

use crate::instance::{Facts, Inbox, Instance, Part};
use crate::judge::{awaits_start, is_next_start};

impl Instance {
    /// The start or rewind that the instance begins with next.
    pub fn next_start<F: Facts>(&self, facts: &F) -> Result<Option<Message>, F::Error> {
        if !awaits_start(&self.head.record) {
            return Ok(None);
        }
        let openings = self.part(facts, &[Part::Openings])?;
        let next = openings.openings().find(|message| is_next_start(&self.head.record, message));
        Ok(next.map(|message| Message::clone(message)))
    }
}

impl Inbox {
    /// The first [`INSPECTED_MAX`] messages, with starts, rewinds and control before ordinary ones.
    #[must_use]
    pub fn inspected(&self) -> Vec<dauer_store::Waiting> {
        let listed = |message: &Message| dauer_store::Waiting {
            id: message.id,
            class: WaitingClass::from(&message.class),
            visible_at: message.visible_at,
        };
        let is_ordinary = |message: &Message| WaitingClass::from(&message.class) == WaitingClass::Ordinary;
        let first = self.iter().filter(|(_, message)| !is_ordinary(message));
        let then = self.iter().filter(|(_, message)| is_ordinary(message));
        first.chain(then).take(INSPECTED_MAX).map(|(_, message)| listed(message)).collect()
    }
}
