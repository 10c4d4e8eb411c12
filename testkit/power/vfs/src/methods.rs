//! What can be done with an open file: what the real one does, unless it is to fail.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64};

use crate::{Access, Failure, Plan};

/// An open file, as SQLite sees it; the real one lies right behind it.
#[repr(C)]
pub(crate) struct Opened {
    pub(crate) base: sqlite3_file,
    /// What is planned for it: one count of an `Arc`, or null.
    pub(crate) plan: *const Plan,
}

/// The real file behind one that SQLite opened through this file system.
pub(crate) fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // Only an address; whoever uses it says why it is one of a file.
    file.cast::<Opened>().wrapping_add(1).cast()
}

/// Whether an access fails.
///
/// # Safety
/// The file was opened through this file system and is open.
unsafe fn strikes(file: *mut sqlite3_file, access: Access) -> Option<Failure> {
    // SAFETY: the caller says so; the plan is null or kept alive by the file.
    unsafe { (*file.cast::<Opened>()).plan.as_ref() }?.strikes(access)
}

/// Calls the real file's method of that name.
///
/// The file was opened through this file system and is open, so that the real one behind it is open too and has methods
/// of SQLite's own.
macro_rules! forward {
    ($file:ident, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: see above; the arguments are SQLite's own.
        unsafe {
            match (*real($file)).pMethods.as_ref().and_then(|methods| methods.$method) {
                Some(method) => method(real($file) $(, $argument)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    }};
}

/// Methods that never fail by plan.
macro_rules! forwarded {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $kind)*) -> c_int {
                forward!(file, $method $(, $argument)*)
            }
        )*
    };
}

forwarded! {
    size = xFileSize(size: *mut sqlite3_int64);
    lock = xLock(level: c_int);
    unlock = xUnlock(level: c_int);
    is_reserved = xCheckReservedLock(found: *mut c_int);
    control = xFileControl(operation: c_int, argument: *mut c_void);
    sector_size = xSectorSize();
    characteristics = xDeviceCharacteristics();
    map = xShmMap(region: c_int, size: c_int, extend: c_int, found: *mut *mut c_void);
    lock_map = xShmLock(offset: c_int, count: c_int, flags: c_int);
    unmap = xShmUnmap(delete: c_int);
}

unsafe extern "C" fn barrier(file: *mut sqlite3_file) {
    // SAFETY: as for the others.
    unsafe {
        if let Some(method) = (*real(file)).pMethods.as_ref().and_then(|methods| methods.xShmBarrier) {
            method(real(file));
        }
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let answer = forward!(file, xClose);
    // SAFETY: SQLite closes a file once; the count was taken when it was opened.
    unsafe {
        let plan = std::mem::replace(&mut (*file.cast::<Opened>()).plan, std::ptr::null());
        if !plan.is_null() {
            drop(Arc::from_raw(plan));
        }
    }
    answer
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    to: *mut c_void,
    count: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this only with a file that it opened.
    match unsafe { strikes(file, Access::Read) } {
        Some(_) => ffi::SQLITE_IOERR_READ,
        None => forward!(file, xRead, to, count, at),
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this only with a file that it opened.
    let Some(failure) = (unsafe { strikes(file, Access::Change) }) else {
        return forward!(file, xWrite, bytes, count, at);
    };
    // The first half gets there; whether it does is of no interest to anyone.
    let _ = forward!(file, xWrite, bytes, count / 2, at);
    match failure {
        Failure::Broken => ffi::SQLITE_IOERR_WRITE,
        Failure::Full => ffi::SQLITE_FULL,
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this only with a file that it opened.
    match unsafe { strikes(file, Access::Change) } {
        Some(_) => ffi::SQLITE_IOERR_TRUNCATE,
        None => forward!(file, xTruncate, size),
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite calls this only with a file that it opened.
    match unsafe { strikes(file, Access::Sync) } {
        Some(_) => ffi::SQLITE_IOERR_FSYNC,
        // Nobody loses power in these tests: the disk is spared.
        None => ffi::SQLITE_OK,
    }
}

/// Of the second version: with shared memory, without mapped files, whose reads nobody could let fail.
pub(crate) static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(is_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(map),
    xShmLock: Some(lock_map),
    xShmBarrier: Some(barrier),
    xShmUnmap: Some(unmap),
    xFetch: None,
    xUnfetch: None,
};
