//! The copy of the sources in which mutations live, beside its own target directory, which stays
//! warm from one to the next. Only files that differ are written, so that what did not change is
//! not built again. The work tree is only read. A mutation is put in by writing its file, or, where
//! many are built together (`switch.rs`), by naming it in the file that all of them ask.

use super::site::Mutation;
use super::source::Source;
use super::switch;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What is built, fetched or kept by a tool.
const SKIPPED: [&str; 4] = [".git", "target", "node_modules", "dist"];

pub struct Scratch {
    pub tree: PathBuf,
    pub target: PathBuf,
    pub results: PathBuf,
    /// Names of mutations that could not be built with the others.
    unfit: PathBuf,
    /// Says which of the mutations that were built together is there.
    active: PathBuf,
}

/// How a mutation comes into the copy.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// Its file is written and built.
    Alone,
    /// It is built already, under this number.
    Switched(usize),
}

/// The mutations that are built together: all there are, and by file the numbers of those.
pub struct Together<'a> {
    /// As they were read when the mutations were found: the work tree may change meanwhile.
    pub sources: &'a [Source],
    pub everyone: Vec<&'a Mutation>,
    pub numbers: BTreeMap<String, Vec<usize>>,
}

impl Together<'_> {
    pub fn way(&self, mutation: &Mutation) -> Way {
        let there = self.numbers.get(&mutation.path).into_iter().flatten();
        match there.copied().find(|number| self.everyone[*number].name == mutation.name) {
            Some(number) => Way::Switched(number),
            None => Way::Alone,
        }
    }
}

impl Scratch {
    /// Under the target directory of this very tool.
    pub fn new(root: &Path) -> Result<Self, String> {
        let own =
            std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
        let base = own.ancestors().nth(2).unwrap_or(root).join("mutate");
        let scratch = Self {
            tree: base.join("tree"),
            target: base.join("target"),
            results: base.join("results.json"),
            unfit: base.join("unfit"),
            active: base.join("active"),
        };
        fs::create_dir_all(&base).map_err(|error| format!("making {}: {error}", base.display()))?;
        Ok(scratch)
    }

    /// Makes the copy the same as the work tree, with these mutations in it, behind their numbers.
    pub fn fill(&self, root: &Path, together: &Together<'_>) -> Result<(), String> {
        let mut own = BTreeMap::new();
        for path in together.numbers.keys() {
            own.insert(path.clone(), self.switched(path, together, None)?);
        }
        let mut kept = BTreeSet::new();
        self.copy(root, "", &own, &mut kept)?;
        self.forget("", &kept)?;
        self.activate("")
    }

    fn switched(
        &self,
        path: &str,
        together: &Together<'_>,
        alone: Option<&Mutation>,
    ) -> Result<String, String> {
        let source = together.sources.iter().find(|source| source.path == path);
        let text = &source.ok_or_else(|| format!("{path} is no source any more"))?.text;
        let numbers = together.numbers.get(path).map(Vec::as_slice).unwrap_or_default();
        Ok(switch::switched(text, &together.everyone, numbers, &self.active, alone))
    }

    /// Who could not be built with the others, the last time.
    pub fn unfit(&self) -> BTreeSet<String> {
        let names = fs::read_to_string(&self.unfit).unwrap_or_default();
        names.lines().map(str::to_owned).collect()
    }

    pub fn note_unfit(&self, names: &BTreeSet<String>) -> Result<(), String> {
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        fs::write(&self.unfit, text)
            .map_err(|error| format!("writing {}: {error}", self.unfit.display()))
    }

    fn activate(&self, number: &str) -> Result<(), String> {
        let failed = |error| format!("writing {}: {error}", self.active.display());
        fs::write(&self.active, number).map_err(failed)
    }

    fn copy(
        &self,
        root: &Path,
        below: &str,
        own: &BTreeMap<String, String>,
        kept: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let from = root.join(below);
        let failed = |error| format!("copying {}: {error}", from.display());
        fs::create_dir_all(self.tree.join(below)).map_err(failed)?;
        for entry in fs::read_dir(&from).map_err(failed)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.copy(root, &path, own, kept)?;
                }
            } else if kind.is_file() {
                let to = self.tree.join(&path);
                let bytes = match own.get(&path) {
                    Some(text) => text.clone().into_bytes(),
                    None => fs::read(entry.path()).map_err(failed)?,
                };
                if fs::read(&to).ok().as_ref() != Some(&bytes) {
                    // A copy first, for its mode.
                    fs::copy(entry.path(), &to)
                        .and_then(|_| fs::write(&to, bytes))
                        .map_err(failed)?;
                }
                kept.insert(path);
            }
        }
        Ok(())
    }

    /// Removes what is no longer in the work tree.
    fn forget(&self, below: &str, kept: &BTreeSet<String>) -> Result<(), String> {
        let dir = self.tree.join(below);
        let failed = |error| format!("tidying {}: {error}", dir.display());
        for entry in fs::read_dir(&dir).map_err(failed)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            if entry.path().is_dir() {
                self.forget(&path, kept)?;
            } else if !kept.contains(&path) {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Puts a mutation into the copy; it goes when what is given back is dropped.
    pub fn apply(&self, together: &Together<'_>, mutation: &Mutation) -> Result<Applied, String> {
        if let Way::Switched(number) = together.way(mutation) {
            self.activate(&number.to_string())?;
            return Ok(Applied { path: self.active.clone(), text: String::new() });
        }
        let path = self.tree.join(&mutation.path);
        let failed = |error| format!("writing {}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(failed)?;
        let mutated = self.switched(&mutation.path, together, Some(mutation))?;
        fs::write(&path, mutated).map_err(failed)?;
        Ok(Applied { path, text })
    }
}

pub struct Applied {
    path: PathBuf,
    text: String,
}

impl Drop for Applied {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, &self.text) {
            eprintln!("{} stays as it was mutated: {error}", self.path.display());
        }
    }
}
