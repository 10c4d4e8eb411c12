//! What the tests of this store share: folders that go away, a runner with a deadline, and the fixture of the suite.

#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod build;
pub(crate) mod claims;
pub(crate) mod faults;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;

use dauer_conformance::{FaultPlan, Fixture, Hub};
use dauer_faults::wrap_store;
use dauer_sqlite::{ManualClock, Options, SqliteStore};
use dauer_store::{DumpItem, Host, Manage, Store, StoreLimits, Timestamp, Work};
use faults::Faults;

/// A store in the file of a folder, with a clock that stands still.
pub(crate) fn open(folder: &Folder) -> SqliteStore {
    SqliteStore::open(folder.file(), options(&clock())).expect("the file opens")
}

/// The file of a folder without the store.
pub(crate) fn database(folder: &Folder) -> rusqlite::Connection {
    rusqlite::Connection::open(folder.file()).expect("the file is a database")
}

/// A folder of its own for one test, removed with it.
pub(crate) struct Folder(PathBuf);

static FOLDERS: AtomicUsize = AtomicUsize::new(0);

impl Folder {
    pub(crate) fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("dauer-sqlite-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a new folder for a test");
        Self(path)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("hub.db")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed with the system's temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a rule on the current thread; fails when nothing happens for a minute.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    for _ in 0..6_000 {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("the test still waits after a minute: an answer never came");
}

/// Runs a rule of the suite.
pub(crate) fn rule(rule: BoxFuture<'_, ()>) {
    run(rule);
}

/// One or more handles on one file, whose clock the rule moves and whose calls the rule breaks.
pub(crate) struct SqliteFixture {
    clock: Arc<ManualClock>,
    faults: Arc<Faults>,
    handles: Vec<SqliteStore>,
    /// The handles behind the faults.
    stores: Vec<Arc<dyn Store>>,
    sessions: AtomicUsize,
    // Last, so that the handles are gone before it.
    _folder: Folder,
}

/// Options of a store with that clock, and limits small enough for quick rules about them.
pub(crate) fn options(clock: &Arc<ManualClock>) -> Options {
    let delay = Duration::from_secs(100 * 24 * 60 * 60);
    let limits = StoreLimits {
        message_bytes: 10_000,
        checkpoint_bytes: 100_000,
        checkpoint_items: 100,
        delay,
        removed_starts: 8,
        mail_bytes: 1_000,
    };
    // So near that most rules see both what the index of tags has and what it lacks.
    Options { clock: clock.clone(), limits, tags_behind: 2, ..Options::default() }
}

/// Any moment will do, as long as it is not zero: a store must not confuse "no time" with the epoch.
pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)))
}

impl SqliteFixture {
    pub(crate) fn with_handles(count: usize) -> Self {
        let (folder, clock, faults) = (Folder::new(), clock(), Arc::<Faults>::default());
        let open = |_| SqliteStore::open(folder.file(), options(&clock)).expect("a new file in a new folder");
        let handles: Vec<SqliteStore> = (0..count).map(open).collect();
        let wrap = |handle: &SqliteStore| wrap_store(Arc::new(handle.clone()), faults.interceptor());
        let stores = handles.iter().map(wrap).collect();
        Self { clock, faults, handles, stores, sessions: AtomicUsize::new(0), _folder: folder }
    }
}

impl Drop for SqliteFixture {
    fn drop(&mut self) {
        self.handles.iter().for_each(SqliteStore::close);
    }
}

#[async_trait]
impl Fixture for SqliteFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.stores[0])
    }

    /// Sessions take turns between the handles.
    async fn session(&self, hub: &Hub, host: Host) -> Arc<dyn Work> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let store = &self.stores[(number + 1) % self.stores.len()];
        store.hub(hub.name.clone()).attach(host).await.expect("a new session is not refused")
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

/// Everything a hub holds.
pub(crate) async fn everything(hub: &dyn Manage) -> Vec<DumpItem> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let part = hub.dump(after).await.expect("a dump");
        items.extend(part.items);
        after = part.next;
        if after.is_none() {
            return items;
        }
    }
}
