//! The data directory and its one host: lock, token, address, and where the spools live.
//!
//! The first process that takes the lock is the host; it writes its address beside the lock once it
//! listens. Everyone else reads address and token and goes through it. Nothing here talks HTTP.

use crate::chance;
use contract::{Code, Fault, RunId};
use failpoint::Point;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A data directory that exists and is private.
#[derive(Debug, Clone)]
pub struct DataDir {
    path: PathBuf,
    /// Where this directory's spools live: outside it, because they are raw and short-lived.
    spools: PathBuf,
}

/// Held by the host for as long as it lives; the kernel releases it however the host ends.
#[derive(Debug)]
pub struct Lock {
    _file: OwnedFd,
}

impl DataDir {
    /// Makes the directory when it is not there yet, and makes sure that it is ours alone.
    /// `runtime` is where short-lived files go (`$XDG_RUNTIME_DIR`), if the system has such a place.
    pub fn open(path: &Path, runtime: Option<&Path>, temporary: &Path) -> Result<Self, Fault> {
        private_dir(path).map_err(|error| unusable(path, &error))?;
        let path = path.canonicalize().map_err(|error| unusable(path, &error))?;
        let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        let hash = &hash.as_str()[..16];
        let spools = match runtime {
            Some(runtime) => runtime.join("ostler").join(hash),
            None => {
                let uid = rustix::process::getuid().as_raw();
                temporary.join(format!("ostler-{uid}")).join(hash)
            }
        };
        for dir in [spools.parent().unwrap_or(&spools), &spools] {
            private_dir(dir).map_err(|error| unusable(dir, &error))?;
        }
        Ok(Self { path, spools })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The spool of one attempt. Created exclusively, so that a launch cannot happen twice.
    pub fn spool(&self, run: RunId, attempt: u32) -> PathBuf {
        self.spools.join(format!("{}.{attempt}", run.uuid().simple()))
    }

    /// Every spool folder there is, with the run it belongs to.
    pub fn spools(&self) -> io::Result<Vec<(RunId, PathBuf)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.spools)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if let Ok(run) = uuid::Uuid::try_parse(name) {
                found.push((RunId::new(run), path));
            }
        }
        Ok(found)
    }

    /// Takes the lock if nobody has it.
    pub fn try_lock(&self) -> Result<Option<Lock>, Fault> {
        let path = self.path.join("lock");
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(&path, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| unusable(&path, &error.into()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(unusable(&path, &error.into())),
        }
    }

    /// The token that opens the API: made once, readable by the owner alone.
    pub fn token(&self) -> Result<String, Fault> {
        let path = self.path.join("token");
        match fs::read_to_string(&path) {
            Ok(token) if token.trim().len() == 64 => Ok(token.trim().to_owned()),
            Ok(_) => self.write_token(&path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write_token(&path),
            Err(error) => Err(unusable(&path, &error)),
        }
    }

    fn write_token(&self, path: &Path) -> Result<String, Fault> {
        let token = chance::token().map_err(|error| unusable(path, &error))?;
        // A link, unlike a rename, loses to whoever was first: two processes agree on one token.
        let temporary = self.path.join(format!("token.{}", std::process::id()));
        let outcome =
            write_private(&temporary, &token).and_then(|()| match fs::read_to_string(path) {
                Ok(found) if found.trim().len() == 64 => Ok(()),
                Ok(_) => fs::rename(&temporary, path),
                Err(_) => fs::hard_link(&temporary, path).or_else(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => Ok(()),
                    _ => Err(error),
                }),
            });
        failpoint::hit(Point::TokenLinked);
        let _ = fs::remove_file(&temporary);
        outcome.map_err(|error| unusable(path, &error))?;
        fs::read_to_string(path)
            .map(|token| token.trim().to_owned())
            .map_err(|error| unusable(path, &error))
    }

    /// Says where the host listens. Only the holder of the lock may.
    pub fn write_address(&self, _: &Lock, address: &str) -> Result<(), Fault> {
        let path = self.path.join("address");
        let temporary = self.path.join("address.new");
        write_private(&temporary, address)
            .inspect(|()| failpoint::hit(Point::AddressWritten))
            .and_then(|()| fs::rename(&temporary, &path))
            .map_err(|error| unusable(&path, &error))
    }

    pub fn clear_address(&self, _: &Lock) {
        let _ = fs::remove_file(self.path.join("address"));
    }

    pub fn address(&self) -> Option<String> {
        fs::read_to_string(self.path.join("address")).ok()
    }
}

fn private_dir(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::metadata(path)?;
    if !found.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    if found.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The same for what need not outlast the machine.
pub(crate) fn write_private_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

fn unusable(path: &Path, error: &io::Error) -> Fault {
    let code = match error.kind() {
        io::ErrorKind::StorageFull => Code::DiskFull,
        _ => Code::StoreUnreadable,
    };
    Fault::new(code, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, DataDir) {
        let temporary = tempfile::tempdir().unwrap();
        let data = DataDir::open(&temporary.path().join("data"), None, temporary.path()).unwrap();
        (temporary, data)
    }

    #[test]
    fn the_lock_is_held_by_one_and_free_when_dropped() {
        let (_temporary, data) = place();
        let lock = data.try_lock().unwrap().expect("free at first");
        assert!(data.try_lock().unwrap().is_none());
        drop(lock);
        assert!(data.try_lock().unwrap().is_some());
    }

    #[test]
    fn the_token_is_made_once_and_private() {
        let (_temporary, data) = place();
        let token = data.token().unwrap();
        assert_eq!((token.len(), data.token().unwrap()), (64, token));
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(data.path().join("token")), 0o600);
        assert_eq!(mode(data.path().to_owned()), 0o700);
        assert_eq!(mode(data.spools.clone()), 0o700);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("data");
        fs::write(&path, "x").unwrap();
        let fault = DataDir::open(&path, None, temporary.path()).unwrap_err();
        assert_eq!(fault.code, Code::StoreUnreadable);
        assert!(fault.message.contains("data"), "{fault}");
    }
}
