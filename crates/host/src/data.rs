//! The data directory and its one host: lock, token, address, and where the spools live.
//!
//! The first process that takes the lock is the host; it writes its address beside the lock once it
//! listens. Everyone else reads address and token and goes through it. Nothing here talks HTTP.

use crate::chance;
use crate::cleanup;
use contract::plan::PlanFile;
use contract::{Code, Fault, RunId};
use failpoint::Point;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
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

/// Writes what an attempt is given beside its spool, for its eyes alone.
pub(crate) fn write_files(spool: &Path, files: &[PlanFile]) -> io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let dir = spool.join("files");
    private_dir(&dir, Links::None)?;
    for PlanFile { name, text } in files {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            let message = format!("'{}' is not a plain file name", name.escape_debug());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        write_private(&dir.join(name), text)?;
    }
    Ok(())
}

impl DataDir {
    /// Makes the directory when it is not there yet, and makes sure that it is ours alone.
    /// `runtime` is where short-lived files go (`$XDG_RUNTIME_DIR`), if the system has such a place.
    pub fn open(path: &Path, runtime: Option<&Path>, temporary: &Path) -> Result<Self, Fault> {
        private_dir(path, Links::Own).map_err(|error| unusable(path, &error))?;
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
            private_dir(dir, Links::None).map_err(|error| {
                unusable(dir, &error).with_hint(
                    "remove it, or set XDG_RUNTIME_DIR to a directory that only you can use",
                )
            })?;
        }
        Ok(Self { path, spools })
    }

    /// The directories that no tool of an agent is let into.
    pub fn private(&self) -> [&Path; 2] {
        [&self.path, &self.spools]
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The spool of one attempt. Created exclusively, so that a launch cannot happen twice.
    pub fn spool(&self, run: RunId, attempt: u32) -> PathBuf {
        self.spools.join(format!("{}.{attempt}", run.uuid().simple()))
    }

    /// Where an attempt finds the files of its plan; gone with its spool.
    pub fn files(&self, run: RunId, attempt: u32) -> PathBuf {
        self.spool(run, attempt).join("files")
    }

    /// The newest attempt of a run that has a spool; the first when none has.
    pub fn last_attempt(&self, run: RunId) -> u32 {
        let most = contract::limits::ATTEMPTS_MAX + contract::limits::REMOTE_ATTACHES_MAX;
        (2..=most).rfind(|attempt| self.spool(run, *attempt).exists()).unwrap_or(1)
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
        let (file, refusal) = match open(&path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => (file, None),
            // A host that was there before may still have it, and can be asked.
            Err(refusal @ (Errno::ROFS | Errno::ACCESS)) => {
                let file = open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
                (file.map_err(|_| unusable(&path, &refusal.into()))?, Some(refusal))
            }
            Err(error) => return Err(unusable(&path, &error.into())),
        };
        match (flock(&file, FlockOperation::NonBlockingLockExclusive), refusal) {
            (Ok(()), None) => Ok(Some(Lock { _file: file })),
            (Ok(()), Some(refusal)) => Err(unusable(&path, &refusal.into())),
            (Err(Errno::WOULDBLOCK), _) => Ok(None),
            (Err(error), _) => Err(unusable(&path, &error.into())),
        }
    }

    /// The token that opens the API: made once, readable by the owner alone.
    pub fn token(&self) -> Result<String, Fault> {
        let path = self.path.join("token");
        is_own(&path).map_err(|error| unusable(&path, &error))?;
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
                // Without a token that can be read the link decides: it fails unless the name is free.
                Err(_) => fs::hard_link(&temporary, path).or_else(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => Ok(()),
                    _ => Err(error),
                }),
            });
        failpoint::hit(Point::TokenLinked);
        cleanup::remove_file(&temporary);
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
        cleanup::remove_file(&self.path.join("address"));
    }

    pub fn address(&self) -> Option<String> {
        fs::read_to_string(self.path.join("address")).ok()
    }
}

/// Which links to a directory are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    /// Those of its owner, who may keep the data on another disk.
    Own,
    /// None: the directory lies where anyone may have put something first.
    None,
}

/// Makes a directory, or takes one that is there already if it is the owner's own. It is looked at by
/// its descriptor, so that what was looked at is what is made private.
fn private_dir(path: &Path, links: Links) -> io::Result<()> {
    // To make one that is there waits for a disk that takes no writes, and a stop must not wait for it.
    if !path.exists() {
        match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let follow = match links {
        Links::Own => {
            is_own(path)?;
            OFlags::empty()
        }
        Links::None => OFlags::NOFOLLOW,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | follow;
    let dir = open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&dir)?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(foreign(found.st_uid));
    }
    if found.st_mode & 0o077 != 0 {
        rustix::fs::fchmod(&dir, Mode::RWXU)?;
    }
    Ok(())
}

/// That what is there under this name, be it a link, was put there by us.
fn is_own(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => {
            Err(foreign(found.uid()))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn foreign(uid: u32) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("it belongs to another user ({uid})"))
}

pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Takes the place of what was there, whole: it is durable when this returns, with its name.
pub(crate) fn replace_private(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    write_private(&new, text)?;
    fs::rename(&new, path)?;
    sync_folder_of(path)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    fs::File::open(path.parent().unwrap_or(path))?.sync_all()
}

/// A private file that need not outlast the machine.
pub(crate) fn write_private_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

fn unusable(path: &Path, error: &io::Error) -> Fault {
    let code = match error.kind() {
        io::ErrorKind::StorageFull => Code::DiskFull,
        _ => Code::StoreUnreadable,
    };
    let fault = Fault::new(code, format!("{}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => fault.with_hint(
            "make the data directory writable; to only read it, copy it and name the copy with \
             --data",
        ),
        _ => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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
    fn what_cannot_take_the_place_of_a_file_is_said_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept.json");
        replace_private(&path, "old").unwrap();
        fs::create_dir(path.with_extension("new")).unwrap();
        assert!(replace_private(&path, "new").is_err(), "it cannot be written beside it");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        fs::remove_dir(path.with_extension("new")).unwrap();
        // As on a disk that is full: what could not be written whole takes nobody's place.
        symlink("/dev/full", path.with_extension("new")).unwrap();
        assert!(replace_private(&path, "new").is_err(), "it cannot be written");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        fs::remove_file(path.with_extension("new")).unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(path.join("in")).unwrap();
        assert!(replace_private(&path, "new").is_err(), "it cannot take the place of a directory");
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
    fn what_must_last_is_synced() {
        // The kernel cannot sync this, and so says whether it was asked to.
        let error = write_private(Path::new("/dev/null"), "x").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
        // And what could not be written is not synced as if it had been.
        let error = write_private(Path::new("/dev/full"), "x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let error = sync_folder_of(Path::new("/proc/self/fd/0")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    }

    #[test]
    fn what_takes_the_place_of_another_leaves_nothing_beside_it() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("kept.json");
        for text in ["the first", "another"] {
            replace_private(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1);
    }

    #[test]
    fn files_of_a_plan_are_all_written_into_a_directory_of_ours_or_none_is_there() {
        let file = |name: &str| PlanFile { name: name.to_owned(), text: "x".to_owned() };
        let temporary = tempfile::tempdir().unwrap();
        let spool = |name: &str| {
            let spool = temporary.path().join(name);
            fs::create_dir(&spool).unwrap();
            spool
        };
        let (good, linked, blocked) = (spool("good"), spool("linked"), spool("blocked"));
        write_files(&good, &[file("a")]).unwrap();
        assert_eq!(fs::read_to_string(good.join("files/a")).unwrap(), "x");
        let elsewhere = spool("elsewhere");
        symlink(&elsewhere, linked.join("files")).unwrap();
        write_files(&linked, &[file("a")]).unwrap_err();
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing went there");
        fs::create_dir_all(blocked.join("files/a")).unwrap();
        write_files(&blocked, &[file("a")]).unwrap_err();
        for name in ["", ".hidden", "a/b", "../a", "a\0b"] {
            write_files(&good, &[file(name)]).unwrap_err();
        }
    }

    #[test]
    fn a_token_that_could_not_be_written_is_not_given_out() {
        let (_temporary, data) = place();
        fs::write(data.path().join("token"), "short").unwrap();
        // In the way of the new one, also of root.
        fs::create_dir(data.path().join(format!("token.{}", std::process::id()))).unwrap();
        assert_eq!(data.token().unwrap_err().code, Code::StoreUnreadable);
    }

    /// A directory and a link that are not ours, whoever we are: root gives its own away, all others
    /// find some of root's.
    fn theirs(temporary: &Path) -> (PathBuf, PathBuf) {
        if !rustix::process::geteuid().is_root() {
            return ("/".into(), "/proc/self".into());
        }
        let (dir, link) = (temporary.join("theirs"), temporary.join("link"));
        fs::create_dir(&dir).unwrap();
        fs::create_dir(temporary.join("ours")).unwrap();
        symlink(temporary.join("ours"), &link).unwrap();
        for path in [&dir, &link] {
            std::os::unix::fs::lchown(path, Some(65_534), None).unwrap();
        }
        (dir, link)
    }

    #[test]
    fn what_belongs_to_another_user_is_not_made_private_and_not_used() {
        let temporary = tempfile::tempdir().unwrap();
        let (dir, link) = theirs(temporary.path());
        for (path, links) in [(&dir, Links::None), (&dir, Links::Own), (&link, Links::Own)] {
            let error = private_dir(path, links).unwrap_err();
            assert!(error.to_string().contains("another user"), "{}: {error}", path.display());
        }
        if rustix::process::geteuid().is_root() {
            let (_temporary, data) = place();
            let token = data.path().join("token");
            fs::write(&token, "0".repeat(64)).unwrap();
            std::os::unix::fs::lchown(&token, Some(65_534), None).unwrap();
            let fault = data.token().unwrap_err();
            assert!(fault.message.contains("another user"), "{fault}");
        }
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

    #[test]
    fn a_link_to_the_data_is_followed_if_it_is_ours_and_none_to_the_spools_is() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        fs::create_dir(at("elsewhere")).unwrap();
        fs::set_permissions(at("elsewhere"), fs::Permissions::from_mode(0o777)).unwrap();
        symlink(at("elsewhere"), at("data")).unwrap();
        DataDir::open(&at("data"), None, temporary.path()).unwrap();
        assert_eq!(fs::metadata(at("elsewhere")).unwrap().permissions().mode() & 0o777, 0o700);

        fs::create_dir(at("tmp")).unwrap();
        let uid = rustix::process::getuid().as_raw();
        symlink(at("elsewhere"), at("tmp").join(format!("ostler-{uid}"))).unwrap();
        let fault = DataDir::open(&at("data"), None, &at("tmp")).unwrap_err();
        assert_eq!(fault.code, Code::StoreUnreadable, "{fault}");
        assert!(fault.hint().contains("XDG_RUNTIME_DIR"), "{}", fault.hint());
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0, "nothing went there");
    }
}
