//! Running stalled instances at once.

use dauer_store::InstanceId;

use super::claim::readable;
use super::{ABSENT, Scope};
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Ends the delay of stalled instances. Returns the number of instances whose delay it ended.
    pub(crate) fn retry(&mut self, ids: &[InstanceId]) -> Outcome<usize> {
        if self.hub == ABSENT {
            return Ok(0);
        }
        self.touch()?;
        let mut count = 0;
        for id in ids {
            // A damaged instance does not keep the others from being retried.
            let Some(mut loaded) = readable(self.fetch(id))?.flatten() else { continue };
            let retrying = loaded.instance.check_retry(self.context(), &self.facts(Some(&loaded.stored)))?;
            match retrying {
                Some(retrying) => {
                    let mut changes = self.changes();
                    loaded.instance.retry(retrying, &mut changes);
                    self.finish(loaded, changes)?;
                    count += 1;
                }
                None => self.put_back(loaded),
            }
        }
        Ok(count)
    }
}
