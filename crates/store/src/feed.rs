//! Wake-ups. A watcher is a cursor: it reads until it has caught up, then waits here. What passes
//! through this file says that something changed, never what: no event travels it, so a slow
//! watcher costs nothing and a lost wake-up costs one poll. The board-wide feed carries hints and
//! is bounded and lossy on purpose; whoever missed some is told so and reads again.

use crate::backend::{Backend, Watch};
use crate::error::Error;
use crate::row::Page;
use contract::limits::PAGE_EVENTS_MAX;
use contract::{AgentId, RunId, TaskId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, watch};

/// How long a waiter sleeps at most. Every commit wakes those who wait for its run, so no event is
/// heard of this way. It is for what no commit tells: a store that failed while they wait, and a read
/// of an inbox that failed and has to be tried again.
const FALLBACK_POLL: Duration = Duration::from_secs(10);
/// Hints that wait for one subscriber; older ones are dropped and it is told so.
const HINTS_MAX: usize = 256;
/// Topics nobody waits for any more are swept when there are this many.
const TOPICS_SWEPT_AT: usize = 128;

/// That something may have changed, and where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    Run {
        run: RunId,
        head_seq: u64,
        settled: bool,
    },
    Task {
        task: TaskId,
        /// A run of it has begun: nobody else can take it up now.
        begun: bool,
    },
    /// What a run asks of people changed.
    Asks {
        run: RunId,
    },
    Agent {
        agent: AgentId,
    },
    /// Some hints were dropped: read everything you show again.
    Missed,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Events(RunId),
    Inbox(RunId),
}

/// Shared by all handles of a store.
#[derive(Clone)]
pub(crate) struct Feed {
    topics: Arc<Mutex<HashMap<Topic, watch::Sender<()>>>>,
    hints: broadcast::Sender<Hint>,
}

impl Feed {
    pub fn new() -> Self {
        Self { topics: Arc::default(), hints: broadcast::channel(HINTS_MAX).0 }
    }

    pub fn watch(&self, topic: Topic) -> Waiter {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.len() >= TOPICS_SWEPT_AT {
            topics.retain(|_, sender| sender.receiver_count() > 0);
        }
        let sender = topics.entry(topic).or_insert_with(|| watch::channel(()).0);
        Waiter { receiver: sender.subscribe() }
    }

    pub fn hints(&self) -> Hints {
        Hints { receiver: self.hints.subscribe() }
    }

    pub fn wake(&self, topic: Topic) {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = topics.get(&topic) {
            sender.send_replace(());
        }
    }

    pub fn hint(&self, hint: Hint) {
        // Nobody listening is the usual case and no error.
        let _ = self.hints.send(hint);
    }
}

/// Waits for one topic to change.
pub struct Waiter {
    receiver: watch::Receiver<()>,
}

impl Watch for Waiter {
    fn arm(&mut self) {
        self.receiver.mark_unchanged();
    }

    async fn changed(&mut self) {
        // Waking too often is harmless: every waiter looks for itself.
        let _ = tokio::time::timeout(FALLBACK_POLL, self.receiver.changed()).await;
    }
}

impl Waiter {
    /// For whoever has not looked yet: the next call of `changed` returns at once.
    pub fn due(mut self) -> Self {
        self.receiver.mark_changed();
        self
    }

    /// Returns when something may have changed since the last call, and sometimes without cause.
    pub async fn changed(&mut self) {
        Watch::changed(self).await;
    }
}

/// A subscription to the board-wide hints.
pub struct Hints {
    receiver: broadcast::Receiver<Hint>,
}

impl Hints {
    /// The next hint; `None` when the store is gone.
    pub async fn next(&mut self) -> Option<Hint> {
        match self.receiver.recv().await {
            Ok(hint) => Some(hint),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Hint::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// A watcher of one run: sees every committed event once, in order, however slow or late it is.
pub struct Follower<B: Backend = crate::Store> {
    backend: B,
    run: RunId,
    after_seq: u64,
    watch: B::Watch,
}

impl<B: Backend> Follower<B> {
    pub(crate) fn new(backend: B, run: RunId, after_seq: u64) -> Self {
        let watch = backend.watch(run);
        Self { backend, run, after_seq, watch }
    }

    /// The next events. Waits while there are none and the run is not settled; a settled run that
    /// was read to its end answers at once with an empty page. Dropping the future loses nothing.
    pub async fn next(&mut self, limit: usize) -> Result<Page, Error> {
        let limit = limit.clamp(1, PAGE_EVENTS_MAX);
        loop {
            // Armed before the read, so a commit between the read and the wait still wakes us.
            self.watch.arm();
            let page = self.backend.page(self.run, self.after_seq, limit).await?;
            if let Some(last) = page.events.last() {
                self.after_seq = last.seq;
            }
            if page.settled || !page.events.is_empty() {
                return Ok(page);
            }
            self.watch.changed().await;
        }
    }
}
