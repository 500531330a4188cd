//! Everything that is asked of git, and the only door to it. A repository is not trusted: its
//! configuration, its hooks and the drivers that its attributes name are commands of whoever made it.
//! So git never reads its configuration: every call goes by a common directory of our own making
//! (`git/repository.rs`) whose configuration is ours, with the person's and the system's left out and
//! what is left to decide switched off on the command line (`git/call.rs`). Nothing is fetched, and
//! there is a limit of time and of size on every answer. What is done with it is `trees.rs`.

mod call;
mod repository;

pub use call::{Answer, Call, MARK};
pub use repository::Repository;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// How git is run: where it may keep what it needs for one call, and what of our environment it sees.
#[derive(Debug, Clone)]
pub struct Git {
    place: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Git {
    /// `place` is a directory of ours alone; it is made when it is needed.
    pub fn new(place: PathBuf, environment: &BTreeMap<String, String>) -> Self {
        let kept = |(name, _): &(&String, &String)| call::KEPT.contains(&name.as_str());
        let environment = environment.iter().filter(kept);
        let environment = environment.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { place, environment }
    }

    /// The files below a directory of a repository that are tracked, or neither tracked nor ignored,
    /// by their paths from there, sorted. Names that are no UTF-8 are left out.
    pub fn files(&self, dir: &Path) -> io::Result<Vec<String>> {
        if top(dir).is_none() {
            return Ok(Vec::new());
        }
        let names = Repository::open(self, dir)?.names(dir)?;
        let names = names.into_iter().filter_map(|name| String::from_utf8(name).ok());
        Ok(names.filter(|name| !name.ends_with('/')).collect())
    }

    /// The file in which the person names patterns of ignored files for all repositories.
    pub fn ignore_file(&self) -> Option<PathBuf> {
        let home = || Some(PathBuf::from(self.environment.get("HOME")?).join(".config"));
        let xdg = self.environment.get("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty());
        Some(xdg.map(PathBuf::from).or_else(home)?.join("git/ignore"))
    }

    /// Removes what calls of a host that was killed left.
    pub fn sweep(&self) {
        let own = format!("{}.", std::process::id());
        for entry in std::fs::read_dir(&self.place).into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with(&own) {
                crate::cleanup::remove_dir(&entry.path());
            }
        }
    }
}

/// The directory that holds the repository a directory belongs to, if it belongs to one.
pub fn top(dir: &Path) -> Option<&Path> {
    dir.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())
}

#[cfg(test)]
#[path = "git/tests.rs"]
pub(crate) mod tests;
