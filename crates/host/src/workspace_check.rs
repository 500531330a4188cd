//! Compares the workspace of a run under `deny` or `allow-reads` with its beginning: what the agent
//! was not allowed to change must be as it was. A manifest of sizes, times and inodes is taken before
//! the launch and again when the process is gone; contents are not read. In a repository it lists
//! what git tracks and what is neither tracked nor ignored, because builds and editors write what is
//! ignored; elsewhere all files. It cannot see who changed a file, and says so. The limits and the
//! reasons are in `docs/decisions/0024-the-workspace-is-compared-at-the-end.md`.

use crate::git::{self, Git};
use crate::trace::warning;
use crate::workspace::Workspace;
use contract::plan::Lane;
use contract::{Code, Draft, Fault, Policy, limits};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

/// Files that are named in the error.
const NAMED_MAX: usize = 10;

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
    modified: (i64, i64),
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
        let now = manifest(&self.workspace, &self.git)?;
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
        Ok(Some(format!(
            "{count} {files_word} changed in the workspace during a run under {}: {}{more} (Ostler \
             cannot see whether the agent or another program did it)",
            self.policy.word(),
            named.join(", ")
        )))
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
            let modified = (found.mtime(), found.mtime_nsec());
            let (bytes, inode, mode) = (found.len(), found.ino(), found.mode());
            manifest.insert(path, Stamp { bytes, modified, inode, mode });
        }
        Ok(())
    };
    let tracked = match git::top(workspace.path()) {
        Some(_) => git.files(workspace.path()).map_err(|error| error.to_string())?,
        None => Vec::new(),
    };
    // A directory that the repository around it ignores as a whole is a place of its own.
    let listed = match tracked.is_empty() {
        false => tracked.into_iter().try_for_each(&mut add),
        true => workspace.walk(limits::SNAPSHOT_DEPTH_MAX, &mut add),
    };
    listed.map_err(|fault| fault.message)?;
    Ok(manifest)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make repositories with git itself")]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
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
        fs::write(work.join("untracked"), "x").unwrap();
        assert!(before.changed().unwrap().unwrap().contains("untracked (new)"));
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
