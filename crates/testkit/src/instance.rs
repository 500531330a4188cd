//! One isolated instance of the product: its own HOME, XDG directories, data directory, runtime
//! directory and working directory, all in one temporary directory that is removed at the end.
//!
//! Every process started through `Instance::command` has this environment and nothing else, so two
//! tests never meet and neither touches the person's own instance. The root's path serves as the
//! mark for `find_marked`: agents are given HOME, so they and their children carry it.

use crate::{end_marked, python};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};
use tempfile::TempDir;

/// An instance; dropping it ends what still carries its mark and removes its files.
#[derive(Debug)]
pub struct Instance {
    root: TempDir,
}

impl Default for Instance {
    fn default() -> Self {
        Self::new()
    }
}

impl Instance {
    pub fn new() -> Self {
        // The name is short because sockets live below it, and their paths may have 107 bytes.
        let root = tempfile::Builder::new()
            .prefix("ostler-")
            .rand_bytes(10)
            .tempdir()
            .expect("a temporary directory can be made");
        let instance = Self { root };
        for dir in ["home", "config/ostler", "cache", "run", "tmp", "work", "bin"] {
            fs::create_dir_all(instance.root().join(dir)).expect("directories can be made");
        }
        private(&instance.root().join("run"));
        link_python(&instance.root().join("bin"));
        instance
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The data directory; the product makes it.
    pub fn data(&self) -> PathBuf {
        self.root().join("data/ostler")
    }

    /// Where the configuration is looked for.
    pub fn config(&self) -> PathBuf {
        self.root().join("config/ostler/ostler.json")
    }

    /// Where spools and sockets live.
    pub fn runtime(&self) -> PathBuf {
        self.root().join("run")
    }

    /// An empty working directory for agents.
    pub fn work(&self) -> PathBuf {
        self.root().join("work")
    }

    /// A text that the environment of every process of this instance holds.
    pub fn mark(&self) -> String {
        self.root().display().to_string()
    }

    /// The whole environment of this instance.
    pub fn env(&self) -> Vec<(String, String)> {
        let at = |dir: &str| self.root().join(dir).display().to_string();
        let path = env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        [
            ("HOME", at("home")),
            ("XDG_CONFIG_HOME", at("config")),
            ("XDG_DATA_HOME", at("data")),
            ("XDG_CACHE_HOME", at("cache")),
            ("XDG_RUNTIME_DIR", at("run")),
            ("TMPDIR", at("tmp")),
            ("PATH", format!("{}:{path}", at("bin"))),
            ("LANG", "C.UTF-8".to_owned()),
            ("NO_COLOR", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// A command in this instance: its environment and nothing else, in its working directory.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.env()).current_dir(self.work());
        command
    }

    pub fn write_config(&self, text: &str) {
        fs::write(self.config(), text).expect("the configuration can be written");
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        end_marked(&self.mark());
    }
}

fn private(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("the mode can be set");
}

/// Version managers put a shim for python3 on PATH that looks into HOME, which is empty here; so
/// the interpreter itself is put in front of it.
fn link_python(bin: &Path) {
    if let Some(python) = python() {
        std::os::unix::fs::symlink(python, bin.join("python3")).expect("a link can be made");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_sees_this_instance_and_nothing_else() {
        let instance = Instance::new();
        let output = instance.command("env").output().expect("env runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let mut names: Vec<_> = text.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        let mut given: Vec<_> = instance.env().into_iter().map(|(name, _)| name).collect();
        given.sort_unstable();
        assert_eq!(names, given);
        assert!(text.contains(&format!("HOME={}/home", instance.mark())), "{text}");
    }

    #[test]
    fn dropping_an_instance_ends_its_processes_and_removes_its_files() {
        let instance = Instance::new();
        let (mark, root) = (instance.mark(), instance.root().to_owned());
        let mut child = instance.command("sleep").arg("60").spawn().expect("sleep starts");
        crate::until("the child's environment", 5_000, || crate::find_marked(&mark).pop());
        drop(instance);
        assert!(!child.wait().expect("the child is ours").success());
        assert!(!root.exists());
    }
}
