//! The file system that a directory is on, as far as that can be told without asking the file system
//! itself, which may hang: by the table of mounts of this process. Directories on the root file system
//! stand for themselves, because a link in their path may lead to another file system.

use contract::limits::BLOCKING_MOUNT_MAX;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

/// A file system, or a directory of the root file system.
#[derive(Debug)]
pub(super) struct Mount {
    pub places: Arc<Semaphore>,
    /// Probes that were given up and have not ended.
    late: AtomicUsize,
}

static KNOWN: Mutex<BTreeMap<PathBuf, Weak<Mount>>> = Mutex::new(BTreeMap::new());

impl Mount {
    pub fn of(dir: &Path) -> Arc<Self> {
        // The table is kept by the kernel: reading it does not ask any of the file systems.
        let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let point = mount_point(&table, dir).unwrap_or_else(|| dir.to_owned());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = known.get(&point).and_then(Weak::upgrade) {
            return mount;
        }
        known.retain(|_, mount| mount.strong_count() > 0);
        let places = Arc::new(Semaphore::new(BLOCKING_MOUNT_MAX));
        let mount = Arc::new(Self { places, late: AtomicUsize::new(0) });
        known.insert(point, Arc::downgrade(&mount));
        mount
    }

    pub fn is_hung(&self) -> bool {
        self.late.load(Ordering::Acquire) > 0
    }

    pub fn does_not_answer(&self) {
        self.late.fetch_add(1, Ordering::AcqRel);
    }

    pub fn answered(&self) {
        self.late.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The deepest mount point above a directory, by the fifth column of a table of mounts; `None` for the
/// root file system.
fn mount_point(table: &[u8], dir: &Path) -> Option<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped);
    points
        .filter(|point| point != Path::new("/") && dir.starts_with(point))
        .max_by_key(|point| point.components().count())
}

/// A path of the table, where a space, a tab, a newline and a backslash are written as `\040` and so on.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = (*first == b'\\').then(|| after.get(..3)).flatten();
        let value = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match value.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_on_the_deepest_mount_above_it() {
        let table = b"21 1 0:1 / / rw - ext4 /dev/a rw\n\
            22 21 0:2 / /mnt rw - nfs a:/ rw\n\
            23 22 0:3 / /mnt/a\\040b rw - fuse x rw\n\
            24 21 0:4 / /mnt2 rw - nfs a:/ rw\n\
            cut";
        for (dir, expected) in [
            ("/srv/u", None),
            ("/mnt", Some("/mnt")),
            ("/mnt/x/y", Some("/mnt")),
            ("/mnt/a b/c", Some("/mnt/a b")),
            ("/mnt2/c", Some("/mnt2")),
            ("/mnt3", None),
            ("relative", None),
        ] {
            assert_eq!(mount_point(table, Path::new(dir)).as_deref(), expected.map(Path::new));
        }
        assert_eq!(unescaped(b"/a\\134\\0"), Path::new("/a\\\\0"));
    }
}
