//! Which paths of a workspace are compared. In a repository: the files that git tracks and those that
//! are neither tracked nor ignored, because builds and editors write what is ignored; the directories
//! that hold them; the same of the repositories within; and wherever they lie, the files by which a
//! repository names commands that are run later or says what is ignored: otherwise an agent could
//! choose what is compared. Elsewhere: all files and directories. No link is followed but for those
//! that git follows itself.

use super::manifest::{Manifest, Stamp};
use crate::git::{self, Git, Repository};
use crate::workspace::Workspace;
use contract::limits;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Repositories within a workspace that are looked at: git is called for each.
const REPOSITORIES_MAX: usize = 64;
/// How deep directories without a listed file are looked into: git is called for each level.
const UNLISTED_DEPTH_MAX: usize = 64;

/// The manifest of a workspace. Blocking. Fails when it cannot be compared, with the reason.
pub(super) fn manifest(workspace: &Workspace, git: &Git) -> Result<Manifest, String> {
    let root = workspace.path();
    let mut listing = Listing {
        root,
        git,
        private: workspace.private_within().map(bytes_of).collect(),
        manifest: Manifest::default(),
        files: 0,
        directories: 0,
        repositories: 0,
    };
    match git::top(root) {
        Some(top) => listing.below_repository(top)?,
        None => listing.walk(Vec::new())?,
    }
    Ok(listing.manifest)
}

/// One listing of a workspace. Paths are bytes, relative to the workspace where they are inside.
struct Listing<'a> {
    root: &'a Path,
    git: &'a Git,
    /// Directories of Ostler's own within the workspace, which it changes itself.
    private: Vec<Vec<u8>>,
    manifest: Manifest,
    files: usize,
    directories: usize,
    /// How many repositories within were listed so far.
    repositories: usize,
}

/// The entries of a directory that a comparison in a repository cares about.
#[derive(Default)]
struct Entries {
    is_empty: bool,
    has_git: bool,
    has_ignore_file: bool,
    directories: Vec<Vec<u8>>,
}

impl Listing<'_> {
    /// A workspace that is a repository, or lies in one.
    fn below_repository(&mut self, top: &Path) -> Result<(), String> {
        let root = self.root;
        let repository = Repository::open(self.git, root).map_err(told)?;
        let names = repository.names(root).map_err(told)?;
        // A directory that the repository around it ignores as a whole is a place of its own.
        if names.is_empty() && root != top {
            let within = root.strip_prefix(top).map(bytes_of).unwrap_or_default();
            if !repository.ignored(top, &[within]).map_err(told)?.is_empty() {
                return self.walk(Vec::new());
            }
        }
        let around = root.ancestors().skip(1).take_while(|dir| dir.starts_with(top));
        for dir in around {
            self.file(bytes_of(&dir.join(".gitignore")))?;
        }
        if let Some(file) = self.git.ignore_file() {
            self.file_behind_link(&file)?;
        }
        self.repository(Vec::new(), &repository, names)
    }

    /// The files of a repository and of those within: submodules, and clones that are not tracked.
    /// `at` is the path of its directory.
    fn repository(
        &mut self,
        at: Vec<u8>,
        repository: &Repository,
        names: Vec<Vec<u8>>,
    ) -> Result<(), String> {
        self.rules(&at, repository)?;
        self.directory(&at)?;
        let mut listed = HashSet::from([at.clone()]);
        for name in names {
            let path = below(&at, name.strip_suffix(b"/").unwrap_or(&name));
            self.directories_of(&path, &at, &mut listed)?;
            match self.look(&path)? {
                None => {}
                Some(found) if found.is_dir() => {
                    listed.insert(path.clone());
                    self.directory_within(path)?;
                }
                Some(found) => self.insert_file(path, Stamp::of_file(&found))?,
            }
        }
        self.unlisted(&at, repository, listed)
    }

    /// The directories that hold a listed path, which are not known yet.
    fn directories_of(
        &mut self,
        path: &[u8],
        top: &[u8],
        listed: &mut HashSet<Vec<u8>>,
    ) -> Result<(), String> {
        let mut path = path;
        while let Some(slash) = path.iter().rposition(|byte| *byte == b'/') {
            path = &path[..slash];
            if path.len() <= top.len() || listed.contains(path) {
                return Ok(());
            }
            self.directory(path)?;
            listed.insert(path.to_vec());
        }
        Ok(())
    }

    /// A directory that git lists by its name alone: a repository, or a submodule without its files.
    fn directory_within(&mut self, path: Vec<u8>) -> Result<(), String> {
        let dir = self.path(&path);
        if dir.join(".git").symlink_metadata().is_err() {
            return self.walk(path);
        }
        self.repositories += 1;
        if self.repositories > REPOSITORIES_MAX {
            return Err(format!("it has more than {REPOSITORIES_MAX} repositories"));
        }
        let opened = Repository::open(self.git, &dir)
            .and_then(|repository| Ok((repository.names(&dir)?, repository)));
        match opened {
            Ok((names, repository)) => self.repository(path, &repository, names),
            // One that git cannot list is compared as a directory alone: should it be listed at the
            // other end of the run, its files are the difference.
            Err(_) => self.directory(&path).map(|_| ()),
        }
    }

    /// Ignore files that are ignored themselves, and directories without a listed file. Git names
    /// neither: an agent could hide a file by a `.gitignore` beside it that ignores both.
    fn unlisted(
        &mut self,
        top: &[u8],
        repository: &Repository,
        listed: HashSet<Vec<u8>>,
    ) -> Result<(), String> {
        let mut waiting = Vec::new();
        for dir in &listed {
            let entries = self.entries(dir)?;
            if entries.has_ignore_file {
                self.ignore_file(dir)?;
            }
            waiting.extend(entries.directories.into_iter().filter(|dir| !listed.contains(dir)));
        }
        let from = self.path(top);
        for _ in 0..UNLISTED_DEPTH_MAX {
            if waiting.is_empty() {
                return Ok(());
            }
            let within = |path: &[u8]| match top.is_empty() {
                true => path.to_vec(),
                false => path[top.len() + 1..].to_vec(),
            };
            let asked: Vec<Vec<u8>> = waiting.iter().map(|path| within(path)).collect();
            let ignored = repository.ignored(&from, &asked).map_err(told)?;
            for dir in std::mem::take(&mut waiting) {
                if ignored.contains(&within(&dir)) || self.is_private(&dir) {
                    continue;
                }
                let entries = self.entries(&dir)?;
                self.insert_directory(&dir, Stamp::Unlisted { is_empty: entries.is_empty })?;
                match (entries.has_git, entries.has_ignore_file) {
                    (true, _) => drop(self.directory(&below(&dir, b".git"))?),
                    // It says what of this directory is ignored, and it is compared.
                    (false, true) => self.ignore_file(&dir)?,
                    (false, false) => waiting.extend(entries.directories),
                }
            }
        }
        match waiting.is_empty() {
            true => Ok(()),
            false => {
                Err(format!("it has directories without files that are {UNLISTED_DEPTH_MAX} deep"))
            }
        }
    }

    fn ignore_file(&mut self, dir: &[u8]) -> Result<(), String> {
        let path = below(dir, b".gitignore");
        if self.manifest.0.contains_key(&path) {
            return Ok(());
        }
        self.file(path)
    }

    /// The files of a repository that name commands which git runs later, or say what is ignored.
    /// They may lie outside of the workspace: those of a worktree do.
    fn rules(&mut self, at: &[u8], repository: &Repository) -> Result<(), String> {
        let common = repository.common();
        self.hooks(&self.name(common))?;
        let settings = Stamp::Settings { digest: repository.settings() };
        self.insert_file(self.name(&common.join("config")), settings)?;
        self.file(self.name(&repository.git_dir().join("config.worktree")))?;
        self.file_behind_link(&common.join("info/exclude"))?;
        self.file_behind_link(&common.join("info/attributes"))?;
        // In a submodule and in a worktree it is a file that says where the repository is.
        let pointer = below(at, b".git");
        match self.look(&pointer)? {
            Some(found) if !found.is_dir() => self.insert_file(pointer, Stamp::of_file(&found)),
            Some(_) | None => Ok(()),
        }
    }

    fn hooks(&mut self, git_dir: &[u8]) -> Result<(), String> {
        let hooks = below(git_dir, b"hooks");
        for entry in std::fs::read_dir(self.path(&hooks)).into_iter().flatten().flatten() {
            self.file(below(&hooks, entry.file_name().as_bytes()))?;
        }
        Ok(())
    }

    /// Everything below a directory that no repository lists; of `.git` what names commands.
    fn walk(&mut self, start: Vec<u8>) -> Result<(), String> {
        let mut waiting = vec![start];
        while let Some(dir) = waiting.pop() {
            if !self.directory(&dir)? {
                continue;
            }
            // What may not be looked into, or has gone meanwhile, does not hide the rest.
            let Some(entries) = self.read_dir(&dir)? else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let path = below(&dir, name.as_bytes());
                match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true if name == ".git" => {
                        self.directory(&path)?;
                        self.hooks(&path)?;
                        self.file(below(&path, b"config"))?;
                    }
                    true => waiting.push(path),
                    // By the descriptor of its directory: the way to it is not gone again.
                    false => match entry.metadata() {
                        Ok(found) if !self.is_private(&path) => {
                            self.insert_file(path, Stamp::of_file(&found))?;
                        }
                        // A file that has gone meanwhile is missing in the listing, as it should be.
                        Ok(_) | Err(_) => {}
                    },
                }
            }
        }
        Ok(())
    }

    fn entries(&self, dir: &[u8]) -> Result<Entries, String> {
        let mut found = Entries { is_empty: true, ..Entries::default() };
        for entry in self.read_dir(dir)?.into_iter().flatten().flatten() {
            found.is_empty = false;
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = entry.file_name().into_vec();
            found.has_git |= name == b".git";
            found.has_ignore_file |= name == b".gitignore";
            if is_dir && name != b".git" {
                found.directories.push(below(dir, &name));
            }
        }
        Ok(found)
    }

    /// The entries of a directory; `None` where it cannot be read.
    fn read_dir(&self, dir: &[u8]) -> Result<Option<std::fs::ReadDir>, String> {
        match std::fs::read_dir(self.path(dir)) {
            Ok(entries) => Ok(Some(entries)),
            Err(error) if is_too_long(&error) => Err(TOO_LONG.to_owned()),
            // It has no entries that could be compared; its own stamp is in the listing.
            Err(_) => Ok(None),
        }
    }

    /// What is at a path, without following it. A file that has gone meanwhile is missing, as it
    /// should be.
    fn look(&self, path: &[u8]) -> Result<Option<Metadata>, String> {
        if self.is_private(path) {
            return Ok(None);
        }
        match self.path(path).symlink_metadata() {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_too_long(&error) => Err(TOO_LONG.to_owned()),
            // What is gone or cannot be looked at is missing in the listing.
            Err(_) => Ok(None),
        }
    }

    fn is_private(&self, path: &[u8]) -> bool {
        let within = |private: &Vec<u8>| {
            let rest = path.strip_prefix(private.as_slice());
            let is_within = |rest: &[u8]| rest.is_empty() || rest.starts_with(b"/");
            rest.is_some_and(|rest| private.is_empty() || is_within(rest))
        };
        self.private.iter().any(within)
    }

    fn file(&mut self, path: Vec<u8>) -> Result<(), String> {
        match self.look(&path)? {
            Some(found) => self.insert_file(path, Stamp::of_file(&found)),
            None => Ok(()),
        }
    }

    /// A file that git reads through a link.
    fn file_behind_link(&mut self, path: &Path) -> Result<(), String> {
        match path.metadata() {
            Ok(found) => self.insert_file(self.name(path), Stamp::of_file(&found)),
            // A link that leads nowhere is compared as the link that it is.
            Err(_) => self.file(self.name(path)),
        }
    }

    /// Gives whether there is such a directory.
    fn directory(&mut self, path: &[u8]) -> Result<bool, String> {
        let Some(found) = self.look(path)?.filter(Metadata::is_dir) else { return Ok(false) };
        let mode = std::os::unix::fs::MetadataExt::mode(&found);
        self.insert_directory(path, Stamp::Directory { mode })?;
        Ok(true)
    }

    fn insert_file(&mut self, path: Vec<u8>, stamp: Stamp) -> Result<(), String> {
        self.files += 1;
        self.insert(path, stamp)
    }

    fn insert_directory(&mut self, path: &[u8], stamp: Stamp) -> Result<(), String> {
        self.directories += 1;
        // That of the workspace itself is empty.
        let name = if path.is_empty() { b"." } else { path };
        self.insert([name, b"/"].concat(), stamp)
    }

    fn insert(&mut self, path: Vec<u8>, stamp: Stamp) -> Result<(), String> {
        let counted = [(self.files, "files"), (self.directories, "directories")];
        if let Some((_, word)) = counted.iter().find(|(n, _)| *n > limits::COMPARED_FILES_MAX) {
            return Err(format!("it has more than {} {word}", limits::COMPARED_FILES_MAX));
        }
        self.manifest.0.insert(path, stamp);
        Ok(())
    }

    fn path(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    /// The name of a path in the manifest.
    fn name(&self, path: &Path) -> Vec<u8> {
        bytes_of(path.strip_prefix(self.root).unwrap_or(path))
    }
}

const TOO_LONG: &str = "it has paths that are longer than the system allows";

fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NAMETOOLONG.raw_os_error())
}

fn told(error: io::Error) -> String {
    error.to_string()
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// The path of an entry of a directory.
fn below(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir.is_empty() {
        true => name.to_vec(),
        false => [dir, b"/", name].concat(),
    }
}
