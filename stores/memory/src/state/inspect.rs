//! The sessions of a hub; who holds an instance, what waits for it, which tasks are open.

use dauer_store::{
    Holder, INSPECTED_MAX, Inspection, InstanceId, Message, OpenTask, SessionInfo, Waiting, WaitingClass,
};

use super::{Held, State};
use crate::defect::Defect;

impl State {
    /// Reads one instance. An expired session still holds what no other session has claimed.
    pub(crate) fn inspect(&self, id: &InstanceId) -> Option<Inspection> {
        let instance = self.instances.get(id)?;
        let hidden = self.broken(Defect::InspectHidesPrologue);
        let prologue = instance.prologue.iter().filter(|_| !hidden);
        let (mut first, ordinary): (Vec<&Message>, Vec<&Message>) = prologue
            .chain(instance.inbox.iter())
            .partition(|message| WaitingClass::from(&message.class) != WaitingClass::Ordinary);
        first.extend(ordinary);
        let max = if self.broken(Defect::InspectUnbounded) { usize::MAX } else { INSPECTED_MAX };
        let messages = first.iter().take(max).map(|message| Waiting {
            id: message.id,
            class: WaitingClass::from(&message.class),
            visible_at: message.visible_at,
        });
        let tasks: Vec<OpenTask> = self.open_tasks(id).collect();
        Some(Inspection {
            now: self.shown_now(),
            holder: instance.holder.map(|held| self.holder(held)),
            ready_at: instance.ready_at.map(|at| at.max(instance.not_before)),
            waiting: first.len() as u64,
            messages: messages.collect(),
            open: tasks.len() as u64,
            tasks: tasks.into_iter().take(INSPECTED_MAX).collect(),
        })
    }

    /// All sessions, by id.
    pub(crate) fn sessions(&self) -> Vec<SessionInfo> {
        let idle_hidden = self.broken(Defect::SessionsHideIdle);
        let shown = self.sessions.iter().filter(|(_, session)| !idle_hidden || !session.holds_nothing());
        let listed = shown.map(|(id, session)| SessionInfo {
            id: *id,
            host: session.life.host.clone(),
            expires_at: session.life.expires_at,
            lives: self.is_live(*id) || self.broken(Defect::SessionsExpiredLive),
        });
        listed.collect()
    }

    fn open_tasks(&self, id: &InstanceId) -> impl Iterator<Item = OpenTask> {
        let hidden = self.broken(Defect::InspectHidesHeldTasks);
        let all = self.tasks_of(id).into_iter().filter_map(|key| self.tasks.get(&key));
        all.filter(move |held| !hidden || held.holder.is_none()).map(|held| OpenTask {
            id: held.task.id,
            event_id: held.task.event_id,
            queue: held.task.queue.clone(),
            holder: held.holder.map(|held| self.holder(held)),
            attempts: held.attempts,
            not_before: held.not_before,
            withdrawn: held.withdrawn,
        })
    }

    fn holder(&self, Held { session, .. }: Held) -> Holder {
        let host = self.sessions.get(&session).map(|session| session.life.host.clone());
        let lives = self.is_live(session) || self.broken(Defect::InspectExpiredLives);
        Holder { session, host, lives }
    }
}
