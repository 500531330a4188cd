//! Removes files that are no longer needed, and waits for processes that were let go of. No caller is
//! left to whom a failure could be returned, so it is logged: a directory that stays uses the disk and
//! may hold raw output or secrets. Everything here blocks.

use rustix::io::Errno;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::Child;

/// Removes a directory with everything in it, if it exists.
pub(crate) fn remove_dir(path: &Path) {
    log_if_kept(path, fs::remove_dir_all(path));
}

/// Removes a file or a link, if it exists.
pub(crate) fn remove_file(path: &Path) {
    log_if_kept(path, fs::remove_file(path));
}

/// Logs that a removal failed. A path that does not exist is removed.
pub(crate) fn log_if_kept(path: &Path, removed: io::Result<()>) {
    if let Err(error) = removed
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a file or directory cannot be removed");
    }
}

/// Waits until a child process has ended.
pub(crate) fn wait(child: &mut Child) {
    let pid = child.id();
    if let Err(error) = child.wait()
        // It has ended: the task that reaps orphans was faster.
        && error.raw_os_error() != Some(Errno::CHILD.raw_os_error())
    {
        tracing::warn!(pid, %error, "a child process cannot be waited for");
    }
}
