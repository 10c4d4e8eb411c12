//! Giving an instance back (rules 8 and 9).

use dauer_store::{Fence, Hint, Hold, Message, Refused, Release, SessionId, Timestamp};

use crate::inbox::Admission;
use crate::instance::death::outlives_hold;
use crate::instance::{Changes, Context, Dirty, Facts, Inbox, Instance, Part};
use crate::judge;

/// A release that [`Instance::check_release`] has allowed.
#[derive(Debug)]
pub struct Releasing<'r> {
    release: &'r Release,
    not_before: Timestamp,
}

impl Instance {
    /// Whether the session may give the instance back, and from when another may win it.
    ///
    /// Refuses as [`Refused::Fenced`] if the session does not hold the instance under that epoch.
    pub fn check_release<'r, F: Facts>(
        &self,
        session: SessionId,
        fence: &Fence,
        release: &'r Release,
        (context, facts): (Context<'_>, &F),
    ) -> Result<Result<Releasing<'r>, Refused>, F::Error> {
        let held = self.head.holder == Some(session) && self.head.epoch == fence.epoch;
        if !held {
            return Ok(Err(Refused::Fenced));
        }
        let now = context.now;
        let delayed = judge::not_before(release.delay, now);
        let hurries = if release.delay.is_zero() { None } else { self.hurries_at(facts)? };
        // The delay doubles at most, so that a turn which fails all the same is not tried all the time.
        let soon = hurries.map(|at| if at > now { at } else { now.after(now.since(at)) });
        let not_before = soon.map_or(delayed, |soon| soon.min(delayed));
        Ok(Ok(Releasing { release, not_before }))
    }

    /// When the first waiting message is visible that ends a delay.
    fn hurries_at<F: Facts>(&self, facts: &F) -> Result<Option<Timestamp>, F::Error> {
        let record = &self.head.record;
        let admission = Admission::of(record, false);
        let hurries = |message: &Message| admission.admits(message) && judge::hurries(record, message);
        let first = |inbox: &Inbox| {
            let hurrying = inbox.iter().filter(|(_, message)| hurries(message));
            hurrying.map(|(_, message)| message.visible_at).min()
        };
        if let Some(inbox) = &self.inbox {
            return Ok(first(inbox));
        }
        let control = Admission::new(Hold::Unborn, false);
        Ok(first(&self.read_parts(facts, &[Part::Openings, Part::Earliest(control)])?))
    }

    /// Gives the instance back.
    pub fn release(&mut self, releasing: Releasing<'_>, changes: &mut Changes) {
        let Releasing { release, not_before } = releasing;
        let head = &mut self.head;
        (head.holder, head.trial) = (None, outlives_hold(head.trial));
        head.not_before = not_before;
        changes.dirty.add(Dirty::HOLDER);
        changes.dirty.add(Dirty::NOT_BEFORE);
        if release.failed || release.trouble.is_some() {
            changes.dirty.add(Dirty::RECORD);
        }
        if release.trouble.is_some() {
            changes.dirty.add(Dirty::DETAILS);
            changes.hints.push(Hint::Status(self.id.clone(), head.record.status));
        }
        judge::release_turn(&mut head.record, release.failed, release.trouble.clone());
    }

    /// The session that holds it detaches. It keeps what else the session wished of it.
    pub fn let_go(&mut self, changes: &mut Changes) {
        (self.head.holder, self.head.trial) = (None, outlives_hold(self.head.trial));
        changes.dirty.add(Dirty::HOLDER);
    }

    /// Raises the epoch of a held instance: a planted mistake.
    #[cfg(feature = "planted")]
    pub(crate) fn raise_epoch(&mut self) {
        self.head.epoch = self.head.epoch.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::testing::*;
    use dauer_store::{Item, Timestamp};
    use std::time::Duration;

    #[test]
    fn released_instance_rests_and_shows_its_trouble() {
        let mut instance = held_by(ONE);
        let fence = instance.fence();
        let delay = Duration::from_millis(7);
        let release =
            Release { item: Item::Turn(fence.clone()), delay, trouble: Some(trouble()), failed: true };
        let check = |instance: &Instance, session| {
            let checked = instance.check_release(session, &fence, &release, (context(), &Known::default()));
            checked.unwrap_or_else(|never| match never {})
        };
        assert!(check(&instance, TWO).is_err());
        let releasing = check(&instance, ONE).unwrap();
        let mut changes = Changes::default();
        instance.release(releasing, &mut changes);
        assert_eq!((instance.holder, instance.record.attempts), (None, 1));
        assert_eq!(instance.offered_at(), Some(Timestamp(NOW.0 + 7)));
        assert_eq!(instance.record.trouble.as_ref().map(|trouble| trouble.attempts), Some(1));
        assert_eq!(changes.hints.len(), 1);
        let again = instance.check_release(ONE, &fence, &release, (context(), &Known::default()));
        assert!(matches!(again, Ok(Err(Refused::Fenced))), "it is given back once");
    }
}
