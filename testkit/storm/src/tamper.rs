//! Negative controls: a copy of the file in which one thing is not as it was. A storm that is verified on it must be
//! red, otherwise its verdict says nothing.

use std::path::Path;

use dauer_store::{DumpItem, InstanceDump, Manage, Payload};

use crate::error::Error;
use crate::programs::CHAIN;

/// What to change in the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tamper {
    /// Nothing: the control of the controls.
    Nothing,
    /// An instance whose start was acknowledged is gone.
    LostInstance,
    /// A checkpoint is missing in a history.
    LostCheckpoint,
    /// A checkpoint is there twice: its messages were applied twice.
    DoubledCheckpoint,
    /// An instance ended with something else.
    WrongOutput,
}

impl Tamper {
    /// Copies a hub into another file, with the change.
    pub(crate) async fn copy(self, from: &dyn Manage, file: &Path) -> Result<dauer::Hub, Error> {
        let mut items = Vec::new();
        let mut after = None;
        loop {
            let part = from.dump(after).await?;
            items.extend(part.items);
            after = part.next;
            if after.is_none() {
                break;
            }
        }
        let victim = items.iter().position(is_victim);
        let victim = victim.ok_or(Error::Usage("there is no chain to tamper with; use more kills"))?;
        match (self, &mut items[victim]) {
            (Self::LostInstance, _) => _ = items.remove(victim),
            (_, DumpItem::Instance(dump)) => self.change(dump),
            _ => {}
        }
        let hub = dauer::open(&format!("sqlite:{}", file.display()))?;
        hub.manage().load(items).await?;
        Ok(hub)
    }

    fn change(self, dump: &mut InstanceDump) {
        let middle = dump.history.len() / 2;
        match self {
            Self::Nothing | Self::LostInstance => {}
            Self::LostCheckpoint => _ = dump.history.remove(middle),
            Self::DoubledCheckpoint => {
                let again = dump.history[middle].clone();
                let events = dump.history[middle + 1].first - again.first;
                dump.history.insert(middle, again);
                // Placed as if it had been committed: only that it repeats another one is wrong.
                for batch in &mut dump.history[middle + 1..] {
                    batch.first += events;
                    batch.revision.0 += 1;
                }
                dump.record.revision.0 += 1;
            }
            Self::WrongOutput => dump.record.details.set_output(Some(Payload::from("-1"))),
        }
    }
}

/// An instance with something in the middle of its history, and no parent that would miss it.
fn is_victim(item: &DumpItem) -> bool {
    let DumpItem::Instance(dump) = item else { return false };
    let is_chain = &*dump.record.queue.name == CHAIN.name();
    is_chain && dump.record.parent.is_none() && dump.history.len() > 2
}
