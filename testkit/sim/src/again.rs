//! Instances that are begun again under the same id when they have ended: by the client's restart, or by another start.

use std::collections::BTreeMap;
use std::time::Duration;

use dauer_audit::Action;
use dauer_core::send::{self, StartRequest};
use dauer_hub::ClientError;
use dauer_store::{Create, ExecutionId, InstanceId, Over, Record, Refused, Reuse, Status};
use futures::future::{BoxFuture, FutureExt, join, join_all};

use crate::cases::{Again, Case};
use crate::clients::{Clients, PATIENCE};
use crate::interpret::{MODERN, PROGRAM};
use crate::program::{Demand, parent_of};
use crate::random::Random;
use crate::unpoisoned;

/// The run that each instance of a case had ended with.
type Runs = BTreeMap<InstanceId, ExecutionId>;

/// The time between two looks whether an instance runs anew.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

fn is_new(id: &InstanceId, record: &Record, old: &Runs) -> bool {
    old.get(id) != Some(&record.execution)
}

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
            beside.push(self.raise_anew(demand, &old, Random::new(random.bits())).boxed());
        }
        join(self.wait_resuming(case), join_all(beside)).await;
    }

    /// Waits for the end of a run that is not the first.
    pub(crate) async fn wait_resuming(&self, case: &Case) {
        match case.suspended {
            true => drop(join(self.wait(case), self.resume_until_ended(&case.id)).await),
            false => self.wait(case).await,
        }
    }

    /// Resumes whenever it is suspended. A suspend for which the run before was over already was dropped; when it arrives
    /// once more it is judged anew, and counts.
    async fn resume_until_ended(&self, id: &InstanceId) {
        while let Some(record) = self.get(id).await.filter(|record| !record.status.is_ended()) {
            if record.status == Status::Suspended
                && let Ok(resume) = send::resume(id.clone(), None, self.caller())
            {
                self.deliver(&resume).await;
            }
            self.sleep(LOOK_PAUSE).await;
        }
    }

    /// Raises what an instance waits for once it runs anew: until then it is there, and has ended.
    async fn raise_anew(&self, demand: Demand, old: &Runs, random: Random) {
        loop {
            // First those it descends from: what they have not begun when they have ended anew will not come.
            let over = self.comes_no_more(&demand.instance, old).await;
            match self.get(&demand.instance).await {
                Some(record) if is_new(&demand.instance, &record, old) => break,
                _ if over => return,
                _ => self.sleep(LOOK_PAUSE).await,
            }
        }
        self.raise_all(demand, random).await;
    }

    /// Whether an instance that does not run anew never will: somebody it descends from has ended anew without starting
    /// the next. From the top down, as each is started only by the one before.
    async fn comes_no_more(&self, id: &InstanceId, old: &Runs) -> bool {
        let mut line = vec![id.clone()];
        while let Some((parent, _)) = line.last().and_then(parent_of) {
            line.push(parent);
        }
        while let Some(next) = line.pop() {
            if self.get(&next).await.is_none() {
                return true;
            }
            // A detached start waits for its turn when whoever sent it may have ended.
            if self.start_waits(&next).await {
                return false;
            }
            match self.get(&next).await {
                Some(record) if is_new(&next, &record, old) && record.status.is_ended() => {}
                Some(record) if is_new(&next, &record, old) => return false,
                _ => return true,
            }
        }
        true
    }

    /// Whether a start waits for an instance that is there: another one, which replaces nothing, is then told that it is
    /// pending. True when nobody says.
    async fn start_waits(&self, id: &InstanceId) -> bool {
        let request = StartRequest::new(id.clone(), PROGRAM.name());
        let Ok(start) = send::start(request, self.draw_execution(), self.caller(), Over::Refuse) else {
            return true;
        };
        let reuse = Reuse { replaceable: Vec::new() };
        match self.hub.create(vec![Create::new(start, reuse)]).await.pop() {
            Some(Err(Refused::Exists(status))) => status == Status::Pending,
            Some(Ok(created)) => {
                self.complain(format!(
                    "I10 {id}: it was there, and a start that keeps it answered {created:?}"
                ));
                true
            }
            _ => true,
        }
    }

    /// Waits until nobody of it runs, or is about to, as a child that was rewound and has not noticed yet: one that does
    /// could not be started anew.
    async fn wait_for_family(&self, case: &Case) -> Runs {
        let mut runs = Runs::new();
        for (id, _) in case.program.family(&case.id) {
            if let Some(record) = self.settled(&id).await {
                runs.insert(id, record.execution);
            }
        }
        runs
    }

    /// The record of an instance that has ended and that nothing waits for that begins it anew; `None` when it is absent.
    async fn settled(&self, id: &InstanceId) -> Option<Record> {
        while self.ended(id).await.is_some() && self.start_waits(id).await {
            self.sleep(LOOK_PAUSE).await;
        }
        // What had waited may have begun between the two looks.
        self.ended(id).await
    }

    async fn ended(&self, id: &InstanceId) -> Option<Record> {
        loop {
            match self.client().wait_ended(id, PATIENCE).await {
                Ok(record) => return Some(record),
                Err(ClientError::Absent(_)) => return None,
                Err(_) => {}
            }
        }
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
                    let request = StartRequest { version, ..self.request(case) };
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
