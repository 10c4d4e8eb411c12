//! Instances that are begun again under the same id when they have ended: by the client's restart, or by another start.

use std::collections::BTreeMap;
use std::time::Duration;

use dauer_audit::Action;
use dauer_hub::ClientError;
use dauer_store::{ExecutionId, InstanceId, Record, Refused, Reuse};
use futures::future::{BoxFuture, FutureExt, join, join_all};

use crate::cases::{Again, Case};
use crate::clients::{Clients, PATIENCE};
use crate::interpret::MODERN;
use crate::program::Demand;
use crate::random::Random;
use crate::unpoisoned;

/// The run that each instance of a case had ended with.
type Runs = BTreeMap<InstanceId, ExecutionId>;

/// The time between two looks whether an instance runs anew.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

impl Clients {
    /// Begins a case again, raises once more what it waits for, and waits for its end.
    pub(crate) async fn begin_again(&self, case: &Case, again: Again, random: &mut Random) {
        let old = self.wait_for_family(case).await;
        let Some(before) = self.get(&case.id).await else {
            return self.complain(format!("I4 {}: it had ended, and is gone", case.id));
        };
        unpoisoned(&self.revived).insert(case.id.clone());
        self.note_run(case, &before);
        let Some(after) = self.replaced(case, again, &before).await else { return };
        self.note_run(case, &after);
        let mut beside: Vec<BoxFuture<'_, ()>> = Vec::new();
        for demand in case.program.demands(&case.id) {
            beside.push(self.raise_anew(&case.id, demand, &old, Random::new(random.bits())).boxed());
        }
        join(self.wait(case), join_all(beside)).await;
    }

    /// Raises what an instance waits for once it runs anew: until then it is there, and has ended.
    async fn raise_anew(&self, root: &InstanceId, demand: Demand, old: &Runs, random: Random) {
        let is_new = |id: &InstanceId, record: &Record| old.get(id) != Some(&record.execution);
        loop {
            // First the root: what is old after the root was seen to have ended anew stays so.
            let over =
                self.get(root).await.is_none_or(|record| is_new(root, &record) && record.status.is_ended());
            match self.get(&demand.instance).await {
                Some(record) if is_new(&demand.instance, &record) => break,
                _ if over => return,
                _ => self.sleep(LOOK_PAUSE).await,
            }
        }
        self.raise_all(demand, random).await;
    }

    /// Waits until nobody of it runs: a child that still did could not be started anew.
    async fn wait_for_family(&self, case: &Case) -> Runs {
        let mut runs = Runs::new();
        for (id, _) in case.program.family(&case.id) {
            loop {
                match self.client().wait_ended(&id, PATIENCE).await {
                    Ok(record) => drop(runs.insert(id.clone(), record.execution)),
                    Err(ClientError::Absent(_)) => {}
                    Err(_) => continue,
                }
                break;
            }
        }
        runs
    }

    fn note_run(&self, case: &Case, record: &Record) {
        let (execution, start) = (record.execution, record.start);
        self.note(&case.id, Action::Started { execution, start });
    }

    /// The record of the run that has taken the place of the one before. A client that is not told what became of its
    /// request looks: whatever began another run was that request.
    async fn replaced(&self, case: &Case, again: Again, before: &Record) -> Option<Record> {
        let key = self.client().random_key();
        loop {
            let begun = match again {
                // What continued as new would be restarted in its last round.
                Again::Restart if case.program.rounds == 1 => {
                    self.client().restart(&case.id, None, key).await
                }
                Again::Restart => {
                    self.client().start_requested(self.request(case), Reuse::default(), key).await
                }
                Again::Start { modern } => {
                    let version = modern.then(|| MODERN.to_owned());
                    let request = dauer_core::send::StartRequest { version, ..self.request(case) };
                    self.client().start_requested(request, Reuse::default(), key).await
                }
            };
            let found = self.get(&case.id).await;
            let Some(found) = found else {
                self.complain(format!("I4 {}: begun again, and not there", case.id));
                return None;
            };
            if found.execution != before.execution {
                return Some(found);
            }
            match begun {
                Err(ClientError::Refused(Refused::Unknown(_) | Refused::NotExecuted(_))) => self.rest().await,
                other => {
                    self.complain(format!("I10 {}: begun again, it was answered with {other:?}", case.id));
                    return None;
                }
            }
        }
    }
}
