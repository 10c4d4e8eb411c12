//! The store: one handle on one file.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use async_trait::async_trait;
use futures::channel::oneshot;
use rusqlite::Connection;

use dauer_store::{HubName, Manage, Refused, SessionId, Store, StoreLimits};
use dauer_store_kit::calls::Desks;

use crate::engine::{FileTime, LOOK_WATCHED, Listeners, Order, Read, Reader, Tally, Watch, Writer};
use crate::hub::SqliteHub;
use crate::life::Lives;
use crate::open::{connect, prepare};
use crate::options::{OpenError, Options};
use crate::shell::Shell;
use crate::state::{ABSENT, Group};
use crate::touched::Follower;

/// A handle on a file that holds any number of hubs. Clones are the same handle; any number of handles, in any number
/// of processes of one machine, may be open on one file.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

/// What hubs and sessions of a handle share. When the last of them is gone, the threads end by themselves.
pub(crate) struct Shared {
    pub(crate) writer: Arc<mpsc::Sender<Order>>,
    pub(crate) reader: mpsc::Sender<Option<Read>>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) desks: Arc<Desks>,
    pub(crate) time: Arc<FileTime>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) lives: Arc<Lives>,
    pub(crate) limits: StoreLimits,
    threads: Mutex<Option<Threads>>,
}

/// The two threads of a handle, until it is closed.
struct Threads {
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
}

impl SqliteStore {
    /// Opens a file, or creates it. Blocks for a few accesses to the disk.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong with the path or the file, and what to do.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        Self::open_at(path.as_ref(), options)
    }

    fn open_at(path: &Path, options: Options) -> Result<Self, OpenError> {
        let Options { durability, clock, limits, memory, tags_behind } = options;
        let gate = prepare(path, durability)?;
        let listeners = Arc::<Listeners>::default();
        let desks = Arc::new(Desks::new(Arc::clone(&clock)));
        let time = Arc::new(FileTime::new(clock));
        let lives = Arc::new(Lives::new(path));
        let tally = Arc::new(Tally::new(path, durability));
        let (writer, orders) = mpsc::channel();
        let writer = Arc::new(writer);
        let (reader, reads) = mpsc::channel();
        let writes = Writer {
            path: path.into(),
            durability,
            db: Some(connect(path, durability)?),
            seen: None,
            told: None,
            follower: Follower::default(),
            gate,
            time: Arc::clone(&time),
            limits: limits.clone(),
            group: Group::new(Arc::clone(&desks), Arc::clone(&lives), (memory, tags_behind)),
            tally: Arc::clone(&tally),
            listeners: Arc::clone(&listeners),
            desks: Arc::clone(&desks),
            orders,
            watch: Watch::new(path, &writer),
            look_watched: LOOK_WATCHED,
            has_company: false,
        };
        let db = connect(path, durability)?;
        for session in lives.left_behind() {
            if !has_session(&db, session).map_err(|source| OpenError::Sqlite { path: path.into(), source })? {
                lives.bury(session);
            }
        }
        let db = Some(db);
        let reading = Reader { path: path.into(), durability, db, time: Arc::clone(&time), reads };
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let named = std::thread::Builder::new().name(name.to_owned());
            named.spawn(work).map_err(|source| OpenError::Io { path: path.into(), source })
        };
        let threads = Threads {
            writer: spawn("dauer-sqlite-w", Box::new(move || writes.run()))?,
            reader: spawn("dauer-sqlite-r", Box::new(move || reading.run()))?,
        };
        let threads = Mutex::new(Some(threads));
        let shared = Shared { writer, reader, listeners, desks, time, tally, lives, limits, threads };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens a hub. It exists once something was put into it: an instance, a message or a session.
    #[must_use]
    pub fn hub(&self, name: HubName) -> Arc<dyn Manage> {
        Arc::new(SqliteHub::new(self.shell(name)))
    }

    fn shell(&self, hub: HubName) -> Shell {
        Shell { shared: Arc::clone(&self.shared), hub }
    }

    /// Completes pending writes, closes the file and blocks until that is done. Later calls are refused as not executed.
    /// Without it, the same happens in the background once the last clone and hub of this handle is dropped.
    /// [`Store::close`] is the same without blocking.
    pub fn close(&self) {
        let threads = self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Threads { reader, writer }) = threads else { return };
        // One after the other, the writer last: the last connection that closes empties the log into the file, and two that
        // close at the same moment leave it to each other. A thread that is gone already needs no telling, and one that
        // panicked has told so itself.
        let _ = self.shared.reader.send(None);
        let _ = reader.join();
        let _ = self.shared.writer.send(Order::Close);
        let _ = writer.join();
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn hub(&self, name: HubName) -> Arc<dyn Manage> {
        Self::hub(self, name)
    }

    async fn hubs(&self) -> Result<Vec<HubName>, Refused> {
        self.shell(HubName::default()).read(|view| view.hub_names()).await
    }

    async fn has_hub(&self, name: &HubName) -> Result<bool, Refused> {
        self.shell(name.clone()).read(|view| Ok(view.hub != ABSENT)).await
    }

    /// Works in short transactions: a writer of another process waits for one of them at most.
    async fn delete_hub(&self, name: &HubName) -> Result<(), Refused> {
        let shell = self.shell(name.clone());
        while shell.write(|scope| scope.delete()).await? {}
        Ok(())
    }

    async fn close(&self) {
        let (closed, done) = oneshot::channel::<()>();
        let store = self.clone();
        // The caller's thread may serve other futures, and closing waits for the disk.
        let closing = std::thread::Builder::new().name("dauer-sqlite-c".to_owned()).spawn(move || {
            Self::close(&store);
            drop(closed);
        });
        match closing {
            // Cancelled when the thread has ended, which is the signal.
            Ok(_) => drop(done.await),
            Err(_) => Self::close(self),
        }
    }
}

fn has_session(db: &Connection, session: SessionId) -> rusqlite::Result<bool> {
    db.prepare("SELECT 1 FROM sessions WHERE id = ?1")?.exists([session.0.to_be_bytes()])
}
