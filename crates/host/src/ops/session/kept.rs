//! One session: what its file keeps of it, who reads it, when it was last heard of, and which places
//! in its run's events were told under which number. Its file is written whole or not at all, so that a
//! successor finds every session that was answered. Which sessions there are is `session.rs`.

use crate::blocking::{self, Bulkhead};
use crate::{clock, data};
use contract::{Code, Fault, RunId};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events between two remembered places.
const MARK_EVENTS: u64 = 256;

/// A session as its file keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub run: RunId,
    pub name: String,
    pub dir: PathBuf,
    /// Made for this session, and removed with it.
    pub owned: bool,
    pub fence: u64,
    pub closed: bool,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    pub run: RunId,
    kept: Mutex<Kept>,
    /// Held while the file is written, so that an older version never replaces a newer one.
    writing: tokio::sync::Mutex<()>,
    pub(super) file: PathBuf,
    readers: AtomicUsize,
    touched_ms: AtomicU64,
    /// Its run is being started.
    pub(super) starting: AtomicBool,
    /// Where in the run's events a line of this number was told: so far, in order.
    marks: Mutex<Vec<Mark>>,
}

/// After the event `seq`, `id` lines were told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    pub id: u64,
    pub seq: u64,
}

/// Someone reads a session's events for as long as this lives.
#[derive(Debug)]
pub struct Reading(Arc<Session>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.touch();
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session {
    pub(super) fn new(kept: Kept, file: PathBuf) -> Self {
        Self {
            run: kept.run,
            kept: Mutex::new(kept),
            writing: tokio::sync::Mutex::default(),
            file,
            readers: AtomicUsize::new(0),
            touched_ms: AtomicU64::new(clock::now().mono_ms),
            starting: AtomicBool::new(false),
            marks: Mutex::default(),
        }
    }

    pub fn read(self: &Arc<Self>) -> Reading {
        self.readers.fetch_add(1, Ordering::Relaxed);
        Reading(Arc::clone(self))
    }

    pub(super) fn touch(&self) {
        self.touched_ms.store(clock::now().mono_ms, Ordering::Relaxed);
    }

    pub(super) fn is_silent(&self, now_ms: u64, silence_ms: u64) -> bool {
        self.readers.load(Ordering::Relaxed) == 0
            && now_ms.saturating_sub(self.touched_ms.load(Ordering::Relaxed)) >= silence_ms
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marks(&self) -> MutexGuard<'_, Vec<Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last known place at or before the line of this number.
    pub fn mark_before(&self, id: u64) -> Mark {
        let marks = self.marks();
        let at = marks.partition_point(|mark| mark.id <= id);
        at.checked_sub(1).map(|at| marks[at]).unwrap_or_default()
    }

    /// Remembers a place, if it is far enough from those that are known.
    pub fn remember(&self, mark: Mark) {
        let mut marks = self.marks();
        let last = marks.last().copied().unwrap_or_default();
        if mark.seq >= last.seq + MARK_EVENTS && mark.id > last.id {
            marks.push(mark);
        }
    }

    /// Lets through who has the newest fence, and remembers it when it is newer.
    pub(super) async fn admit(&self, fence: Option<u64>) -> Result<(), Fault> {
        let Some(fence) = fence else { return Ok(()) };
        let _writing = self.writing.lock().await;
        let kept = self.kept().clone();
        if fence < kept.fence {
            let message = format!("fence {fence} is older than {}, which was seen", kept.fence);
            return Err(Fault::new(Code::FenceStale, message));
        }
        if fence > kept.fence {
            write(&self.file, &Kept { fence, ..kept }).await?;
            self.kept().fence = fence;
        }
        Ok(())
    }

    /// Marks the session as closed, for this server and for the next one.
    pub(super) async fn close(&self) -> Result<(), Fault> {
        let _writing = self.writing.lock().await;
        // Nobody finds it from here on, also when the file cannot be written.
        self.kept().closed = true;
        let kept = self.kept().clone();
        write(&self.file, &kept).await
    }
}

/// The beginning of the names of directories that are made for sessions.
pub(super) const WORKSPACE_PREFIX: &str = "ostler-session-";

/// The directory of the session of a run, outside of our own.
pub(super) fn workspace_of(temporary: &Path, run: RunId) -> PathBuf {
    temporary.join(format!("{WORKSPACE_PREFIX}{}", run.uuid().simple()))
}

/// Whether this is the directory that an earlier session was given, where its agent finds its
/// conversation again.
pub(super) fn is_session_dir(temporary: &Path, dir: &Path) -> bool {
    let is_named = dir
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(WORKSPACE_PREFIX));
    is_named && temporary.canonicalize().is_ok_and(|parent| dir.parent() == Some(&*parent))
}

/// Makes the directory of one session.
pub(super) fn workspace(dir: PathBuf) -> Result<PathBuf, Fault> {
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Ok(()) => Ok(dir),
        Err(error) => {
            let message = format!("making the directory {}: {error}", dir.display());
            Err(Fault::new(Code::BadWorkspace, message).with_hint("give one with --dir"))
        }
    }
}

/// Makes a session durable: what is answered survives us.
pub(super) async fn write(file: &Path, kept: &Kept) -> Result<(), Fault> {
    let failed = |error: io::Error| {
        Fault::new(Code::StoreUnreadable, format!("{}: {error}", file.display()))
    };
    let text = serde_json::to_string(kept).map_err(io::Error::other).map_err(failed)?;
    let replaced = file.to_owned();
    let written = blocking::spawn(Bulkhead::Data, "write session", move || {
        data::replace_private(&replaced, &text)
    });
    written.await.map_err(io::Error::other).flatten().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance;

    #[tokio::test]
    async fn older_fence_is_refused_by_a_successor_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("session.json");
        let kept = Kept {
            run: chance::run_id(),
            name: "far".to_owned(),
            dir: dir.path().to_owned(),
            owned: false,
            fence: 3,
            closed: false,
        };
        let session = Session::new(kept, file.clone());
        for (fence, refused) in [
            (None, false),
            (Some(2), true),
            (Some(3), false),
            (Some(5), false),
            (Some(4), true),
            (Some(5), false),
        ] {
            let code = session.admit(fence).await.err().map(|fault| fault.code);
            assert_eq!(code, refused.then_some(Code::FenceStale), "{fence:?}");
        }
        let kept: Kept = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(kept.fence, 5);
    }
}
