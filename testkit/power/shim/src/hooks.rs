//! The functions of the C library that change files, each with the same name and arguments. What concerns no watched
//! file goes to the system as it came.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};

use libc::{mode_t, off_t, size_t, ssize_t};

use crate::plan::Plan;
use crate::record::{CLOSED, CREATED, CUT, EMPTIED, OPENED, SYNC_FAILED, SYNCED, UNLINKED, WRITTEN};
use crate::watch::{DIRECTORY, FILE, State, kind, state, watch};

/// The answer of the system, as the C library gives it.
fn narrow(answer: i64) -> c_int {
    // Descriptors and zero fit; everything else is -1.
    c_int::try_from(answer).unwrap_or(-1)
}

/// Opens, watched or not.
fn opened(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller of `open` gives a path that ends with a zero, or a bad pointer, which the system refuses.
    let call = || unsafe { libc::syscall(libc::SYS_openat, at, path, flags, c_uint::from(mode)) };
    let mut guard = state();
    let Some(state) = guard.as_mut().filter(|_| !path.is_null()) else { return narrow(call()) };
    // SAFETY: see above; it is not null.
    let Some(name) = state.name(unsafe { CStr::from_ptr(path) }) else { return narrow(call()) };
    if name.is_empty() {
        let fd = narrow(call());
        if fd >= 0 {
            watch(fd, DIRECTORY);
            state.record(OPENED, fd, 0, name);
        }
        return fd;
    }
    if name.contains(&b'/') {
        state.refuse("open of a file in a folder of the folder");
    }
    // SAFETY: as above.
    let there = unsafe { libc::syscall(libc::SYS_faccessat, at, path, libc::F_OK) } == 0;
    let creates = flags & libc::O_CREAT != 0 && !there;
    let empties = flags & libc::O_TRUNC != 0 && there;
    let open = |state: &mut State| {
        if creates && is_full(state, 0) {
            return state.fail("open", libc::ENOSPC);
        }
        let fd = call();
        if fd >= 0 {
            let flags = if creates { CREATED } else { 0 } | if empties { EMPTIED } else { 0 };
            watch(narrow(fd), FILE);
            state.record(OPENED, narrow(fd), flags, name);
        }
        fd
    };
    narrow(if creates || empties { state.durable(open) } else { open(state) })
}

/// Whether the disk is full for a call that needs so much more of it.
fn is_full(state: &State, growth: u64) -> bool {
    match state.plan {
        Plan::Full(bytes, failures) => {
            let exceeds = state.grown + growth > bytes || growth == 0 && state.grown >= bytes;
            exceeds && state.failures < failures
        }
        _ => false,
    }
}

/// Writes, at an offset or where the descriptor stands.
fn wrote(fd: c_int, bytes: *const c_void, count: size_t, at: Option<off_t>) -> ssize_t {
    let call = |count: size_t| -> c_long {
        match at {
            // SAFETY: the caller of `pwrite` vouches for the bytes.
            Some(at) => unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, at) },
            // SAFETY: the caller of `write` vouches for the bytes.
            None => unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) },
        }
    };
    let narrow = |answer: i64| ssize_t::try_from(answer).unwrap_or(-1);
    if kind(fd) != FILE {
        return narrow(call(count));
    }
    let mut guard = state();
    let Some(state) = guard.as_mut() else { return narrow(call(count)) };
    // SAFETY: it only asks where the descriptor stands.
    let at_now = at.unwrap_or_else(|| unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) });
    let at_now = u64::try_from(at_now).unwrap_or_default();
    narrow(state.durable(|state| {
        state.writes += 1;
        if let Plan::WriteFails(from, failures) = state.plan
            && state.writes >= from
            && state.failures < failures
        {
            return state.fail("write", libc::EIO);
        }
        let room = room(state, fd, at_now, count);
        if room == 0 && count > 0 {
            return state.fail("write", libc::ENOSPC);
        }
        let written = call(room);
        if let Ok(length) = usize::try_from(written) {
            // SAFETY: the system has just read so many of them.
            let payload = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
            state.record(WRITTEN, fd, at_now, payload);
        }
        written
    }))
}

/// How many of the bytes find room: the disk fills up in the middle of a write, as disks do. What lies in the file
/// already needs none.
fn room(state: &mut State, fd: c_int, at: u64, count: size_t) -> size_t {
    // SAFETY: all zeros is a value of this plain structure, which the call then fills.
    let size = unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &raw mut found) == 0 { found.st_size } else { 0 }
    };
    let size = u64::try_from(size).unwrap_or_default();
    let growth = (at + count as u64).saturating_sub(size);
    let mut missing = 0;
    if is_full(state, growth)
        && growth > 0
        && let Plan::Full(bytes, _) = state.plan
    {
        missing = (state.grown + growth - bytes).min(growth).min(count as u64);
    }
    state.grown += growth.saturating_sub(missing);
    count - usize::try_from(missing).unwrap_or(count)
}

fn cut(fd: c_int, size: off_t) -> c_int {
    // SAFETY: two numbers.
    let call = || unsafe { libc::syscall(libc::SYS_ftruncate, fd, size) };
    if kind(fd) != FILE {
        return narrow(call());
    }
    let mut guard = state();
    let Some(state) = guard.as_mut() else { return narrow(call()) };
    narrow(state.durable(|state| {
        let answer = call();
        if answer == 0 {
            state.record(CUT, fd, u64::try_from(size).unwrap_or_default(), &[]);
        }
        answer
    }))
}

fn synced(fd: c_int, number: c_long) -> c_int {
    // SAFETY: one number.
    let call = || unsafe { libc::syscall(number, fd) };
    if kind(fd) == 0 {
        return narrow(call());
    }
    let mut guard = state();
    let Some(state) = guard.as_mut() else { return narrow(call()) };
    narrow(state.durable(|state| {
        state.syncs += 1;
        let (from, failures) = match state.plan {
            Plan::SyncFails(from, failures) => (from, failures),
            Plan::SyncFailsDies(at) => (at, 1),
            _ => (u64::MAX, 0),
        };
        if state.syncs >= from && state.failures < failures {
            state.record(SYNC_FAILED, fd, 0, &[]);
            return state.fail("sync", libc::EIO);
        }
        state.record(SYNCED, fd, 0, &[]);
        0
    }))
}

/// Removes a name, watched or not.
fn unlinked(path: *const c_char, call: impl FnOnce() -> i64) -> c_int {
    let mut guard = state();
    let Some(state) = guard.as_mut().filter(|_| !path.is_null()) else { return narrow(call()) };
    // SAFETY: the caller of `unlink` gives a path that ends with a zero.
    let Some(name) = state.name(unsafe { CStr::from_ptr(path) }) else { return narrow(call()) };
    narrow(state.durable(|state| {
        let answer = call();
        if answer == 0 {
            state.record(UNLINKED, -1, 0, name);
        }
        answer
    }))
}

/// Renames outside of the folder; inside, the model does not know how names change together.
fn renamed(paths: [*const c_char; 2], call: impl FnOnce() -> i64) -> c_int {
    let guard = state();
    if let Some(state) = guard.as_ref() {
        // SAFETY: the caller of `rename` gives paths that end with a zero.
        let watched = |path: &*const c_char| state.name(unsafe { CStr::from_ptr(*path) }).is_some();
        if paths.iter().filter(|path| !path.is_null()).any(watched) {
            state.refuse("rename");
        }
    }
    narrow(call())
}

/// The functions themselves: their names are their documentation, in section 2 of the manual.
macro_rules! hooks {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $kind),*) -> $answer $body
        )*
    };
}

hooks! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int { opened(libc::AT_FDCWD, path, flags, mode) }
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int { opened(libc::AT_FDCWD, path, flags, mode) }
    openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int { opened(at, path, flags, mode) }
    openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int { opened(at, path, flags, mode) }
    write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t { wrote(fd, bytes, count, None) }
    pwrite(fd: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t { wrote(fd, bytes, count, Some(at)) }
    pwrite64(fd: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t { wrote(fd, bytes, count, Some(at)) }
    ftruncate(fd: c_int, size: off_t) -> c_int { cut(fd, size) }
    ftruncate64(fd: c_int, size: off_t) -> c_int { cut(fd, size) }
    fsync(fd: c_int) -> c_int { synced(fd, libc::SYS_fsync) }
    fdatasync(fd: c_int) -> c_int { synced(fd, libc::SYS_fdatasync) }
    unlink(path: *const c_char) -> c_int {
        // SAFETY: the caller's path, as it came.
        unlinked(path, || unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path, 0) })
    }
    rename(from: *const c_char, to: *const c_char) -> c_int {
        let at = libc::AT_FDCWD;
        // SAFETY: the caller's paths, as they came.
        renamed([from, to], || unsafe { libc::syscall(libc::SYS_renameat2, at, from, at, to, 0) })
    }
    close(fd: c_int) -> c_int {
        let mut guard = state();
        if let Some(state) = guard.as_mut().filter(|_| kind(fd) != 0) {
            state.record(CLOSED, fd, 0, &[]);
            watch(fd, 0);
        }
        // SAFETY: one number; the lock is held, so that nobody gets it again before it is forgotten.
        narrow(unsafe { libc::syscall(libc::SYS_close, fd) })
    }
}
