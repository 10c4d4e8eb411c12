//! Running stalled instances at once (rule 26).

use dauer_store::InstanceId;

use super::Partition;

impl Partition {
    /// Ends the delay of stalled instances. Returns the number of instances whose delay it ended.
    pub fn retry(&mut self, ids: &[InstanceId]) -> usize {
        self.pristine &= !self.exists();
        ids.iter().filter(|id| self.retry_one(id)).count()
    }

    fn retry_one(&mut self, id: &InstanceId) -> bool {
        let Some(stored) = self.instances.get_mut(id) else { return false };
        let lists = &mut self.lists;
        let known = lists.beside.known(stored);
        let Ok(retrying) = stored.instance.check_retry(lists.context(), &known);
        let Some(retrying) = retrying else { return false };
        lists.apply(&mut stored.instance, |instance, _, _, changes| instance.retry(retrying, changes));
        lists.write(id, stored);
        true
    }
}
