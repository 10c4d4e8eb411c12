//! Starting instances.

use dauer_store::{Create, Created};
use dauer_store_kit::instance::{Beginning, REPEATED, Starting, check_absent_create, check_start};

use super::Scope;
use super::inbox::sequence;
use super::stored::Loaded;
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Starts an instance, in one write.
    pub(crate) fn create(&mut self, create: &Create) -> Outcome<Created> {
        let context = self.context();
        let starting = check_start(create.clone(), context)?;
        if let Some(loaded) = self.fetch(&create.start.to)? {
            return self.create_over(loaded, starting);
        }
        match check_absent_create(starting, context, &self.facts(None))? {
            Beginning::Born(birth) => {
                self.touch()?;
                self.bear(*birth).map(Created::New)
            }
            Beginning::Repeat(known) => {
                self.count_dropped(REPEATED, 1)?;
                Ok(Created::Repeat(known))
            }
        }
    }

    /// A start for an instance that is there.
    fn create_over(&mut self, mut loaded: Box<Loaded>, starting: Starting) -> Outcome<Created> {
        let context = self.context();
        let creating = loaded.instance.check_create(starting, context, &self.facts(Some(&loaded.stored)))?;
        match creating {
            Ok(creating) => {
                self.touch()?;
                let (sequence, mut changes) = (sequence(self.next_inbox_key()?), self.changes());
                let created = loaded.instance.create(creating, sequence, context, &mut changes);
                self.finish(loaded, changes)?;
                Ok(created)
            }
            Err(refused) => {
                self.put_back(loaded);
                Err(refused.into())
            }
        }
    }
}
