//! Links to skills in a directory that the person and other runs use too. Each leads to a copy of
//! the skill in the data directory and has a name of ours with the hash of that copy in it, so that
//! nothing of anyone else is ever replaced or removed. Which run uses which link is written down
//! before the link is made: it stays while any of these runs lives, and what a host left that was
//! killed is found by the next one. Only the holder of the data directory's lock may act here.

use super::{Skill, mount};
use crate::data::write_private;
use contract::RunId;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which links are used by whom, in the data directory.
#[derive(Debug)]
pub(crate) struct Links {
    copies: PathBuf,
    runs: PathBuf,
    /// One at a time: what one run gives back another may be about to take.
    busy: Mutex<()>,
}

/// A link that a run uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Link {
    /// Where the agent finds it.
    at: PathBuf,
    /// The name of the copy that it leads to, and its own.
    copy: String,
}

impl Links {
    pub fn new(data: &Path) -> Self {
        let home = data.join("skills");
        Self { copies: home.join("copies"), runs: home.join("runs"), busy: Mutex::default() }
    }

    /// Links a skill into a directory for a run. Gives a note when the directory has one of its own
    /// of that name, which then is left as it is.
    pub fn hold(&self, run: RunId, into: &Path, skill: &Skill) -> io::Result<Option<String>> {
        let _busy = self.busy();
        if fs::symlink_metadata(into.join(&skill.name)).is_ok() {
            let name = &skill.name;
            let note =
                format!("{} already has a skill '{name}', which is left as it is", into.display());
            return Ok(Some(note));
        }
        let copy = self.name_of(skill);
        let at = into.join(&copy);
        let mut used = self.used_by(run)?;
        if !used.iter().any(|link| link.at == at) {
            used.push(Link { at: at.clone(), copy: copy.clone() });
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.runs)?;
            // Never half of one: a record that cannot be read is one of links that stay for ever.
            let (record, new) = (self.record(run), self.record(run).with_extension("new"));
            write_private(&new, &serde_json::to_string(&used)?)?;
            fs::rename(new, record)?;
        }
        let target = self.copies.join(&copy);
        if !is_whole(&target, skill) {
            remove(&target)?;
            mount::write(&target, skill)?;
        }
        fs::create_dir_all(into)?;
        match symlink(&target, &at) {
            Ok(()) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let note = format!("{} was not made by Ostler and was left as it is", at.display());
                Ok((!self.is_ours(&Link { at, copy })).then_some(note))
            }
            Err(error) => Err(error),
        }
    }

    /// A run has ended: what no other uses any more is removed. If that fails, the record stays, so
    /// that the next host does all of it again.
    pub fn release(&self, run: RunId) {
        let _busy = self.busy();
        if let Err(error) = self.remove_unused(run) {
            tracing::warn!(%run, %error, "links to skills cannot be removed; the next host tries again");
        }
    }

    fn remove_unused(&self, run: RunId) -> io::Result<()> {
        // Without a record nothing is known to be ours.
        if !self.record(run).exists() {
            return Ok(());
        }
        let used = self.used_by(run)?;
        let mut others = Vec::new();
        for other in self.runs().into_iter().filter(|other| *other != run) {
            others.extend(self.used_by(other)?);
        }
        let mut removed = Ok(());
        for link in used {
            if !others.iter().any(|other| other.at == link.at) && self.is_ours(&link) {
                removed = removed.and(fs::remove_file(&link.at));
            }
            if !others.iter().any(|other| other.copy == link.copy) {
                removed = removed.and(remove(&self.copies.join(&link.copy)));
            }
        }
        // Last: should we die before, the next host does all of it again.
        removed.and_then(|()| fs::remove_file(self.record(run)))
    }

    /// The runs that are known to use links.
    pub fn runs(&self) -> Vec<RunId> {
        let entries = fs::read_dir(&self.runs).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| uuid::Uuid::try_parse(&name).ok()).map(RunId::new).collect()
    }

    fn busy(&self) -> MutexGuard<'_, ()> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, run: RunId) -> PathBuf {
        self.runs.join(run.uuid().simple().to_string())
    }

    /// The links of a run by its record; none without one. A record that is no list was cut by a
    /// machine that went down, before any link was made.
    fn used_by(&self, run: RunId) -> io::Result<Vec<Link>> {
        match fs::read(self.record(run)) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Different for every skill, every version of it, and every data directory.
    fn name_of(&self, skill: &Skill) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(self.copies.as_os_str().as_encoded_bytes());
        for file in &skill.files {
            add(file.path.as_os_str().as_encoded_bytes());
            add(&[u8::from(file.executable)]);
            add(&file.bytes);
        }
        let hash = hasher.finalize().to_hex();
        format!("ostler-{}-{}", skill.name, &hash.as_str()[..8])
    }

    /// A link is ours when it leads to our copy, whatever else has its name.
    fn is_ours(&self, link: &Link) -> bool {
        fs::read_link(&link.at).is_ok_and(|target| target == self.copies.join(&link.copy))
    }
}

/// Whether a copy is there and as it should be: agents can write to it, and we may have died on it.
fn is_whole(dir: &Path, skill: &Skill) -> bool {
    super::read::directory(dir).is_ok_and(|files| files == skill.files)
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
