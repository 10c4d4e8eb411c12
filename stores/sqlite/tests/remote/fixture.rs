//! The fixture: the client is this process, every session is in one of two others.

use std::future::poll_fn;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;

use dauer_conformance::{FaultPlan, Fixture, Hub};
use dauer_faults::{wrap_session, wrap_store};
use dauer_sqlite::{Clock, ManualClock, SqliteStore};
use dauer_store::{
    Changes, Checkpoint, Committed, Completion, Credit, Death, Deaths, Delivered, Fence, Host, Lost, Mail,
    Next, Recalled, Refused, Release, SessionId, Slice, Store, TaskLease, TaskName, Trial, Until, Work,
};

use super::codec::{Wire, bytes_of};
use super::{ASKS, Ask, FILE, SOCKET, receive, send};
use crate::support::faults::Faults;
use crate::support::{Folder, clock, options};

/// The test that becomes the helper when it is started again.
const HELPER: &str = "a_helper_process_has_sessions";

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
    /// Behind the faults.
    store: Arc<dyn Store>,
    helpers: Vec<Helper>,
    sessions: AtomicUsize,
    // Last, so that everyone is gone before it.
    _folder: Folder,
}

impl RemoteFixture {
    pub(crate) fn new() -> Self {
        let (folder, clock, faults) = (Folder::new(), clock(), Arc::<Faults>::default());
        let handle = SqliteStore::open(folder.file(), options(&clock)).expect("a new file");
        let helpers = (0..2).map(|number| Helper::start(&folder, number)).collect();
        let store = wrap_store(Arc::new(handle), faults.interceptor());
        Self { clock, faults, store, helpers, sessions: AtomicUsize::new(0), _folder: folder }
    }
}

#[async_trait]
impl Fixture for RemoteFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    async fn session(&self, hub: &Hub, host: Host) -> Arc<dyn Work> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let helper = &self.helpers[number % self.helpers.len()];
        let (stream, clock) = (helper.stream.clone(), self.clock.clone());
        let remote = Remote { id: host.session, stream, clock };
        let mut content = bytes_of(&hub.name.to_string());
        host.put(&mut content);
        let attached: Result<(), Refused> = remote.ask(Ask::Attach, content);
        attached.expect("a new session is not refused");
        wrap_session(Arc::new(remote), self.faults.interceptor())
    }

    async fn kill(&self, session: Arc<dyn Work>) {
        drop(session);
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn fault(&self, plan: FaultPlan) -> BoxFuture<'static, ()> {
        self.faults.plan_for(plan)
    }
}

/// Ready at the second look: the runner of the rules looks again by itself.
async fn pending_once() {
    let mut looked = false;
    poll_fn(|_| if std::mem::replace(&mut looked, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// A session in another process.
struct Remote {
    id: SessionId,
    stream: Arc<Mutex<UnixStream>>,
    clock: Arc<ManualClock>,
}

impl Remote {
    /// Asks and waits; that the thread waits too is fine in a test with one.
    fn ask<T: Wire>(&self, ask: Ask, content: Vec<u8>) -> T {
        let mut request = bytes_of(&ASKS.iter().position(|known| *known == ask).unwrap());
        self.id.put(&mut request);
        self.clock.now().put(&mut request);
        request.extend(content);
        let mut stream = self.stream.lock().unwrap();
        send(&mut stream, &request).expect("the helper listens");
        T::read_from(&mut &receive(&mut stream).expect("the helper answers")[..])
    }
}

#[async_trait]
impl Work for Remote {
    fn session(&self) -> SessionId {
        self.id
    }

    fn credit(&self, credit: Credit) {
        self.ask::<()>(Ask::Credit, bytes_of(&credit));
    }

    /// The helper does one thing at a time: it looks whenever the rule looks whether the call has returned.
    async fn next(&self, until: Until<'_>) -> Result<Next, Refused> {
        loop {
            let next: Result<Next, Refused> = self.ask(Ask::Next, Vec::new());
            let ends = match until {
                Until::Once => true,
                Until::At(env, at) => env.steady() >= at,
            };
            if ends || !matches!(&next, Ok(next) if next.is_empty()) {
                return next;
            }
            pending_once().await;
        }
    }

    async fn recall(&self, first: u64, last: u64) -> Result<Recalled, Refused> {
        let mut content = bytes_of(&first);
        last.put(&mut content);
        self.ask(Ask::Recall, content)
    }

    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>> {
        self.ask(Ask::Mail, bytes_of(&fences))
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        let mut content = bytes_of(fence);
        from.put(&mut content);
        max_bytes.put(&mut content);
        self.ask(Ask::LoadHistory, content)
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        self.ask(Ask::CommitTurns, bytes_of(&batch))
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        self.ask(Ask::CompleteActivities, bytes_of(&batch))
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        self.ask(Ask::Renew, Vec::new())
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        self.ask(Ask::Release, bytes_of(&items))
    }

    async fn adopt(&self, tasks: Vec<TaskName>) -> Vec<Result<Option<TaskLease>, Refused>> {
        self.ask(Ask::Adopt, bytes_of(&tasks))
    }

    async fn died(&self, deaths: Vec<Death>) -> Vec<Result<Deaths, Refused>> {
        self.ask(Ask::Died, bytes_of(&deaths))
    }

    async fn trial(&self, trials: Vec<Trial>) -> Vec<Result<(), Refused>> {
        self.ask(Ask::Trial, bytes_of(&trials))
    }

    async fn detach(&self) -> Result<(), Refused> {
        self.ask(Ask::Detach, Vec::new())
    }

    fn changes(&self) -> Changes {
        // The suite waits for no hint; `another_handle_is_told_that_there_is_work` does.
        Box::pin(futures::stream::empty())
    }
}
