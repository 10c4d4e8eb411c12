//! How much work there is.

use std::time::Duration;

use dauer_store::{DUE_OVERLAP, InstanceId, Kind, QueueKey, Queues, Refused, Scale, SessionId};

use super::State;
use super::task::TaskKey;
use crate::defect::Defect;

impl State {
    /// Ready items that anyone may claim, and items in living hands, by kind.
    pub(crate) fn scale(&mut self) -> Scale {
        self.relay();
        self.sweep();
        let now = self.now();
        let sleeping = self.broken(Defect::ScaleCountsSleeping);
        let mut scale = Scale::default();
        let turns = self.ready_turns.iter().filter(|(_, _, id)| !self.is_turn_held(id));
        let turns = turns.map(|(queue, time, _)| (queue.kind, time));
        let tasks = self.ready_tasks.iter().map(|(queue, time, _)| (queue.kind, time));
        for (kind, _) in turns.chain(tasks).filter(|(_, time)| *time <= now || sleeping) {
            *scale.ready.entry(kind).or_default() += 1;
        }
        for (_, session) in self.sessions.iter().filter(|(id, _)| self.is_live(**id)) {
            let turns = session.turns.iter().filter_map(|id| self.kind_of_turn(id));
            let tasks = session.tasks.iter().filter_map(|key| self.kind_of_task(key));
            for kind in turns.chain(tasks) {
                *scale.held.entry(kind).or_default() += 1;
            }
        }
        scale
    }

    /// How long until something that sleeps in these queues is due. The end of a session makes nothing due here: it
    /// may be renewed, and a hint tells when it was not.
    pub(crate) fn next_due(
        &mut self,
        session: SessionId,
        queues: &Queues,
    ) -> Result<Option<Duration>, Refused> {
        self.acting(session)?;
        self.relay();
        let now = self.now();
        let since = now.before(DUE_OVERLAP);
        let wanted = |queue: &QueueKey| queues.admits(queue);
        let turns = self.ready_turns.next_time(since, wanted);
        let tasks = self.ready_tasks.next_time(since, wanted);
        let late = u32::from(self.broken(Defect::NextDueTooLate));
        Ok([turns, tasks].into_iter().flatten().min().map(|time| time.since(now) * (1 + late)))
    }

    fn is_turn_held(&self, id: &InstanceId) -> bool {
        let holder = self.instances.get(id).and_then(|instance| instance.holder);
        holder.is_some_and(|held| self.is_live(held.session))
    }

    fn kind_of_turn(&self, id: &InstanceId) -> Option<Kind> {
        self.instances.get(id).map(|instance| instance.record.queue.kind)
    }

    fn kind_of_task(&self, key: &TaskKey) -> Option<Kind> {
        self.tasks.get(key).map(|task| task.task.queue.kind)
    }
}
