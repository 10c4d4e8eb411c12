//! Delivery: the one way into an inbox, for clients, turns, timers and activities.

use std::time::Duration;

use dauer_store::{Class, Delivered, DropReason, Encoded, Hint, InstanceId, Kind, Message, Record, Refused};
use dauer_store_kit::inbox;
use dauer_store_kit::judge::{self, Facts, opens};

use super::State;
use super::instance::Instance;
use crate::defect::Defect;

/// What the holder of an instance is told of a message that becomes visible after `delay`.
fn mail_hint(id: &InstanceId, kind: Kind, delay: Duration) -> Hint {
    if delay.is_zero() { Hint::Mail(id.clone()) } else { Hint::Due(kind, delay) }
}

impl State {
    /// A client's message.
    pub(crate) fn send(&mut self, message: Message) -> Result<Delivered, Refused> {
        self.pristine = false;
        self.check_message(&message)?;
        Ok(self.deliver(message))
    }

    /// Puts a message into the inbox of its instance, or counts why not.
    pub(super) fn deliver(&mut self, mut message: Message) -> Delivered {
        if self.broken(Defect::DeliverEarly) && message.answers.is_none() {
            message.visible_at = message.visible_at.min(self.now());
        }
        if self.broken(Defect::EventsReencoded)
            && let Ok(event) = message.event.event()
        {
            message.event = Encoded::new(&event);
        }
        let judged = match self.instances.get(&message.to) {
            Some(instance) => self.judge(instance, &message),
            None if self.repeats_removed_start(&message) => Err(DropReason::Repeat),
            None => match self.created_by(&message) {
                Some(record) => {
                    self.found(message.to.clone(), record);
                    Ok(())
                }
                None => Err(DropReason::Absent),
            },
        };
        match judged {
            Ok(()) => {
                self.put(message);
                Delivered::Applied
            }
            Err(reason) => {
                self.count_dropped(reason, 1);
                Delivered::Dropped(reason)
            }
        }
    }

    /// Whether an instance takes a message at all; when, is a matter of its hold.
    fn judge(&self, instance: &Instance, message: &Message) -> Result<(), DropReason> {
        let record = &instance.record;
        let waits = instance.waits(message.id) && !self.broken(Defect::AcceptRepeatInInbox);
        let applied = message.answers.is_none() && instance.applied.contains(message.id, self.now());
        let started = judge::is_own_start(record, message) && !self.broken(Defect::RepeatedStartCreatesAgain);
        let repeats = waits || applied || started || self.repeats_removed_start(message);
        let follows = judge::follows_end(record, message);
        let forgets = self.broken(Defect::EndedDropsWhatFollowsAStart);
        let for_next_run = follows && instance.is_for_next_run(message) && !forgets;
        match judge::why_dropped(record, message, Facts { repeats, for_next_run }) {
            Some(DropReason::OtherExecution) if self.broken(Defect::AcceptOtherExecution) => {
                if follows {
                    Err(DropReason::Ended)
                } else {
                    Ok(())
                }
            }
            reason => reason.map_or(Ok(()), Err),
        }
    }

    /// Whether a message is a start whose instance was removed since.
    fn repeats_removed_start(&self, message: &Message) -> bool {
        matches!(message.class, Class::Start(_)) && self.is_removed_start(message.id)
    }

    /// The record of the instance that a message to an absent one creates, unless a defect keeps it from doing so.
    fn created_by(&self, message: &Message) -> Option<Record> {
        let is_rewind = matches!(message.class, Class::Rewind(_));
        let lost = match opens(message) {
            Some(_) => {
                self.broken(Defect::StartToAbsentDropped)
                    || is_rewind && self.broken(Defect::RewindToAbsentDropped)
            }
            None => self.broken(Defect::EntityNotCreated),
        };
        if lost { None } else { judge::created_by(message, self.floor().revision) }
    }

    /// Adds a new instance with an empty inbox.
    pub(super) fn found(&mut self, id: InstanceId, record: Record) {
        let floor = self.floor();
        let record = judge::newborn(record, floor.revision, self.now());
        self.insert_instance(id, Instance::new(record, floor.epoch));
    }

    /// Puts an accepted message into the inbox. The instance becomes ready earlier by it, never later. A time that has
    /// passed is the time of arrival: senders' clocks must not decide who waits longest.
    pub(super) fn put(&mut self, mut message: Message) {
        let id = message.to.clone();
        let sequence = self.next_sequence();
        let moment = self.moment;
        inbox::arrive(&mut message, moment.now);
        let Some(instance) = self.instances.get_mut(&id) else { return };
        if instance.admits(&message, moment) {
            let earliest = inbox::ready_by(instance.ready_at, message.visible_at);
            let postponed = moment.defects.broken(Defect::ReadyPostponed);
            instance.ready_at = Some(if postponed { message.visible_at } else { earliest });
            if instance.holder.is_some() {
                self.hints.push(mail_hint(
                    &id,
                    instance.record.queue.kind,
                    message.visible_at.since(moment.now),
                ));
            }
        }
        instance.inbox.insert(message, moment.now, sequence);
        self.reindex_turn(&id);
    }

    /// Delivers what loaded instances still had in their outbox; this store itself never has one.
    pub(super) fn relay(&mut self) {
        if self.broken(Defect::OutboxNotDelivered) {
            return;
        }
        for id in std::mem::take(&mut self.to_relay) {
            let outbox = self.instances.get_mut(&id).map(|instance| std::mem::take(&mut instance.outbox));
            for message in outbox.unwrap_or_default() {
                self.deliver(message);
            }
        }
    }
}
