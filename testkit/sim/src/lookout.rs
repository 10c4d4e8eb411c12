//! L1 from outside: two dumps that are two leases apart, and what the hosts say of what stands still in both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauer_audit::{Incomparable, Snapshot, Standstill, progress};
use dauer_store::{Epoch, InstanceId, Revision, Timestamp};

use crate::faults::DELAY_LONGEST;
use crate::hosts::Hosts;
use crate::unpoisoned;
use crate::wire::Network;

/// How long all looks find an instance in no slot of its holder before that is a violation. The answer that brings it to the
/// host may be delayed, by [`DELAY_LONGEST`] and then once more. A host that has lost it never gets it back.
const MISSING_MAX: Duration = DELAY_LONGEST.saturating_mul(3);

/// Instances as they stand still, and since when.
type Missing = BTreeMap<(InstanceId, Epoch, Revision), Timestamp>;

/// Compares each dump with one that is old enough.
pub(crate) struct Lookout<'a> {
    network: &'a Arc<Network>,
    hosts: &'a Arc<Hosts>,
    before: Option<Snapshot>,
    /// Instances that their holder did not have at the last look, and since when.
    missing: Missing,
}

impl<'a> Lookout<'a> {
    pub(crate) fn new(network: &'a Arc<Network>, hosts: &'a Arc<Hosts>) -> Self {
        Self { network, hosts, before: None, missing: BTreeMap::new() }
    }

    /// Looks once more. An instance that a living session holds must be in a slot of its host.
    pub(crate) async fn look(&mut self, now: Snapshot) {
        let Some(before) = &self.before else {
            self.before = Some(now);
            return;
        };
        match progress(before, &now, self.hosts.lease()) {
            Err(Incomparable::TooClose { .. }) => return,
            Err(Incomparable::WrongOrder) => self.complain("the store's time went backwards".into()),
            Ok(found) => {
                let before = std::mem::take(&mut self.missing);
                for standstill in found.suspicious {
                    self.ask(&standstill, &before).await;
                }
            }
        }
        self.before = Some(now);
    }

    /// What is suspicious is wrong when the host does not know of it.
    async fn ask(&mut self, standstill: &Standstill, before: &Missing) {
        let Some((session, host)) = &standstill.holder else { return };
        let Some(inspection) = self.hosts.inspect(*session).await else { return };
        let held = inspection
            .turns
            .iter()
            .any(|turn| turn.fence.instance == standstill.instance && turn.fence.epoch == standstill.epoch);
        // It may have moved while the host was asked.
        let now = self.network.journal.look(vec![standstill.instance.clone()]).pop().flatten();
        let stands = now.is_some_and(|(fence, _)| {
            (fence.epoch, fence.revision) == (standstill.epoch, standstill.revision)
        });
        if held || !stands {
            return;
        }
        let key = (standstill.instance.clone(), standstill.epoch, standstill.revision);
        let now = self.network.executor.now();
        let since = before.get(&key).copied().unwrap_or(now);
        self.missing.insert(key, since);
        if now.since(since) > MISSING_MAX {
            self.complain(format!(
                "L1 {}: the store says that {host} holds it in epoch {}, and {host} does not",
                standstill.instance, standstill.epoch.0
            ));
        }
    }

    fn complain(&self, text: String) {
        let mut stalled = unpoisoned(&self.network.stalled);
        if !stalled.contains(&text) {
            stalled.push(text);
        }
    }
}
