//! The calls by which files and their names come to last: make, write, sync, rename, remove. The
//! store's own files go through here, so that the tests can watch every one of them, cut the power in
//! between (`tests/powercut.rs`), and let any one of them fail (`tests/powercut/errors.rs`). Outside
//! of tests nobody watches.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;
#[cfg(not(test))]
use unwatched::{asked, seen};

/// What is done to the disk: asked for before it is done, and seen afterwards; a sync is seen before it
/// is begun.
#[cfg_attr(not(test), expect(dead_code, reason = "only tests look at what was done"))]
#[derive(Clone, Copy)]
pub(crate) enum Deed<'a> {
    Open(&'a Path),
    MakeFolder(&'a Path),
    Write { path: &'a Path, offset: u64, bytes: &'a [u8] },
    Cut { path: &'a Path, size: u64 },
    Sync(&'a Path),
    SyncFolder(&'a Path),
    Rename { from: &'a Path, to: &'a Path },
    Remove(&'a Path),
}

/// A folder that only its owner can enter. Its name is durable once the folder above is synced;
/// those of the folders made on the way to it are.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty())
        && !above.is_dir()
    {
        make_folder(above)?;
        sync_folder_above(above)?;
    }
    asked(Deed::MakeFolder(path))?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    seen(Deed::MakeFolder(path));
    Ok(())
}

/// The names in a folder are durable when it returns.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    asked(Deed::SyncFolder(path))?;
    // Before it is begun: what others write meanwhile may not be in it.
    seen(Deed::SyncFolder(path));
    File::open(path)?.sync_all()
}

/// The name of this folder is durable when it returns, as far as that is ours to see to: a folder
/// above that we may not read belongs to someone else.
pub(crate) fn sync_folder_above(path: &Path) -> io::Result<()> {
    let above = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return Ok(()),
    };
    match sync_folder(above) {
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// A new file with these bytes; neither they nor its name are durable yet.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<File> {
    asked(Deed::Open(path))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let deed = Deed::Write { path, offset: 0, bytes };
    if let Err(cause) = asked(deed).and_then(|()| file.write_all(bytes)) {
        // On a full disk a part of a file is in the way of everything else.
        remove_part(path);
        return Err(cause);
    }
    seen(deed);
    Ok(file)
}

/// Removes a file that was not written to its end. The error that is returned is that of the write.
pub(crate) fn remove_part(path: &Path) {
    if let Err(error) = remove(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "an unfinished file cannot be removed");
    }
}

/// A file to be written to at places; made if it is not there.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    asked(Deed::Open(path))?;
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Bytes at a place in a file that is open.
pub(crate) fn write_at(file: &File, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let deed = Deed::Write { path, offset, bytes };
    asked(deed)?;
    file.write_all_at(bytes, offset)?;
    seen(deed);
    Ok(())
}

/// Cuts a file that is open to a size.
pub(crate) fn cut(file: &File, path: &Path, size: u64) -> io::Result<()> {
    asked(Deed::Cut { path, size })?;
    file.set_len(size)?;
    seen(Deed::Cut { path, size });
    Ok(())
}

/// The bytes of a file are durable when it returns.
pub(crate) fn sync(file: &File, path: &Path) -> io::Result<()> {
    asked(Deed::Sync(path))?;
    seen(Deed::Sync(path));
    file.sync_all()
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    asked(Deed::Rename { from, to })?;
    fs::rename(from, to)?;
    seen(Deed::Rename { from, to });
    Ok(())
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    asked(Deed::Remove(path))?;
    fs::remove_file(path)?;
    seen(Deed::Remove(path));
    Ok(())
}

#[cfg(not(test))]
mod unwatched {
    use super::Deed;

    pub(super) fn seen(_: Deed<'_>) {}

    #[expect(clippy::unnecessary_wraps, reason = "in tests it may be refused")]
    pub(super) fn asked(_: Deed<'_>) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
use crate::tests::powercut::{asked, seen};

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    /// The power is cut in a log of what was told, so the log cannot show whether the kernel was asked
    /// too. Here is what the kernel refuses to sync, and it must be heard.
    #[test]
    fn the_kernel_itself_is_asked_to_sync() {
        let refused = |synced: io::Result<()>| synced.err().and_then(|cause| cause.raw_os_error());
        let not_possible = Some(Errno::INVAL.raw_os_error());
        let null = Path::new("/dev/null");
        let file = OpenOptions::new().write(true).open(null).unwrap();
        assert_eq!(refused(sync(&file, null)), not_possible);
        assert_eq!(refused(sync_folder(Path::new("/proc/self/fd"))), not_possible);
        assert_eq!(refused(sync_folder_above(Path::new("/proc/self/fd"))), not_possible);
    }
}
