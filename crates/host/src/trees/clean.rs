//! Removing a workspace: what git keeps of it in the person's repository, its branch, its files, and
//! its record last, so that a host that dies on the way is followed by one that does the rest. Nothing
//! is removed that does not lead to a directory of ours.

use super::{Holds, Tree, Trees, Worktree};
use crate::cleanup;
use crate::git::{MARK, Repository};
use contract::RunId;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};

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
        let tree = match self.read_tree(id) {
            Ok(tree) => tree,
            // Without its record nothing is known of its branch, and it may hold unapplied work.
            Err(error) => return cleanup::log_if_kept(&self.dir(id), Err(error.kind().into())),
        };
        if let Some(tree) = tree {
            if !tree.record.made {
                // Whoever made it may have died, and git may still be at it.
                let swept = keeper::mark::sweep(MARK, &tree.mark(), SWEEP_ROUNDS_MAX);
                if let Err(error) = swept {
                    tracing::warn!(run = %id, %error, "calls of git cannot be looked for");
                }
            }
            // What was given back is the person's, also a branch that was kept for its commits.
            if tree.record.given_back.is_none() {
                self.clean(&tree, Branch::Drop);
            }
        }
        remove_all(&self.dir(id));
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
        self.tree(id).is_some_and(|tree| self.holds(&tree) != Holds::Nothing)
    }

    /// Removes what is to be worked in, and keeps the record. Blocking.
    pub fn clean(&self, tree: &Tree, branch: Branch) {
        let work = &tree.record.work;
        if let Some(worktree) = &tree.record.worktree {
            // Without the lock it is removed all the same; a run that makes one then may fail.
            let _lock = worktree.lock();
            if let Some(entry) = worktree.entry(work) {
                // The directory of all entries stays, although git removes it with the last of them:
                // another run may be about to make its entry there.
                cleanup::remove_dir(&entry);
            }
            if let Err(error) = self.remove_branch(worktree, branch)
                && error.kind() != io::ErrorKind::NotFound
            {
                // The text of the error may be the repository's.
                let (path, branch) = (worktree.top.display(), &worktree.branch);
                let error = error.kind();
                tracing::warn!(%path, branch, %error, "the branch of a worktree cannot be removed");
            }
        }
        remove_all(work);
    }

    fn remove_branch(&self, worktree: &Worktree, branch: Branch) -> io::Result<()> {
        let repository = Repository::open(&self.git, &worktree.top)?;
        if repository.common() != worktree.common {
            return Ok(());
        }
        let name = format!("refs/heads/{}", worktree.branch);
        let call = repository.call(&["update-ref", "-d", &name]);
        match branch {
            Branch::Drop => call.run()?.good("removing the branch").map(drop),
            // Git refuses when it is not at that commit any more.
            Branch::DropUnused => call.arg(&worktree.base).run().map(drop),
        }
    }

    /// Removes what only a run that has ended needed: its temporary directory, or its worktree if
    /// nothing was changed in it. The caller makes sure that no other run works there. Blocking.
    pub fn ended(&self, cwd: &Path) {
        let Some(tree) = self.of(cwd) else { return };
        match tree.record.worktree {
            None if tree.record.keep => {}
            None => self.remove(tree.id),
            // A removal that fails is logged.
            Some(_) => drop(self.remove_unchanged(tree.id)),
        }
    }

    /// Removes a worktree in which nothing was changed, with its branch, and keeps its record. Gives
    /// whether it is removed. Blocking.
    ///
    /// The record says so first: a host that dies afterwards is followed by one that calls this again.
    pub fn remove_unchanged(&self, id: RunId) -> bool {
        // Work that is being given back is looked at when that is done.
        let _giving = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        let entering = self.entering();
        let Some(mut tree) = self.tree(id).filter(|_| !entering.contains_key(&id)) else {
            return false;
        };
        let Some(worktree) = tree.record.worktree.clone() else { return false };
        let work = tree.record.work.clone();
        let was_begun = tree.record.removed_unchanged;
        if was_begun && worktree.entry(&work).is_some() {
            // A host died before it removed anything, and the files may have been changed since.
            tree.record.removed_unchanged = false;
        }
        if !tree.record.removed_unchanged {
            if !tree.is_there() || self.holds(&tree) != Holds::Nothing {
                if was_begun {
                    // It has work now. If the record cannot be written, the next host looks again.
                    tree.write_or_log();
                }
                return false;
            }
            tree.record.removed_unchanged = true;
            if !tree.write_or_log() {
                return false;
            }
        }
        // A branch that has been moved meanwhile stays.
        self.clean(&tree, Branch::DropUnused);
        true
    }

    /// Keeps a workspace from being removed while a run is about to start in it.
    pub fn enter(self: &Arc<Self>, id: RunId) -> Entering {
        *self.entering().entry(id).or_default() += 1;
        Entering { trees: Arc::clone(self), id }
    }

    fn entering(&self) -> MutexGuard<'_, HashMap<RunId, usize>> {
        self.entering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held until the run that starts in a workspace is known as a live one.
#[derive(Debug)]
pub(crate) struct Entering {
    trees: Arc<Trees>,
    id: RunId,
}

impl Drop for Entering {
    fn drop(&mut self) {
        let mut entering = self.trees.entering();
        if let Some(count) = entering.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                entering.remove(&self.id);
            }
        }
    }
}

/// Removes a directory, also where an agent took its own rights away. Links are not followed.
fn remove_all(dir: &Path) {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir);
            cleanup::remove_dir(dir);
        }
        removed => cleanup::log_if_kept(dir, removed),
    }
}

fn open_up(dir: &Path) {
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        if !dir.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            continue;
        }
        // The removal that follows fails where this does, and its error is logged.
        let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(0o700));
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        waiting.extend(entries.map(|entry| entry.path()));
    }
}
