//! Running a stalled instance at once (rule 26).

use crate::instance::{Changes, Context, Dirty, Facts, Instance};

/// A retry that [`Instance::check_retry`] has allowed.
#[derive(Debug)]
pub struct Retrying(());

impl Instance {
    /// Whether a retry ends the delay of the instance: it is stalled, its delay lasts, and no living session holds it.
    pub fn check_retry<F: Facts>(
        &self,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Option<Retrying>, F::Error> {
        let head = &self.head;
        let rests = head.record.trouble.is_some() && head.not_before > context.now;
        let held = rests && head.holder.map_or(Ok(false), |holder| facts.lives(holder))?;
        Ok((rests && !held).then_some(Retrying(())))
    }

    /// Ends the delay of the instance.
    pub fn retry(&mut self, Retrying(()): Retrying, changes: &mut Changes) {
        self.head.not_before = Default::default();
        changes.dirty.add(Dirty::NOT_BEFORE);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::instance::testing::*;
    use dauer_store::{Item, Release, Timestamp};

    fn released(trouble: bool, delay: Duration) -> Instance {
        let mut instance = held_by(ONE);
        let fence = instance.fence();
        let trouble = trouble.then(crate::instance::testing::trouble);
        let release = Release { item: Item::Turn(fence.clone()), delay, trouble, failed: true };
        let facts = Known::default();
        let Ok(releasing) = instance.check_release(ONE, &fence, &release, (context(), &facts));
        instance.release(releasing.unwrap(), &mut Changes::default());
        instance
    }

    #[test]
    fn retry_ends_the_delay_of_a_stalled_instance() {
        let mut instance = released(true, Duration::from_secs(7));
        let before = instance.record.clone();
        let Ok(retrying) = instance.check_retry(context(), &Known::default());
        let mut changes = Changes::default();
        instance.retry(retrying.unwrap(), &mut changes);
        assert_eq!((instance.not_before, &instance.record), (Timestamp::default(), &before));
        assert!(changes.dirty.has(Dirty::NOT_BEFORE) && !changes.dirty.has(Dirty::RECORD));
        let Ok(again) = instance.check_retry(context(), &Known::default());
        assert!(again.is_none(), "its delay is over");
    }

    #[test]
    fn retry_leaves_other_instances_alone() {
        let sleeps = released(false, Duration::from_secs(7));
        let Ok(retrying) = sleeps.check_retry(context(), &Known::default());
        assert!(retrying.is_none(), "it is delayed without trouble");
        let mut held = released(true, Duration::from_secs(7));
        held.head.holder = Some(ONE);
        let facts = Known::default();
        let Ok(retrying) = held.check_retry(context(), &facts);
        assert!(retrying.is_none(), "a session holds it");
        facts.dead.set(Some(ONE));
        let Ok(retrying) = held.check_retry(context(), &facts);
        assert!(retrying.is_some(), "its session has ended");
    }
}
