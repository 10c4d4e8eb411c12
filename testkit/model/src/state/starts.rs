//! Starts that no instance names any more, but that were accepted lately (10, 18, 21).

use dauer_core::limits::START_RETRY_MAX;
use dauer_store::{Class, ExecutionId, Message, MessageId, Record, Timestamp};

use super::State;
use super::inbox::opens;
use crate::mistake::Mistake as M;

impl State {
    /// Whether a start that was accepted then may still be retried.
    fn is_recent(&self, at: Timestamp) -> bool {
        self.now().since(at) <= START_RETRY_MAX
    }

    /// No instance names the start of that record any more.
    pub(super) fn start_is_gone(&mut self, record: &Record) {
        if self.is_recent(record.times.accepted) {
            self.remember_start(record.start, record.times.accepted);
        }
    }

    /// Remembers a start. The oldest are forgotten when they are too old, or too many, which is counted.
    pub(super) fn remember_start(&mut self, id: MessageId, at: Timestamp) {
        self.removed.insert(id, at);
        while let Some((oldest, at)) =
            self.removed.iter().map(|(id, at)| (*id, *at)).min_by_key(|(id, at)| (*at, *id))
        {
            let recent = self.is_recent(at);
            if recent && self.removed.len() as u64 <= self.limits.removed_starts {
                break;
            }
            self.hub.forgotten_starts += u64::from(recent);
            self.removed.remove(&oldest);
        }
    }

    /// Whether that is the id of a removed start.
    pub(super) fn is_removed(&self, id: MessageId) -> bool {
        self.removed.get(&id).is_some_and(|at| self.is_recent(*at))
    }

    pub(super) fn is_removed_start(&self, message: &Message) -> bool {
        matches!(message.class, Class::Start(_)) && self.is_removed(message.id)
    }

    /// The run of a start that is there, that waits, or that is remembered; `Some(None)` when only its id is.
    pub(super) fn repeated(&self, message: &Message, retry: bool) -> Option<Option<ExecutionId>> {
        let id = message.id;
        if let Some(instance) = self.instances.get(&message.to) {
            let record = &instance.record;
            if record.start == id && !self.makes(M::RepeatedStartCreatesAgain) {
                return Some(Some(record.execution));
            }
            if let Some(waiting) = instance.waits(id).filter(|_| record.start != id) {
                return Some(opens(waiting).map(|start| start.execution));
            }
            if instance.remembers(id, self.now()) && !self.makes(M::RepeatAfterReplacement) {
                return Some(None);
            }
        }
        if self.is_removed(id) {
            return Some(None);
        }
        let alike = if retry { !self.makes(M::RetryIgnored) } else { self.makes(M::EqualIsRepeat) };
        alike.then(|| self.alike(message)).flatten()
    }

    /// The run of an equal start that was accepted lately (18).
    fn alike(&self, message: &Message) -> Option<Option<ExecutionId>> {
        let alike = |id: MessageId, at| id.likeness() == message.id.likeness() && self.is_recent(at);
        if let Some(instance) = self.instances.get(&message.to) {
            let record = &instance.record;
            if alike(record.start, record.times.accepted) {
                return Some(Some(record.execution));
            }
            let rewinds = self.makes(M::RewindIsRetried);
            let is_start = |m: &&Message| rewinds || matches!(m.class, Class::Start(_));
            let mut waiting = instance.waiting().filter(is_start).filter(|m| alike(m.id, m.visible_at));
            if let Some(start) = waiting.find_map(opens) {
                return Some(Some(start.execution));
            }
        }
        self.removed.iter().any(|(id, at)| alike(*id, *at)).then_some(None)
    }
}
