//! Taking runs away: hidden at once, then removed in slices, each a small transaction, so that nobody
//! who writes waits long. A run that has not ended is never taken, nor one that an open task or a
//! live conversation still needs. The row and its books stay, so what was spent stays known.
//!
//! A blob goes with the last run that names it. Between the look at who names it and its removal
//! nobody may begin to name it: whoever commits blobs holds the gate open, whoever removes them
//! closes it for a moment, and the one who unlinks them opens it again, also when nobody waits for
//! that any more. Everything here can be broken off and begun again. A file is forgotten
//! when its removal is durable, and not before: nobody would look for one that came back.
//!
//! A blob that nobody names is left when someone died between writing and naming it. Whoever does
//! both holds the gate open meanwhile, so behind the closed gate every blob without a name is one.

use crate::blocking::blocking;
use crate::limits::{REMOVED_BLOBS_MAX, REMOVED_EVENTS_MAX};
use crate::seal::SealedBlob;
use crate::{Error, Store, disk, trace};
use contract::{RunId, Timestamp};
use failpoint::Point;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OwnedRwLockWriteGuard;

/// Which runs may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// Only those that ended before this moment.
    pub ended_before: Timestamp,
    pub limit: usize,
}

impl Store {
    /// Hides a settled run for good. What it left is removed by `purge`.
    pub async fn delete_run(&self, run: RunId, at: Timestamp) -> Result<(), Error> {
        self.shared.sqlite.delete_run(run, at).await
    }

    /// Removes what is left of a deleted run. Broken off, it may be begun again.
    pub async fn purge(&self, run: RunId) -> Result<(), Error> {
        failpoint::hit(Point::RunHidden);
        while self.shared.sqlite.remove_events(run, REMOVED_EVENTS_MAX).await? {
            failpoint::hit(Point::SliceRemoved);
        }
        while self.remove_blobs(run).await? {}
        let trace = trace::path(&self.shared.traces, run);
        self.aside(move || remove(&trace).and_then(|()| make_lasting(&[trace]))).await?;
        failpoint::hit(Point::TraceRemoved);
        self.shared.sqlite.finish_removal(run).await
    }

    /// Runs that were deleted and not wholly removed.
    pub async fn half_deleted(&self, limit: usize) -> Result<Vec<RunId>, Error> {
        self.shared.sqlite.half_deleted(limit).await
    }

    /// Whether a run was there and was deleted.
    pub async fn was_deleted(&self, run: RunId) -> Result<bool, Error> {
        self.shared.sqlite.was_deleted(run).await
    }

    /// Settled runs that nobody needs, the longest ended first.
    pub async fn stale(&self, stale: Stale) -> Result<Vec<RunId>, Error> {
        self.shared.sqlite.stale(stale).await
    }

    /// How many bytes are used: the database without its free pages, blobs and traces.
    pub async fn bytes_used(&self) -> Result<u64, Error> {
        let pages = self.shared.sqlite.bytes_used().await?;
        let (blobs, traces) = (self.shared.blobs.folder().to_owned(), self.shared.traces.clone());
        let weigh = move || weight(&blobs) + weight(&traces);
        Ok(pages + blocking("weighing files", weigh).await?)
    }

    /// Keeps a blob that a run will name in words of its own. Blocking; durable when it returns.
    pub fn keep_for(&self, run: RunId, blob: &SealedBlob) -> Result<(), Error> {
        let _naming = self.shared.naming.blocking_read();
        self.shared.failure.check()?;
        let written = self.shared.blobs.write(blob);
        written.inspect_err(|error| self.shared.failure.note(error))?;
        self.shared.sqlite.name_blob(run, blob.hash.clone())
    }

    /// The shelves on which blobs are, for whoever sweeps them one by one.
    pub async fn shelves(&self) -> Result<Vec<String>, Error> {
        let blobs = self.shared.blobs.clone();
        self.aside(move || blobs.all_shelves().map_err(|cause| Error::io("listing shelves", cause)))
            .await
    }

    /// Removes the blobs of a shelf that nobody names, and gives how many. One that comes back after
    /// a power cut is found at the next look.
    pub async fn sweep_shelf(&self, shelf: &str) -> Result<usize, Error> {
        let (blobs, on) = (self.shared.blobs.clone(), shelf.to_owned());
        let listed = move || {
            blobs.on_shelf(&on).map_err(|cause| Error::io(format!("listing shelf {on}"), cause))
        };
        // Listed before it is asked who has a name: while others work, and most often for nothing.
        let there = self.aside(listed).await?;
        let named = self.shared.sqlite.named_on(shelf).await?;
        let suspects: Vec<String> =
            there.into_iter().filter(|hash| !named.contains(hash)).collect();
        let mut swept = 0;
        for suspects in suspects.chunks(REMOVED_BLOBS_MAX) {
            let alone = Arc::clone(&self.shared.naming).write_owned().await;
            let unnamed = self.shared.sqlite.unnamed(suspects.to_vec()).await?;
            swept += unnamed.len();
            let paths: Vec<PathBuf> =
                unnamed.iter().filter_map(|hash| self.shared.blobs.path(hash)).collect();
            self.aside(move || remove_behind(alone, &paths)).await?;
        }
        Ok(swept)
    }

    /// A slice of the blobs that this run names: those that no other run does are removed. False
    /// when there are no more.
    pub(crate) async fn remove_blobs(&self, run: RunId) -> Result<bool, Error> {
        let alone = Arc::clone(&self.shared.naming).write_owned().await;
        let named = self.shared.sqlite.blobs_of(run, REMOVED_BLOBS_MAX).await?;
        if named.is_empty() {
            return Ok(false);
        }
        let last = named.iter().filter(|(_, others)| !others);
        let paths: Vec<PathBuf> =
            last.filter_map(|(hash, _)| self.shared.blobs.path(hash)).collect();
        // Whoever names one of them once the gate is open again writes it anew.
        let removed = move || remove_behind(alone, &paths).and_then(|()| make_lasting(&paths));
        self.aside(removed).await?;
        failpoint::hit(Point::BlobsRemoved);
        let hashes = named.into_iter().map(|(hash, _)| hash).collect();
        self.shared.sqlite.forget_blobs(run, hashes).await?;
        Ok(true)
    }

    /// Works on files, where that keeps nobody waiting.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let done = blocking("removing files", work).await?;
        done.inspect_err(|error| self.shared.failure.note(error))
    }
}

/// Removes files behind the closed gate, which is open again when it returns.
fn remove_behind(alone: OwnedRwLockWriteGuard<()>, paths: &[PathBuf]) -> Result<(), Error> {
    let removed = paths.iter().try_for_each(|path| remove(path));
    drop(alone);
    removed
}

/// Removes a file that may be gone already.
fn remove(path: &Path) -> Result<(), Error> {
    match disk::remove(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(Error::io(format!("removing {}", path.display()), cause))
        }
        _ => Ok(()),
    }
}

/// That these files are gone is durable when it returns, whoever removed them.
fn make_lasting(removed: &[PathBuf]) -> Result<(), Error> {
    let folders: BTreeSet<&Path> = removed.iter().filter_map(|path| path.parent()).collect();
    for folder in folders {
        match disk::sync_folder(folder) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                let doing = format!("removing from {}", folder.display());
                return Err(Error::sync_folder(doing, cause));
            }
            _ => {}
        }
    }
    Ok(())
}

/// How much lies in a folder; what cannot be read weighs nothing.
fn weight(folder: &Path) -> u64 {
    let mut waiting = vec![folder.to_owned()];
    let mut bytes = 0;
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => waiting.push(entry.path()),
                Ok(found) => bytes += found.len(),
                // It may have been removed meanwhile.
                Err(_) => {}
            }
        }
    }
    bytes
}
