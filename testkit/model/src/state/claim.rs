//! Winning items, getting them back, and mail (3, 12, 20).

use std::time::Duration;

use dauer_store::{
    ClaimedTurn, Fence, InstanceId, Item, Mail, QueueKey, Recalled, Refused, SessionId, Tags, Timestamp,
};

use super::inbox::{Batch, Instance};
use super::tasks::OpenTask;
use super::{State, TaskKey};
use crate::mistake::Mistake as M;
use crate::session::Desk;

/// What a look has found, beside what it has won.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Held instances with messages.
    pub(crate) mail: Vec<InstanceId>,
    /// How long until something is ready by time alone.
    pub(crate) due: Option<Duration>,
}

/// What may be won: in its queue, since when it is ready, and its key.
type Candidate<K> = (QueueKey, Timestamp, K);

impl State {
    /// Looks once for a session.
    pub(crate) fn look(&mut self, session: SessionId, desk: &mut Desk) -> Result<Found, Refused> {
        self.may_claim(session)?;
        self.used = true;
        self.relay();
        self.sweep();
        self.win(session, desk);
        let wanted = |queue: &QueueKey, tags: &Tags| self.is_for(desk, queue, tags);
        let (turns, tasks) = (self.free_turns(session, wanted), self.free_tasks(wanted));
        let times = turns.map(|(_, at, _)| at).chain(tasks.map(|(_, at, _)| at));
        let mail = self.mail_times(session).filter(|_| !self.makes(M::MailNeverDue)).map(|(_, at)| at);
        let later = times.chain(mail).filter(|at| *at > self.now());
        let late = 1 + u32::from(self.makes(M::NextDueTooLate));
        let due = later.min().map(|at| at.since(self.now()) * late);
        let visible = self.mail_times(session).filter(|(_, at)| *at <= self.now());
        let mail = visible.filter(|_| !self.makes(M::MailForgotten)).map(|(id, _)| id.clone());
        Ok(Found { mail: mail.collect(), due })
    }

    /// Wins what is ready, as far as there is credit.
    pub(crate) fn win(&mut self, session: SessionId, desk: &mut Desk) {
        while let Some((bytes, whatever_size)) = desk.turn_room(self.wrong()) {
            let wanted = |queue: &QueueKey, tags: &Tags| self.is_for(desk, queue, tags);
            let ready = self.free_turns(session, wanted).filter(|(_, at, _)| *at <= self.now());
            let Some((queue, _, id)) = self.first(ready.collect(), 0) else { break };
            let fits = self.instances.get(&id).and_then(|i| i.batch(self.moment, bytes, whatever_size));
            let Some(batch) = fits else { break };
            self.served[0] = Some(queue);
            self.hold_turn(session, &id);
            let Some(instance) = self.instances.get(&id) else { break };
            desk.win_turn(self.claimed(&id, instance, batch));
        }
        while let Some((bytes, whatever_size)) = desk.task_room(self.wrong()) {
            let wanted = |queue: &QueueKey, tags: &Tags| self.is_for(desk, queue, tags);
            let ready = self.free_tasks(wanted).filter(|(_, at, key)| {
                *at <= self.now() && self.tasks.get(key).is_some_and(|task| task.holder != Some(session))
            });
            let Some((queue, _, key)) = self.first(ready.collect(), 1) else { break };
            let Some(task) = self.tasks.get(&key) else { break };
            if !whatever_size && task.task.event.len() > bytes {
                break;
            }
            self.served[1] = Some(queue);
            self.hold_task(session, &key);
            let Some(task) = self.tasks.get(&key) else { break };
            desk.win_task(task.lease(self.shown()));
        }
    }

    /// Whether work of that queue with those tags is for a session.
    fn is_for(&self, desk: &Desk, queue: &QueueKey, tags: &Tags) -> bool {
        let credit = desk.credit();
        let admits = credit.queues.admits(queue) || self.makes(M::QueueFilterIgnored);
        let tagged = credit.tags.iter().all(|(key, value)| tags.get(key) == Some(value));
        admits && (tagged || self.makes(M::TagFilterIgnored))
    }

    /// Turns that no living session holds, with the time from which they are ready.
    fn free_turns(
        &self,
        session: SessionId,
        wanted: impl Fn(&QueueKey, &Tags) -> bool,
    ) -> impl Iterator<Item = Candidate<InstanceId>> {
        let hides = self.makes(M::EmptyWhenAnyHeld);
        let others = |i: &&Instance| i.holder.is_some_and(|holder| holder != session && self.lives(holder));
        let busy: Vec<&Instance> = self.instances.values().filter(others).filter(|_| hides).collect();
        self.instances.iter().filter_map(move |(id, instance)| {
            let next = instance.next_run();
            let old = &instance.record;
            let queue = if self.makes(M::EndedKeepsOldQueue) { &old.queue } else { next.0 };
            let tags = if self.makes(M::EndedKeepsOldTags) { &old.tags } else { next.1 };
            let free = match instance.holder {
                None => true,
                Some(holder) if holder == session => {
                    self.makes(M::ClaimTakesKept) && instance.has_committed()
                }
                Some(holder) => {
                    self.may_be_robbed(holder) && !(instance.has_committed() && self.lives(holder))
                }
            };
            let ready_at = instance.ready_at(self.moment)?.max(instance.not_before);
            let free = free && !busy.iter().any(|held| held.record.queue == *queue);
            (free && wanted(queue, tags)).then(|| (queue.clone(), ready_at, id.clone()))
        })
    }

    /// The same for tasks.
    fn free_tasks(
        &self,
        wanted: impl Fn(&QueueKey, &Tags) -> bool,
    ) -> impl Iterator<Item = Candidate<TaskKey>> {
        self.tasks.iter().filter_map(move |(key, open)| {
            let OpenTask { task, ready_at, not_before, .. } = open;
            let free = open.holder.is_none_or(|holder| !self.lives(holder)) && !open.withdrawn;
            let ready_at = (*ready_at).max(*not_before);
            (free && wanted(&task.queue, &task.tags)).then(|| (task.queue.clone(), ready_at, key.clone()))
        })
    }

    /// The oldest of the queue behind the one that was served last.
    fn first<K: Ord>(&self, ready: Vec<Candidate<K>>, kind: usize) -> Option<Candidate<K>> {
        let before = |queue: &QueueKey| self.served[kind].as_ref().is_some_and(|served| queue <= served);
        let (starves, newest) = (self.makes(M::QueueStarved), self.makes(M::NewestFirst));
        ready.into_iter().min_by(|one, two| {
            let turn = |queue: &QueueKey| !starves && before(queue);
            let queues = (turn(&one.0), &one.0).cmp(&(turn(&two.0), &two.0));
            let ages = if newest { two.1.cmp(&one.1) } else { one.1.cmp(&two.1) };
            queues.then(ages).then_with(|| one.2.cmp(&two.2))
        })
    }

    /// Makes a session the holder, under a higher epoch (8). The deaths grow when the last holder died before it committed
    /// under its epoch (9).
    fn hold_turn(&mut self, session: SessionId, id: &InstanceId) {
        let Some(instance) = self.instances.get(id) else { return };
        let holder = instance.holder.filter(|holder| *holder != session);
        let reclaims = instance.holder.is_none() && instance.last_holder == Some(session);
        let began = !instance.has_committed() || self.makes(M::KeptCountsAttempt);
        let proven = holder.is_some_and(|holder| self.is_proven_dead(holder));
        let uncounted = if proven { M::EndSessionUncounted } else { M::TakeoverUncounted };
        let counts = holder.is_some() && began && !self.makes(uncounted);
        let runs_code =
            holder.is_some_and(|holder| self.runs_code(holder)) || self.makes(M::ServerCountsAsWorker);
        let keeps = holder.is_some() && self.makes(M::TakeoverKeepsEpoch)
            || reclaims && self.makes(M::ReclaimKeepsEpoch);
        let ran_code = holder.is_some_and(|holder| self.runs_code(holder));
        let during = ran_code || self.makes(M::ServerEndCountsInTrial);
        let during = during && !self.makes(M::TrialUncounted);
        let keeps_trial = self.makes(M::TakeoverKeepsTrial);
        if holder.is_some() {
            self.take_turn_from_holder(id);
        }
        let Some(instance) = self.instances.get_mut(id) else { return };
        instance.epoch = if keeps { instance.epoch } else { instance.epoch.next() };
        if counts {
            instance.record.deaths.trials += u32::from(during && instance.trial);
            instance.record.deaths = instance.record.deaths.after(runs_code);
        }
        instance.trial &= keeps_trial;
        (instance.holder, instance.last_holder) = (Some(session), Some(session));
    }

    fn claimed(&self, id: &InstanceId, instance: &Instance, batch: Batch) -> ClaimedTurn {
        let Batch { messages, more } = batch;
        let (fence, record) = (instance.fence(id), instance.record.clone());
        ClaimedTurn { fence, record, messages, more, history: None, now: self.shown() }
    }

    /// Those of the items that the session still has as it won them (3).
    pub(crate) fn recalled(&self, session: SessionId, items: &[Item]) -> Result<Recalled, Refused> {
        self.may_act(session)?;
        let mut recalled = Recalled::default();
        if self.makes(M::RecallForgets) {
            return Ok(recalled);
        }
        let any = self.makes(M::RecallReturnsCommitted);
        for item in items {
            match item {
                Item::Turn(fence) => {
                    let held = self.held(session, &fence.instance, fence.epoch).ok();
                    if let Some(instance) = held.filter(|instance| any || !instance.has_committed()) {
                        let batch = instance.mail(self.moment, self.limits.mail_bytes);
                        recalled.turns.push(self.claimed(&fence.instance, instance, batch));
                    }
                }
                Item::Task(fence) => {
                    let task = self.tasks.get(&(fence.instance.clone(), fence.task));
                    let held = task.filter(|t| t.is_held(session, fence.epoch));
                    recalled.tasks.extend(held.map(|task| task.lease(self.shown())));
                }
            }
        }
        Ok(recalled)
    }

    /// The instances that a session has kept, with the time of the first admitted message.
    fn mail_times(&self, session: SessionId) -> impl Iterator<Item = (&InstanceId, Timestamp)> {
        let held = self.instances.iter().filter(move |(_, instance)| instance.holder == Some(session));
        held.filter_map(|(id, instance)| {
            // A dump does not say who committed last.
            let loaded = instance.last.is_none() && !instance.history.is_empty();
            let at = instance.ready_at(self.moment)?;
            (loaded || instance.has_committed()).then_some((id, at))
        })
    }

    /// Reads the messages that wait for a held instance (20).
    pub(crate) fn mail(&self, session: SessionId, fence: &Fence) -> Result<Mail, Refused> {
        self.may_act(session)?;
        let instance = self.instances.get(&fence.instance).ok_or(Refused::Fenced)?;
        let current = self.fence(&fence.instance).as_ref() == Some(fence) || self.makes(M::MailUnfenced);
        if instance.holder != Some(session) || !current {
            return Err(Refused::Fenced);
        }
        let Batch { messages, more } = instance.mail(self.moment, self.limits.mail_bytes);
        Ok(Mail { messages, more, now: self.shown() })
    }
}
