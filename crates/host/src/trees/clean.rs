//! Removing a workspace: what git keeps of it in the person's repository, its branch, its files, and
//! its record last, so that a host that dies on the way is followed by one that does the rest. Nothing
//! is removed that does not lead to a directory of ours.

use super::{Tree, Trees};
use crate::git::{MARK, Repository};
use contract::RunId;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Rounds in which calls of git are looked for that a dead host left.
const SWEEP_ROUNDS_MAX: u32 = 250;

/// What becomes of a worktree's branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branch {
    /// It goes, whatever is on it.
    Drop,
    /// It goes when nothing was committed on it.
    DropUnused,
}

impl Trees {
    /// Removes a workspace and everything that is known of it. Blocking.
    pub fn remove(&self, id: RunId) {
        if let Some(tree) = self.tree(id) {
            if !tree.record.made {
                // Whoever made it may have died, and git may still be at it.
                let _ = keeper::mark::sweep(MARK, &tree.mark(), SWEEP_ROUNDS_MAX);
            }
            // What was given back is the person's, also a branch that was kept for its commits.
            if tree.record.given_back.is_none() {
                self.clean(&tree, Branch::Drop);
            }
        }
        let _ = remove_all(&self.dir(id));
    }

    /// Removes a workspace whose run is not known, unless this host makes one for that run: whoever
    /// does waits until this is done. One that someone worked in stays: its run came to be, whatever
    /// became of the store. Blocking.
    pub fn sweep(&self, id: RunId) {
        let ours = self.ours();
        if !ours.contains(&id) && !self.is_worked_in(id) {
            self.remove(id);
        }
    }

    fn is_worked_in(&self, id: RunId) -> bool {
        let Some(tree) = self.tree(id).filter(Tree::is_there) else { return false };
        match tree.record.worktree {
            None => fs::read_dir(&tree.record.work).is_ok_and(|mut files| files.next().is_some()),
            Some(_) => !self.changes(&tree).is_ok_and(|changes| changes.is_empty()),
        }
    }

    /// Removes what is to be worked in, and keeps the record. Blocking.
    pub fn clean(&self, tree: &Tree, branch: Branch) {
        let work = &tree.record.work;
        if let Some(worktree) = &tree.record.worktree {
            if let Some(entry) = worktree.entry(work) {
                let _ = fs::remove_dir_all(entry);
                // Git's own way: the last one leaves no empty directory.
                let _ = fs::remove_dir(worktree.common.join("worktrees"));
            }
            if let Ok(repository) = Repository::open(&self.git, &worktree.top)
                && repository.common() == worktree.common
            {
                let name = format!("refs/heads/{}", worktree.branch);
                let call = repository.call(&["update-ref", "-d", &name]);
                let _ = match branch {
                    Branch::Drop => call.run(),
                    // Git refuses when it is not at that commit any more.
                    Branch::DropUnused => call.arg(&worktree.base).run(),
                };
            }
        }
        let _ = remove_all(work);
    }

    /// A run that worked in this directory has ended: what was only for it goes. Blocking.
    pub fn ended(&self, cwd: &Path) {
        let Some(tree) = self.of(cwd) else { return };
        if tree.record.worktree.is_none() && !tree.record.keep {
            self.remove(tree.id);
        }
    }
}

/// Removes a directory, also where an agent took its own rights away. Links are not followed.
fn remove_all(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir);
            fs::remove_dir_all(dir)
        }
        removed => removed,
    }
}

fn open_up(dir: &Path) {
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        if !dir.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            continue;
        }
        let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        waiting.extend(entries.map(|entry| entry.path()));
    }
}
