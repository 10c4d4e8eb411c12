//! Giving items back (9).

use std::collections::BTreeMap;
use std::time::Duration;

use dauer_store::{Fence, Item, Refused, Release, SessionId, TaskFence, Timestamp, Trouble, TroubleKind};

use super::State;
use crate::mistake::Mistake as M;

impl State {
    /// Gives one item back.
    pub(crate) fn release(&mut self, session: SessionId, release: Release) -> Result<(), Refused> {
        self.may_act(session)?;
        match &release.item {
            Item::Turn(fence) => self.release_turn(session, fence, &release),
            Item::Task(fence) => self.release_task(session, fence, &release),
        }
    }

    fn release_turn(&mut self, by: SessionId, fence: &Fence, release: &Release) -> Result<(), Refused> {
        self.held(by, &fence.instance, fence.epoch)?;
        let (counts, not_before) = (self.counts(release), self.not_before(release.delay));
        let one_count = self.makes(M::TroubleHasOneCount);
        let keeps_trial = self.makes(M::ReleaseKeepsTrial);
        let trouble = release.trouble.clone().filter(|_| !self.makes(M::TroubleHidden));
        let Some(instance) = self.instances.get_mut(&fence.instance) else { return Err(Refused::Fenced) };
        (instance.holder, instance.not_before) = (None, not_before);
        instance.trial &= keeps_trial;
        let record = &mut instance.record;
        record.attempts += u32::from(counts);
        if let Some(trouble) = trouble {
            let mut counts: BTreeMap<TroubleKind, u32> = BTreeMap::new();
            let mut since = trouble.since;
            if let Some(earlier) = record.trouble.as_deref() {
                counts.extend(earlier.others.iter().copied());
                counts.insert(earlier.kind, earlier.attempts);
                since = if earlier.kind == trouble.kind { earlier.since } else { since };
            }
            let attempts = counts.remove(&trouble.kind).unwrap_or_default() + 1;
            let others = if one_count { Vec::new() } else { counts.into_iter().collect() };
            let attempts = if one_count { record.attempts } else { attempts };
            record.trouble = Some(Box::new(Trouble { since, attempts, others, ..trouble }));
        }
        Ok(())
    }

    fn release_task(&mut self, by: SessionId, fence: &TaskFence, release: &Release) -> Result<(), Refused> {
        let key = (fence.instance.clone(), fence.task);
        let (counts, not_before) = (self.counts(release), self.not_before(release.delay));
        let mark = Some(self.now()).filter(|_| self.makes(M::ReleaseLeavesMark));
        let keeps_trial = self.makes(M::ReleaseKeepsTrial);
        let task = self.tasks.get_mut(&key).filter(|task| task.is_held(by, fence.epoch));
        let task = task.ok_or(Refused::Fenced)?;
        (task.holder, task.not_before) = (None, not_before);
        task.trial &= keeps_trial;
        task.mark = task.mark.max(mark);
        task.attempts += u32::from(counts);
        if task.withdrawn {
            self.discard(&key);
        }
        Ok(())
    }

    fn counts(&self, release: &Release) -> bool {
        let forgets = release.trouble.is_none() && self.makes(M::ReleaseUncounted);
        release.failed && !forgets || !release.failed && self.makes(M::PlainReleaseCounts)
    }

    /// The time before which an item that is given back with a delay is not claimed.
    pub(super) fn not_before(&self, delay: Duration) -> Timestamp {
        if delay.is_zero() || self.makes(M::DelayIgnored) {
            Timestamp::default()
        } else {
            self.now().after(delay)
        }
    }
}
