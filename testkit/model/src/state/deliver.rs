//! Delivery: what a message does (1, 4, 5, 10).

use dauer_store::{Class, Delivered, DropReason, Encoded, InstanceId, Message, Record, Refused};

use super::State;
use super::inbox::{Instance, opens};
use crate::mistake::Mistake as M;

impl State {
    /// A client's message.
    pub(crate) fn send(&mut self, message: Message) -> Result<Delivered, Refused> {
        self.used = true;
        self.check_message(&message)?;
        Ok(self.deliver(message))
    }

    /// Gives a message to its instance, or drops and counts it.
    pub(super) fn deliver(&mut self, mut message: Message) -> Delivered {
        if self.makes(M::DeliverEarly) && message.answers.is_none() {
            message.visible_at = message.visible_at.min(self.now());
        }
        if self.makes(M::EventsReencoded)
            && let Ok(event) = message.event.event()
        {
            message.event = Encoded::new(&event);
        }
        let dropped = match self.instances.get(&message.to) {
            Some(instance) => self.why_dropped(instance, &message),
            None if self.is_removed_start(&message) => Some(DropReason::Repeat),
            None => match self.created_by(&message) {
                None => Some(DropReason::Absent),
                Some(record) => {
                    self.begin(message.to.clone(), record);
                    None
                }
            },
        };
        match dropped {
            None => {
                self.put(message);
                Delivered::Applied
            }
            Some(reason) => {
                self.count(reason, 1);
                Delivered::Dropped(reason)
            }
        }
    }

    fn why_dropped(&self, instance: &Instance, message: &Message) -> Option<DropReason> {
        let waits = instance.waits(message.id).is_some() && !self.makes(M::AcceptRepeatInInbox);
        let consumed = message.answers.is_none() && instance.remembers(message.id, self.now());
        let began = instance.is_own_start(message) && !self.makes(M::RepeatedStartCreatesAgain);
        if waits || consumed || began || self.is_removed_start(message) {
            return Some(DropReason::Repeat);
        }
        let follows_end = instance.has_ended() && opens(message).is_none();
        let forgets = self.makes(M::EndedDropsWhatFollowsAStart);
        if follows_end && instance.is_for_next_run(message) && !forgets {
            return None;
        }
        let other_run = message.execution.is_some_and(|run| run != instance.record.execution);
        if other_run && !self.makes(M::AcceptOtherExecution) {
            return Some(DropReason::OtherExecution);
        }
        follows_end.then_some(DropReason::Ended)
    }

    /// The record of the instance that a message to an absent one creates.
    fn created_by(&self, message: &Message) -> Option<Record> {
        let record = match &message.class {
            Class::Start(start) if !self.makes(M::StartToAbsentDropped) => start.record(message.id),
            Class::Rewind(start) if !self.makes(M::RewindToAbsentDropped) => start.record(message.id),
            Class::Start(_) | Class::Rewind(_) => return None,
            Class::Control(_) | Class::Ordinary => {
                let name = message.to.entity_name().filter(|_| !self.makes(M::EntityNotCreated))?;
                Record::entity(name, message, self.floor_revision())
            }
        };
        // A message for one run cannot begin another.
        message.execution.is_none_or(|run| run == record.execution).then_some(record)
    }

    /// A new instance at the floor of the hub (21).
    pub(super) fn begin(&mut self, id: InstanceId, record: Record) {
        let floor = self.hub.floor;
        let record = self.newborn(record, floor.revision);
        self.instances.insert(id, Instance::new(record, floor.epoch));
    }

    /// Puts a message into its inbox. A time that has passed is that of the arrival: clocks of senders decide nothing.
    pub(super) fn put(&mut self, mut message: Message) {
        message.visible_at = message.visible_at.max(self.now());
        let (moment, keeps) = (self.moment, self.makes(M::ControlKeepsDelay));
        let any = self.makes(M::AnyMessageEndsDelay);
        if let Some(instance) = self.instances.get_mut(&message.to) {
            let hurries = instance.is_hurried_by(&message, moment) && !keeps || any;
            if hurries {
                instance.not_before = instance.not_before.min(message.visible_at);
            }
            instance.put(message);
        }
    }

    /// Delivers the outbox of loaded instances (16).
    pub(super) fn relay(&mut self) {
        if self.makes(M::OutboxNotDelivered) {
            return;
        }
        let outboxes = self.instances.values_mut().map(|instance| std::mem::take(&mut instance.outbox));
        let messages: Vec<Message> = outboxes.flatten().collect();
        for message in messages {
            self.deliver(message);
        }
    }
}
