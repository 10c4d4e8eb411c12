//! What is watched, what was counted, and the records.

use std::ffi::{CStr, CString, OsString, c_int};
use std::os::unix::ffi::OsStringExt as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::plan::Plan;
use crate::record::{BEGUN, FAILED, FOLDER, FOREIGN, Head, LOG, PLAN, SHARED_MEMORY};

/// Descriptors beyond are not watched; a child has a few dozen.
const DESCRIPTORS_MAX: usize = 4_096;

/// The status of a process that was about to do what the model does not know, or could not write its records.
const EXIT_FOREIGN: c_int = 97;

/// What a watched descriptor is of.
pub(crate) const FILE: u8 = 1;
pub(crate) const DIRECTORY: u8 = 2;

/// Looked at by every call, so without a lock.
static WATCHED: [AtomicU8; DESCRIPTORS_MAX] = [const { AtomicU8::new(0) }; DESCRIPTORS_MAX];

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// What is known between two calls.
pub(crate) struct State {
    folder: Vec<u8>,
    log: c_int,
    pub(crate) plan: Plan,
    /// Durable calls so far.
    calls: u64,
    /// Syncs, writes, bytes of growth and failures so far.
    pub(crate) syncs: u64,
    pub(crate) writes: u64,
    pub(crate) grown: u64,
    pub(crate) failures: u64,
}

/// What a descriptor is of; 0 when it is not watched.
pub(crate) fn kind(fd: c_int) -> u8 {
    usize::try_from(fd).ok().and_then(|fd| WATCHED.get(fd)).map_or(0, |kind| kind.load(Ordering::Relaxed))
}

/// From now on a descriptor is of that.
pub(crate) fn watch(fd: c_int, kind: u8) {
    if let Some(place) = usize::try_from(fd).ok().and_then(|fd| WATCHED.get(fd)) {
        place.store(kind, Ordering::Relaxed);
    }
}

/// The state, if this process is watched. Held for the length of a call, so that records are in the order of what they
/// record.
pub(crate) fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// The name in the folder; empty for the folder itself, `None` for what is not watched.
    pub(crate) fn name<'p>(&self, path: &'p CStr) -> Option<&'p [u8]> {
        let rest = path.to_bytes().strip_prefix(self.folder.as_slice())?;
        if rest.is_empty() {
            return Some(rest);
        }
        let name = rest.strip_prefix(b"/")?;
        (!name.ends_with(SHARED_MEMORY)).then_some(name)
    }

    /// Carries out a durable call, unless this is where the process dies.
    pub(crate) fn durable(&mut self, call: impl FnOnce(&mut Self) -> i64) -> i64 {
        self.calls += 1;
        let has_failed = matches!(self.plan, Plan::SyncFailsDies(_)) && self.failures > 0;
        if self.plan == Plan::KillBefore(self.calls) || has_failed {
            die();
        }
        let answer = call(self);
        if self.plan == Plan::KillAfter(self.calls) {
            die();
        }
        answer
    }

    /// Writes a record.
    pub(crate) fn record(&self, kind: u8, fd: c_int, number: u64, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let head = Head { kind, fd, number, length }.bytes();
        let parts = [&head[..], payload]
            .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        // SAFETY: both parts live until the call returns, and it only reads them.
        let written = unsafe { libc::syscall(libc::SYS_writev, self.log, parts.as_ptr(), parts.len()) };
        if usize::try_from(written).ok() != Some(head.len() + payload.len()) {
            exit();
        }
    }

    /// Answers a call with an error that was planned.
    pub(crate) fn fail(&mut self, call: &str, error: c_int) -> i64 {
        self.failures += 1;
        self.record(FAILED, -1, error.unsigned_abs().into(), call.as_bytes());
        // SAFETY: the address of this thread's own error number.
        unsafe { *libc::__errno_location() = error };
        -1
    }

    /// A call that the model does not know: better no result than a wrong one.
    pub(crate) fn refuse(&self, call: &str) -> ! {
        self.record(FOREIGN, -1, 0, call.as_bytes());
        exit()
    }
}

/// As if the machine had stopped: no thread of this process does anything any more.
fn die() -> ! {
    loop {
        // SAFETY: a signal to this very process.
        unsafe { libc::syscall(libc::SYS_kill, libc::getpid(), libc::SIGKILL) };
    }
}

fn exit() -> ! {
    // SAFETY: ends the process at once, without running anything of it.
    unsafe { libc::_exit(EXIT_FOREIGN) }
}

/// Reads the environment before the program begins; without it nothing is watched.
extern "C" fn begin() {
    let bytes = |name: &str| std::env::var_os(name).map(OsString::into_vec);
    let (Some(folder), Some(log), Some(plan)) = (bytes(FOLDER), bytes(LOG), bytes(PLAN)) else { return };
    let plan = String::from_utf8(plan).ok().and_then(|plan| Plan::parse(&plan));
    let (Some(plan), Ok(log)) = (plan, CString::new(log)) else { exit() };
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero and lives until the call returns.
    let log = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, log.as_ptr(), flags, 0o600) };
    match c_int::try_from(log) {
        Ok(log) if log >= 0 => {
            let begun = State { folder, log, plan, calls: 0, syncs: 0, writes: 0, grown: 0, failures: 0 };
            begun.record(BEGUN, -1, 0, &[]);
            *state() = Some(begun);
        }
        _ => exit(),
    }
}

/// Called by the loader.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
