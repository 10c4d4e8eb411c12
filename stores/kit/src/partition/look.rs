//! Winning work, and reading what waits for held instances (rules 3, 12 and 20).

use std::collections::VecDeque;

use dauer_store::{Fence, InstanceId, Item, Kind, Mail, QueueKey, Queues, Recalled, Refused, SessionId};

use super::index::{Index, Position};
use super::{Partition, TaskKey};
use crate::calls::{Look, Looked, Offer};
use crate::instance::{Context, TaskWin, Win};

/// What became of an item that a session came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Take {
    /// The session has it.
    Taken,
    /// The item is not for this session.
    Passed,
    /// The session has all that there is room for.
    Full,
}

impl Partition {
    /// Gives ready work of those kinds to a session, as far as there is credit. A session that may not win gets nothing.
    pub fn serve(&mut self, session: SessionId, offer: &mut Offer, kinds: &[Kind]) {
        if self.lists.beside.sessions.winning(session, self.lists.beside.now).is_err() {
            return kinds.iter().for_each(|kind| offer.leaves(*kind));
        }
        if kinds.iter().any(|kind| *kind != Kind::Activity) {
            self.win_turns(session, offer);
        }
        if kinds.contains(&Kind::Activity) {
            self.win_tasks(session, offer);
        }
    }

    /// Looks once for a session: wins what is ready, and finds mail and the next due time.
    ///
    /// # Errors
    /// If the session may not win work.
    pub fn look(
        &mut self,
        session: SessionId,
        offer: Option<&mut Offer>,
        look: Look,
    ) -> Result<Looked, Refused> {
        self.lists.beside.sessions.winning(session, self.lists.beside.now)?;
        self.pristine = false;
        self.relay();
        self.sweep();
        let now = self.lists.beside.now;
        let mut due = None;
        if let Some(offer) = offer {
            self.win_turns(session, offer);
            self.win_tasks(session, offer);
            let turns = self.lists.ready_turns.next_time(now, offer.queues());
            let tasks = self.lists.ready_tasks.next_time(now, offer.queues());
            due = turns.into_iter().chain(tasks).min();
        }
        let mut looked = Looked::default();
        let known = self.lists.beside.sessions.get(session).filter(|_| look.mail);
        for (at, id) in known.iter().flat_map(|known| &known.mail) {
            if *at > now {
                due = due.into_iter().chain([*at]).min();
                break;
            }
            looked.mail.push(id.clone());
        }
        looked.due = due.map(|due| due.since(now));
        Ok(looked)
    }

    /// The items of these that the session still holds, and has neither committed nor answered.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session has ended.
    pub fn recall(&self, session: SessionId, items: &[Item]) -> Result<Recalled, Refused> {
        self.lists.beside.sessions.acting(session)?;
        let mut recalled = Recalled::default();
        for item in items {
            match item {
                Item::Turn(fence) => {
                    let Some(stored) = self.instances.get(&fence.instance) else { continue };
                    let known = self.lists.beside.known(stored);
                    let Ok(turn) = stored.instance.recalled(session, fence, self.lists.context(), &known);
                    recalled.turns.extend(turn);
                }
                Item::Task(fence) => {
                    let row = self.tasks_of(&fence.instance).and_then(|tasks| tasks.get(&fence.task));
                    let lease = row.and_then(|row| row.held.recalled(session, fence, self.lists.beside.now));
                    recalled.tasks.extend(lease.filter(|_| !planted!(Defect::RecallForgets)));
                }
            }
        }
        Ok(recalled)
    }

    /// Reads the messages that wait for a held instance.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold it as the fence says.
    pub fn mail(&self, session: SessionId, fence: &Fence) -> Result<Mail, Refused> {
        self.lists.beside.sessions.acting(session)?;
        let stored = self.instances.get(&fence.instance).ok_or(Refused::Fenced)?;
        stored.instance.check_holder(session, fence)?;
        let known = self.lists.beside.known(stored);
        let Ok(batch) = stored.instance.mail(self.lists.context(), &known);
        Ok(Mail { messages: batch.messages, more: batch.more, now: self.lists.beside.now })
    }

    fn win_turns(&mut self, session: SessionId, offer: &mut Offer) {
        let queues = offer.queues().clone();
        self.gather(
            &queues,
            |partition| &mut partition.lists.ready_turns,
            |partition, _, id| partition.win_turn(session, offer, id),
        );
    }

    fn win_tasks(&mut self, session: SessionId, offer: &mut Offer) {
        let queues = offer.queues().clone();
        self.gather(
            &queues,
            |partition| &mut partition.lists.ready_tasks,
            |partition, _, key| partition.win_task(session, offer, key),
        );
    }

    /// Offers due items of the wanted queues to `take`, one of each queue in turn and the oldest first, until it is full or
    /// nothing is left.
    fn gather<K: Clone>(
        &mut self,
        wanted: &Queues,
        index: fn(&mut Self) -> &mut Index<K>,
        mut take: impl FnMut(&mut Self, &QueueKey, &K) -> Take,
    ) {
        let now = self.lists.beside.now;
        let queues = index(self).queues_in_turn(wanted).into_iter();
        let mut queues: VecDeque<(QueueKey, Option<Position>)> = queues.map(|queue| (queue, None)).collect();
        while let Some((queue, mut position)) = queues.pop_front() {
            while let Some((found, item)) = index(self).next_due(&queue, position, now) {
                position = Some(found);
                match take(self, &queue, &item) {
                    Take::Full => return,
                    Take::Passed => {}
                    Take::Taken => {
                        index(self).mark_served(&queue);
                        queues.push_back((queue, position));
                        break;
                    }
                }
            }
        }
    }

    fn win_turn(&mut self, session: SessionId, offer: &mut Offer, id: &InstanceId) -> Take {
        let Some(stored) = self.instances.get_mut(id) else { return Take::Passed };
        let lists = &mut self.lists;
        let Ok(win) = stored.instance.check_win(session, offer, lists.context(), &lists.beside.known(stored));
        match win {
            Win::Passed => Take::Passed,
            Win::Full => {
                offer.leaves(stored.instance.record.queue.kind);
                Take::Full
            }
            Win::Wins(winning) => {
                let context = Context { now: lists.beside.now, limits: &lists.limits };
                offer.win_turn(stored.instance.win(winning, context, &mut lists.changes));
                lists.write(id, stored);
                Take::Taken
            }
        }
    }

    fn win_task(&mut self, session: SessionId, offer: &mut Offer, key: &TaskKey) -> Take {
        let Some(row) = self.task(key) else { return Take::Passed };
        let Ok(win) = row.held.check_win(session, offer, &self.lists.beside.known_absent(None));
        match win {
            TaskWin::Passed => Take::Passed,
            TaskWin::Full => {
                offer.leaves(Kind::Activity);
                Take::Full
            }
            TaskWin::Wins(take) => {
                let lease = self.change_tasks(&key.0, |lists, tasks| {
                    let context = Context { now: lists.beside.now, limits: &lists.limits };
                    Some(tasks.get_mut(&key.1)?.held.win(take, context, &mut lists.changes))
                });
                let Some(lease) = lease else { return Take::Passed };
                offer.win_task(lease);
                self.write_of_task(&key.0);
                self.change_task(key, |_| true);
                Take::Taken
            }
        }
    }
}
