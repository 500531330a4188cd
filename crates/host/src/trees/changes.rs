//! What a run did in its worktree: everything that differs from the commit it began with, committed
//! or not, tracked or new, but for what is ignored. It is what lies there: neither the index nor the
//! commits of the agent are believed, and an index and objects of our own are used, so that looking
//! changes nothing. How much is shown is limited; what is shown must be sealed by whoever shows it.

use super::{Tree, Trees, Worktree, make, unusable};
use crate::cleanup;
use crate::git::{Call, Repository};
use contract::{Fault, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    pub base: String,
    pub branch: String,
    pub files: Vec<Changed>,
    /// How many more there are.
    pub files_left_out: usize,
    pub patch: Vec<u8>,
    /// Whether the patch goes on.
    pub patch_cut: bool,
    /// Whether some files could not be read.
    pub incomplete: bool,
    /// Directories that are repositories of their own, and not part of this.
    pub nested: Vec<String>,
}

impl Changes {
    /// Those of a worktree in which nothing was changed.
    fn none(worktree: &Worktree) -> Self {
        Self {
            base: worktree.base.clone(),
            branch: worktree.branch.clone(),
            files: Vec::new(),
            files_left_out: 0,
            patch: Vec::new(),
            patch_cut: false,
            incomplete: false,
            nested: Vec::new(),
        }
    }
}

/// The part of [`Changes`] that takes no patch to find out.
pub(super) struct Names {
    pub files: Vec<Changed>,
    pub files_left_out: usize,
    pub incomplete: bool,
    pub nested: Vec<String>,
}

/// A file that is different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    pub path: String,
    pub status: Status,
    /// Lines; absent where these are no lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Added,
    Modified,
    Deleted,
    /// A file became a link, or the other way round.
    TypeChanged,
}

impl Status {
    pub fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Modified => 'M',
            Self::Deleted => 'D',
            Self::TypeChanged => 'T',
        }
    }

    fn of(letter: u8) -> Self {
        match letter {
            b'A' => Self::Added,
            b'D' => Self::Deleted,
            b'T' => Self::TypeChanged,
            _ => Self::Modified,
        }
    }
}

/// Where objects that are made by looking go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Objects {
    /// Away, when all is looked at.
    Apart,
    /// To the person's repository, which is about to need them.
    Kept,
}

impl Trees {
    /// What is different in a worktree. Blocking.
    pub fn changes(&self, tree: &Tree) -> Result<Changes, Fault> {
        let worktree = tree.worktree()?;
        let look = || -> io::Result<Changes> {
            let repository = self.repository(worktree)?;
            let seen = match &tree.record.given_back {
                Some(given) => Seen::known(&repository, given.tree.clone())?,
                None => Seen::of(&repository, tree, worktree, Objects::Apart)?,
            };
            let base = &worktree.base;
            let (files, files_left_out) = seen.files(&repository, base)?;
            let words = ["diff-tree", "-p", "-M", "--no-color", "--no-ext-diff", "--no-textconv"];
            let call = seen.call(&repository, &words).arg(base).arg(&seen.tree).long();
            let patch = call.cut_at(limits::DIFF_BYTES_MAX).run()?.good("comparing")?;
            let (base, branch) = (base.clone(), worktree.branch.clone());
            let (patch, patch_cut) = (patch.out, patch.cut);
            let (incomplete, nested) = (seen.incomplete, seen.nested.clone());
            let seen = Changes {
                base,
                branch,
                files,
                files_left_out,
                patch,
                patch_cut,
                incomplete,
                nested,
            };
            Ok(seen)
        };
        if tree.record.removed_unchanged {
            return Ok(Changes::none(worktree));
        }
        if tree.record.given_back.is_none() && !tree.is_there() {
            return Err(make::gone(tree));
        }
        look().or_else(|error| match self.tree(tree.id) {
            // It was removed while it was looked at.
            Some(now) if now.record.removed_unchanged => Ok(Changes::none(worktree)),
            _ => Err(unusable(&worktree.top, &error)),
        })
    }

    /// The names of what differs, without a patch. Blocking.
    pub(super) fn names(
        &self,
        repository: &Repository,
        tree: &Tree,
        worktree: &Worktree,
    ) -> io::Result<Names> {
        let seen = Seen::of(repository, tree, worktree, Objects::Apart)?;
        let (files, files_left_out) = seen.files(repository, &worktree.base)?;
        let (incomplete, nested) = (seen.incomplete, seen.nested.clone());
        Ok(Names { files, files_left_out, incomplete, nested })
    }

    /// The repository that a worktree came from, if it is still the same one.
    pub(super) fn repository(&self, worktree: &Worktree) -> io::Result<Repository> {
        let repository = Repository::open(&self.git, &worktree.top)?;
        match repository.common() == worktree.common {
            true => Ok(repository),
            false => Err(io::Error::other("another repository is there now")),
        }
    }
}

/// The content of a worktree as a tree of git's.
pub(super) struct Seen {
    pub tree: String,
    pub incomplete: bool,
    /// Repositories that the agent made inside: git takes nothing of them.
    pub nested: Vec<String>,
    scratch: Option<Scratch>,
}

impl Seen {
    pub fn of(
        repository: &Repository,
        tree: &Tree,
        worktree: &Worktree,
        objects: Objects,
    ) -> io::Result<Self> {
        let work = &tree.record.work;
        let entry = worktree.entry(work);
        let entry = entry.ok_or_else(|| io::Error::other("git no longer knows the worktree"))?;
        let scratch = Scratch::make(&tree.dir, repository, objects)?;
        let call = |words: &[&str]| scratch.use_for(repository.call(words).at(&entry, work)).long();
        call(&["read-tree"]).arg(&worktree.base).run()?.good("reading its beginning")?;
        // What the agent tracks although it is ignored is its work too. Only the names are believed:
        // the content is read from the files.
        let words = ["diff-index", "--cached", "-z", "--raw", "--no-renames", &worktree.base];
        let tracked = repository.call(&words).at(&entry, work).long().run()?;
        let tracked = tracked_anew(&tracked.good("reading what the agent tracks")?.out);
        if !tracked.is_empty() {
            let call = call(&["update-index", "-z", "--index-info"]).input(tracked);
            call.run()?.good("reading what the agent tracks")?;
        }
        let nested =
            nested(&call(&["ls-files", "-z", "--others", "--exclude-standard"]).run()?.out);
        let but = nested.iter().map(|path| format!(":(exclude,literal){path}"));
        let patterns: Vec<String> = ["./".to_owned()].into_iter().chain(but).collect();
        // What cannot be read is left out, and that is told.
        let added = call(&["add", "--all", "--ignore-errors"]).patterns(&patterns).run()?;
        let tree = call(&["write-tree"]).run()?.line("reading the worktree")?;
        Ok(Self { tree, incomplete: !added.done, nested, scratch: Some(scratch) })
    }

    /// One that was made before.
    fn known(repository: &Repository, tree: String) -> io::Result<Self> {
        repository
            .call(&["cat-file", "-e", &tree])
            .run()?
            .good("the applied commit no longer exists")?;
        Ok(Self { tree, incomplete: false, nested: Vec::new(), scratch: None })
    }

    /// A call that sees it.
    pub fn call<'a>(&self, repository: &'a Repository, words: &[&str]) -> Call<'a> {
        let call = repository.call(words);
        match &self.scratch {
            Some(scratch) => scratch.use_for(call),
            None => call,
        }
    }

    /// The files in which it differs from a commit, and how many more there are.
    pub fn files(&self, repository: &Repository, from: &str) -> io::Result<(Vec<Changed>, usize)> {
        let words = ["diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames"];
        let call = self.call(repository, &words).arg(from).arg(&self.tree).long();
        let listed = call.run()?.good("comparing")?.out;
        let mut files = parsed(&listed);
        let left_out = files.len().saturating_sub(limits::DIFF_FILES_MAX);
        files.truncate(limits::DIFF_FILES_MAX);
        Ok((files, left_out))
    }
}

/// The mode of a repository inside another.
const LINK_TO_COMMIT: &[u8] = b"160000";

/// The names that end with a slash: repositories of their own.
fn nested(listed: &[u8]) -> Vec<String> {
    let names = listed.split(|byte| *byte == 0).filter(|name| name.ends_with(b"/"));
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Entries for an index from `:mode mode hash hash S\0path\0`, but for what is not there any more.
fn tracked_anew(listed: &[u8]) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut parts = listed.split(|byte| *byte == 0);
    while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
        let mut fields = head.split(|byte| *byte == b' ').skip(1);
        let (Some(mode), Some(hash)) = (fields.next(), fields.nth(1)) else { continue };
        if mode == LINK_TO_COMMIT || head.ends_with(b"D") || head.ends_with(b"U") {
            continue;
        }
        entries.extend_from_slice(&[mode, b" ", hash, b" 0\t", path, b"\0"].concat());
    }
    entries
}

/// `:mode mode hash hash S\0path\0` for each file, then `added\tremoved\tpath\0` for each.
pub(super) fn parsed(listed: &[u8]) -> Vec<Changed> {
    let mut files: Vec<Changed> = Vec::new();
    let mut parts = listed.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    let mut counted = 0;
    while let Some(part) = parts.next() {
        if part.first() == Some(&b':') && counted == 0 {
            let status = Status::of(part.last().copied().unwrap_or_default());
            let path = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
            files.push(Changed { path, status, added: None, removed: None });
            continue;
        }
        let mut fields = part.splitn(3, |byte| *byte == b'\t');
        let mut number =
            || std::str::from_utf8(fields.next().unwrap_or_default()).ok()?.parse().ok();
        if let Some(file) = files.get_mut(counted) {
            (file.added, file.removed) = (number(), number());
        }
        counted += 1;
    }
    files
}

/// An index of our own, and objects where they are wanted. Removed with the value.
struct Scratch {
    dir: PathBuf,
    /// Where objects go that are kept apart.
    objects: Option<PathBuf>,
}

impl Scratch {
    fn make(beside: &Path, repository: &Repository, objects: Objects) -> io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let dir = beside.join(format!("scratch.{}.{n}", std::process::id()));
        cleanup::remove_dir(&dir);
        fs::DirBuilder::new().mode(0o700).create(&dir)?;
        let mut scratch = Self { dir, objects: None };
        if objects == Objects::Apart {
            let own = scratch.dir.join("objects");
            fs::create_dir_all(own.join("info"))?;
            let mut known = repository.common().join("objects").into_os_string().into_vec();
            known.push(b'\n');
            fs::write(own.join("info/alternates"), known)?;
            scratch.objects = Some(own);
        }
        Ok(scratch)
    }

    fn use_for<'a>(&self, call: Call<'a>) -> Call<'a> {
        let call = call.index(&self.dir.join("index"));
        match &self.objects {
            Some(own) => call.apart(own),
            None => call,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        cleanup::remove_dir(&self.dir);
    }
}
