//! The one gate for blocking work: files, git, fsync, scans of /proc and waits for processes. Each piece
//! of work has a name and takes a place behind a bulkhead, of which each has a limit of its own: work that
//! is stuck on one file system leaves places for the work on others, for the data directory and for the
//! store, which has its own gate (`store/src/blocking.rs`). Work in a directory of the user
//! has a deadline, after which the caller gets a fault that names the directory; the thread stays
//! occupied until the kernel answers. Work that takes longer than `BLOCKING_SLOW_MS` is logged with the
//! run that it belongs to.

mod mount;

use crate::clock;
use crate::supervise;
use contract::limits::{
    BLOCKING_DATA_MAX, BLOCKING_DIRECTORIES_MAX, BLOCKING_SLOW_MS, BLOCKING_WAITS_MAX,
    DIRECTORY_OPEN_MS_MAX, DIRECTORY_WORK_MS_MAX,
};
use contract::{Code, Fault};
use mount::Mount;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

/// The places that blocking work takes, by what it may be stuck on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bulkhead<'a> {
    /// A directory of the user, whose file system may hang.
    Directory(&'a Path),
    /// The data directory, and long computations.
    Data,
    /// A process that is to end, or input.
    Wait,
}

static DIRECTORIES: Semaphore = Semaphore::const_new(BLOCKING_DIRECTORIES_MAX);
static DATA: Semaphore = Semaphore::const_new(BLOCKING_DATA_MAX);
static WAITS: Semaphore = Semaphore::const_new(BLOCKING_WAITS_MAX);

/// Places that are taken; they are free again when this is dropped, at the end of the work.
struct Places {
    _bulkhead: SemaphorePermit<'static>,
    _mount: Option<(Arc<Mount>, OwnedSemaphorePermit)>,
}

/// The same before they are taken.
enum Entrance {
    Directory(Arc<Mount>),
    Other(&'static Semaphore),
}

impl Entrance {
    fn of(bulkhead: Bulkhead<'_>) -> Self {
        match bulkhead {
            Bulkhead::Directory(dir) => Self::Directory(Mount::of(dir)),
            Bulkhead::Data => Self::Other(&DATA),
            Bulkhead::Wait => Self::Other(&WAITS),
        }
    }

    fn try_enter(&self) -> Option<Places> {
        match self {
            Self::Directory(mount) => {
                let own = Arc::clone(&mount.places).try_acquire_owned().ok()?;
                let permit = DIRECTORIES.try_acquire().ok()?;
                Some(Places { _bulkhead: permit, _mount: Some((Arc::clone(mount), own)) })
            }
            Self::Other(all) => Some(Places { _bulkhead: all.try_acquire().ok()?, _mount: None }),
        }
    }

    /// `None` does not happen: no semaphore is ever closed.
    async fn enter(self) -> Option<Places> {
        match self {
            // The mount comes first, so that work that waits for a mount that hangs takes no other place.
            Self::Directory(mount) => {
                let own = Arc::clone(&mount.places).acquire_owned().await.ok()?;
                let permit = DIRECTORIES.acquire().await.ok()?;
                Some(Places { _bulkhead: permit, _mount: Some((mount, own)) })
            }
            Self::Other(all) => Some(Places { _bulkhead: all.acquire().await.ok()?, _mount: None }),
        }
    }
}

/// Runs blocking work on a thread. The handle gives its value, or the panic that ended it.
/// The work is done even if the handle is dropped.
pub fn spawn<T: Send + 'static>(
    bulkhead: Bulkhead<'_>,
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let piece = Piece::new(bulkhead, name);
    let entrance = Entrance::of(bulkhead);
    match entrance.try_enter() {
        Some(places) => start(Some(places), piece, work),
        None => supervise::spawn(name, async move {
            let places = entrance.enter().await;
            match start(places, piece, work).await.map_err(tokio::task::JoinError::try_into_panic) {
                Ok(value) => value,
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                // The runtime ends, and this task with it.
                Err(Err(_cancelled)) => std::future::pending().await,
            }
        }),
    }
}

/// Runs work that a file system which works does in a moment, such as opening a directory. Without an
/// answer within `DIRECTORY_OPEN_MS_MAX` the file system counts as hung, and until it answers further
/// probes of it fail at once.
pub async fn probe<T: Send + 'static>(
    dir: &Path,
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    within(DIRECTORY_OPEN_MS_MAX, Patience::Probe, dir, name, work).await
}

/// Runs work in a directory of the user that may take a while: git, a tool call, a comparison.
pub async fn work_in<T: Send + 'static>(
    dir: &Path,
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    within(DIRECTORY_WORK_MS_MAX, Patience::Work, dir, name, work).await
}

/// Runs blocking work on this thread, which hands its other tasks to another thread first. For work on
/// the data directory that must be done before the caller goes on, in functions that cannot await.
pub fn in_place<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    let _under_way = Piece::new(Bulkhead::Data, name).begin();
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread: a courier or a unit test.
        Ok(_) | Err(_) => work(),
    }
}

/// From now on logs work that is slow, once each.
pub fn watch() {
    supervise::spawn("watch blocking work", async {
        loop {
            tokio::time::sleep(Duration::from_millis(BLOCKING_SLOW_MS / 2)).await;
            log_slow();
        }
    });
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Probe,
    Work,
}

async fn within<T: Send + 'static>(
    limit_ms: u64,
    patience: Patience,
    dir: &Path,
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    let mount = Mount::of(dir);
    if patience == Patience::Probe && mount.is_hung() {
        return Err(hung(dir, name, "an earlier access to its file system has not ended"));
    }
    let ended = Arc::new(AtomicBool::new(false));
    let (began, piece) =
        (Arc::new(AtomicBool::new(false)), Piece::new(Bulkhead::Directory(dir), name));
    let task = {
        let (mount, ended, began) = (Arc::clone(&mount), Arc::clone(&ended), Arc::clone(&began));
        async move {
            let places = Entrance::Directory(Arc::clone(&mount)).enter().await;
            began.store(true, Ordering::Release);
            start(places, piece, move || {
                let value = work();
                if ended.swap(true, Ordering::AcqRel) {
                    mount.answered();
                    tracing::info!(work = name, "blocking work that was given up has ended");
                }
                value
            })
            .await
        }
    };
    match tokio::time::timeout(Duration::from_millis(limit_ms), task).await {
        Ok(Ok(value)) => Ok(value),
        // `supervise` has logged the panic.
        Ok(Err(_panicked)) => {
            let message = format!("{name} in {}: the operation panicked", dir.display());
            Err(Fault::new(Code::InternalError, message))
        }
        Err(_elapsed) => {
            if began.load(Ordering::Acquire) && patience == Patience::Probe {
                mount.does_not_answer();
                // It has ended just now.
                if ended.swap(true, Ordering::AcqRel) {
                    mount.answered();
                }
            }
            let path = dir.display();
            tracing::warn!(work = name, %path, limit_ms, "blocking work is given up: its file system does not answer");
            let seconds = limit_ms / 1000;
            Err(hung(dir, name, &format!("no answer within {seconds} s")))
        }
    }
}

fn hung(dir: &Path, name: &str, why: &str) -> Fault {
    let message = format!("{name}: {}: {why}", dir.display());
    Fault::new(Code::BadWorkspace, message).with_hint(
        "its file system hangs, for example a network mount whose server is away: check it with \
         `stat`, or give another directory",
    )
}

fn start<T: Send + 'static>(
    places: Option<Places>,
    piece: Piece,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let span = piece.span.clone();
    #[expect(clippy::disallowed_methods, reason = "this is the gate")]
    tokio::task::spawn_blocking(move || {
        // Both end with the work, also when it panics.
        let (_places, _under_way) = (places, piece.begin());
        span.in_scope(work)
    })
}

/// A piece of blocking work.
#[derive(Debug, Clone)]
struct Piece {
    name: &'static str,
    dir: Option<PathBuf>,
    /// Waits last as long as what they wait for.
    is_wait: bool,
    span: tracing::Span,
    since_ms: u64,
    is_logged: bool,
}

impl Piece {
    fn new(bulkhead: Bulkhead<'_>, name: &'static str) -> Self {
        let dir = match bulkhead {
            Bulkhead::Directory(dir) => Some(dir.to_owned()),
            Bulkhead::Data | Bulkhead::Wait => None,
        };
        let span = supervise::span(name);
        Self { name, dir, is_wait: bulkhead == Bulkhead::Wait, span, since_ms: 0, is_logged: false }
    }

    fn begin(mut self) -> UnderWay {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        self.since_ms = clock::now().mono_ms;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        under_way().insert(id, self);
        UnderWay(id)
    }
}

/// The work that runs now, by the order in which it began.
static UNDER_WAY: Mutex<BTreeMap<u64, Piece>> = Mutex::new(BTreeMap::new());

fn under_way() -> MutexGuard<'static, BTreeMap<u64, Piece>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

struct UnderWay(u64);

impl Drop for UnderWay {
    fn drop(&mut self) {
        under_way().remove(&self.0);
    }
}

fn log_slow() {
    let now_ms = clock::now().mono_ms;
    let mut slow = Vec::new();
    for piece in under_way().values_mut() {
        let is_slow = now_ms.saturating_sub(piece.since_ms) >= BLOCKING_SLOW_MS;
        if is_slow && !piece.is_wait && !std::mem::replace(&mut piece.is_logged, true) {
            slow.push(piece.clone());
        }
    }
    for Piece { name, dir, span, since_ms, .. } in slow {
        let (path, duration_ms) = (dir.unwrap_or_default(), now_ms.saturating_sub(since_ms));
        span.in_scope(|| {
            tracing::warn!(work = name, path = %path.display(), duration_ms, "blocking work is slow");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::limits::BLOCKING_MOUNT_MAX;
    use std::sync::mpsc;

    #[tokio::test]
    async fn work_that_is_stuck_in_one_directory_leaves_places_for_others() {
        let (stuck, other) = (Path::new("/no-such-mount/a"), Path::new("/no-such-mount/b"));
        let mut ends = Vec::new();
        let mut works = Vec::new();
        for _ in 0..BLOCKING_MOUNT_MAX + 3 {
            let (end, wait) = mpsc::sync_channel::<()>(1);
            ends.push(end);
            // An end that is dropped ends the wait too.
            works.push(spawn(Bulkhead::Directory(stuck), "test", move || wait.recv().is_ok()));
        }
        let at_once = within(60_000, Patience::Work, other, "test", || 1).await;
        assert_eq!(at_once.ok(), Some(1), "the other directory has places");
        assert_eq!(spawn(Bulkhead::Data, "test", || 2).await.ok(), Some(2));
        let fault = within(50, Patience::Work, stuck, "list files", || 1).await.unwrap_err();
        assert_eq!(fault.code, Code::BadWorkspace);
        assert!(fault.message.contains("list files: /no-such-mount/a: no answer"), "{fault:?}");
        drop(ends);
        for work in works {
            assert!(work.await.is_ok(), "work that had to wait for a place is done");
        }
        assert_eq!(within(60_000, Patience::Work, stuck, "test", || 3).await.ok(), Some(3));
    }

    #[tokio::test]
    async fn a_probe_of_a_hung_file_system_fails_at_once_until_it_answers() {
        let dir = Path::new("/no-such-mount/c");
        let (end, wait) = mpsc::sync_channel::<()>(1);
        let slow = move || wait.recv().is_ok();
        let late = within(50, Patience::Probe, dir, "open", slow).await.unwrap_err();
        assert!(late.message.contains("no answer within"), "{late:?}");
        let next = within(60_000, Patience::Probe, dir, "open", || 1).await.unwrap_err();
        assert!(next.message.contains("has not ended"), "{next:?}");
        end.send(()).unwrap();
        loop {
            match within(60_000, Patience::Probe, dir, "open", || 1).await {
                Ok(value) => break assert_eq!(value, 1),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    #[tokio::test]
    async fn a_panic_reaches_the_handle_alone() {
        let panicked = spawn::<()>(Bulkhead::Data, "test", || panic!("on purpose")).await;
        assert!(panicked.is_err_and(|error| error.is_panic()));
        let fault = probe::<()>(Path::new("/d"), "test", || panic!("on purpose")).await;
        assert_eq!(fault.unwrap_err().code, Code::InternalError);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_in_place_does_not_hold_up_other_tasks() {
        let (end, wait) = mpsc::sync_channel::<()>(1);
        let other = supervise::spawn("test", async move { end.send(()).is_ok() });
        // On the only worker thread: the other task has to be moved.
        let working = supervise::spawn("test", async move {
            in_place("test", move || wait.recv_timeout(Duration::from_secs(60)).is_ok())
        });
        assert_eq!((working.await.ok(), other.await.ok()), (Some(true), Some(true)));
    }
}
