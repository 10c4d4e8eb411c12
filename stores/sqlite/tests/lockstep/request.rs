//! One call of the contract as a value, so that it can be given to either store, and again to another copy of the model.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use dauer_faults::Op;
use dauer_store::{
    Checkpoint, ClaimedTurn, Completion, Create, Credit, Death, Host, HubKey, Mail, Manage, Message, Next,
    Purge, Refused, Release, SessionId, TaskLease, TaskName, Trial, Work,
};

use crate::support::claims::{look, want};

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
    Adopt(SessionId, Vec<TaskName>),
    Died(SessionId, Vec<Death>),
    Trial(SessionId, Vec<Trial>),
    Key(HubKey),
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

impl Reply {
    /// What a claim has won, in any order. Stores may name different instances with mail.
    fn take(&mut self, next: Result<Next, Refused>) {
        let won = next.map(|next| {
            self.turns.clone_from(&next.turns);
            self.tasks.clone_from(&next.tasks);
            let turns = next.turns.iter().map(|turn| format!("{turn:?}"));
            let mut told: Vec<String> =
                turns.chain(next.tasks.iter().map(|task| format!("{task:?}"))).collect();
            told.sort();
            told
        });
        self.parts = vec![part(&won)];
    }
}

impl Request {
    /// Where its answer can be lost.
    pub(crate) fn seam(&self) -> Option<Op> {
        Some(match self {
            Self::Create(_) => Op::Create,
            Self::Send(_) => Op::Send,
            Self::ClaimTurns(_) | Self::ClaimTasks(_) => Op::Next,
            Self::Commit(..) => Op::CommitTurns,
            Self::Complete(..) => Op::CompleteActivities,
            Self::Adopt(..) => Op::Adopt,
            Self::Died(..) => Op::Died,
            Self::Trial(..) => Op::Trial,
            Self::Key(_) => Op::Key,
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
            Self::Adopt(by, batch) => each(batch, |batch| Self::Adopt(*by, batch)),
            Self::Died(by, batch) => each(batch, |batch| Self::Died(*by, batch)),
            Self::Trial(by, batch) => each(batch, |batch| Self::Trial(*by, batch)),
            other => vec![other.clone()],
        }
    }
}

/// One store, as its callers have it.
pub(crate) struct Side {
    pub(crate) hub: Arc<dyn Manage>,
    pub(crate) sessions: BTreeMap<SessionId, Arc<dyn Work>>,
    /// The last number of credit of each session, and the first of which it has not heard.
    numbers: BTreeMap<SessionId, (u64, u64)>,
}

impl Side {
    pub(crate) fn new(hub: Arc<dyn Manage>) -> Self {
        Self { hub, sessions: BTreeMap::new(), numbers: BTreeMap::new() }
    }

    fn session(&self, id: SessionId) -> &Arc<dyn Work> {
        self.sessions.get(&id).expect("calls are made only by sessions that were attached")
    }

    /// Gets back what was lost, and wins more.
    async fn claim(&mut self, id: SessionId, credit: impl FnOnce(u64) -> Credit) -> Result<Next, Refused> {
        let session = Arc::clone(self.session(id));
        let (last, unheard) = self.numbers.entry(id).or_insert((0, 1));
        let recalled = match *unheard <= *last {
            true => session.recall(*unheard, *last).await?,
            false => Default::default(),
        };
        *last += 1;
        let mut next = look(&*session, credit(*last)).await?;
        *unheard = *last + 1;
        next.turns.extend(recalled.turns);
        next.tasks.extend(recalled.tasks);
        Ok(next)
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
                let next = self.claim(id, |number| want(ALL).turns(number)).await;
                reply.take(next);
            }
            Request::Mail(id, turn) => {
                let mail = self.session(id).mail(vec![turn.fence.clone()]).await.remove(0);
                reply.parts = vec![part(&mail)];
                let read = mail.ok().filter(|mail| !mail.messages.is_empty());
                let begins = |mail: Mail| ClaimedTurn { messages: mail.messages, now: mail.now, ..*turn };
                reply.turns = read.map(begins).into_iter().collect();
            }
            Request::ClaimTasks(id) => {
                let next = self.claim(id, |number| want(ALL).tasks(number)).await;
                reply.take(next);
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
            Request::Adopt(id, names) => {
                let answers = self.session(id).adopt(names).await;
                reply.parts = answers.iter().map(part).collect();
                reply.tasks = answers.into_iter().flatten().flatten().collect();
            }
            Request::Died(id, batch) => {
                reply.parts = self.session(id).died(batch).await.iter().map(part).collect();
            }
            Request::Trial(id, batch) => {
                reply.parts = self.session(id).trial(batch).await.iter().map(part).collect();
            }
            // A key does not show its bytes.
            Request::Key(candidate) => {
                reply.parts = vec![part(&self.hub.key(candidate).await.map(|key| key.0))];
            }
            Request::Renew(id) => reply.parts = vec![list(self.session(id).renew().await).0],
        }
        reply
    }
}
