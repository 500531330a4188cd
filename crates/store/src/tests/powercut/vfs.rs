//! A VFS around SQLite's own that tells the log of everything written, cut short, synced and
//! deleted. It lets SQLite's VFS open the file and then exchanges the file's table of methods for a
//! copy in which four are ours. Files outside of a recording pass through. The only unsafe code
//! of this crate, and only in its tests.

#![expect(unsafe_code, reason = "a VFS is a table of C functions")]

use super::faults::{Site, Trouble, Verdict, Whose};
use super::log::{Recording, recording_of};
use rusqlite::ffi;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

/// A file that SQLite holds open and that is recorded, by the address of its handle.
struct Handle {
    recording: Arc<Recording>,
    path: PathBuf,
    file: u32,
    /// The methods of SQLite's VFS, which differ between a database and its log.
    below: &'static ffi::sqlite3_io_methods,
    /// SQLite's VFS syncs the folder with the first sync of a log or journal that it made.
    sync_folder: bool,
}

static HANDLES: Mutex<BTreeMap<usize, Handle>> = Mutex::new(BTreeMap::new());

/// SQLite's own VFS.
struct Below(*mut ffi::sqlite3_vfs);

// SAFETY: it is static in SQLite, made for use by all threads, and never changed after it was
// registered.
unsafe impl Send for Below {}
// SAFETY: as above.
unsafe impl Sync for Below {}

static BELOW: OnceLock<Below> = OnceLock::new();

/// From here on every connection of this process goes through the wrapper.
pub(super) fn install() {
    BELOW.get_or_init(|| {
        // SAFETY: a null name asks for the default VFS, which is static; the copy is leaked, so
        // that it lives as long as SQLite may use it, and holds the same functions but two.
        unsafe {
            let below = ffi::sqlite3_vfs_find(std::ptr::null());
            assert!(!below.is_null(), "SQLite has a VFS");
            let mut wrapper = *below;
            wrapper.pNext = std::ptr::null_mut();
            wrapper.zName = c"powercut".as_ptr();
            wrapper.xOpen = Some(open);
            wrapper.xDelete = Some(delete);
            let wrapper = Box::leak(Box::new(wrapper));
            assert_eq!(ffi::sqlite3_vfs_register(wrapper, 1), ffi::SQLITE_OK);
            Below(below)
        }
    });
}

fn below() -> *mut ffi::sqlite3_vfs {
    // Another thread may open a file while `install` is still on its way out.
    BELOW.wait().0
}

fn handles() -> std::sync::MutexGuard<'static, BTreeMap<usize, Handle>> {
    HANDLES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// # Safety
/// `name` is null or a C string.
unsafe fn path_of<'a>(name: *const c_char) -> Option<&'a Path> {
    if name.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    Some(Path::new(OsStr::from_bytes(bytes)))
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let below = below();
    // SAFETY: SQLite passes a null name or a C string that outlives the call.
    let asked = unsafe { path_of(name) }.and_then(recording_of);
    if let Some(Verdict::Fail(trouble)) = asked.map(|of| of.ask(Site::Open, Whose::Sqlite)) {
        // SAFETY: without methods the handle counts as closed.
        unsafe { (*file).pMethods = std::ptr::null() };
        return trouble.code(Site::Open);
    }
    // SAFETY: SQLite called us with what its own VFS expects, which has this function.
    let code = unsafe { (*below).xOpen.unwrap()(below, name, file, flags, out) };
    // SAFETY: SQLite passes a null name or a C string that outlives the call.
    let path = unsafe { path_of(name) };
    let writes = flags & ffi::SQLITE_OPEN_READWRITE != 0;
    let Some(path) = path.filter(|_| code == ffi::SQLITE_OK && writes) else { return code };
    let Some(recording) = recording_of(path) else { return code };
    let log = flags & (ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) != 0;
    let (id, new) = recording.opened(path);
    // SAFETY: the VFS below filled the handle in, whose first field is its table of methods; that
    // table is static, and ours is leaked, so that it lives as long.
    unsafe {
        let below = &*(*file).pMethods;
        let mut ours = *below;
        ours.xWrite = Some(write);
        ours.xTruncate = Some(truncate);
        ours.xSync = Some(sync);
        ours.xClose = Some(close);
        (*file).pMethods = Box::leak(Box::new(ours));
        let (path, sync_folder) = (path.to_owned(), log && new);
        handles().insert(file as usize, Handle { recording, path, file: id, below, sync_folder });
    }
    code
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    let below = below();
    // SAFETY: as in `open`.
    let asked = unsafe { path_of(name) }.and_then(recording_of);
    if let Some(Verdict::Fail(trouble)) = asked.map(|of| of.ask(Site::Remove, Whose::Sqlite)) {
        return trouble.code(Site::Remove);
    }
    // SAFETY: as in `open`.
    let code = unsafe { (*below).xDelete.unwrap()(below, name, sync_folder) };
    // SAFETY: as in `open`.
    if let Some(path) = unsafe { path_of(name) }
        && code == ffi::SQLITE_OK
        && let Some(recording) = recording_of(path)
    {
        recording.removed(path);
        if sync_folder != 0 {
            recording.sync_folder(path.parent().unwrap());
        }
    }
    code
}

/// The methods below a file that goes through us.
fn methods(file: *mut ffi::sqlite3_file) -> &'static ffi::sqlite3_io_methods {
    handles().get(&(file as usize)).expect("every file with our methods was opened by us").below
}

/// What is to become of a call on this file.
fn ask(file: *mut ffi::sqlite3_file, site: Site) -> Verdict {
    let recording = handles().get(&(file as usize)).map(|handle| handle.recording.clone());
    recording.map_or(Verdict::Do, |recording| recording.ask(site, Whose::Sqlite))
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    match ask(file, Site::Write) {
        Verdict::Do => {}
        Verdict::Fail(trouble) => {
            if trouble == Trouble::Short {
                // SAFETY: half of what SQLite passes.
                unsafe { put(file, bytes, count / 2, offset) };
            }
            return trouble.code(Site::Write);
        }
        Verdict::FailUnheard(_) => return ffi::SQLITE_OK,
    }
    // SAFETY: as SQLite passes them.
    unsafe { put(file, bytes, count, offset) }
}

/// # Safety
/// `bytes` points to at least `count` bytes.
unsafe fn put(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: the handle was opened by the VFS below, whose method this is.
    let code = unsafe { methods(file).xWrite.unwrap()(file, bytes, count, offset) };
    if code == ffi::SQLITE_OK {
        // SAFETY: SQLite passes so many bytes, which were just read by the write below.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count as usize) };
        let handles = handles();
        let handle = &handles[&(file as usize)];
        handle.recording.write(handle.file, offset as usize, bytes);
    }
    code
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    if let Verdict::Fail(trouble) = ask(file, Site::Cut) {
        return trouble.code(Site::Cut);
    }
    // SAFETY: as in `write`.
    let code = unsafe { methods(file).xTruncate.unwrap()(file, size) };
    if code == ffi::SQLITE_OK {
        let handles = handles();
        let handle = &handles[&(file as usize)];
        handle.recording.truncate(handle.file, size as usize);
    }
    code
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let heard = match ask(file, Site::Sync) {
        Verdict::Do => None,
        Verdict::Fail(trouble) => Some(trouble.code(Site::Sync)),
        Verdict::FailUnheard(_) => Some(ffi::SQLITE_OK),
    };
    if let Some(heard) = heard {
        if let Some(handle) = handles().get(&(file as usize)) {
            handle.recording.unsynced(handle.file);
        }
        return heard;
    }
    if let Some(handle) = handles().get_mut(&(file as usize)) {
        handle.recording.sync(handle.file);
        if std::mem::take(&mut handle.sync_folder) {
            handle.recording.sync_folder(handle.path.parent().unwrap());
        }
    }
    // SAFETY: as in `write`.
    unsafe { methods(file).xSync.unwrap()(file, flags) }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let below = methods(file);
    handles().remove(&(file as usize));
    // SAFETY: as in `write`.
    unsafe { below.xClose.unwrap()(file) }
}
