//! A watch on the log of a file: the system tells when another process has written, so that an idle writer need not keep
//! looking. What it tells is a hint like any other: it may come before the write can be seen, or not at all, and the writer
//! looks by itself behind it, only seldom.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

use super::writer::Order;

#[cfg(target_os = "linux")]
use linux::Log;
#[cfg(not(target_os = "linux"))]
use none::Log;

/// The watch of one writer.
pub(crate) struct Watch {
    /// Weak, because a writer whose senders are all gone ends.
    orders: Weak<Sender<Order>>,
    path: PathBuf,
    log: Tried,
    /// It tells of the next write, once.
    armed: bool,
}

/// A system that cannot watch is asked once.
enum Tried {
    NotYet,
    InVain,
    Watched(Log),
}

impl Watch {
    /// On a file that is there. Nothing is watched yet.
    pub(crate) fn new(database: &Path, orders: &Arc<Sender<Order>>) -> Self {
        // The log is beside the file itself, wherever the path leads by links.
        let mut name = database.canonicalize().unwrap_or_else(|_| database.into()).into_os_string();
        name.push("-wal");
        Self { orders: Arc::downgrade(orders), path: name.into(), log: Tried::NotYet, armed: false }
    }

    /// From now on the next write is told, by [`Order::Written`]. Look once more after that: a write before is not told.
    /// Whether it is so.
    pub(crate) fn arm(&mut self) -> bool {
        if matches!(self.log, Tried::NotYet) {
            self.log = Log::new(self.orders.clone()).map_or(Tried::InVain, Tried::Watched);
        }
        if let Tried::Watched(log) = &self.log
            && !self.armed
        {
            self.armed = log.tell_once(&self.path);
        }
        self.armed
    }

    /// It has told.
    pub(crate) fn has_told(&mut self) {
        self.armed = false;
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::Sender;
    use std::sync::{Arc, Weak};

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

    use super::Order;

    /// Room for a few events; those of one file are all alike.
    const ROOM: usize = 512;

    /// A thread that sleeps until the system tells it something.
    pub(super) struct Log {
        watches: Arc<std::os::fd::OwnedFd>,
        over: Arc<AtomicBool>,
    }

    impl Log {
        /// `None` where the system has no watch left, or no thread.
        pub(super) fn new(orders: Weak<Sender<Order>>) -> Option<Self> {
            let watches = Arc::new(inotify::init(CreateFlags::CLOEXEC).ok()?);
            let over = Arc::<AtomicBool>::default();
            let theirs = (Arc::clone(&watches), Arc::clone(&over));
            let named = std::thread::Builder::new().name("dauer-sqlite-l".to_owned());
            named.spawn(move || listen(theirs, &orders)).ok()?;
            Some(Self { watches, over })
        }

        pub(super) fn tell_once(&self, path: &Path) -> bool {
            inotify::add_watch(&*self.watches, path, WatchFlags::MODIFY | WatchFlags::ONESHOT).is_ok()
        }
    }

    impl Drop for Log {
        fn drop(&mut self) {
            self.over.store(true, Ordering::Release);
            // The end of a watch is told too, and the thread sees that it is over. The root is there whatever has become of
            // the file; where even that cannot be watched, the thread sleeps on, and does nothing.
            if let Ok(watch) = inotify::add_watch(&*self.watches, "/", WatchFlags::DELETE_SELF) {
                let _ = inotify::remove_watch(&*self.watches, watch);
            }
        }
    }

    fn listen((watches, over): (Arc<std::os::fd::OwnedFd>, Arc<AtomicBool>), orders: &Weak<Sender<Order>>) {
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut events = Reader::new(&*watches, &mut room);
        let mut told = false;
        loop {
            let event = events.next().map(|event| event.events());
            if over.load(Ordering::Acquire) {
                return;
            }
            let Ok(event) = event else { return };
            // A watch ends with the write that it tells of, and that end is told too: mostly with it, sometimes behind it.
            let is_end = event.contains(ReadFlags::IGNORED);
            // What has piled up says nothing more.
            if is_end && std::mem::take(&mut told) || !events.is_buffer_empty() {
                continue;
            }
            told = !is_end;
            let Some(orders) = orders.upgrade() else { return };
            if orders.send(Order::Written).is_err() {
                return;
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod none {
    use std::path::Path;
    use std::sync::Weak;
    use std::sync::mpsc::Sender;

    use super::Order;

    pub(super) enum Log {}

    impl Log {
        pub(super) fn new(_: Weak<Sender<Order>>) -> Option<Self> {
            None
        }

        pub(super) fn tell_once(&self, _: &Path) -> bool {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_write_is_told_once_for_each_time_it_is_asked_for() {
        let folder = std::env::temp_dir().join(format!("dauer-watch-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a new folder");
        let path = folder.join("hub.db");
        std::fs::write(&path, "").expect("a file");
        let mut log = std::fs::File::create(folder.join("hub.db-wal")).expect("a file");
        let mut write = || log.write_all(b"frame").expect("there is room");

        let (sender, orders) = mpsc::channel();
        let sender = Arc::new(sender);
        let mut watch = Watch::new(&path, &sender);
        let told = |orders: &mpsc::Receiver<Order>| {
            matches!(orders.recv_timeout(Duration::from_secs(20)), Ok(Order::Written))
        };
        for _ in 0..3 {
            assert!(watch.arm());
            write();
            assert!(told(&orders));
            watch.has_told();
            // Not asked for, not told: the next one that is told has been asked for.
            write();
            assert!(orders.try_recv().is_err());
        }

        // The thread ends with the watch, and does not keep the channel open.
        drop((watch, sender));
        assert!(orders.recv().is_err());
        std::fs::remove_dir_all(&folder).expect("it was there");
    }
}
