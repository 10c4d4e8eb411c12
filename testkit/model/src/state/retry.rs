//! Running stalled instances at once (26).

use dauer_store::{InstanceId, Timestamp};

use super::State;
use crate::mistake::Mistake as M;

impl State {
    /// Ends the delay of stalled instances.
    pub(crate) fn retry(&mut self, ids: &[InstanceId]) -> usize {
        self.used |= self.exists();
        let mut count = 0;
        for id in ids {
            let Some(instance) = self.instances.get(id) else { continue };
            let stalled = instance.record.trouble.is_some() || self.makes(M::RetryEndsAnyDelay);
            let held = instance.holder.is_some_and(|holder| self.lives(holder));
            if !stalled || held || instance.not_before <= self.now() {
                continue;
            }
            count += 1;
            let keeps = self.makes(M::RetryKeepsDelay);
            if let Some(instance) = self.instances.get_mut(id).filter(|_| !keeps) {
                instance.not_before = Timestamp::default();
            }
        }
        count
    }
}
