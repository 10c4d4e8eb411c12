//! To be preloaded (`LD_PRELOAD`): moves the time of day of one process by as much as a file says, at any moment, as
//! somebody who sets the clock of a machine does. The monotonic clock, by which a process measures how long it waits,
//! stays as it is: that is what the system promises.
//!
//! Does what libfaketime does with a file of offsets, for a test that must run where that is not installed.

#![cfg(target_os = "linux")]

mod share;

use std::ffi::{CString, OsString, c_int};
use std::os::unix::ffi::OsStringExt as _;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

use libc::{clockid_t, timespec};

use crate::share::{BYTES, FILE};

const NANOS: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// The status of a process whose clock cannot be moved as it was asked: better no result than a wrong one.
const EXIT_NO_FILE: c_int = 97;

/// The number in the file, which is mapped for the life of the process; null when no clock is moved.
static OFFSET: AtomicPtr<AtomicI64> = AtomicPtr::new(null_mut());

/// Moves a time of day.
fn moved(time: timespec, millis: i64) -> timespec {
    let nanos = i128::from(time.tv_sec) * NANOS + i128::from(time.tv_nsec);
    let nanos = nanos + i128::from(millis) * NANOS_PER_MILLI;
    // Within the ages of the universe both fit.
    timespec { tv_sec: nanos.div_euclid(NANOS) as libc::time_t, tv_nsec: nanos.rem_euclid(NANOS) as _ }
}

/// As the system's, moved if it is the time of day that is asked for.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, to: *mut timespec) -> c_int {
    // SAFETY: the caller's pointer, as it came; the system refuses a bad one.
    let answer = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, to) };
    let is_day = clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_REALTIME_COARSE;
    // SAFETY: null, or the mapping that is never removed.
    let offset = unsafe { OFFSET.load(Ordering::Acquire).as_ref() };
    if let Some(offset) = offset.filter(|_| answer == 0 && is_day) {
        // SAFETY: the system has just written there.
        unsafe { *to = moved(*to, offset.load(Ordering::Relaxed)) };
    }
    c_int::try_from(answer).unwrap_or(-1)
}

/// Maps the file before the program begins; without the variable no clock is moved.
extern "C" fn begin() {
    let Some(path) = std::env::var_os(FILE).map(OsString::into_vec) else { return };
    let Ok(path) = CString::new(path) else { exit() };
    // SAFETY: the path ends with a zero and lives until the call returns.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        exit();
    }
    // SAFETY: a new mapping of a file that is there; nothing else lies where it is put.
    let mapping = unsafe { libc::mmap(null_mut(), BYTES, libc::PROT_READ, libc::MAP_SHARED, file, 0) };
    if mapping == libc::MAP_FAILED {
        exit();
    }
    OFFSET.store(mapping.cast(), Ordering::Release);
}

fn exit() -> ! {
    // SAFETY: ends the process at once, without running anything of it.
    unsafe { libc::_exit(EXIT_NO_FILE) }
}

/// Called by the loader.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
