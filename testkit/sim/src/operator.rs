//! The operator: looks at everything while it happens, and ends by force what can never end by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dauer_core::ledger::Ledger;
use dauer_core::send::{self, StartRequest};
use dauer_core::turn::{self, Found};
use dauer_store::{
    Batch, Checkpoint, Class, Create, Env, ExecutionId, HubName, Inspection, InstanceId, List, Manage, Over,
    Purge, Query, Refused, Reuse, Revision, Status, Store,
};

use crate::clients::Clients;
use crate::journal::Journal;
use crate::program::POISON;
use crate::random::Random;

/// The longest time between two looks.
const LOOK_PAUSE: Duration = Duration::from_secs(4);

/// The latest that the poisoned instance is ended.
const POISON_MAX: Duration = Duration::from_secs(40);

/// Small enough that a history has several pages.
const PAGE_BYTES: usize = 200;

/// Further than the revision of any instance gets.
const NEVER_REACHED: u64 = 1_000_000;

/// Instances of one page.
const PAGE: usize = 3;

/// The one who looks.
pub(crate) struct Operator {
    pub(crate) clients: Arc<Clients>,
    pub(crate) journal: Arc<Journal>,
    /// The store behind the faults, with the hub.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) name: HubName,
    /// Whether the hub was seen once. It is never deleted.
    pub(crate) seen: AtomicBool,
    /// The instances to look at more closely.
    pub(crate) ids: Vec<InstanceId>,
}

impl Operator {
    fn hub(&self) -> &dyn Manage {
        &*self.clients.hub
    }

    /// Looks at one thing after the other, for ever. A look that fails is none.
    pub(crate) async fn look_around(&self, mut random: Random) {
        loop {
            self.clients.sleep(random.duration(LOOK_PAUSE)).await;
            match random.below(13) {
                0 => self.query().await,
                1 => self.list().await,
                2 if !self.ids.is_empty() => {
                    let at = random.index(self.ids.len());
                    self.read(&self.ids[at]).await;
                }
                3 | 4 if !self.ids.is_empty() => {
                    let at = random.index(self.ids.len());
                    self.amend_too_late(&self.ids[at]).await;
                }
                5 => self.purge_nobody().await,
                // Their answers are of this moment only; what counts is that asking does no harm.
                6 => drop(self.hub().scale().await),
                7 => drop(self.hub().dump(None).await),
                8 if !self.ids.is_empty() => {
                    let at = random.index(self.ids.len());
                    self.inspect(&self.ids[at]).await;
                }
                9 if !self.ids.is_empty() => {
                    let at = random.index(self.ids.len());
                    drop(self.hub().read_start(&self.ids[at]).await);
                }
                10 => self.sessions().await,
                11 => self.hubs().await,
                _ => self.delete_nothing().await,
            }
        }
    }

    /// What is listed is among what waits and is open.
    async fn inspect(&self, id: &InstanceId) {
        let Ok(found) = self.hub().inspect(vec![id.clone()]).await else { return };
        for Inspection { waiting, messages, open, tasks, .. } in found.into_iter().flatten() {
            if waiting < messages.len() as u64 || open < tasks.len() as u64 {
                self.clients.complain(format!("{id}: an inspection lists more than it counts"));
            }
        }
    }

    /// Each session is listed once, in the order of the ids (rule 24).
    async fn sessions(&self) {
        let Ok(sessions) = self.hub().sessions().await else { return };
        if !sessions.is_sorted_by(|before, after| before.id < after.id) {
            self.clients.complain("the sessions are not in the order of their ids".into());
        }
    }

    /// The hub exists from its first session on.
    async fn hubs(&self) {
        let seen = self.seen.load(Ordering::Relaxed);
        let (there, listed) = (self.store.has_hub(&self.name).await, self.store.hubs().await);
        let listed = listed.map(|hubs| hubs.contains(&self.name));
        if seen && (matches!(there, Ok(false)) || matches!(listed, Ok(false))) {
            self.clients.complain(format!("the hub is gone: there {there:?}, listed {listed:?}"));
        }
        self.seen.fetch_or(matches!(there, Ok(true)), Ordering::Relaxed);
    }

    /// Deleting a hub that is not there succeeds.
    async fn delete_nothing(&self) {
        let Ok(nobody) = HubName::new("nobody") else { return };
        match self.store.delete_hub(&nobody).await {
            Ok(()) | Err(Refused::NotExecuted(_) | Refused::Unknown(_)) => {}
            Err(other) => self.clients.complain(format!("an absent hub was not deleted: {other}")),
        }
    }

    /// No instance is on two pages, unless it was begun again meanwhile: then it is a newer one.
    async fn query(&self) {
        let mut seen = BTreeSet::new();
        let mut query = Query { page: PAGE, ..Query::default() };
        while let Ok(page) = self.hub().query(query.clone()).await {
            for (id, _) in page.records {
                if !seen.insert(id.clone()) && !self.clients.may_run_again(&id) {
                    self.clients.complain(format!("{id} is on two pages of a query"));
                }
            }
            query.after = page.next;
            if query.after.is_none() {
                return;
            }
        }
    }

    /// What is listed as ended has ended, or is gone, or a client has rewound it meanwhile.
    async fn list(&self) {
        let Ok(page) = self.hub().list(List { page: PAGE, ..List::default() }).await else { return };
        let Ok(found) = self.hub().get(page.ids).await else { return };
        for (fence, record) in found.into_iter().flatten() {
            if !record.status.is_ended() && !self.clients.may_run_again(&fence.instance) {
                self.clients
                    .complain(format!("{} is listed as ended and is {:?}", fence.instance, record.status));
            }
        }
    }

    /// A page of a history is what was committed by then, and has all that was committed before it was asked for.
    async fn read(&self, id: &InstanceId) {
        // Which run was read is known when it was the same before and after: while one reads, runs may come and go.
        let Some((of, before)) = self.journal.committed(id) else { return };
        let Ok(slice) = self.hub().read_history(id, None, 0, PAGE_BYTES).await else { return };
        let Some((_, after)) = self.journal.committed(id).filter(|(execution, _)| *execution == of) else {
            return;
        };
        let read: Vec<&Batch> = slice.batches.iter().map(|stored| &stored.batch).collect();
        let missing = slice.next.is_none() && read.len() < before.len();
        let gone = slice.batches.is_empty();
        if !gone
            && (missing
                || read.len() > after.len()
                || read.iter().zip(&after).any(|(read, was)| **read != *was))
        {
            self.clients.complain(format!("I1 {id}: a page of its history is not what was committed"));
        }
    }

    /// An amendment of a state that the instance is not in has no effect, however often it arrives.
    async fn amend_too_late(&self, id: &InstanceId) {
        let Ok(found) = self.hub().get(vec![id.clone()]).await else { return };
        let Some((mut fence, record)) = found.into_iter().next().flatten() else { return };
        fence.revision = Revision(fence.revision.0 + NEVER_REACHED);
        let (ledger, now) = (Ledger::new(id.clone(), record.execution), self.clients.env.now());
        let request = StartRequest::new(id.clone(), "too-late");
        let Ok(mut start) =
            send::start(request, self.clients.draw_execution(), self.clients.caller(), Over::Refuse)
        else {
            return;
        };
        if let Class::Start(begun) = &mut start.class {
            begun.execution = record.execution;
        }
        let caller = self.clients.caller();
        let Ok(message) = send::terminate(id.clone(), None, false, caller) else { return };
        // One that has ended cannot be terminated, not even on paper.
        let found = Found { fence, record, ledger, start: Some(start), overtaken: Vec::new(), now };
        let Ok(Some(finished)) = turn::amend(found, &message) else { return };
        if let Ok(committed) = self.hub().amend(finished.checkpoint).await {
            let revision = committed.revision.0;
            self.clients.complain(format!("I2 {id}: an amendment of nothing was committed as {revision}"));
        }
    }

    /// What is not there is not removed.
    async fn purge_nobody(&self) {
        let Ok(nobody) = InstanceId::new("nobody") else { return };
        if let Ok(purged) = self.hub().purge(Purge::Ids(vec![nobody])).await
            && purged.count > 0
        {
            self.clients.complain("an instance was purged that never was".into());
        }
    }

    /// Starts what nobody can run, and ends it by force after a while: I13 and L4 with everybody else's luck.
    pub(crate) async fn poison(&self, mut random: Random) {
        let Ok(id) = InstanceId::new(POISON) else { return };
        let request = StartRequest::new(id.clone(), POISON);
        let Ok(start) =
            send::start(request, self.clients.draw_execution(), self.clients.caller(), Over::Refuse)
        else {
            return;
        };
        loop {
            let create = Create::new(start.clone(), Reuse { replaceable: Vec::new() });
            match self.hub().create(vec![create]).await.pop() {
                Some(Ok(_)) => break,
                Some(Err(Refused::Unknown(_) | Refused::NotExecuted(_))) => self.clients.rest().await,
                other => {
                    return self.clients.complain(format!("{id}: its start was answered with {other:?}"));
                }
            }
        }
        self.clients.sleep(random.duration(POISON_MAX)).await;
        while !self.end_by_force(&id).await {
            self.clients.rest().await;
        }
    }

    /// Whether it has ended. The same amendment is sent until it is known what became of it.
    async fn end_by_force(&self, id: &InstanceId) -> bool {
        let Ok(found) = self.hub().get(vec![id.clone()]).await else { return false };
        let Some((fence, record)) = found.into_iter().next().flatten() else {
            self.clients.complain(format!("I4 {id}: started, and not there"));
            return true;
        };
        if record.status.is_ended() {
            if record.status != Status::Terminated {
                self.clients
                    .complain(format!("{id} has ended as {:?}, and nobody could run it", record.status));
            }
            return true;
        }
        let Some(ledger) = self.ledger(id, record.execution).await else { return false };
        if ledger.events() != record.history_len {
            return false;
        }
        let Ok(start) = self.hub().read_start(id).await else { return false };
        let (reason, caller) = (Some("\"by force\"".into()), self.clients.caller());
        let Ok(message) = send::terminate(id.clone(), reason, true, caller) else { return false };
        let Ok(seen) = self.hub().inspect(vec![id.clone()]).await else { return false };
        let Some(now) = seen.into_iter().next().flatten().map(|seen| seen.now) else { return false };
        let found = Found { fence, record, ledger, start, overtaken: Vec::new(), now };
        match turn::amend(found, &message) {
            Ok(Some(finished)) => self.amend(finished.checkpoint).await,
            Ok(None) => self.clients.complain(format!("{id} could not be ended: nothing would change")),
            Err(stalled) => self.clients.complain(format!("{id} could not be ended: {stalled}")),
        }
        false
    }

    async fn amend(&self, checkpoint: Checkpoint) {
        while let Err(refused) = self.hub().amend(checkpoint.clone()).await {
            match refused {
                Refused::Unknown(_) | Refused::NotExecuted(_) => self.clients.rest().await,
                // Somebody was quicker: look again.
                Refused::Fenced => return,
                other => {
                    return self.clients.complain(format!("an amendment was answered with {other}"));
                }
            }
        }
    }

    async fn ledger(&self, id: &InstanceId, execution: ExecutionId) -> Option<Ledger> {
        let mut ledger = Ledger::new(id.clone(), execution);
        let mut from = Some(0);
        while let Some(next) = from {
            let slice = self.hub().read_history(id, Some(execution), next, PAGE_BYTES).await.ok()?;
            for batch in &slice.batches {
                ledger.absorb(batch).ok()?;
            }
            from = slice.next;
        }
        Some(ledger)
    }
}
