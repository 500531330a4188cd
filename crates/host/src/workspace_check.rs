//! Compares the workspace of a run under `deny` or `allow-reads` with its beginning: what the agent
//! was not allowed to change must be as it was. A manifest of sizes, times and inodes is taken before
//! the launch and again when the process is gone; contents are not read. In a repository it lists
//! what git tracks and what is neither tracked nor ignored, because builds and editors write what is
//! ignored, and the same of the repositories within; and of `.git` the configuration and the hooks,
//! because they name commands that are run later. Elsewhere it lists all files. It cannot see who
//! changed a file, and says so. The limits and the
//! reasons are in `docs/decisions/0024-the-workspace-is-compared-at-the-end.md`.

use crate::Host;
use crate::drive::Drive;
use crate::git::{self, Git};
use crate::ops::locks;
use crate::supervise;
use crate::trace::warning;
use crate::workspace::Workspace;
use contract::plan::Lane;
use contract::{Code, Draft, Fault, Policy, limits};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

/// Files that are named in the error.
const NAMED_MAX: usize = 10;
/// The most that is read of the file that names a submodule's repository.
const GIT_FILE_BYTES_MAX: u64 = 4096;
/// Repositories within a workspace that are looked at: git is called for each.
const REPOSITORIES_MAX: usize = 64;

/// Whether a run's workspace must not change. On the process and http lanes the policy governs the
/// relayed tools only, so what such an agent does by itself is not held against it.
pub(crate) fn applies(policy: Policy, lane: Lane) -> bool {
    match (policy, lane) {
        (Policy::Deny | Policy::AllowReads, Lane::Native | Lane::Acp) => true,
        (Policy::Ask | Policy::AllowAll, _) | (_, Lane::Process | Lane::Http) => false,
    }
}

/// Says that a workspace is not compared, and why.
pub(crate) fn not_compared(why: &str) -> Draft {
    warning(format!("the workspace is not compared with its beginning: {why}"))
}

/// The workspace of a run at its beginning.
#[derive(Debug)]
pub(crate) struct Beginning {
    workspace: Arc<Workspace>,
    git: Git,
    policy: Policy,
    /// Another run worked in the same directory when this one began.
    pub shared: bool,
    manifest: Manifest,
}

/// What is remembered of each file, by its path.
type Manifest = BTreeMap<String, Stamp>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    /// Of the inode: unlike the time of the content, a program cannot set it back.
    changed: (i64, i64),
    inode: u64,
    mode: u32,
}

impl Beginning {
    /// Looks at a workspace. Blocking. Fails when it cannot be compared, with the reason.
    pub fn take(workspace: Arc<Workspace>, git: Git, policy: Policy) -> Result<Self, String> {
        let manifest = manifest(&workspace, &git)?;
        Ok(Self { workspace, git, policy, shared: false, manifest })
    }

    /// The same, with what is known of other runs in the directory.
    pub fn beside(self, others: bool) -> Self {
        Self { shared: others, ..self }
    }

    /// What is different now, for a person; `None` when nothing is. Blocking.
    pub fn changed(&self) -> Result<Option<String>, String> {
        let now = match manifest(&self.workspace, &self.git) {
            Ok(now) => now,
            // Otherwise an agent could hide its changes by a line in the configuration of git.
            Err(why) => {
                return Ok(Some(format!(
                    "the workspace could be compared at the beginning of this run under {} and \
                     cannot be compared now: {why}",
                    self.policy.word()
                )));
            }
        };
        let files = differences(&self.manifest, &now);
        if files.is_empty() {
            return Ok(None);
        }
        let named: Vec<_> = files.iter().take(NAMED_MAX).map(String::as_str).collect();
        let more = match files.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (count, files_word) = (files.len(), if files.len() == 1 { "file" } else { "files" });
        // Some agents keep files of their own in the workspace.
        let is_hidden = |file: &String| file.starts_with('.') && !file.starts_with(".git/");
        let state = match files.iter().any(is_hidden) {
            true => "; an agent's own files are not compared where git ignores them",
            false => "",
        };
        Ok(Some(format!(
            "{count} {files_word} changed in the workspace during a run under {}: {}{more} (Ostler \
             cannot see whether the agent or another program did it{state})",
            self.policy.word(),
            named.join(", ")
        )))
    }
}

impl Drive {
    /// What changed in a workspace that the policy forbids to change. Where another run works in the
    /// same directory the change is only told, because it may be the other run's.
    pub(crate) async fn compare_workspace(&mut self) -> Option<String> {
        let Some(beginning) = self.beginning.take() else {
            let adopted = self.child.is_none();
            let policy = self.bench.policy;
            let lanes = self.runtime.card().lanes;
            if adopted && lanes.iter().any(|lane| applies(policy, *lane)) {
                let why = "another host took over the run";
                self.pending.drafts.push(not_compared(why));
            }
            return None;
        };
        let beginning = Arc::new(beginning);
        let looking = Arc::clone(&beginning);
        let changed =
            supervise::spawn_blocking("compare workspace", move || looking.changed()).await;
        let changed = match changed.map_err(|error| error.to_string()).flatten() {
            Ok(changed) => changed?,
            Err(why) => {
                self.pending.drafts.push(not_compared(&why));
                self.beginning = Arc::into_inner(beginning);
                return None;
            }
        };
        let host = Host { inner: Arc::clone(&self.house) };
        let cwd = self.bench.workspace.path();
        let others = locks::others(&host, cwd, Some(self.run)).await;
        let others = others.unwrap_or_else(|fault| {
            // The change counts against this run then, because the policy forbids it.
            let (code, error) = (fault.code.word(), &fault.message);
            tracing::warn!(code, error, "other runs in the same workspace cannot be listed");
            Vec::new()
        });
        let shared = beginning.shared || !others.is_empty();
        self.beginning = Arc::into_inner(beginning);
        if shared {
            let why = "it is not counted against this run, because another run works there too";
            self.pending.drafts.push(warning(format!("{changed}; {why}")));
            return None;
        }
        Some(changed)
    }
}

/// The paths that were made, changed or removed, each with a word for it.
fn differences(before: &Manifest, now: &Manifest) -> Vec<String> {
    let made = now.keys().filter(|path| !before.contains_key(*path));
    let made = made.map(|path| format!("{path} (new)"));
    let other = before.iter().filter_map(|(path, stamp)| match now.get(path) {
        None => Some(format!("{path} (removed)")),
        Some(now) if now != stamp => Some(format!("{path} (changed)")),
        Some(_) => None,
    });
    made.chain(other).collect()
}

fn manifest(workspace: &Workspace, git: &Git) -> Result<Manifest, String> {
    let mut manifest = Manifest::new();
    let mut add = |path: String| -> Result<(), Fault> {
        if manifest.len() >= limits::COMPARED_FILES_MAX {
            let message = format!("it has more than {} files", limits::COMPARED_FILES_MAX);
            return Err(Fault::new(Code::TooLarge, message));
        }
        // A file that has gone meanwhile is missing, as it should be.
        if let Ok(found) = workspace.path().join(&path).symlink_metadata() {
            let changed = (found.ctime(), found.ctime_nsec());
            let (bytes, inode, mode) = (found.len(), found.ino(), found.mode());
            manifest.insert(path, Stamp { bytes, changed, inode, mode });
        }
        Ok(())
    };
    let listed = Listing { workspace, git, repositories: 0 }.all(&mut add);
    listed.map_err(|fault| fault.message)?;
    Ok(manifest)
}

/// What takes the paths of a listing.
type Add<'a> = &'a mut dyn FnMut(String) -> Result<(), Fault>;

/// One listing of a workspace.
struct Listing<'a> {
    workspace: &'a Workspace,
    git: &'a Git,
    /// How many repositories within were listed so far.
    repositories: usize,
}

impl Listing<'_> {
    fn all(&mut self, add: Add<'_>) -> Result<(), Fault> {
        let names = match git::top(self.workspace.path()) {
            Some(_) => self.names(self.workspace.path())?,
            None => Vec::new(),
        };
        // A directory that the repository around it ignores as a whole is a place of its own.
        match names.is_empty() {
            false => self.repository("", names, add),
            true => self.workspace.walk(limits::SNAPSHOT_DEPTH_MAX, add),
        }
    }

    fn names(&self, dir: &Path) -> Result<Vec<String>, Fault> {
        let listed = self.git.files_and_repositories(dir);
        listed.map_err(|error| Fault::new(Code::BadWorkspace, error.to_string()))
    }

    /// The files of a repository and of those within: submodules, and clones that are not tracked.
    fn repository(&mut self, prefix: &str, names: Vec<String>, add: Add<'_>) -> Result<(), Fault> {
        self.commands(prefix, add)?;
        for name in names {
            let path = format!("{prefix}{}", name.trim_end_matches('/'));
            let dir = self.workspace.path().join(&path);
            if !dir.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                add(path)?;
            } else if dir.join(".git").symlink_metadata().is_ok() {
                self.repositories += 1;
                if self.repositories > REPOSITORIES_MAX {
                    let message = format!("it has more than {REPOSITORIES_MAX} repositories");
                    return Err(Fault::new(Code::TooLarge, message));
                }
                match self.names(&dir) {
                    Ok(names) => self.repository(&format!("{path}/"), names, add)?,
                    // One that git cannot list is compared as a directory alone: should it be listed
                    // at the other end of the run, its files are the difference.
                    Err(_) => add(path)?,
                }
            }
        }
        Ok(())
    }

    /// The configuration and the hooks of a repository, because they name commands that git runs later.
    fn commands(&self, prefix: &str, add: Add<'_>) -> Result<(), Fault> {
        let Some(dir) = self.git_dir(prefix) else { return Ok(()) };
        let hooks = format!("{dir}/hooks");
        let entries = std::fs::read_dir(self.workspace.path().join(&hooks));
        for entry in entries.into_iter().flatten().flatten() {
            if let Some(name) = entry.file_name().to_str() {
                add(format!("{hooks}/{name}"))?;
            }
        }
        add(format!("{dir}/config"))?;
        add(format!("{dir}/config.worktree"))
    }

    /// The directory of git's own files, below the workspace. A submodule names it in a file; that of
    /// a worktree is outside of the workspace, and then there is none to compare.
    fn git_dir(&self, prefix: &str) -> Option<String> {
        let named = format!("{prefix}.git");
        let path = self.workspace.path().join(&named);
        if path.is_dir() {
            return Some(named);
        }
        let file = std::fs::File::open(&path).ok()?;
        let mut text = String::new();
        file.take(GIT_FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        let dir = path.parent()?.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
        let root = self.workspace.path().canonicalize().ok()?;
        Some(dir.strip_prefix(root).ok()?.to_str()?.to_owned())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make repositories with git itself")]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    fn beginning(dir: &Path) -> Beginning {
        let workspace = Arc::new(Workspace::open(dir).unwrap());
        let vars = std::env::vars().collect();
        let git = Git::new(dir.parent().unwrap().join("git-place"), &vars);
        Beginning::take(workspace, git, Policy::Deny).unwrap()
    }

    fn work() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        fs::create_dir(&work).unwrap();
        (dir, work)
    }

    #[test]
    fn a_new_a_changed_and_a_removed_file_are_named() {
        let (_dir, work) = work();
        for name in ["a", "b", "c"] {
            fs::write(work.join(name), "one").unwrap();
        }
        let before = beginning(&work);
        assert_eq!(before.changed().unwrap(), None);
        fs::write(work.join("a"), "other").unwrap();
        fs::remove_file(work.join("b")).unwrap();
        fs::create_dir(work.join("sub")).unwrap();
        fs::write(work.join("sub/d"), "new").unwrap();
        let told = before.changed().unwrap().unwrap();
        let names = "under deny: sub/d (new), a (changed), b (removed)";
        assert!(told.starts_with("3 files changed") && told.contains(names), "{told}");
    }

    #[test]
    fn of_many_files_some_are_named() {
        let (_dir, work) = work();
        let before = beginning(&work);
        for n in 0..12 {
            fs::write(work.join(format!("{n:02}")), "x").unwrap();
        }
        let told = before.changed().unwrap().unwrap();
        assert!(told.contains("09 (new) and 2 more"), "{told}");
    }

    #[test]
    fn in_a_repository_ignored_files_do_not_count() {
        let (_dir, work) = work();
        let made = Command::new("git").args(["init", "-q"]).current_dir(&work).status().unwrap();
        assert!(made.success());
        fs::write(work.join(".gitignore"), "target\n").unwrap();
        let before = beginning(&work);
        fs::create_dir(work.join("target")).unwrap();
        fs::write(work.join("target/built"), "x").unwrap();
        assert_eq!(before.changed().unwrap(), None);
        fs::create_dir(work.join(".agent")).unwrap();
        fs::write(work.join(".agent/state"), "x").unwrap();
        let told = before.changed().unwrap().unwrap();
        assert!(told.contains("own files are not compared where git ignores them"), "{told}");
        fs::write(work.join("untracked"), "x").unwrap();
        assert!(before.changed().unwrap().unwrap().contains("untracked (new)"));
    }

    fn git(dir: &Path, words: &[&str]) {
        let who = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
        let allow = ["-c", "protocol.file.allow=always"];
        let mut git = Command::new("git");
        git.args(who)
            .args(allow)
            .args(words)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        assert!(git.output().unwrap().status.success(), "{words:?}");
    }

    fn repository(dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        git(dir, &["init", "-q"]);
        fs::write(dir.join("tracked"), "x").unwrap();
        git(dir, &["add", "-A"]);
        git(dir, &["commit", "-q", "-m", "one"]);
    }

    #[test]
    fn changes_in_repositories_within_are_named() {
        let (dir, work) = work();
        repository(&work);
        repository(&dir.path().join("origin"));
        let origin = dir.path().join("origin").display().to_string();
        git(&work, &["submodule", "add", "-q", &origin, "module"]);
        repository(&work.join("deps/clone"));
        for path in ["module/tracked", "deps/clone/tracked"] {
            let before = beginning(&work);
            assert_eq!(before.changed().unwrap(), None);
            fs::write(work.join(path), "longer").unwrap();
            let told = before.changed().unwrap().unwrap();
            assert!(told.contains(&format!(": {path} (changed)")), "{told}");
        }
        let before = beginning(&work);
        fs::write(work.join("deps/clone/new"), "x").unwrap();
        assert!(before.changed().unwrap().unwrap().contains("deps/clone/new (new)"));
    }

    #[test]
    fn commands_that_git_runs_later_are_compared() {
        let (_dir, work) = work();
        repository(&work);
        let before = beginning(&work);
        git(&work, &["commit", "-q", "--allow-empty", "-m", "two"]);
        assert_eq!(before.changed().unwrap(), None, "commits are not compared");
        fs::create_dir_all(work.join(".git/hooks")).unwrap();
        fs::write(work.join(".git/hooks/pre-commit"), "x").unwrap();
        git(&work, &["config", "core.pager", "x"]);
        let told = before.changed().unwrap().unwrap();
        assert!(told.contains(".git/hooks/pre-commit (new), .git/config (changed)"), "{told}");
    }

    #[test]
    fn hooks_of_a_submodule_are_compared() {
        let (dir, work) = work();
        repository(&work);
        repository(&dir.path().join("origin"));
        let origin = dir.path().join("origin").display().to_string();
        git(&work, &["submodule", "add", "-q", &origin, "module"]);
        let before = beginning(&work);
        let hooks = work.join(".git/modules/module/hooks");
        fs::create_dir_all(&hooks).unwrap();
        fs::write(hooks.join("pre-commit"), "x").unwrap();
        let told = before.changed().unwrap().unwrap();
        assert!(told.contains(".git/modules/module/hooks/pre-commit (new)"), "{told}");
    }

    #[test]
    fn a_repository_that_git_cannot_read_any_more_hides_no_change() {
        for path in [".", "deps/clone"] {
            let (_dir, work) = work();
            repository(&work);
            repository(&work.join("deps/clone"));
            let before = beginning(&work);
            fs::write(work.join("tracked"), "longer").unwrap();
            git(&work.join(path), &["config", "extensions.unknown", "1"]);
            git(&work.join(path), &["config", "core.repositoryFormatVersion", "1"]);
            let told = before.changed().unwrap();
            assert!(told.is_some(), "{path}");
            // One that cannot be read from the beginning takes nothing from the others.
            if path != "." {
                let before = beginning(&work);
                assert_eq!(before.changed().unwrap(), None);
                fs::write(work.join("tracked"), "longer again").unwrap();
                let told = before.changed().unwrap().unwrap();
                assert!(told.contains("tracked (changed)"), "{told}");
            }
        }
    }

    #[test]
    fn a_time_that_was_set_back_does_not_hide_a_change() {
        let (_dir, work) = work();
        let path = work.join("a");
        fs::write(&path, "one").unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let before = beginning(&work);
        // Longer than the clock of a file system takes for one step.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(&path, "two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert!(before.changed().unwrap().unwrap().contains("a (changed)"));
    }

    #[test]
    fn the_policy_of_process_agents_is_about_relayed_tools() {
        let rows = [
            (Policy::Deny, Lane::Acp, true),
            (Policy::AllowReads, Lane::Native, true),
            (Policy::Ask, Lane::Acp, false),
            (Policy::AllowAll, Lane::Native, false),
            (Policy::Deny, Lane::Process, false),
            (Policy::AllowReads, Lane::Http, false),
        ];
        for (policy, lane, expected) in rows {
            assert_eq!(applies(policy, lane), expected, "{policy:?} {lane:?}");
        }
    }
}
