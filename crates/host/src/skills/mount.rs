//! The skills of one attempt, made where its plan says: copies in its own directory of files, which
//! go with its spool, and links in a directory that others use too, which `links.rs` keeps. Copies
//! and not links for its own: an agent that may read its directory may read what is in it, and what
//! it changes there is its own copy.

use super::{Links, Skill};
use contract::RunId;
use contract::plan::{Held, Mount};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

/// What is to be mounted for an attempt, until it is.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    pub skills: Arc<[Skill]>,
    pub mounts: Vec<Mount>,
}

impl Mounts {
    /// Makes them all. Gives what someone should know of those that were there already.
    pub fn make(&self, run: RunId, links: &Links) -> io::Result<Vec<String>> {
        let mut notes = Vec::new();
        for skill in self.skills.iter() {
            for mount in self.mounts.iter().filter(|mount| mount.skill == skill.name) {
                let into = Path::new(&mount.into);
                match mount.held {
                    Held::Attempt => write(&into.join(&skill.name), skill)?,
                    Held::Shared => notes.extend(links.hold(run, into, skill)?),
                }
            }
        }
        Ok(notes)
    }
}

/// Writes a skill's files into a directory that is not there yet, for our eyes alone.
pub(super) fn write(dir: &Path, skill: &Skill) -> io::Result<()> {
    let make = |dir: &Path| DirBuilder::new().recursive(true).mode(0o700).create(dir);
    make(dir)?;
    for file in &skill.files {
        let path = dir.join(&file.path);
        path.parent().map_or(Ok(()), make)?;
        let mode = if file.executable { 0o700 } else { 0o600 };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode).open(path)?.write_all(&file.bytes)?;
    }
    Ok(())
}
