//! The workspaces that Ostler made for runs and still keeps: listing them with their state, discarding
//! one, and removing those that hold no work. Work that was not applied is only deleted if the caller
//! says `force`; a workspace in which a live run works is never removed. What a workspace holds is found
//! out in `trees/holds.rs`; bringing work back is `apply.rs`.

use super::locks;
use super::run::{find, get, stored};
use super::start::BESIDE_TREE;
use super::who::Who;
use crate::blocking;
use crate::trees::{Holds, Tree, UnappliedWork};
use crate::{Host, clock};
use contract::{Code, Fault, Page, RunId, Timestamp, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{RunsPage, Seal};

/// One workspace that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeView {
    /// The run that it was made for.
    pub run_id: RunId,
    pub state: WorktreeState,
    /// Absent for a directory of `--temporary --keep`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub directory: PathBuf,
    /// The directory that the run was started in.
    pub source: PathBuf,
    /// Files that differ from the commit it began with.
    pub files: usize,
    /// Commits that were made in it.
    pub commits: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// The run that works in it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_run: Option<RunId>,
    /// The reason why its state is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The state of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeState {
    /// A run works in it.
    Live,
    /// It has changes or commits that were not applied.
    Unapplied,
    /// Nothing was changed in it.
    Unchanged,
    /// Its run or its files are gone, and nothing in it can be lost.
    Orphaned,
    /// It could not be compared with its repository, so that it may have work.
    Unknown,
}

impl WorktreeState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Unapplied => "unapplied",
            Self::Unchanged => "unchanged",
            Self::Orphaned => "orphaned",
            Self::Unknown => "unknown",
        }
    }
}

/// The result of removing what holds no work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pruned {
    pub removed: Vec<WorktreeView>,
    /// How many stay, because a run works in them or they have work that was not applied.
    pub kept: usize,
}

/// Whether work that was not applied may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    Yes,
    No,
}

/// The workspaces that are kept, newest first, behind `after`.
pub async fn list(
    host: &Host,
    after: Option<RunId>,
    limit: usize,
) -> Result<Page<WorktreeView>, Fault> {
    let rows = look(host, after, limit + 1).await?;
    Ok(Page::of(rows, limit, |row| row.run_id.to_string()))
}

/// Removes the workspace of a run, its branch and everything in it.
pub async fn discard(
    host: &Host,
    given: &str,
    force: Force,
    by: &Who,
) -> Result<WorktreeView, Fault> {
    let tree = named_tree(host, given).await?;
    let view = view(host, tree.clone(), &occupied(host).await?).await?;
    may_remove(host, &tree, force).await?;
    let trees = Arc::clone(&host.inner.trees);
    let id = tree.id;
    blocking(&tree.record.source, move || trees.remove(id)).await?;
    let about = serde_json::json!({ "run_id": id, "files": view.files });
    host.inner.audit.did(clock::now().wall, by, "discarded", about);
    Ok(view)
}

/// Removes every workspace that holds no work and in which no run works.
pub async fn prune(host: &Host, by: &Who) -> Result<Pruned, Fault> {
    let (mut removed, mut kept) = (Vec::new(), 0);
    for row in look(host, None, usize::MAX).await? {
        let (trees, id) = (Arc::clone(&host.inner.trees), row.run_id);
        let gone = match row.state {
            WorktreeState::Live | WorktreeState::Unapplied | WorktreeState::Unknown => false,
            WorktreeState::Unchanged if row.branch.is_some() => {
                blocking(&row.source, move || trees.remove_unchanged(id)).await?
            }
            WorktreeState::Unchanged | WorktreeState::Orphaned => {
                blocking(&row.source, move || trees.remove(id)).await?;
                true
            }
        };
        match gone {
            true => removed.push(row),
            false => kept += 1,
        }
    }
    if !removed.is_empty() {
        let runs: Vec<_> = removed.iter().map(|row| row.run_id).collect();
        let about = serde_json::json!({ "run_ids": runs });
        host.inner.audit.did(clock::now().wall, by, "pruned", about);
    }
    Ok(Pruned { removed, kept })
}

/// Refuses to remove a workspace in which a run works, or which has work that was not applied and
/// `force` is not given.
pub(super) async fn may_remove(host: &Host, tree: &Tree, force: Force) -> Result<(), Fault> {
    if let Some(live) = locks::others(host, &tree.record.work, None).await?.first() {
        let message = format!("{} is still working in the worktree of {}", live.id, tree.id);
        return Err(Fault::new(Code::Conflict, message)
            .with_hint(format!("wait for its end, or `ostler stop {}`", live.id)));
    }
    if force == Force::Yes {
        return Ok(());
    }
    match holds(host, tree).await? {
        (Holds::Nothing, _) => Ok(()),
        (Holds::Work(work), seal) => Err(unapplied(tree, &work, &seal)),
        (Holds::Unknown(why), _) => {
            let work = tree.record.work.display();
            let message = format!("{work} cannot be compared with its repository: {why}");
            Err(Fault::new(Code::Conflict, message)
                .with_hint("look into the directory first; --force deletes it"))
        }
    }
}

/// Whether retention must leave a run alone, because its workspace holds what only it has.
pub(super) async fn is_needed(host: &Host, run: RunId) -> Result<bool, Fault> {
    let Some(tree) = host.inner.trees.tree(run) else { return Ok(false) };
    match may_remove(host, &tree, Force::No).await {
        Ok(()) => Ok(false),
        Err(fault) if fault.code == Code::Conflict => Ok(true),
        Err(fault) => Err(fault),
    }
}

/// Removes what a run that has ended leaves behind: a temporary directory, or a worktree in which
/// nothing was changed. A host that cannot do it leaves it to the next one (`adopt.rs`).
pub(crate) async fn tidy(host: &Host, cwd: &Path) {
    if host.inner.trees.of(cwd).is_none() {
        return;
    }
    // A run that resumed the conversation may work there by now.
    let others = match locks::others(host, cwd, None).await {
        Ok(others) => others,
        Err(fault) => {
            let (path, code, error) = (cwd.display(), fault.code.word(), &fault.message);
            tracing::warn!(%path, code, error, "a workspace is left for the next host to remove");
            return;
        }
    };
    if others.is_empty() {
        let (trees, ended) = (Arc::clone(&host.inner.trees), cwd.to_owned());
        // A removal that fails is logged by `Trees`, a panic or a file system that hangs by `blocking`.
        let _ = blocking(cwd, move || trees.ended(&ended)).await;
    }
}

/// The live runs by the workspace in which they work.
pub(crate) async fn occupied(host: &Host) -> Result<HashMap<RunId, RunId>, Fault> {
    let (mut found, mut before) = (HashMap::new(), None);
    loop {
        let page = RunsPage { before, limit: limits::PAGE_ROWS_MAX, unsettled_only: true };
        let rows = host.store().runs(page).await.map_err(stored)?;
        let Some(last) = rows.last() else { return Ok(found) };
        before = Some(last.id);
        for row in rows {
            let tree = host.inner.trees.of(Path::new(&row.cwd));
            found.extend(tree.map(|tree| (tree.id, row.id)));
        }
    }
}

async fn look(host: &Host, after: Option<RunId>, limit: usize) -> Result<Vec<WorktreeView>, Fault> {
    let occupied = occupied(host).await?;
    let all = host.inner.trees.all().into_iter();
    let kept = all
        .filter(|run| after.is_none_or(|after| *run < after))
        .filter_map(|run| host.inner.trees.tree(run))
        .filter(|tree| tree.record.given_back.is_none() && !tree.record.removed_unchanged);
    let mut rows = Vec::new();
    for tree in kept.take(limit) {
        rows.push(view(host, tree, &occupied).await?);
    }
    Ok(rows)
}

async fn view(
    host: &Host,
    tree: Tree,
    occupied: &HashMap<RunId, RunId>,
) -> Result<WorktreeView, Fault> {
    let live_run = occupied.get(&tree.id).copied();
    let is_known = host.store().run(tree.id).await.map_err(stored)?.is_some();
    let (holds, seal) = holds(host, &tree).await?;
    let (work, note) = match &holds {
        Holds::Nothing => (UnappliedWork::default(), None),
        Holds::Work(work) => (work.clone(), None),
        Holds::Unknown(why) => (UnappliedWork::default(), Some(seal.text(why))),
    };
    let state = match (live_run, &holds) {
        (Some(_), _) => WorktreeState::Live,
        (None, Holds::Work(_)) => WorktreeState::Unapplied,
        (None, Holds::Unknown(_)) => WorktreeState::Unknown,
        // Below the data directory, as the record of the worktree.
        (None, Holds::Nothing) if is_known && tree.record.work.is_dir() => WorktreeState::Unchanged,
        (None, Holds::Nothing) => WorktreeState::Orphaned,
    };
    Ok(WorktreeView {
        run_id: tree.id,
        state,
        branch: tree.record.worktree.map(|worktree| worktree.branch),
        directory: tree.record.work,
        source: tree.record.source,
        files: work.files(),
        commits: work.commits,
        created_at: made_at(tree.id),
        live_run,
        note,
    })
}

/// The content of a workspace, and what must be kept out of its paths.
async fn holds(host: &Host, tree: &Tree) -> Result<(Holds, Seal), Fault> {
    let (house, source, tree) = (Arc::clone(&host.inner), tree.record.source.clone(), tree.clone());
    blocking(&source, move || {
        let left = tree.secrets_left(|run| house.keepsake_secret(run, BESIDE_TREE));
        (house.trees.holds(&tree), Seal::new(left))
    })
    .await
}

fn unapplied(tree: &Tree, work: &UnappliedWork, seal: &Seal) -> Fault {
    let id = tree.id.to_string();
    let short = &id[id.len() - SHORT_ID..];
    let count = |n: usize, one: &str, many: &str| match n {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    };
    let mut parts = Vec::new();
    if work.files() > 0 {
        let mut names: Vec<_> = work.paths.iter().take(NAMED_MAX).map(|p| seal.text(p)).collect();
        if let more @ 1.. = work.files().saturating_sub(NAMED_MAX) {
            names.push(format!("{more} more"));
        }
        let files = count(work.files(), "changed file", "changed files");
        parts.push(format!("{files} ({})", names.join(", ")));
    }
    if work.commits > 0 {
        let commits = usize::try_from(work.commits).unwrap_or(usize::MAX);
        parts.push(count(commits, "commit", "commits"));
    }
    let parts = parts.join(" and ");
    let (message, hint) = match &tree.record.worktree {
        Some(_) => (
            format!("the worktree of {short} has work that was not applied: {parts}"),
            format!(
                "`ostler diff {short}` shows it, `ostler apply {short}` merges it; --force deletes \
                 it"
            ),
        ),
        None => (
            format!("the directory that was kept for {short} is not empty: {parts}"),
            format!("it is {}; --force deletes it", tree.record.work.display()),
        ),
    };
    Fault::new(Code::Conflict, message).with_hint(hint)
}

/// The number of files that a refusal names.
const NAMED_MAX: usize = 5;
/// The last digits of an id are what lists show of it.
const SHORT_ID: usize = 8;

/// The time in a run's id.
fn made_at(run: RunId) -> Option<Timestamp> {
    let (seconds, nanos) = run.uuid().get_timestamp()?.to_unix();
    let ms = i64::try_from(seconds).ok()?.checked_mul(1_000)? + i64::from(nanos / 1_000_000);
    Some(Timestamp(ms))
}

/// The workspace in which a run worked. A run that the store does not know any more is found by the id
/// that its workspace is named by.
async fn named_tree(host: &Host, given: &str) -> Result<Tree, Fault> {
    let none = |run: &dyn std::fmt::Display| {
        Fault::new(Code::NotFound, format!("{run} has no worktree"))
            .with_hint("`ostler worktrees` lists the existing ones")
    };
    let trees = &host.inner.trees;
    let fault = match find(host, given).await {
        Ok(run) => {
            let row = get(host, run).await?;
            let tree = trees
                .of(Path::new(&row.cwd))
                .filter(|tree| tree.record.given_back.is_none() && !tree.record.removed_unchanged);
            return tree.ok_or_else(|| none(&run));
        }
        Err(fault) => fault,
    };
    let fits = |run: &RunId| run.to_string().ends_with(given) && !given.is_empty();
    let mut found = trees.all().into_iter().filter(fits).filter_map(|run| trees.tree(run));
    match (found.next(), found.next()) {
        (Some(tree), None) => Ok(tree),
        _ => Err(fault),
    }
}

async fn blocking<T: Send + 'static>(
    source: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    blocking::work_in(source, "look at worktrees", work).await
}
