//! Taking runs away: one that a person names, or by age and size what nobody needs any more. What was
//! spent stays in the books, and the id stays known. A run that has not ended is never taken, one whose
//! worktree has work that was not applied only by a person who says so, and nothing is deleted while a
//! backup is made.

use super::run::{find, stored};
use super::who::Who;
use super::worktrees::{self, Force};
use crate::blocking;
use crate::supervise;
use crate::{Host, Inner, clock};
use contract::limits::{
    RETENTION_LOOK_MS, RETENTION_PAUSE_MS, RETENTION_RUNS_MAX, RETENTION_SLICE,
};
use contract::{Code, Fault, RunId};
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::{Stale, Upkeep};

/// How long and how much is kept; what is absent has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    pub days: Option<u32>,
    pub bytes: Option<u64>,
}

const DAY_MS: i64 = 86_400_000;

/// Deletes a run that has ended, with everything that only it has. Deleted again it stays so. A run
/// whose worktree has work that was not applied is refused unless `force` is given.
pub async fn delete(host: &Host, given: &str, force: Force, by: &Who) -> Result<RunId, Fault> {
    let run = find(host, given).await?;
    if let Some(tree) = host.inner.trees.tree(run) {
        worktrees::may_remove(host, &tree, force).await?;
    }
    let (house, by) = (host.clone(), by.clone());
    // Whoever asked may go away meanwhile; what was begun is done, and written down.
    let done = supervise::spawn("delete run", async move {
        let taken = take(&house, run).await.map_err(|fault| match fault.code {
            Code::Conflict => Fault::new(Code::Conflict, format!("{run} has not ended"))
                .with_hint(format!("`ostler stop {run}` ends it")),
            _ => fault,
        })?;
        if !taken {
            return Err(Fault::new(Code::Conflict, "a backup is being made")
                .with_hint("delete it when the backup is complete"));
        }
        house.inner.audit.deleted(clock::now().wall, &by, run);
        Ok(run)
    });
    done.await
        .map_err(|error| Fault::new(Code::InternalError, format!("deleting {run}: {error}")))?
}

/// Takes a run away that has ended, or what is left of it; false while a backup is made.
async fn take(host: &Host, run: RunId) -> Result<bool, Fault> {
    let _alone = host.inner.deleting.lock().await;
    let Some(_upkeep) = Upkeep::to_delete(host.inner.data.path()).map_err(stored)? else {
        return Ok(false);
    };
    let now = clock::now().wall;
    host.inner.heed(host.store().delete_run(run, now).await).map_err(stored)?;
    let trees = Arc::clone(&host.inner.trees);
    // Before the rest: once a run is wholly removed nobody looks for its workspace any more.
    let place = trees.place(run);
    // A removal that fails is logged by `Trees`, a panic or a file system that hangs by `blocking`.
    let _ = blocking::work_in(&place, "remove worktree", move || trees.remove(run)).await;
    host.inner.heed(host.store().purge(run).await).map_err(stored)?;
    Ok(true)
}

/// Finishes what others were broken off at; then takes away what is too old or too much, a little at a
/// time.
pub(crate) fn tend(host: &Host, retention: Retention) {
    if !host.serves() {
        return;
    }
    let house = Arc::downgrade(&host.inner);
    supervise::spawn("retention", async move {
        let mut has_swept_blobs = false;
        while let Some(inner) = house.upgrade() {
            if let Err(fault) = sweep(&Host { inner }, retention).await {
                log_failure("removing old runs", &fault);
            }
            if !has_swept_blobs {
                match sweep_blobs(&house).await {
                    Ok(()) => has_swept_blobs = true,
                    Err(fault) => log_failure("removing unnamed blobs", &fault),
                }
            }
            tokio::time::sleep(Duration::from_millis(RETENTION_LOOK_MS)).await;
        }
    });
}

fn log_failure(doing: &'static str, fault: &Fault) {
    let (code, error) = (fault.code.word(), &fault.message);
    tracing::warn!(code, error, "{doing} failed; it is tried again at the next look");
}

/// Removes blobs that were written and never named, because their host died in between. A backup may
/// be made meanwhile: it copies what is named.
async fn sweep_blobs(house: &Weak<Inner>) -> Result<(), Fault> {
    let Some(inner) = house.upgrade() else { return Ok(()) };
    let shelves = inner.heed(inner.store.shelves().await).map_err(stored)?;
    drop(inner);
    for shelf in shelves {
        let Some(inner) = house.upgrade() else { return Ok(()) };
        inner.heed(inner.store.sweep_shelf(&shelf).await).map_err(stored)?;
        drop(inner);
        tokio::time::sleep(Duration::from_millis(RETENTION_PAUSE_MS)).await;
    }
    Ok(())
}

/// Looks once: what was begun before is finished, then what is too old goes, then the oldest until
/// the rest is small enough. Gives how many runs went.
pub async fn sweep(host: &Host, retention: Retention) -> Result<usize, Fault> {
    if host.inner.trouble().is_some() {
        return Ok(0);
    }
    for run in host.store().half_deleted(RETENTION_RUNS_MAX).await.map_err(stored)? {
        if !take(host, run).await? {
            return Ok(0);
        }
    }
    let now = clock::now().wall;
    let mut gone = 0;
    // Runs whose worktree has work that was not applied: no age and no size deletes that.
    let mut needed: HashSet<RunId> = HashSet::new();
    while gone < RETENTION_RUNS_MAX {
        let old = retention.days.map(|days| now.plus_ms(-DAY_MS * i64::from(days)));
        let over = match retention.bytes {
            Some(bytes) => host.store().bytes_used().await.map_err(stored)? > bytes,
            None => false,
        };
        let ended_before = match (over, old) {
            (true, _) => now,
            (false, Some(old)) => old,
            (false, None) => break,
        };
        // A few at a time when there is too much: they may be enough, and weighing takes a while.
        let limit = if over { RETENTION_SLICE } else { RETENTION_RUNS_MAX - gone };
        let stale = Stale { ended_before, limit: limit + needed.len() };
        let mut runs = host.store().stale(stale).await.map_err(stored)?;
        runs.retain(|run| !needed.contains(run));
        if runs.is_empty() {
            break;
        }
        for run in runs {
            if worktrees::is_needed(host, run).await? {
                needed.insert(run);
                continue;
            }
            if !take(host, run).await? {
                return Ok(gone);
            }
            gone += 1;
            tokio::time::sleep(Duration::from_millis(RETENTION_PAUSE_MS)).await;
        }
    }
    Ok(gone)
}
