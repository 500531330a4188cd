//! Whether a workspace holds work that exists nowhere else: files that differ from the commit it began
//! with, or commits of the agent that were never applied. Files that git ignores are not work, as they
//! are not part of `diff` and `apply` either. If the comparison is not possible, the answer is
//! [`Holds::Unknown`], and callers must treat that like work.

use super::{Tree, Trees, Worktree};
use crate::git::Repository;
use std::fs;
use std::io;

/// The content of a workspace, as far as its removal is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing would be lost.
    Nothing,
    Work(UnappliedWork),
    /// The workspace could not be compared, for this reason.
    Unknown(String),
}

/// Work that only a workspace has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UnappliedWork {
    /// Changed files, and directories that are repositories of their own. Paths are not redacted.
    pub paths: Vec<String>,
    /// The number of changed files that are not in `paths`.
    pub paths_left_out: usize,
    /// Commits that were made in the worktree.
    pub commits: u64,
}

impl UnappliedWork {
    pub fn files(&self) -> usize {
        self.paths.len() + self.paths_left_out
    }
}

impl Trees {
    /// Compares a workspace with its beginning. Blocking.
    pub fn holds(&self, tree: &Tree) -> Holds {
        if !tree.record.made || tree.record.given_back.is_some() || tree.record.removed_unchanged {
            return Holds::Nothing;
        }
        let found = match &tree.record.worktree {
            None => kept_files(tree),
            Some(worktree) => self.in_worktree(tree, worktree),
        };
        match found {
            Ok(work) if work == UnappliedWork::default() => Holds::Nothing,
            Ok(work) => Holds::Work(work),
            Err(error) => Holds::Unknown(error.to_string()),
        }
    }

    fn in_worktree(&self, tree: &Tree, worktree: &Worktree) -> io::Result<UnappliedWork> {
        let is_dir = tree.record.work.is_dir();
        let repository = match self.repository(worktree) {
            Ok(repository) => repository,
            // Neither the files nor the repository are left.
            Err(_) if !is_dir => return Ok(UnappliedWork::default()),
            Err(error) => return Err(error),
        };
        if !is_dir {
            let commits = commits(&repository, tree, worktree)?;
            return Ok(UnappliedWork { commits, ..UnappliedWork::default() });
        }
        let names = self.names(&repository, tree, worktree)?;
        if names.incomplete {
            return Err(io::Error::other("some files cannot be read"));
        }
        let paths = names.files.into_iter().map(|file| file.path).chain(names.nested).collect();
        let commits = commits(&repository, tree, worktree)?;
        Ok(UnappliedWork { paths, paths_left_out: names.files_left_out, commits })
    }
}

/// The number of commits that only the worktree's HEAD or its branch has.
fn commits(repository: &Repository, tree: &Tree, worktree: &Worktree) -> io::Result<u64> {
    let mut tips = Vec::new();
    if let Some(entry) = worktree.entry(&tree.record.work) {
        let call = repository.call(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
        // An agent may have removed the directory; git keeps its HEAD in the repository.
        let work = if tree.record.work.is_dir() { &tree.record.work } else { &entry };
        tips.push(call.at(&entry, work).run()?);
    }
    let branch = format!("refs/heads/{}^{{commit}}", worktree.branch);
    tips.push(repository.call(&["rev-parse", "--verify", "--quiet", &branch]).run()?);
    let tips: io::Result<Vec<String>> =
        tips.into_iter().filter(|tip| tip.done).map(|tip| tip.line("reading a commit")).collect();
    let tips = tips?;
    if tips.is_empty() || tips.iter().all(|tip| *tip == worktree.base) {
        return Ok(0);
    }
    let base = format!("^{}", worktree.base);
    let words: Vec<&str> = ["rev-list", "--count", base.as_str()]
        .into_iter()
        .chain(tips.iter().map(String::as_str))
        .collect();
    let count = repository.call(&words).long().run()?.line("counting commits")?;
    count.trim().parse().map_err(io::Error::other)
}

/// The entries of a directory that the user asked to keep.
fn kept_files(tree: &Tree) -> io::Result<UnappliedWork> {
    let entries = match fs::read_dir(&tree.record.work) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(UnappliedWork::default());
        }
        Err(error) => return Err(error),
    };
    let mut paths: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    paths.sort_unstable();
    Ok(UnappliedWork { paths, ..UnappliedWork::default() })
}
