//! Room set aside for last words. A file of fixed size lies in the data directory and holds nothing;
//! when the disk is full it is given up, so that runs that end can still be settled. It is made
//! again as soon as there is room for it and for ordinary work besides.

use crate::error::Error;
use contract::limits::{STORE_RESERVE_BYTES, STORE_ROOM_BYTES};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const NAME: &str = "reserve";

/// The reserve of one data directory.
#[derive(Debug, Clone)]
pub(crate) struct Ballast {
    path: PathBuf,
    folder: PathBuf,
}

impl Ballast {
    pub fn of(folder: &Path) -> Self {
        Self { path: folder.join(NAME), folder: folder.to_owned() }
    }

    /// Makes sure that the reserve is there, and room for ordinary work beside it.
    pub fn make(&self) -> Result<(), Error> {
        let doing = || "keeping a reserve".to_owned();
        let there = fs::metadata(&self.path).is_ok_and(|file| file.len() == STORE_RESERVE_BYTES);
        let wanted = STORE_ROOM_BYTES + if there { 0 } else { STORE_RESERVE_BYTES };
        let disk = statvfs(&self.folder).map_err(|cause| Error::io(doing(), cause.into()))?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < wanted {
            return Err(Error::DiskFull { doing: doing() });
        }
        if there {
            return Ok(());
        }
        self.fill().map_err(|cause| {
            // A part of a reserve is in the way and of no use.
            self.release();
            Error::io(doing(), cause)
        })
    }

    fn fill(&self) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&self.path)?;
        if fallocate(&file, FallocateFlags::empty(), 0, STORE_RESERVE_BYTES).is_ok() {
            return Ok(());
        }
        // Some file systems cannot set room aside, but all of them can be written to.
        let zeros = [0; 64 * 1024];
        let mut left = STORE_RESERVE_BYTES;
        while left > 0 {
            let part = left.min(zeros.len() as u64);
            file.write_all(&zeros[..usize::try_from(part).unwrap_or(zeros.len())])?;
            left -= part;
        }
        Ok(())
    }

    /// Gives the room to whoever writes next. False when there was none to give.
    pub fn release(&self) -> bool {
        match fs::remove_file(&self.path) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    let path = self.path.display();
                    tracing::error!(%path, %error, "the reserve of the store cannot be released");
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_takes_room_until_it_is_given_up_and_is_made_again() {
        let dir = tempfile::TempDir::new().unwrap();
        let ballast = Ballast::of(dir.path());
        ballast.make().unwrap();
        ballast.make().unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(fs::metadata(&path).unwrap().len(), STORE_RESERVE_BYTES);
        assert!(ballast.release() && !ballast.release() && !path.exists());
        fs::write(&path, "a part").unwrap();
        ballast.make().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), STORE_RESERVE_BYTES);
    }
}
