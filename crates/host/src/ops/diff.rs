//! What a run changed in its worktree, for people and programs: which files, how much, and the patch,
//! sealed with what the runs that worked there had to keep out, and bounded. A live run may be looked
//! at too. How it is found out is `trees/changes.rs`.

use super::run::{find, get};
use super::start::BESIDE_TREE;
use crate::Host;
use crate::blocking;
use crate::trees::{Changes, Tree};
use contract::{Code, Fault, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{RunRow, Seal};

pub use crate::trees::{Changed, Status};

/// A run's changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunDiff")]
pub struct Diff {
    pub run_id: RunId,
    /// The commit that its worktree began with.
    pub base: String,
    pub branch: String,
    /// Where it works, as long as that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<PathBuf>,
    pub files: Vec<Changed>,
    /// How many files are not among them.
    #[serde(default)]
    pub files_left_out: usize,
    /// Absent when it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Whether the patch goes on.
    #[serde(default)]
    pub truncated: bool,
    /// Whether some files could not be read.
    #[serde(default)]
    pub incomplete: bool,
    /// Directories that the agent made repositories of their own: nothing of them is part of this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nested: Vec<String>,
}

/// Whether the patch is wanted, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Names,
    Patch,
}

/// What a run changed.
pub async fn diff(host: &Host, given: &str, view: View) -> Result<Diff, Fault> {
    let run = find(host, given).await?;
    let row = get(host, run).await?;
    let tree = tree_of(host, &row)?;
    let (trees, looked_at) = (Arc::clone(&host.inner.trees), tree.clone());
    let house = Arc::clone(&host.inner);
    let look = move || {
        let left = looked_at.secrets_left(|run| house.keepsake_secret(run, BESIDE_TREE));
        let (changes, seal) = (trees.changes(&looked_at)?, Seal::new(left));
        Ok(shown(run, &looked_at, changes, &seal, view))
    };
    blocking::work_in(&tree.record.source, "make diff", look).await?
}

/// The workspace of ours that a run worked in.
pub(super) fn tree_of(host: &Host, row: &RunRow) -> Result<Tree, Fault> {
    let (trees, cwd) = (&host.inner.trees, Path::new(&row.cwd));
    trees.of(cwd).ok_or_else(|| match trees.owns(cwd) {
        true => Fault::new(
            Code::NotFound,
            format!("the worktree of {} does not exist any more", row.id),
        ),
        false => {
            let message = format!("{} worked in {}, not in a worktree", row.id, row.cwd);
            Fault::new(Code::NotSupported, message).with_hint(
                "see its changes there with `git diff`; only a run that is started in a \
                     worktree has changes to show and apply",
            )
        }
    })
}

fn shown(run: RunId, tree: &Tree, changes: Changes, seal: &Seal, view: View) -> Diff {
    let Changes { base, branch, mut files, files_left_out, patch, patch_cut, .. } = changes;
    let (incomplete, nested) = (changes.incomplete, changes.nested);
    for file in &mut files {
        file.path = seal.text(&file.path);
    }
    let patch = match (view, patch_cut) {
        (View::Names, _) => None,
        (View::Patch, false) => Some(seal.text(&String::from_utf8_lossy(&patch))),
        // Its end may be the first half of something.
        (View::Patch, true) => Some(seal.head(&patch).text()),
    };
    Diff {
        run_id: run,
        base,
        branch,
        worktree: tree.is_there().then(|| tree.record.work.clone()),
        files,
        files_left_out,
        truncated: patch.is_some() && patch_cut,
        patch,
        incomplete,
        nested: nested.iter().map(|path| seal.text(path)).collect(),
    }
}
