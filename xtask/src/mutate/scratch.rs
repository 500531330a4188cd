//! The copy of the sources in which mutations live, beside its own target directory, which stays
//! warm from one to the next. Only files that differ are written, so that what did not change is
//! not built again. The work tree is only read. A mutation is put in by writing its file, or, where
//! many are built together (`switch.rs`), by naming it in the file that all of them ask.

use super::site::Mutation;
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
            active: base.join("active"),
        };
        scratch.restore(root)?;
        Ok(scratch)
    }

    /// Makes the copy the same as the work tree.
    pub fn restore(&self, root: &Path) -> Result<(), String> {
        let mut kept = BTreeSet::new();
        self.copy(root, "", &mut kept)?;
        self.forget("", &kept)?;
        self.activate("")
    }

    /// Puts these mutations into the copy, behind their numbers.
    pub fn switch(
        &self,
        root: &Path,
        mutations: &[&Mutation],
        together: &BTreeMap<String, Vec<usize>>,
    ) -> Result<(), String> {
        for (path, numbers) in together {
            let failed = |error| format!("switching {path}: {error}");
            let text = fs::read_to_string(root.join(path)).map_err(failed)?;
            let switched = switch::switched(&text, mutations, numbers, &self.active);
            if fs::read_to_string(self.tree.join(path)).ok().as_ref() != Some(&switched) {
                fs::write(self.tree.join(path), switched).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn activate(&self, number: &str) -> Result<(), String> {
        let failed = |error| format!("writing {}: {error}", self.active.display());
        fs::write(&self.active, number).map_err(failed)
    }

    fn copy(&self, root: &Path, below: &str, kept: &mut BTreeSet<String>) -> Result<(), String> {
        let from = root.join(below);
        let failed = |error| format!("copying {}: {error}", from.display());
        fs::create_dir_all(self.tree.join(below)).map_err(failed)?;
        for entry in fs::read_dir(&from).map_err(failed)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.copy(root, &path, kept)?;
                }
            } else if kind.is_file() {
                let bytes = fs::read(entry.path()).map_err(failed)?;
                let to = self.tree.join(&path);
                if fs::read(&to).ok().as_ref() != Some(&bytes) {
                    fs::copy(entry.path(), &to).map_err(failed)?;
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
    pub fn apply(&self, mutation: &Mutation, way: Way) -> Result<Applied, String> {
        if let Way::Switched(number) = way {
            self.activate(&number.to_string())?;
            return Ok(Applied { path: self.active.clone(), text: String::new() });
        }
        let path = self.tree.join(&mutation.path);
        let failed = |error| format!("writing {}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(failed)?;
        if text.get(mutation.at.clone()) != Some(&mutation.was) {
            return Err(format!("{} is not where it was in {}", mutation.name, path.display()));
        }
        fs::write(&path, mutation.applied(&text)).map_err(failed)?;
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
