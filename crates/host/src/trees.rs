//! Workspaces that Ostler owns: a worktree of a person's repository for one run and those that take
//! up its conversation, or an empty directory. Each has a directory below the data directory, named
//! by the run that it was made for, with a record that is written before anything else is made and
//! the workspace beside it, so that a host that dies at any step leaves nothing that the next one does
//! not find. In the person's repository there is nothing of it but a branch and git's own entry.
//! Only the holder of the data directory's lock may act here. Made in `trees/make.rs`, removed in
//! `trees/clean.rs`, looked at in `trees/changes.rs`, given back in `trees/give_back.rs`.

mod changes;
mod clean;
mod give_back;
mod holds;
mod make;
#[cfg(test)]
mod tests;

pub use changes::{Changed, Changes, Status};
pub(crate) use clean::Entering;
pub(crate) use give_back::Words;
pub use give_back::{GivenBack, How};
pub(crate) use holds::{Holds, UnappliedWork};
pub(crate) use make::{Kind, Wanted};

use crate::clock;
use crate::data::write_private;
use crate::git::Git;
use crate::keepsake;
use contract::{Code, Fault, RunId, limits};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// All workspaces that are ours.
#[derive(Debug)]
pub(crate) struct Trees {
    home: PathBuf,
    git: Git,
    /// Those that this host makes or has made, whether their run exists yet or not. Held while one that
    /// is nobody's is removed.
    ours: Mutex<HashSet<RunId>>,
    /// One at a time: two that are given back to one checkout would meet in its index.
    giving: Mutex<()>,
    /// Workspaces in which a run is about to start. Held while an unchanged worktree is removed.
    entering: Mutex<HashMap<RunId, usize>>,
}

/// What is known of a workspace, beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The directory that it was asked for in.
    pub source: PathBuf,
    /// The workspace itself.
    pub work: PathBuf,
    /// Whether all of it is there.
    pub made: bool,
    /// Whether it stays when its run has ended.
    pub keep: bool,
    /// Absent when it is no worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    /// Set when its work is where it came from; then only this record is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_back: Option<GivenBack>,
    /// Set when the worktree was removed because nothing was changed in it. Only this record is left
    /// then; a run that resumes a conversation held there gets the worktree again, at the same path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed_unchanged: bool,
}

/// Where a worktree came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Worktree {
    /// The checkout whose HEAD it began with.
    pub top: PathBuf,
    /// What git keeps for all checkouts.
    pub common: PathBuf,
    pub base: String,
    pub branch: String,
}

/// One workspace of ours.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    /// The run that it was made for.
    pub id: RunId,
    pub dir: PathBuf,
    pub record: Record,
}

const RECORD: &str = "tree.json";
/// The pause between two attempts to lock the worktrees of a repository.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Where a workspace below a data directory came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The directory that it was asked for in.
    pub source: PathBuf,
    /// It is a git worktree, not an empty directory.
    pub is_worktree: bool,
}

/// The directory that a workspace below this data directory was asked for in; none for a directory
/// that is no such workspace.
pub fn source_of(data: &Path, cwd: &Path) -> Option<PathBuf> {
    workspace_of(data, cwd).map(|workspace| workspace.source)
}

/// The workspace below this data directory that a directory is in.
pub fn workspace_of(data: &Path, cwd: &Path) -> Option<Workspace> {
    let home = data.join("trees");
    let name = cwd.strip_prefix(&home).ok()?.components().next()?;
    let record: Record =
        serde_json::from_slice(&fs::read(home.join(name).join(RECORD)).ok()?).ok()?;
    Some(Workspace { source: record.source, is_worktree: record.worktree.is_some() })
}

impl Trees {
    /// `data` is the data directory; git gets a place of its own in it.
    pub fn new(data: &Path, environment: &std::collections::BTreeMap<String, String>) -> Self {
        Self {
            home: data.join("trees"),
            git: Git::new(data.join("git"), environment),
            ours: Mutex::default(),
            giving: Mutex::default(),
            entering: Mutex::default(),
        }
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The workspace that was made for a run.
    pub fn tree(&self, id: RunId) -> Option<Tree> {
        self.read_tree(id).ok().flatten()
    }

    /// The same; `None` when there is no record, and an error when it cannot be read.
    fn read_tree(&self, id: RunId) -> io::Result<Option<Tree>> {
        let dir = self.dir(id);
        match fs::read(dir.join(RECORD)) {
            Ok(record) => {
                let record = serde_json::from_slice(&record)?;
                Ok(Some(Tree { id, dir, record }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The workspace that a directory is, or is in.
    pub fn of(&self, cwd: &Path) -> Option<Tree> {
        let inside = cwd.strip_prefix(&self.home).ok()?;
        let name = inside.components().next()?.as_os_str().to_str()?;
        self.tree(RunId::new(uuid::Uuid::try_parse(name).ok()?))
    }

    /// Whether a directory is in a workspace of ours, whatever is left of that.
    pub fn owns(&self, cwd: &Path) -> bool {
        cwd.starts_with(&self.home)
    }

    /// The runs that workspaces were made for, newest first.
    pub fn all(&self) -> Vec<RunId> {
        let entries = fs::read_dir(&self.home).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let runs = names.filter_map(|name| uuid::Uuid::try_parse(&name).ok()).map(RunId::new);
        let mut runs: Vec<RunId> = runs.collect();
        runs.sort_unstable_by(|a, b| b.cmp(a));
        runs
    }

    /// Those of a directory that can be worked in, if need be after they were made again, newest first.
    pub fn from(&self, source: &Path) -> impl Iterator<Item = Tree> {
        let trees = self.all().into_iter().filter_map(|run| self.tree(run));
        let here = move |tree: &Tree| tree.record.source == source && tree.can_be_entered();
        trees.filter(here)
    }

    /// The directory that everything of a run's workspace is in.
    pub fn place(&self, id: RunId) -> PathBuf {
        self.dir(id)
    }

    fn dir(&self, id: RunId) -> PathBuf {
        self.home.join(id.uuid().simple().to_string())
    }

    fn ours(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.ours.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tree {
    /// Whether it can be worked in.
    pub fn is_there(&self) -> bool {
        self.record.made
            && self.record.given_back.is_none()
            && !self.record.removed_unchanged
            && self.record.work.is_dir()
    }

    /// Whether a run can start in it: it is there, or it can be made again.
    pub fn can_be_entered(&self) -> bool {
        self.is_there() || self.record.removed_unchanged
    }

    /// Leaves what must be kept out of everything that is shown of a run's work here.
    pub fn leave_secrets(
        &self,
        run: RunId,
        secret: &str,
        values: &[(String, String)],
    ) -> io::Result<()> {
        let dir = self.secrets(run);
        if dir.exists() {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        keepsake::leave(&dir, secret, values)
    }

    /// What was left so, for all runs that worked here.
    pub fn secrets_left(&self, secret: impl Fn(RunId) -> String) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.dir.join("runs")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let runs = names.filter_map(|name| uuid::Uuid::try_parse(&name).ok()).map(RunId::new);
        let values = runs.filter_map(|run| keepsake::find(&self.secrets(run), &secret(run)));
        values.flatten().collect()
    }

    fn secrets(&self, run: RunId) -> PathBuf {
        self.dir.join("runs").join(run.uuid().simple().to_string())
    }

    /// Never half of it: a record that cannot be read is one of a workspace that stays for ever.
    fn write(&self) -> io::Result<()> {
        let (record, new) = (self.dir.join(RECORD), self.dir.join("tree.new"));
        write_private(&new, &serde_json::to_string(&self.record)?)?;
        fs::rename(new, record)
    }

    /// Writes the record. Gives whether that succeeded.
    fn write_or_log(&self) -> bool {
        let written = self.write();
        if let Err(error) = &written {
            let path = self.dir.display();
            tracing::warn!(%path, %error, "the record of a worktree cannot be written");
        }
        written.is_ok()
    }

    fn worktree(&self) -> Result<&Worktree, Fault> {
        self.record.worktree.as_ref().ok_or_else(|| {
            let message =
                format!("{} worked in a directory of its own, and not in a worktree", self.id);
            Fault::new(Code::NotSupported, message).with_hint("run it with --worktree")
        })
    }
}

impl Worktree {
    /// Keeps other processes of Ostler from making or removing worktrees of the same repository, until
    /// the lock is dropped: `git worktree add` fails on an entry that another call has half written. A
    /// file system without such locks is used without one.
    fn lock(&self) -> io::Result<Option<fs::File>> {
        let dir = fs::File::open(&self.common)?;
        let until_ms = clock::now().mono_ms + limits::GIT_TREE_MS_MAX;
        loop {
            match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(dir)),
                Err(Errno::WOULDBLOCK) if clock::now().mono_ms < until_ms => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(Errno::WOULDBLOCK) => {
                    let message = "another process has been making worktrees of it for too long";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                Err(_without_locks) => return Ok(None),
            }
        }
    }

    /// What git keeps of the worktree in the person's repository. Found by where it leads: git gives
    /// it a name of its own choice.
    fn entry(&self, work: &Path) -> Option<PathBuf> {
        let pointer = work.join(".git");
        let entries = fs::read_dir(self.common.join("worktrees")).ok()?.flatten();
        let mut entries = entries.map(|entry| entry.path());
        entries.find(|entry| {
            let text = fs::read_to_string(entry.join("gitdir")).unwrap_or_default();
            Path::new(text.trim_end()) == pointer
        })
    }
}

/// A fault about a directory.
fn unusable(dir: &Path, error: &io::Error) -> Fault {
    let code = match error.kind() {
        io::ErrorKind::StorageFull => Code::DiskFull,
        _ => Code::BadWorkspace,
    };
    Fault::new(code, format!("{}: {error}", dir.display()))
}
