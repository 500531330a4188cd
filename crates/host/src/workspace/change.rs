//! Changes of files beneath a workspace, all of them or none. Every parent directory is opened by
//! the kernel's own rule, the new content is written beside its place under a name of its own, and
//! only then do the names change hands; a change that fails takes back those before it.
//!
//! A link is never written through and never replaced, modes stay as they were, and what git keeps
//! for itself is left alone: a hook written there would run outside of any policy.

use super::{Workspace, refused, shown};
use crate::chance;
use contract::{Code, Fault};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// What one file becomes.
#[derive(Debug)]
pub struct Change {
    pub path: String,
    pub was: Was,
    /// Absent when the file is removed.
    pub becomes: Option<Vec<u8>>,
    /// Whether a new file may be executed; an old one keeps its mode.
    pub executable: bool,
}

/// What must be true of a file that is changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Was {
    Anything,
    Absent,
    Exactly(Vec<u8>),
}

/// A change whose content is on disk and whose name is not taken yet.
struct Staged<'a> {
    change: &'a Change,
    parent: OwnedFd,
    name: &'a str,
    /// Where the new content waits, and the old one after the change.
    aside: String,
    exists: bool,
    swapped: bool,
    /// Set when the old content is still aside, because the names could not be changed back.
    holds_old: bool,
    /// Directories that were made for it: where, and their names.
    made: Vec<(OwnedFd, &'a str)>,
}

impl Workspace {
    /// Changes all these files, or none.
    pub fn change(&self, changes: &[Change]) -> Result<(), Fault> {
        let mut staged: Vec<Staged<'_>> = Vec::with_capacity(changes.len());
        for change in changes {
            let next = self.stage(change).inspect_err(|_| take_back(&mut staged))?;
            staged.push(next);
        }
        let alone = staged.len() == 1;
        for i in 0..staged.len() {
            if let Err(fault) = staged[i].swap(alone) {
                take_back(&mut staged);
                return Err(fault);
            }
        }
        Ok(())
    }

    fn stage<'a>(&self, change: &'a Change) -> Result<Staged<'a>, Fault> {
        let path = change.path.as_str();
        let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
        // A path that begins with a slash has an empty directory: the kernel is not asked.
        if dir.is_empty() || matches!(name, "" | "." | "..") || name.contains('\0') {
            return Err(refused(path, "it is not the name of a file in the workspace"));
        }
        let mut made = Vec::new();
        let parent = match self.directory(dir, path) {
            Err(fault) if fault.code == Code::NotFound && change.becomes.is_some() => {
                self.make(dir, path, &mut made).inspect_err(|_| unmake(&mut made))?
            }
            opened => opened?,
        };
        let mut staged = Staged {
            change,
            parent,
            name,
            aside: chance::aside(),
            exists: false,
            swapped: false,
            holds_old: false,
            made,
        };
        match self.outside_of_git(&staged).and_then(|()| staged.prepare()) {
            Ok(()) => Ok(staged),
            Err(fault) => {
                staged.take_back();
                Err(fault)
            }
        }
    }

    fn directory(&self, dir: &str, path: &str) -> Result<OwnedFd, Fault> {
        self.beneath(dir, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|fault| match fault.code {
            Code::NotFound => fault,
            _ => Fault { message: fault.message.replacen(&shown(dir), &shown(path), 1), ..fault },
        })
    }

    /// Makes the directories that are missing, one by one, each opened beneath the root.
    fn make<'a>(
        &self,
        dir: &'a str,
        path: &str,
        made: &mut Vec<(OwnedFd, &'a str)>,
    ) -> Result<OwnedFd, Fault> {
        let mut parent = self.directory(".", path)?;
        let mut end = 0;
        for name in dir.split('/') {
            end += name.len();
            let so_far = &dir[..end];
            end += 1;
            if matches!(name, "" | ".") {
                continue;
            }
            parent = match self.directory(so_far, path) {
                Err(fault) if fault.code == Code::NotFound => {
                    if name == ".." || name.eq_ignore_ascii_case(".git") {
                        return Err(refused(path, "no such directory is made"));
                    }
                    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777))
                        .map_err(|error| failed(path, error))?;
                    made.push((parent, name));
                    self.directory(so_far, path)?
                }
                opened => opened?,
            };
        }
        Ok(parent)
    }

    fn outside_of_git(&self, staged: &Staged<'_>) -> Result<(), Fault> {
        let path = &staged.change.path;
        let real = std::fs::read_link(format!("/proc/self/fd/{}", staged.parent.as_raw_fd()))
            .map_err(|error| refused(path, &error.to_string()))?;
        let inner = real
            .strip_prefix(&self.path)
            .map_err(|_| refused(path, "it leads out of the workspace"))?;
        let of_git = |name: &std::ffi::OsStr| name.eq_ignore_ascii_case(".git");
        let inside = inner.components().any(|part| of_git(part.as_os_str()));
        match inside || of_git(staged.name.as_ref()) {
            true => Err(refused(path, "files of git itself are not written")),
            false => Ok(()),
        }
    }
}

impl Staged<'_> {
    /// Looks at what is there and writes the new content beside it.
    fn prepare(&mut self) -> Result<(), Fault> {
        let path = &self.change.path;
        let mode = match rustix::fs::statat(&self.parent, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                regular(path, FileType::from_raw_mode(stat.st_mode))?;
                self.exists = true;
                Some(Mode::from_raw_mode(stat.st_mode & 0o777))
            }
            Err(Errno::NOENT) => None,
            Err(error) => return Err(failed(path, error)),
        };
        match (&self.change.was, self.exists) {
            (Was::Absent, true) => {
                let message = format!("'{}' is already there", shown(path));
                return Err(Fault::new(Code::Conflict, message));
            }
            (Was::Exactly(_), false) => {
                let message = format!("'{}' is not in the workspace", shown(path));
                return Err(Fault::new(Code::NotFound, message));
            }
            (Was::Anything | Was::Absent | Was::Exactly(_), _) => {}
        }
        let Some(content) = &self.change.becomes else { return Ok(()) };
        let new = Mode::from_raw_mode(if self.change.executable { 0o777 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.parent, &self.aside, flags, new)
            .map_err(|error| failed(path, error))?;
        if let Some(mode) = mode {
            rustix::fs::fchmod(&fd, mode).map_err(|error| failed(path, error))?;
        }
        File::from(fd).write_all(content).map_err(|error| refused(path, &error.to_string()))
    }

    /// Lets the names change hands. What turns out to be another file than was looked at goes back.
    fn swap(&mut self, alone: bool) -> Result<(), Fault> {
        let path = &self.change.path;
        let moved = match (&self.change.becomes, self.exists) {
            (Some(_), true) => self.rename(&self.aside, self.name, RenameFlags::EXCHANGE),
            (Some(_), false) => self.rename(&self.aside, self.name, RenameFlags::NOREPLACE),
            (None, _) => self.rename(self.name, &self.aside, RenameFlags::NOREPLACE),
        };
        match moved {
            Ok(()) => self.swapped = true,
            // Some file systems cannot exchange two names. One file alone needs no way back.
            Err(Errno::INVAL) if alone && self.change.was == Was::Anything => {
                return self
                    .rename(&self.aside, self.name, RenameFlags::empty())
                    .map_err(|error| failed(path, error));
            }
            Err(Errno::EXIST | Errno::NOENT) => return Err(changed(path)),
            Err(error) => return Err(failed(path, error)),
        }
        match self.exists {
            true => self.check_old(),
            false => Ok(()),
        }
    }

    /// The old file lies aside now and nobody else knows its name.
    fn check_old(&self) -> Result<(), Fault> {
        let path = &self.change.path;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match &self.change.was {
            Was::Exactly(_) => rustix::fs::openat(&self.parent, &self.aside, flags, Mode::empty())
                .map_err(|error| failed(path, error))?,
            Was::Anything | Was::Absent => {
                let stat = rustix::fs::statat(&self.parent, &self.aside, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|error| failed(path, error))?;
                return regular(path, FileType::from_raw_mode(stat.st_mode));
            }
        };
        let Was::Exactly(was) = &self.change.was else { return Ok(()) };
        let mut bytes = Vec::with_capacity(was.len());
        File::from(fd)
            .take(was.len() as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| refused(path, &error.to_string()))?;
        match bytes == *was {
            true => Ok(()),
            false => Err(changed(path)),
        }
    }

    fn take_back(&mut self) {
        if std::mem::take(&mut self.swapped) {
            let back = match (&self.change.becomes, self.exists) {
                (Some(_), true) => self.rename(&self.aside, self.name, RenameFlags::EXCHANGE),
                (Some(_), false) => self.rename(self.name, &self.aside, RenameFlags::NOREPLACE),
                (None, _) => self.rename(&self.aside, self.name, RenameFlags::NOREPLACE),
            };
            if let Err(error) = back {
                // The name of the file is the agent's text; that of the copy is ours.
                let copy = &self.aside;
                tracing::warn!(copy, %error, "a change of a file cannot be undone; a copy stays");
                self.holds_old = self.exists;
            }
        }
        self.clear();
        unmake(&mut self.made);
    }

    fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.parent, from, &self.parent, to, flags)
    }

    fn clear(&self) {
        if self.holds_old {
            return;
        }
        // It may never have been made, or may have become the file itself.
        let _ = rustix::fs::unlinkat(&self.parent, &self.aside, AtFlags::empty());
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn take_back(staged: &mut Vec<Staged<'_>>) {
    while let Some(mut last) = staged.pop() {
        last.take_back();
    }
}

fn unmake(made: &mut Vec<(OwnedFd, &str)>) {
    while let Some((parent, name)) = made.pop() {
        // One that is not empty any more belongs to someone else now.
        let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
    }
}

fn regular(path: &str, kind: FileType) -> Result<(), Fault> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(refused(path, "it is a link")),
        _ => Err(refused(path, "not a regular file")),
    }
}

fn failed(path: &str, error: Errno) -> Fault {
    match error {
        Errno::NOSPC | Errno::DQUOT => {
            Fault::new(Code::DiskFull, format!("writing '{}'", shown(path)))
        }
        error => refused(path, &std::io::Error::from(error).to_string()),
    }
}

fn changed(path: &str) -> Fault {
    Fault::new(
        Code::Conflict,
        format!("'{}' was changed meanwhile by another program", shown(path)),
    )
    .with_hint("read the file again")
}

/// How every path is resolved: beneath the root, whatever links say.
pub(super) fn resolve() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS
}

#[cfg(test)]
mod tests;
