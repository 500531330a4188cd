//! A mounted file system whose server never answers, as a network mount whose server is away: every access
//! blocks until it is unmounted. It is a FUSE mount whose requests nobody reads. The unsafe calls pass
//! strings that end in zero and live until the call returns.

#![expect(unsafe_code, reason = "mount(2) is not among the calls that the workspace has safely")]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A mount that hangs; unmounted when it is dropped, which ends every access with an error.
#[derive(Debug)]
pub struct HungMount {
    point: PathBuf,
    /// The server's end of the mount.
    _server: File,
}

impl HungMount {
    /// Mounts over a directory. An error where this process may not mount.
    pub fn over(point: &Path) -> io::Result<Self> {
        let server = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
        let data = CString::new(data)?;
        let path = CString::new(point.as_os_str().as_bytes())?;
        // SAFETY: see the head of this file.
        let mounted = unsafe {
            libc::mount(c"hung".as_ptr(), path.as_ptr(), c"fuse".as_ptr(), 0, data.as_ptr().cast())
        };
        if mounted != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { point: point.to_owned(), _server: server })
    }
}

impl Drop for HungMount {
    fn drop(&mut self) {
        let Ok(path) = CString::new(self.point.as_os_str().as_bytes()) else { return };
        // A mount that stays is gone when the server's end is closed: every access fails then.
        // SAFETY: see the head of this file.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH) };
    }
}
