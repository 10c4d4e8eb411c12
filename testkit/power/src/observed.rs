//! A store that tells every answer it gives, to be put between a host and the real one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use dauer_store::{
    Changes, Checkpoint, ClaimedTurn, Class, Committed, Completion, Create, Created, Delivered, Dump,
    DumpItem, Effort, ExecutionId, Fence, Host, IdPage, Inspection, InstanceId, List, Lost, Mail, Manage,
    Message, Page, Purge, Purged, Query, Queues, Record, Refused, Release, Scale, SessionId, SessionInfo,
    Slice, StoreLimits, TaskLease, WaitingMail, Want, Work,
};

use crate::told::{Tell, Told, number};

/// What a planted fault is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Honesty {
    /// Answers are told when they are given.
    Honest,
    /// Planted: starts and commits are told before they are carried out, as by a store that answers before its commit.
    Hasty,
}

/// One hub.
pub(crate) struct Observed {
    pub(crate) inner: Arc<dyn Manage>,
    pub(crate) tell: Tell,
    pub(crate) honesty: Honesty,
}

/// One session.
struct ObservedWork {
    inner: Arc<dyn Work>,
    tell: Tell,
    honesty: Honesty,
}

/// Tells a refusal: allowed when the disk fails, or never.
fn refused<T>(tell: &Tell, call: &str, answer: Result<T, Refused>) -> Result<T, Refused> {
    if let Err(refused) = &answer {
        let how = match refused {
            Refused::Fenced => "fenced",
            Refused::NotExecuted(_) => "not executed",
            Refused::Unknown(_) => "unknown",
            other => {
                tell(Told::Complaint(format!("{call} was answered with {other:?}")));
                return answer;
            }
        };
        tell(Told::Refused { call: call.to_owned(), how: how.to_owned() });
    }
    answer
}

fn each<T>(tell: &Tell, call: &str, answers: Vec<Result<T, Refused>>) -> Vec<Result<T, Refused>> {
    answers.into_iter().map(|answer| refused(tell, call, answer)).collect()
}

fn started(create: &Create) -> Option<Told> {
    let Class::Start(begun) = &create.start.class else { return None };
    let instance = create.start.to.to_string();
    Some(Told::Started { instance, execution: begun.record.execution.0, start: number(create.start.id) })
}

#[async_trait]
impl Manage for Observed {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        let started: Vec<Option<Told>> = batch.iter().map(started).collect();
        if self.honesty == Honesty::Hasty {
            started.iter().flatten().cloned().for_each(&*self.tell);
        }
        let answers = self.inner.create(batch).await;
        for (told, _) in started.into_iter().zip(&answers).filter(|(_, answer)| answer.is_ok()) {
            told.into_iter().for_each(&*self.tell);
        }
        each(&self.tell, "create", answers)
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        let ids: Vec<_> = batch.iter().map(|message| (message.to.to_string(), number(message.id))).collect();
        let answers = self.inner.send(batch).await;
        for ((instance, message), answer) in ids.into_iter().zip(&answers) {
            if matches!(answer, Ok(Delivered::Applied)) {
                (self.tell)(Told::Raised { instance, message });
            }
        }
        each(&self.tell, "send", answers)
    }

    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        refused(&self.tell, "amend", self.inner.amend(checkpoint).await)
    }

    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        refused(&self.tell, "get", self.inner.get(ids).await)
    }

    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused> {
        refused(&self.tell, "inspect", self.inner.inspect(ids).await)
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        refused(&self.tell, "sessions", self.inner.sessions().await)
    }

    async fn query(&self, query: Query) -> Result<Page, Refused> {
        refused(&self.tell, "query", self.inner.query(query).await)
    }

    async fn list(&self, list: List) -> Result<IdPage, Refused> {
        refused(&self.tell, "list", self.inner.list(list).await)
    }

    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        let answer = self.inner.read_history(instance, execution, from, max_bytes).await;
        refused(&self.tell, "read_history", answer)
    }

    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused> {
        refused(&self.tell, "read_start", self.inner.read_start(instance).await)
    }

    async fn purge(&self, purge: Purge) -> Result<Purged, Refused> {
        refused(&self.tell, "purge", self.inner.purge(purge).await)
    }

    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused> {
        let inner = refused(&self.tell, "attach", self.inner.attach(host).await)?;
        Ok(Arc::new(ObservedWork { inner, tell: Arc::clone(&self.tell), honesty: self.honesty }))
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Refused> {
        refused(&self.tell, "end_session", self.inner.end_session(session).await)
    }

    async fn scale(&self) -> Result<Scale, Refused> {
        refused(&self.tell, "scale", self.inner.scale().await)
    }

    fn limits(&self) -> StoreLimits {
        self.inner.limits()
    }

    fn effort(&self) -> Effort {
        self.inner.effort()
    }

    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused> {
        refused(&self.tell, "dump", self.inner.dump(after).await)
    }

    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused> {
        refused(&self.tell, "load", self.inner.load(items).await)
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }
}

#[async_trait]
impl Work for ObservedWork {
    fn session(&self) -> SessionId {
        self.inner.session()
    }

    async fn claim_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        refused(&self.tell, "claim_turns", self.inner.claim_turns(want).await)
    }

    async fn await_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        refused(&self.tell, "await_turns", self.inner.await_turns(want).await)
    }

    async fn waiting_mail(&self) -> Result<WaitingMail, Refused> {
        refused(&self.tell, "waiting_mail", self.inner.waiting_mail().await)
    }

    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>> {
        each(&self.tell, "mail", self.inner.mail(fences).await)
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        refused(&self.tell, "load_history", self.inner.load_history(fence, from, max_bytes).await)
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        if self.honesty == Honesty::Hasty {
            for checkpoint in &batch {
                let (revision, now) = (checkpoint.fence.revision.next(), dauer_store::Timestamp::default());
                let committed =
                    Committed { revision, arrived: Vec::new(), more: false, taken: Vec::new(), now };
                (self.tell)(Told::committed(checkpoint, &committed));
            }
        }
        let answers = self.inner.commit_turns(batch.clone()).await;
        for (checkpoint, answer) in batch.iter().zip(&answers) {
            if let Ok(committed) = answer {
                (self.tell)(Told::committed(checkpoint, committed));
            }
        }
        each(&self.tell, "commit_turns", answers)
    }

    async fn claim_activities(&self, want: Want) -> Result<Vec<TaskLease>, Refused> {
        refused(&self.tell, "claim_activities", self.inner.claim_activities(want).await)
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        let told = |completion: &Completion| Told::Answered {
            instance: completion.answer.to.to_string(),
            execution: completion.answer.execution.map_or(0, |execution| execution.0),
            answer: number(completion.answer.id),
        };
        let told: Vec<Told> = batch.iter().map(told).collect();
        let answers = self.inner.complete_activities(batch).await;
        for (told, answer) in told.into_iter().zip(&answers) {
            if matches!(answer, Ok(Delivered::Applied)) {
                (self.tell)(told);
            }
        }
        each(&self.tell, "complete_activities", answers)
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        refused(&self.tell, "renew", self.inner.renew().await)
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        each(&self.tell, "release", self.inner.release(items).await)
    }

    async fn next_due(&self, queues: &Queues) -> Result<Option<Duration>, Refused> {
        refused(&self.tell, "next_due", self.inner.next_due(queues).await)
    }

    async fn detach(&self) -> Result<(), Refused> {
        refused(&self.tell, "detach", self.inner.detach().await)
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }
}
