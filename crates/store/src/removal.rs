//! Taking runs away: hidden at once, then removed in slices, each a small transaction, so that nobody
//! who writes waits long. A run that has not ended is never taken, nor one that an open task or a
//! live conversation still needs. The row and its books stay, so what was spent stays known.
//!
//! A blob goes with the last run that names it. Between the look at who names it and its removal
//! nobody may begin to name it: whoever commits blobs holds the gate open, whoever removes them
//! closes it for a moment. Everything here can be broken off and begun again.

use crate::limits::{REMOVED_BLOBS_MAX, REMOVED_EVENTS_MAX};
use crate::seal::SealedBlob;
use crate::{Error, Store, trace};
use contract::{RunId, Timestamp};
use failpoint::Point;
use std::path::{Path, PathBuf};

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
        let path = trace::path(&self.shared.traces, run);
        let removed = tokio::task::spawn_blocking(move || remove(&path)).await;
        removed.map_err(|cause| Error::unreadable("removing a trace", cause))??;
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
        let files = tokio::task::spawn_blocking(move || weight(&blobs) + weight(&traces)).await;
        Ok(pages + files.map_err(|cause| Error::unreadable("weighing files", cause))?)
    }

    /// Keeps a blob that a run will name in words of its own. Blocking; durable when it returns.
    pub fn keep_for(&self, run: RunId, blob: &SealedBlob) -> Result<(), Error> {
        let _naming = self.shared.naming.blocking_read();
        self.shared.blobs.write(blob)?;
        self.shared.sqlite.name_blob(run, blob.hash.clone())
    }

    /// A slice of the blobs that this run names: those that no other run does are removed. False
    /// when there are no more.
    async fn remove_blobs(&self, run: RunId) -> Result<bool, Error> {
        let _alone = self.shared.naming.write().await;
        let named = self.shared.sqlite.blobs_of(run, REMOVED_BLOBS_MAX).await?;
        if named.is_empty() {
            return Ok(false);
        }
        let last = named.iter().filter(|(_, others)| !others);
        let paths: Vec<PathBuf> =
            last.filter_map(|(hash, _)| self.shared.blobs.path(hash)).collect();
        let remove = move || paths.iter().try_for_each(|path| remove(path));
        let removed = tokio::task::spawn_blocking(remove).await;
        removed.map_err(|cause| Error::unreadable("removing blobs", cause))??;
        failpoint::hit(Point::BlobsRemoved);
        let hashes = named.into_iter().map(|(hash, _)| hash).collect();
        self.shared.sqlite.forget_blobs(run, hashes).await?;
        Ok(true)
    }
}

/// Removes a file that may be gone already.
fn remove(path: &Path) -> Result<(), Error> {
    match crate::disk::remove(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("removing {}", path.display()), cause))
        }
        _ => Ok(()),
    }
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
                Err(_) => {}
            }
        }
    }
    bytes
}
