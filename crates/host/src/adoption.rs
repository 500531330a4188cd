//! The start of a host: it finds the runs that an earlier host left and takes them over, a few at a time,
//! while it answers requests already. Processes that dead keepers and the earlier host left are looked for
//! once for all of these runs. How one run is taken over is in `adopt.rs`. What is asked meanwhile of a run
//! that is not taken over yet waits for it here.

use crate::adopt::{self, MARK, Prepared, SWEEP_ROUNDS_MAX};
use crate::blocking::{self, Bulkhead};
use crate::cleanup;
use crate::ops::relay::Bearer;
use crate::ops::run::stored;
use crate::ops::{line, worktrees};
use crate::supervise;
use crate::{Attached, Host, Inner, upstream};
use contract::{Code, Fault, RunId, limits};
use futures::StreamExt as _;
use keeper::door;
use keeper::mark::Marks;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::{RunRow, RunsPage};

/// Which of the runs left behind are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    All,
    /// Those whose keeper is gone too: they only wait to be settled.
    Dead,
}

/// The runs that are about to be taken over, with their fences.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    runs: HashMap<RunId, u64>,
    is_under_way: bool,
}

impl Awaited {
    pub fn is_under_way(&self) -> bool {
        self.is_under_way
    }
}

/// The runs that an earlier host left. They count as awaited until this is finished or dropped.
pub struct Adoption {
    found: Vec<Found>,
    which: Which,
    awaiting: Awaiting,
}

/// Ends the wait for the runs when it is dropped.
struct Awaiting {
    inner: Arc<Inner>,
    /// A host that takes runs over has a reason to stay. It is dropped last.
    _stay: Attached,
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        self.inner.adoption.send_replace(Awaited::default());
    }
}

/// A run that was left.
struct Found {
    row: RunRow,
    spool: PathBuf,
    prepared: Prepared,
}

impl Adoption {
    /// Looks which runs were left. Requests that need them wait from here on.
    pub async fn find(host: &Host, which: Which) -> Result<Self, Fault> {
        let awaiting = Awaiting { inner: Arc::clone(&host.inner), _stay: host.attach() };
        let mut rows = Vec::new();
        loop {
            let before = rows.last().map(|row: &RunRow| row.id);
            let page = RunsPage { before, limit: limits::PAGE_ROWS_MAX, unsettled_only: true };
            let page = host.store().runs(page).await.map_err(stored)?;
            if page.is_empty() {
                break;
            }
            rows.extend(page);
        }
        let inner = Arc::clone(&host.inner);
        let look = move || rows.into_iter().filter_map(|row| look(&inner, row, which)).collect();
        let found: Vec<Found> = blocking("find left runs", look).await?;
        let runs = found.iter().map(|found| (found.row.id, found.row.fence)).collect();
        host.inner.adoption.send_replace(Awaited { runs, is_under_way: true });
        Ok(Self { found, which, awaiting })
    }

    /// Takes the runs over and removes what others left. Ends early when the host is about to stop.
    pub async fn finish(self, host: &Host) -> Result<(), Fault> {
        let Self { found, which, awaiting } = self;
        let found = blocking("end left processes", move || end_left(found)).await?;
        let leaving = host.leaving();
        futures::stream::iter(found)
            .for_each_concurrent(limits::ADOPTIONS_AT_ONCE_MAX, |found| async {
                let Found { row, prepared, .. } = found;
                let (host, run) = (host.clone(), row.id);
                if !*leaving.borrow() {
                    let taken = supervise::spawn("adopt run", {
                        let host = host.clone();
                        async move { adopt::take_left(&host, row, prepared).await }
                    });
                    // A panic is logged by the supervisor, and keeps no other run from being taken over.
                    let _ = taken.await;
                }
                host.inner.adoption.send_modify(|awaited| {
                    awaited.runs.remove(&run);
                });
            })
            .await;
        if *leaving.borrow() {
            return Ok(());
        }
        line::left_behind(host, which).await?;
        sweep_links(host).await?;
        sweep_trees(host).await?;
        sweep_spools(host).await?;
        drop(awaiting);
        Ok(())
    }
}

/// What can be seen of a left run without asking its keeper; `None` for one that is not wanted.
fn look(house: &Inner, row: RunRow, which: Which) -> Option<Found> {
    let spool = house.data.spool(row.id, house.data.last_attempt(row.id));
    if which == Which::Dead && door::is_alive(&spool) {
        return None;
    }
    // One that was handed its plan and has not taken its spool up may still do so.
    let dead = match spool.exists() {
        false => Some(None),
        true if door::is_taken_up(&spool) => door::lock_out(&spool).ok().flatten().map(Some),
        true => None,
    };
    let prepared = Prepared { dead, are_servers_ended: false };
    Some(Found { row, spool, prepared })
}

/// Ends what dead keepers left of their families, and the MCP servers of the earlier host. All processes
/// are looked at a fixed number of times, however many runs there are.
fn end_left(mut found: Vec<Found>) -> Vec<Found> {
    let mut marks = Marks::default();
    for found in &found {
        let run = found.row.id.to_string();
        marks.add(upstream::MARK, &run);
        if found.prepared.dead.is_some() {
            keeper::mark::end_group(&found.spool);
            marks.add(MARK, &run);
        }
    }
    if found.is_empty() {
        return found;
    }
    let is_swept = match keeper::mark::sweep_all(&marks, SWEEP_ROUNDS_MAX) {
        Ok(_) => true,
        Err(error) => {
            tracing::warn!(%error, "processes of earlier runs cannot be looked for together");
            false
        }
    };
    for Found { prepared, .. } in &mut found {
        prepared.are_servers_ended = is_swept;
        if !is_swept {
            // Each run looks for its own. Its lock is taken again then.
            prepared.dead = None;
        }
    }
    found
}

async fn blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    blocking::spawn(Bulkhead::Wait, name, work)
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("{name}: {error}")))
}

impl Inner {
    /// Waits until a run of an earlier host, or every one, is taken over.
    pub(crate) async fn adopted(&self, run: Option<RunId>) -> Result<(), Fault> {
        let mut adoption = self.adoption.subscribe();
        let adopted = adoption.wait_for(|awaited| match run {
            Some(run) => !awaited.runs.contains_key(&run),
            None => !awaited.is_under_way,
        });
        let wait = Duration::from_millis(limits::ADOPTION_WAIT_MS);
        match tokio::time::timeout(wait, adopted).await {
            // The sender lives in `self`, so waiting cannot fail.
            Ok(_) => Ok(()),
            Err(_elapsed) => {
                let message = "this host still takes over the runs of an earlier one";
                Err(Fault::new(Code::Conflict, message).with_hint("try again in a moment"))
            }
        }
    }
}

impl Host {
    /// The live run whose own token this is. The token of a run that is about to be taken over waits
    /// for that; any other is answered at once.
    pub async fn bearer_of(&self, token: &str) -> Option<Bearer> {
        let given = blake3::hash(token.as_bytes());
        let awaited = {
            let awaited = self.inner.adoption.borrow();
            let is_of =
                |run, fence| blake3::hash(self.inner.lease_token(run, fence).as_bytes()) == given;
            let mut awaited = awaited.runs.iter();
            awaited.find(|(run, fence)| is_of(**run, **fence)).map(|(run, _)| *run)
        };
        if let Some(run) = awaited {
            // A run that is not taken over by then has no token that is good here.
            let _ = self.inner.adopted(Some(run)).await;
        }
        self.run_of_token(token)
    }
}

/// Gives back the links that runs which have ended still hold in directories that others use too.
async fn sweep_links(host: &Host) -> Result<(), Fault> {
    for run in host.inner.links.runs() {
        let row = host.store().run(run).await.map_err(stored)?;
        if row.is_none_or(|row| row.outcome.is_some()) && !host.inner.is_here(run) {
            host.inner.links.release(run);
        }
    }
    Ok(())
}

/// Removes workspaces of ours whose run never came to be, and those of a run that has ended which are not
/// needed any more (temporary, or unchanged): their host died on the way.
async fn sweep_trees(host: &Host) -> Result<(), Fault> {
    host.inner.trees.git().sweep();
    let occupied = worktrees::occupied(host).await?;
    for run in host.inner.trees.all() {
        let row = host.store().run(run).await.map_err(stored)?;
        if host.inner.is_here(run) || occupied.contains_key(&run) {
            continue;
        }
        let trees = Arc::clone(&host.inner.trees);
        let place = trees.place(run);
        // A large one takes a while, and nobody waits for it.
        blocking::spawn(Bulkhead::Directory(&place), "sweep worktree", move || match row {
            None => trees.sweep(run),
            Some(row) if row.outcome.is_some() => trees.ended(Path::new(&row.cwd)),
            Some(_) => {}
        });
    }
    Ok(())
}

/// Removes the spools of runs that have ended: their host died after it had settled them. What is in
/// a spool is raw, and nobody will ask for it again.
async fn sweep_spools(host: &Host) -> Result<(), Fault> {
    let spools = host.inner.data.spools().unwrap_or_else(|error| {
        tracing::warn!(%error, "the spools of earlier runs cannot be listed; the next host tries again");
        Vec::new()
    });
    for (run, spool) in spools {
        let ended =
            host.store().run(run).await.map_err(stored)?.is_none_or(|row| row.outcome.is_some());
        if ended && !host.inner.is_here(run) {
            // Not waited for: its keeper may take a moment to be gone.
            blocking::spawn(Bulkhead::Wait, "sweep spool", move || {
                adopt::await_end(&spool);
                match door::lock_out(&spool) {
                    Ok(Some(_lock)) => cleanup::remove_dir(&spool),
                    Ok(None) => {}
                    Err(error) => cleanup::log_if_kept(&spool, Err(error)),
                }
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chance, plain};
    use futures::FutureExt as _;

    #[tokio::test]
    async fn requests_wait_for_the_runs_they_need() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(plain::setup(dir.path()));
        let (run, other) = (chance::run_id(), chance::run_id());
        let waits = |wanted| host.inner.adopted(wanted).now_or_never().is_none();
        assert!(!waits(None) && !waits(Some(run)), "nothing is taken over");

        let runs = HashMap::from([(run, 3)]);
        host.inner.adoption.send_replace(Awaited { runs, is_under_way: true });
        assert!(waits(None) && waits(Some(run)) && !waits(Some(other)));
        let asks = |run, fence| {
            let token = host.inner.lease_token(run, fence);
            let host = host.clone();
            async move { host.bearer_of(&token).await }.now_or_never()
        };
        assert_eq!(asks(run, 3), None, "the token of that run waits");
        for stranger in [asks(run, 2), asks(other, 3)] {
            assert_eq!(stranger, Some(None), "any other is answered");
        }

        host.inner.adoption.send_modify(|awaited| {
            awaited.runs.remove(&run);
        });
        assert!(waits(None) && !waits(Some(run)));
        assert_eq!(asks(run, 3), Some(None));
        drop(Awaiting { inner: Arc::clone(&host.inner), _stay: host.attach() });
        assert!(!waits(None));
    }

    #[tokio::test]
    async fn host_that_stops_takes_no_more_runs_over() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(plain::setup(dir.path()));
        let adoption = Adoption::find(&host, Which::All).await.unwrap();
        assert!(host.inner.adopted(None).now_or_never().is_none());
        host.let_go();
        adoption.finish(&host).await.unwrap();
        assert!(host.inner.adopted(None).now_or_never().is_some());
        host.idle().await;
    }
}
