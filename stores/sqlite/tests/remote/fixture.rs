//! The fixture: the client is this process, every session is in one of two others.

use std::collections::VecDeque;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;

use dauer_conformance::{Call, Fault, FaultPlan, Fixture, Hub};
use dauer_sqlite::{Clock, Faults, ManualClock, SqliteStore};
use dauer_store::{
    Changes, Checkpoint, ClaimedTurn, Committed, Completion, Delivered, Fence, Host, Lost, Mail, Queues,
    Refused, Release, SessionId, Slice, Store, TaskLease, WaitingMail, Want, Work,
};

use super::codec::{Wire, bytes_of};
use super::helper::Raw;
use super::{ASKS, Ask, FILE, SOCKET, receive, send};
use crate::support::{Folder, clock, options};

/// The test that becomes the helper when it is started again.
const HELPER: &str = "a_helper_process_has_sessions";

type Planned = Arc<Mutex<VecDeque<(Call, u32, oneshot::Sender<()>)>>>;

/// Another process, and the way to it.
struct Helper {
    process: Child,
    stream: Arc<Mutex<UnixStream>>,
}

impl Helper {
    fn start(folder: &Folder, number: usize) -> Self {
        let socket = folder.path().join(format!("socket{number}"));
        let listener = UnixListener::bind(&socket).expect("a new socket");
        let process = Command::new(std::env::current_exe().expect("the test knows where it is"))
            .args(["--exact", HELPER, "--quiet"])
            .env(SOCKET, &socket)
            .env(FILE, folder.file())
            .stdout(Stdio::null())
            .spawn()
            .expect("the test can be started again");
        let (stream, _) = listener.accept().expect("the helper connects");
        // A helper that does not answer fails the rule instead of stopping it.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket has a deadline");
        Self { process, stream: Arc::new(Mutex::new(stream)) }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One file, the client here, and the sessions in two other processes.
pub(crate) struct RemoteFixture {
    clock: Arc<ManualClock>,
    faults: Arc<Faults>,
    planned: Planned,
    store: SqliteStore,
    helpers: Vec<Helper>,
    sessions: AtomicUsize,
    // Last, so that everyone is gone before it.
    _folder: Folder,
}

impl RemoteFixture {
    pub(crate) fn new() -> Self {
        let (folder, clock, faults) = (Folder::new(), clock(), Arc::<Faults>::default());
        let store = SqliteStore::open_faulty(folder.file(), options(&clock), faults.clone());
        let helpers = (0..2).map(|number| Helper::start(&folder, number)).collect();
        let planned = Planned::default();
        let sessions = AtomicUsize::new(0);
        Self { clock, faults, planned, store: store.expect("a new file"), helpers, sessions, _folder: folder }
    }
}

#[async_trait]
impl Fixture for RemoteFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn session(&self, hub: &Hub, host: Host) -> Arc<dyn Work> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let helper = &self.helpers[number % self.helpers.len()];
        let (stream, clock, planned) = (helper.stream.clone(), self.clock.clone(), self.planned.clone());
        let remote = Remote { id: host.session, stream, clock, planned };
        let mut content = bytes_of(&hub.name.to_string());
        host.put(&mut content);
        let attached: Result<(), Refused> = remote.ask(Ask::Attach, content).await;
        attached.expect("a new session is not refused");
        Arc::new(remote)
    }

    async fn kill(&self, session: Arc<dyn Work>) {
        drop(session);
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn fault(&self, plan: FaultPlan) -> BoxFuture<'static, ()> {
        use dauer_sqlite::{Call as Called, Fault as Broken};
        let (number, fault) = match plan.fault {
            Fault::NotExecuted => (0, Broken::NotExecuted),
            Fault::UnknownNotDone => (1, Broken::UnknownNotDone),
            Fault::UnknownDone => (2, Broken::UnknownDone),
            Fault::AnswerWithheld => (3, Broken::AnswerWithheld),
            other => panic!("the fixture does not know {other:?}"),
        };
        // Clients are here, sessions are elsewhere.
        match plan.call {
            Call::Create => self.faults.plan(Called::Create, fault),
            Call::Send => self.faults.plan(Called::Send, fault),
            Call::Amend => self.faults.plan(Called::Amend, fault),
            call => {
                let (struck, has_struck) = oneshot::channel();
                self.planned.lock().unwrap().push_back((call, number, struck));
                has_struck.map(|_| ()).boxed()
            }
        }
    }
}

/// A session in another process.
struct Remote {
    id: SessionId,
    stream: Arc<Mutex<UnixStream>>,
    clock: Arc<ManualClock>,
    planned: Planned,
}

impl Remote {
    /// Asks and waits; that the thread waits too is fine in a test with one.
    async fn ask<T: Wire>(&self, ask: Ask, content: Vec<u8>) -> T {
        let strike = self.strike(ask);
        let mut request = bytes_of(&ASKS.iter().position(|known| *known == ask).unwrap());
        strike.as_ref().map(|(fault, _)| *fault).put(&mut request);
        self.id.put(&mut request);
        self.clock.now().put(&mut request);
        request.extend(content);
        let answer = {
            let mut stream = self.stream.lock().unwrap();
            send(&mut stream, &request).expect("the helper listens");
            receive(&mut stream).expect("the helper answers")
        };
        if let Some((_, struck)) = strike {
            let _ = struck.send(());
        }
        match Option::<Raw>::read_from(&mut &answer[..]) {
            Some(Raw(answer)) => T::read_from(&mut &answer[..]),
            None => futures::future::pending().await,
        }
    }

    fn strike(&self, ask: Ask) -> Option<(u32, oneshot::Sender<()>)> {
        let call = match ask {
            Ask::ClaimTurns => Call::ClaimTurns,
            Ask::CommitTurns => Call::CommitTurns,
            Ask::ClaimActivities => Call::ClaimActivities,
            Ask::CompleteActivities => Call::CompleteActivities,
            _ => return None,
        };
        let mut planned = self.planned.lock().unwrap();
        let found = planned.iter().position(|(of, ..)| *of == call)?;
        planned.remove(found).map(|(_, fault, struck)| (fault, struck))
    }
}

#[async_trait]
impl Work for Remote {
    fn session(&self) -> SessionId {
        self.id
    }

    async fn claim_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        self.ask(Ask::ClaimTurns, bytes_of(&want)).await
    }

    async fn waiting_mail(&self) -> Result<WaitingMail, Refused> {
        self.ask(Ask::WaitingMail, Vec::new()).await
    }

    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>> {
        self.ask(Ask::Mail, bytes_of(&fences)).await
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        let mut content = bytes_of(fence);
        from.put(&mut content);
        max_bytes.put(&mut content);
        self.ask(Ask::LoadHistory, content).await
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        self.ask(Ask::CommitTurns, bytes_of(&batch)).await
    }

    async fn claim_activities(&self, want: Want) -> Result<Vec<TaskLease>, Refused> {
        self.ask(Ask::ClaimActivities, bytes_of(&want)).await
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        self.ask(Ask::CompleteActivities, bytes_of(&batch)).await
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        self.ask(Ask::Renew, Vec::new()).await
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        self.ask(Ask::Release, bytes_of(&items)).await
    }

    async fn next_due(&self, queues: &Queues) -> Result<Option<Duration>, Refused> {
        self.ask(Ask::NextDue, bytes_of(queues)).await
    }

    async fn detach(&self) -> Result<(), Refused> {
        self.ask(Ask::Detach, Vec::new()).await
    }

    fn changes(&self) -> Changes {
        // The suite waits for no hint; `another_handle_is_told_that_there_is_work` does.
        Box::pin(futures::stream::empty())
    }
}
