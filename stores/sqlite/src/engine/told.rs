//! What a transaction reports to the desks of a handle.

use std::collections::{BTreeMap, BTreeSet};

use dauer_store::{HubName, InstanceId, Kind, Refused, SessionId, Timestamp};
use dauer_store_kit::calls::Desks;

use super::time::FileTime;
use crate::state::{Bid, Group};

/// What sessions have won, and what else concerns those that wait.
#[derive(Default)]
pub(super) struct Told {
    bids: Vec<Bid>,
    ready: BTreeSet<(HubName, Kind)>,
    mail: BTreeSet<(HubName, SessionId, InstanceId)>,
    due: BTreeMap<HubName, Timestamp>,
    /// Why no one knows whether the transaction happened.
    doubt: Option<Refused>,
}

impl Told {
    /// After a transaction that happened.
    pub(super) fn happened(group: &mut Group) -> Self {
        Self {
            bids: group.bids.take(),
            ready: std::mem::take(&mut group.ready),
            mail: std::mem::take(&mut group.mail),
            due: std::mem::take(&mut group.due),
            doubt: None,
        }
    }

    /// After a transaction that may have happened.
    pub(super) fn unknown(group: &mut Group, refused: Refused) -> Self {
        Self { bids: group.bids.take(), doubt: Some(refused), ..Self::default() }
    }

    pub(super) fn tell(self, desks: &Desks, time: &FileTime) {
        if let Some(refused) = self.doubt {
            for bid in self.bids {
                bid.desk.doubt(&bid.offer.into_won(), refused.clone());
            }
            // What it has made ready was told to no one.
            return desks.unseen_all(None);
        }
        for (hub, kind) in &self.ready {
            let offered = self.bids.iter().filter(|bid| bid.hub == *hub).map(|bid| bid.session);
            desks.unseen(hub, *kind, &offered.collect::<Vec<_>>());
        }
        for bid in self.bids {
            bid.desk.settle(bid.offer.into_won());
        }
        for (hub, holder, instance) in self.mail {
            let of_holder = desks.of_hub(&hub).into_iter().filter(|(session, _)| *session == holder);
            of_holder.for_each(|(_, desk)| desk.mail([instance.clone()]));
        }
        for (hub, at) in self.due {
            desks.due(&hub, time.until(at));
        }
    }
}
