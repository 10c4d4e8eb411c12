//! One call of the contract as a value, so that it can be given to either store, and again to another copy of the model.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use dauer_sqlite::Call;
use dauer_store::{
    Checkpoint, ClaimedTurn, Completion, Create, Host, Mail, Manage, Message, Purge, Refused, Release,
    SessionId, TaskLease, Work,
};

use crate::support::build::want;

/// More than there ever is: what is claimed at the same time may come in any order, so everything is.
const ALL: usize = 100;

/// One call.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    Attach(Host),
    Detach(SessionId),
    EndSession(SessionId),
    Create(Vec<Create>),
    Send(Vec<Message>),
    Purge(Purge),
    ClaimTurns(SessionId),
    /// Reads the messages of that turn.
    Mail(SessionId, Box<ClaimedTurn>),
    Commit(SessionId, Vec<Checkpoint>),
    ClaimTasks(SessionId),
    Complete(SessionId, Vec<Completion>),
    Release(SessionId, Vec<Release>),
    Renew(SessionId),
}

/// What became of one element of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// It happened, or was refused for what it is: told as text, because causes are the store's own.
    Known(String),
    /// It did not happen.
    NotExecuted,
    /// Nobody knows.
    Unknown,
}

/// The answer to a call.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) parts: Vec<Part>,
    pub(crate) turns: Vec<ClaimedTurn>,
    pub(crate) tasks: Vec<TaskLease>,
}

fn part<T: Debug>(answer: &Result<T, Refused>) -> Part {
    match answer {
        Ok(answer) => Part::Known(format!("{answer:?}")),
        Err(Refused::NotExecuted(_)) => Part::NotExecuted,
        Err(Refused::Unknown(_)) => Part::Unknown,
        Err(refused @ (Refused::Corrupt(_) | Refused::Newer(_))) => {
            panic!("a failing disk was taken for something else: {refused:?}")
        }
        Err(refused) => Part::Known(format!("{refused:?}")),
    }
}

/// The answer of a call that gives any number of things, in any order.
fn list<T: Debug + Clone>(answer: Result<Vec<T>, Refused>) -> (Part, Vec<T>) {
    let found = answer.clone().unwrap_or_default();
    let sorted = answer.map(|found| {
        let mut told: Vec<String> = found.iter().map(|each| format!("{each:?}")).collect();
        told.sort();
        told
    });
    (part(&sorted), found)
}

impl Request {
    /// Where its answer can be lost.
    pub(crate) fn seam(&self) -> Option<Call> {
        Some(match self {
            Self::Create(_) => Call::Create,
            Self::Send(_) => Call::Send,
            Self::ClaimTurns(_) => Call::ClaimTurns,
            Self::Commit(..) => Call::CommitTurns,
            Self::ClaimTasks(_) => Call::ClaimActivities,
            Self::Complete(..) => Call::CompleteActivities,
            _ => return None,
        })
    }

    /// Each element as a call of its own.
    pub(crate) fn elements(&self) -> Vec<Self> {
        fn each<T: Clone>(batch: &[T], request: impl Fn(Vec<T>) -> Request) -> Vec<Request> {
            batch.iter().map(|element| request(vec![element.clone()])).collect()
        }
        match self {
            Self::Create(batch) => each(batch, Self::Create),
            Self::Send(batch) => each(batch, Self::Send),
            Self::Commit(by, batch) => each(batch, |batch| Self::Commit(*by, batch)),
            Self::Complete(by, batch) => each(batch, |batch| Self::Complete(*by, batch)),
            Self::Release(by, batch) => each(batch, |batch| Self::Release(*by, batch)),
            other => vec![other.clone()],
        }
    }
}

/// One store, as its callers have it.
pub(crate) struct Side {
    pub(crate) hub: Arc<dyn Manage>,
    pub(crate) sessions: BTreeMap<SessionId, Arc<dyn Work>>,
}

impl Side {
    pub(crate) fn new(hub: Arc<dyn Manage>) -> Self {
        Self { hub, sessions: BTreeMap::new() }
    }

    fn session(&self, id: SessionId) -> &Arc<dyn Work> {
        self.sessions.get(&id).expect("calls are made only by sessions that were attached")
    }

    /// Makes the call.
    pub(crate) async fn ask(&mut self, request: &Request) -> Reply {
        let mut reply = Reply::default();
        match request.clone() {
            Request::Attach(host) => {
                let id = host.session;
                let attached = self.hub.attach(host).await;
                reply.parts = vec![part(&attached.as_ref().map(|_| "attached").map_err(Clone::clone))];
                attached.into_iter().for_each(|work| _ = self.sessions.insert(id, work));
            }
            Request::Detach(id) => reply.parts = vec![part(&self.session(id).detach().await)],
            Request::EndSession(id) => reply.parts = vec![part(&self.hub.end_session(id).await)],
            Request::Create(batch) => reply.parts = self.hub.create(batch).await.iter().map(part).collect(),
            Request::Send(batch) => reply.parts = self.hub.send(batch).await.iter().map(part).collect(),
            Request::Purge(purge) => reply.parts = vec![part(&self.hub.purge(purge).await)],
            Request::ClaimTurns(id) => {
                let (told, turns) = list(self.session(id).claim_turns(want(ALL)).await);
                (reply.parts, reply.turns) = (vec![told], turns);
            }
            Request::Mail(id, turn) => {
                let mail = self.session(id).mail(vec![turn.fence.clone()]).await.remove(0);
                reply.parts = vec![part(&mail)];
                let read = mail.ok().filter(|mail| !mail.messages.is_empty());
                let begins = |mail: Mail| ClaimedTurn { messages: mail.messages, now: mail.now, ..*turn };
                reply.turns = read.map(begins).into_iter().collect();
            }
            Request::ClaimTasks(id) => {
                let (told, tasks) = list(self.session(id).claim_activities(want(ALL)).await);
                (reply.parts, reply.tasks) = (vec![told], tasks);
            }
            Request::Commit(id, batch) => {
                let answers = self.session(id).commit_turns(batch.into_iter().map(Arc::new).collect()).await;
                reply.parts = answers.iter().map(part).collect();
                reply.tasks = answers.into_iter().flatten().flat_map(|committed| committed.taken).collect();
            }
            Request::Complete(id, batch) => {
                reply.parts = self.session(id).complete_activities(batch).await.iter().map(part).collect();
            }
            Request::Release(id, batch) => {
                reply.parts = self.session(id).release(batch).await.iter().map(part).collect();
            }
            Request::Renew(id) => reply.parts = vec![list(self.session(id).renew().await).0],
        }
        reply
    }
}
