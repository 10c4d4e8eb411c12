//! The file system itself: SQLite's own, but for how files are opened and removed.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rusqlite::ffi;

use crate::methods::{METHODS, Opened, real};
use crate::{Access, Plan, plan_of};

/// The address of SQLite's own file system. It lives as long as the process.
static REAL: OnceLock<usize> = OnceLock::new();

/// The real file system, once [`register`] has been called.
fn real_vfs() -> *mut ffi::sqlite3_vfs {
    REAL.get().map_or(std::ptr::null_mut(), |address| std::ptr::with_exposed_provenance_mut(*address))
}

/// Makes this the default file system of the process; once is enough.
pub(crate) fn register() {
    REAL.get_or_init(|| {
        // SAFETY: asks for the default; SQLite keeps it for ever.
        let real = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
        assert!(!real.is_null(), "SQLite has no file system");
        // SAFETY: SQLite gave it.
        let mut own = unsafe { *real };
        let before = c_int::try_from(size_of::<Opened>()).unwrap_or(c_int::MAX);
        own.szOsFile += before;
        own.pNext = std::ptr::null_mut();
        own.zName = c"dauer-failing".as_ptr();
        own.xOpen = Some(open);
        own.xDelete = Some(delete);
        // SQLite keeps the address for ever, so it is never given back.
        let own = Box::leak(Box::new(own));
        // SAFETY: a whole file system that is never moved; its other functions are the real one's, which do not look at
        // the fields that were changed.
        let registered = unsafe { ffi::sqlite3_vfs_register(own, 1) };
        assert_eq!(registered, ffi::SQLITE_OK, "SQLite did not take the file system");
        real.expose_provenance()
    });
}

/// The plan for a file by its name.
///
/// # Safety
/// The name is null or ends with a zero.
unsafe fn plan(name: *const c_char) -> Option<Arc<Plan>> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    let name = unsafe { CStr::from_ptr(name) };
    plan_of(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// Opens a file: the real one behind, this one's before it.
unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let behind = real(file);
    // SAFETY: SQLite gives room for both, and the name; the real file system was found at the registration.
    unsafe {
        (*file).pMethods = std::ptr::null();
        (*behind).pMethods = std::ptr::null();
        let Some(open) = (*real_vfs()).xOpen else { return ffi::SQLITE_CANTOPEN };
        let answer = open(real_vfs(), name, behind, flags, flags_out);
        if !(*behind).pMethods.is_null() {
            let opened = file.cast::<Opened>();
            (*opened).base.pMethods = &raw const METHODS;
            (*opened).plan = plan(name).map_or(std::ptr::null(), Arc::into_raw);
        }
        answer
    }
}

/// Removes a file, unless that is to fail.
unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite gives a name that ends with a zero.
    let plan = unsafe { plan(name) };
    if plan.is_some_and(|plan| plan.strikes(Access::Change).is_some()) {
        return ffi::SQLITE_IOERR_DELETE;
    }
    // SAFETY: the real file system was found at the registration.
    match unsafe { (*real_vfs()).xDelete } {
        // SAFETY: as it came.
        Some(delete) => unsafe { delete(real_vfs(), name, sync) },
        None => ffi::SQLITE_IOERR_DELETE,
    }
}
