//! Giving an instance back (rules 8 and 9).

use dauer_store::{Fence, Hint, Refused, Release, SessionId};

use crate::instance::death::outlives_hold;
use crate::instance::{Changes, Context, Dirty, Instance};
use crate::judge;

/// A release that [`Instance::check_release`] has allowed.
#[derive(Debug)]
pub struct Releasing<'r>(&'r Release);

impl Instance {
    /// Whether the session may give the instance back.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if it does not hold the instance under that epoch.
    pub fn check_release<'r>(
        &self,
        session: SessionId,
        fence: &Fence,
        release: &'r Release,
    ) -> Result<Releasing<'r>, Refused> {
        let held = self.head.holder == Some(session) && self.head.epoch == fence.epoch;
        if held { Ok(Releasing(release)) } else { Err(Refused::Fenced) }
    }

    /// Gives the instance back.
    pub fn release(&mut self, releasing: Releasing<'_>, context: Context<'_>, changes: &mut Changes) {
        let Releasing(release) = releasing;
        let head = &mut self.head;
        (head.holder, head.trial) = (None, outlives_hold(head.trial));
        head.not_before = judge::not_before(release.delay, context.now);
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
        assert!(instance.check_release(TWO, &fence, &release).is_err());
        let releasing = instance.check_release(ONE, &fence, &release).unwrap();
        let mut changes = Changes::default();
        instance.release(releasing, context(), &mut changes);
        assert_eq!((instance.holder, instance.record.attempts), (None, 1));
        assert_eq!(instance.offered_at(), Some(Timestamp(NOW.0 + 7)));
        assert_eq!(instance.record.trouble.as_ref().map(|trouble| trouble.attempts), Some(1));
        assert_eq!(changes.hints.len(), 1);
        assert!(instance.check_release(ONE, &fence, &release).is_err(), "it is given back once");
    }
}
