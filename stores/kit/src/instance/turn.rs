//! Which messages the next turn gets (rules 4, 5, 6 and 20).

use std::convert::Infallible;

use dauer_store::{Hold, Message, MessageId, Timestamp};

use crate::inbox::{Admission, Candidate, Room, TurnBatch, begins_alone, next_turn};
use crate::instance::{Context, Facts, Inbox, Instance, Part};

fn candidate(message: &Message) -> Candidate<MessageId, &Message> {
    let suspends = message.is_suspend();
    Candidate { key: message.id, bytes: message.event.len(), suspends, message }
}

impl Instance {
    /// The messages of the next turn: visible, admitted, in order, up to the first suspend. None if nothing is ready, or the
    /// least that makes a turn is too large.
    pub fn next_turn<F: Facts>(
        &self,
        room: Room,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Option<TurnBatch>, F::Error> {
        if let Some(inbox) = &self.inbox {
            // After most commits nothing waits.
            let batch = if inbox.is_empty() { None } else { self.batch_of(inbox, room, context.now) };
            return Ok(batch);
        }
        let record = &self.head.record;
        let own = [record.start];
        // The own start decides about the admission too.
        let mut part = match record.hold() {
            Hold::Unborn => self.read_parts(facts, &[Part::Openings, Part::Ids(&own)])?,
            Hold::Open | Hold::Control | Hold::From(_) | Hold::Ended => {
                self.read_parts(facts, &[Part::Ids(&own)])?
            }
        };
        let admission = Admission::of(record, part.own_start(record).is_some());
        let ready = Part::Ready { admission, now: context.now, bytes: room.bytes };
        facts.waiting(ready)?.into_iter().for_each(|waiting| part.insert(waiting));
        Ok(self.batch_of(&part, room, context.now))
    }

    fn batch_of(&self, inbox: &Inbox, room: Room, now: Timestamp) -> Option<TurnBatch> {
        let record = &self.head.record;
        let start = inbox.leading(record);
        let start = start.map(|start| (candidate(start), begins_alone(record, start.visible_at, now)));
        let ready = inbox.ready(now).map(|message| candidate(message));
        let read = |found: Candidate<_, &Message>| Ok::<_, Infallible>(found.message.clone());
        if planted!(Defect::Lifo) || planted!(Defect::PrologueAfterInbox) {
            let Ok(batch) = next_turn(start, disordered(inbox, now), room, read);
            return batch;
        }
        let Ok(batch) = next_turn(start, ready, room, read);
        batch
    }

    /// The messages that the holder gets between two commits: as a turn, the first whatever its size.
    pub fn mail<F: Facts>(&self, context: Context<'_>, facts: &F) -> Result<TurnBatch, F::Error> {
        let room = Room { bytes: context.limits.mail_bytes, whatever_size: true };
        Ok(self.next_turn(room, context, facts)?.unwrap_or_default())
    }
}

/// The order of a planted mistake.
fn disordered(inbox: &Inbox, now: Timestamp) -> Vec<Candidate<MessageId, &Message>> {
    let prologue = inbox.prologue().count();
    let mut ready: Vec<&Message> = inbox.ready(now).map(|message| &**message).collect();
    let prologue = prologue.min(ready.len());
    if planted!(Defect::Lifo) {
        ready[prologue..].reverse();
    } else {
        ready.rotate_left(prologue);
    }
    ready.into_iter().map(candidate).collect()
}
