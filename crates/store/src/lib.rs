//! Everything that lasts: tasks, runs, events, wishes, blobs. The only crate with SQL, and the
//! only maker of `Sealed` (`seal.rs`), which is the only thing it stores of what agents and people
//! said. A handful of verbs, each one transaction under the fence; reads by key; watchers that are
//! cursors (`feed.rs`). It decides nothing that a pure rule could decide, and acts on nothing.
//!
//! To understand a commit open `sqlite/commit.rs`; what must always hold is in `check.rs`, and what
//! every backend must do in `conformance.rs`.

mod access;
mod agents;
pub mod backend;
mod backup;
mod ballast;
mod batch;
mod blobs;
mod blocking;
mod check;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod counts;
mod disk;
mod error;
mod failure;
mod feed;
pub mod limits;
#[cfg(any(test, feature = "conformance"))]
pub mod model;
mod queue;
mod removal;
mod row;
mod scope;
pub mod seal;
#[cfg(any(test, feature = "conformance"))]
pub mod spiteful;
mod sqlite;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests await the tasks that they start")]
mod tests;
mod trace;

pub use access::{AnswerKey, Kept, NewToken, TokenRow};
pub use backup::{Backup, Upkeep, backup};
pub use batch::*;
pub use check::{check, check_swept};
pub use counts::{Counts, TaskCount};
pub use error::{Cause, Error};
pub use feed::{Follower, Hint, Hints, Waiter};
pub use queue::*;
pub use removal::Stale;
pub use row::*;
pub use scope::{Opened, QuotaRow, QuotaStep, ScopeSum, StartLook, Surroundings, Within};
pub use seal::{Carry, Seal, Sealed, SealedBlob, SealedEvent};
pub use trace::{Trace, TraceMark, TraceReader};

use backend::Backend;
use ballast::Ballast;
use blobs::Blobs;
use blocking::blocking;
use contract::limits::PAGE_EVENTS_MAX;
use contract::{Command, RunId, TaskId, Timestamp, TokenId};
use failure::Failure;
use feed::{Feed, Topic};
use sqlite::Sqlite;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::RwLockReadGuard;

const DATABASE: &str = "ostler.db";
const BLOBS: &str = "blobs";
const TRACES: &str = "traces";

/// A handle to the store of one data directory. Cheap to clone; all handles share one writer.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    sqlite: Sqlite,
    blobs: Blobs,
    traces: PathBuf,
    feed: Feed,
    failure: Failure,
    ballast: Ballast,
    /// Open while blobs are being named, closed while some are removed.
    naming: Arc<tokio::sync::RwLock<()>>,
}

impl Store {
    /// Opens or makes the store in a directory, which only its owner can enter from then on.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        disk::make_folder(dir)
            .and_then(|()| std::fs::set_permissions(dir, Permissions::from_mode(0o700)))
            .map_err(|cause| Error::io(format!("opening {}", dir.display()), cause))?;
        // Before anything in it is answered, the directory itself has a name that lasts.
        disk::sync_folder_above(dir)
            .map_err(|cause| Error::sync_folder(format!("opening {}", dir.display()), cause))?;
        let feed = Feed::new();
        let failure = Failure::default();
        let ballast = Ballast::of(dir);
        let open = || Sqlite::open(&dir.join(DATABASE), feed.clone(), failure.clone());
        let sqlite = match open() {
            // Even looking needs a little room: the log is made anew when a store is opened.
            Err(Error::DiskFull { .. }) if ballast.release() => open()?,
            opened => opened?,
        };
        // Not before it is known to be a store of ours: a newer one is left as it is.
        let blobs = Blobs::open(dir.join(BLOBS))?;
        // The names of new files are durable too, before the first answer says so of their content.
        disk::sync_folder(dir)
            .map_err(|cause| Error::sync_folder(format!("opening {}", dir.display()), cause))?;
        // A disk that is nearly full is no reason not to open what is on it.
        if let Err(error) = ballast.make() {
            tracing::warn!(%error, "the store has no reserve for a full disk");
        }
        let traces = dir.join(TRACES);
        let naming = Default::default();
        let shared = Shared { sqlite, blobs, traces, feed, failure, ballast, naming };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Queues a task, or lets it stand in line for a slot. The same id, key or id of a run again
    /// gives the task that is there.
    pub async fn enqueue(&self, task: NewTask) -> Result<TaskId, Error> {
        self.shared.sqlite.enqueue(task).await
    }

    /// Makes a run of a queued task and gives its fence. The same claim again gives the same. Where
    /// slots are counted, one that finds none is refused, and so is one whose turn has not come.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed, Error> {
        self.shared.sqlite.claim(claim).await
    }

    /// Three verbs as one transaction, for a run that starts at once: queue the task, claim it,
    /// commit its first Batch. All of it is durable, or none.
    pub async fn begin(
        &self,
        task: NewTask,
        claim: Claim,
        batch: Batch,
    ) -> Result<Committed, Error> {
        self.begin_within(task, claim, batch, Within::default()).await
    }

    /// The same for a run that starts within a quota and budgets: they hold in the same transaction,
    /// or nothing of it is begun. A breaker that has changed since it was seen is a `Conflict`.
    pub async fn begin_within(
        &self,
        task: NewTask,
        claim: Claim,
        mut batch: Batch,
        within: Within,
    ) -> Result<Committed, Error> {
        let _naming = self.write_blobs(&mut batch).await?;
        self.shared.sqlite.begin(task, claim, batch, within).await
    }

    /// Changes the breaker of a quota, if it still is as the caller saw it.
    pub async fn step_quota(&self, step: QuotaStep) -> Result<(), Error> {
        self.shared.sqlite.step_quota(step).await
    }

    /// Keeps how the windows of a quota stand.
    pub async fn tell_quota(
        &self,
        scope: String,
        windows: Sealed,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.shared.sqlite.tell_quota(scope, windows, at).await
    }

    pub async fn quota(&self, scope: &str) -> Result<Option<QuotaRow>, Error> {
        self.shared.sqlite.quota(scope).await
    }

    /// The quotas that are known, by their scopes: so many that come after this one.
    pub async fn quotas(&self, after: &str, limit: usize) -> Result<Vec<QuotaRow>, Error> {
        self.shared.sqlite.quotas(after, limit).await
    }

    /// The runs of a quota that are not settled, oldest first.
    pub async fn quota_runs(&self, scope: &str, limit: usize) -> Result<Vec<RunId>, Error> {
        self.shared.sqlite.quota_runs(scope, limit).await
    }

    /// The quota that a run spends.
    pub async fn quota_of(&self, run: RunId) -> Result<Option<String>, Error> {
        self.shared.sqlite.quota_of(run).await
    }

    /// Everything that a start asks about, in one visit.
    pub async fn surroundings(&self, of: StartLook) -> Result<Surroundings, Error> {
        self.shared.sqlite.surroundings(of).await
    }

    /// A task and those above it, the nearest first; as many as there can be.
    pub async fn lineage(&self, task: TaskId) -> Result<Vec<TaskRow>, Error> {
        self.shared.sqlite.lineage(task).await
    }

    /// What a scope has spent since a moment, together with what its live runs hold.
    pub async fn scope_sum(&self, scope: &str, since: Timestamp) -> Result<ScopeSum, Error> {
        self.shared.sqlite.scope_sum(scope, since).await
    }

    /// Moves the end of a lease that is held.
    pub async fn renew(&self, run: RunId, fence: u64, expires_at: Timestamp) -> Result<(), Error> {
        self.shared.sqlite.renew(run, fence, expires_at).await
    }

    /// All or nothing, under the fence. The blobs a Batch names are durable before it is.
    pub async fn commit(&self, mut batch: Batch) -> Result<Committed, Error> {
        let _naming = self.write_blobs(&mut batch).await?;
        self.shared.sqlite.commit(batch).await
    }

    /// The same for a run that is ending: when the disk is full, it may use the reserve.
    pub async fn commit_from_reserve(&self, batch: Batch) -> Result<Room, Error> {
        match self.commit(batch.clone()).await {
            Ok(_) => Ok(Room::Ordinary),
            Err(Error::DiskFull { .. }) if self.shared.ballast.release() => {
                self.commit(batch).await.map(|_| Room::Reserve)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the store can be written to again: the reserve is whole, there is room beside it,
    /// and a commit becomes durable.
    pub async fn probe(&self) -> Result<(), Error> {
        let ballast = self.shared.ballast.clone();
        blocking("keeping a reserve", move || ballast.make()).await??;
        self.shared.sqlite.probe().await
    }

    /// Writes the blobs of a Batch, whose names stay in it. Until it is committed none of them can be
    /// removed.
    async fn write_blobs(
        &self,
        batch: &mut Batch,
    ) -> Result<Option<RwLockReadGuard<'_, ()>>, Error> {
        let named = batch.events.iter_mut().flat_map(|event| &mut event.blobs);
        let blobs: Vec<SealedBlob> = named.map(SealedBlob::take).collect();
        if blobs.is_empty() {
            return Ok(None);
        }
        let naming = self.shared.naming.read().await;
        self.shared.failure.check()?;
        let folder = self.shared.blobs.clone();
        let write = move || blobs.iter().try_for_each(|blob| folder.write(blob));
        let written = blocking("writing blobs", write).await?;
        written.inspect_err(|error| self.shared.failure.note(error))?;
        Ok(Some(naming))
    }

    /// Puts a wish into a run's inbox. The same id again changes nothing.
    pub async fn command(&self, command: NewCommand) -> Result<(), Error> {
        self.shared.sqlite.command(command).await
    }

    /// The same for a wish that ends a run: when the disk is full, it may use the reserve.
    pub async fn command_from_reserve(&self, command: NewCommand) -> Result<Room, Error> {
        match self.command(command.clone()).await {
            Ok(()) => Ok(Room::Ordinary),
            Err(Error::DiskFull { .. }) if self.shared.ballast.release() => {
                self.command(command).await.map(|()| Room::Reserve)
            }
            Err(error) => Err(error),
        }
    }

    /// Takes over every run whose lease ran out: the old holder is refused from here on, and the
    /// caller closes each with a settling Batch under its new fence.
    pub async fn reap(&self, now: Timestamp) -> Result<Vec<Reaped>, Error> {
        self.reap_but(now, Vec::new()).await
    }

    /// The same, but leaves alone the runs that the caller holds itself: it counts their leases on
    /// a clock that stands still while the machine sleeps, and knows better.
    pub async fn reap_but(&self, now: Timestamp, held: Vec<RunId>) -> Result<Vec<Reaped>, Error> {
        self.shared.sqlite.reap(now, held).await
    }

    /// Takes over those of these runs whose lease stands as it was seen: not renewed, not taken by
    /// anyone else. Whether it ran out is the caller's to know, by a clock that nobody sets.
    pub async fn reap_seen(&self, now: Timestamp, seen: Vec<Seen>) -> Result<Vec<Reaped>, Error> {
        self.shared.sqlite.reap_seen(now, seen).await
    }

    /// Sets a sum aside for a run, if the scope's limit covers it. Settling the run replaces it by
    /// what was spent. The same scope and run again replaces it too.
    pub async fn reserve(&self, reserve: Reserve) -> Result<(), Error> {
        self.shared.sqlite.reserve(reserve).await
    }

    /// Several at once: all of them, or none.
    pub async fn reserve_all(&self, reserves: Vec<Reserve>) -> Result<(), Error> {
        self.shared.sqlite.reserve_all(reserves).await
    }

    /// Moves a task that no run holds, if it still stands where the caller saw it.
    pub async fn move_task(&self, step: TaskMove) -> Result<(), Error> {
        self.shared.sqlite.move_task(step).await
    }

    /// Says of a running task that nobody wants it any more: after this run it is not tried again.
    pub async fn recall(&self, task: TaskId, fence: u64) -> Result<(), Error> {
        self.shared.sqlite.recall(task, fence).await
    }

    /// Changes what a task may spend, if that is still what the caller saw.
    pub async fn change_budget(&self, step: BudgetStep) -> Result<(), Error> {
        self.shared.sqlite.change_budget(step).await
    }

    /// Queues tasks again that may be looked at: a slice of them, and how many there were.
    pub async fn again(&self, which: Again) -> Result<u64, Error> {
        self.shared.sqlite.again(which).await
    }

    /// Keeps what someone says of a task. The same id again is the same comment.
    pub async fn comment(&self, comment: NewComment) -> Result<(), Error> {
        self.shared.sqlite.comment(comment).await
    }

    /// What people said of a task: the last of it, in order.
    pub async fn comments_of(&self, task: TaskId) -> Result<Vec<CommentRow>, Error> {
        self.shared.sqlite.comments_of(task, PAGE_EVENTS_MAX).await
    }

    /// The first task of every agent that could be started.
    pub async fn heads(&self) -> Result<Vec<Head>, Error> {
        self.shared.sqlite.heads().await
    }

    /// The first task of every crowd that waits for something without a time.
    pub async fn crowds(&self, page: CrowdsPage) -> Result<Vec<Head>, Error> {
        self.shared.sqlite.crowds(page).await
    }

    /// When the next task that waits may be looked at, as far as that is known.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.shared.sqlite.next_due().await
    }

    /// What must be done before a task.
    pub async fn dependencies(&self, task: TaskId) -> Result<Vec<TaskId>, Error> {
        self.shared.sqlite.dependencies(task).await
    }

    /// The tasks below one, added up.
    pub async fn children(&self, task: TaskId) -> Result<Children, Error> {
        self.shared.sqlite.children(task).await
    }

    /// The runs of a task, newest first.
    pub async fn runs_of(&self, task: TaskId, limit: usize) -> Result<Vec<RunId>, Error> {
        self.shared.sqlite.runs_of(task, limit).await
    }

    /// Tasks by the beginning or the end of their printed id, newest first.
    pub async fn find_tasks(&self, given: &str, limit: usize) -> Result<Vec<TaskId>, Error> {
        self.shared.sqlite.find_tasks(given, limit).await
    }

    pub async fn run(&self, id: RunId) -> Result<Option<RunRow>, Error> {
        self.shared.sqlite.run(id).await
    }

    /// Newest first.
    pub async fn runs(&self, page: RunsPage) -> Result<Vec<RunRow>, Error> {
        self.shared.sqlite.runs(page).await
    }

    /// Runs by the beginning or the end of their printed id, newest first.
    /// The agent's own conversation of its newest run in this directory that has one.
    pub async fn conversation(
        &self,
        agent: &str,
        cwd: &str,
    ) -> Result<Option<Conversation>, Error> {
        self.shared.sqlite.conversation(agent, cwd).await
    }

    /// The agent's own conversation of this run, if it is worth taking up.
    pub async fn conversation_of(&self, run: RunId) -> Result<Option<Conversation>, Error> {
        self.shared.sqlite.conversation_of(run).await
    }

    pub async fn find_runs(&self, given: &str, limit: usize) -> Result<Vec<RunId>, Error> {
        self.shared.sqlite.find_runs(given, limit).await
    }

    /// The redacted launch plan, as JSON.
    pub async fn plan(&self, run: RunId) -> Result<Option<Vec<u8>>, Error> {
        self.shared.sqlite.plan(run).await
    }

    /// What was spent, by some of day, agent, adapter and model; newest days first.
    pub async fn costs(&self, query: CostsQuery) -> Result<Vec<CostRow>, Error> {
        self.shared.sqlite.costs(query).await
    }

    /// The runs of a task, oldest first.
    pub async fn task_runs(&self, task: TaskId) -> Result<Vec<RunRow>, Error> {
        self.shared.sqlite.task_runs(task).await
    }

    pub async fn task(&self, id: TaskId) -> Result<Option<TaskRow>, Error> {
        self.shared.sqlite.task(id).await
    }

    /// The task of a run, also of one that was asked for and has not begun.
    pub async fn task_of(&self, run: RunId) -> Result<Option<TaskRow>, Error> {
        self.shared.sqlite.task_of(run).await
    }

    /// Where a task stands that waits for a slot; `None` when it does not, or no longer.
    pub async fn standing(&self, task: TaskId) -> Result<Option<Standing>, Error> {
        self.shared.sqlite.standing(task).await
    }

    /// Everyone who waits for a slot, line by line in the order of their turns, each with how many
    /// are in front.
    pub async fn lines(&self, limit: usize) -> Result<Vec<(TaskRow, u64)>, Error> {
        self.shared.sqlite.lines(limit).await
    }

    /// Oldest first.
    pub async fn tasks(&self, page: TasksPage) -> Result<Vec<TaskRow>, Error> {
        self.shared.sqlite.tasks(page).await
    }

    /// Canonical bytes, untouched, after a number.
    pub async fn events(
        &self,
        run: RunId,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, Error> {
        Ok(self.shared.sqlite.page(run, after_seq, limit).await?.events)
    }

    /// What was said about a task, over all its runs, in order: the last of it.
    pub async fn comments(&self, task: TaskId) -> Result<Vec<StoredEvent>, Error> {
        self.shared.sqlite.of_task(task, seal::TaskEvent::Comment, PAGE_EVENTS_MAX).await
    }

    /// The last report of how the work on a task stands.
    pub async fn last_progress(&self, task: TaskId) -> Result<Option<StoredEvent>, Error> {
        Ok(self.shared.sqlite.of_task(task, seal::TaskEvent::Progress, 1).await?.pop())
    }

    /// Wishes that no Batch has taken, in the order they came.
    pub async fn inbox(&self, run: RunId) -> Result<Vec<Command>, Error> {
        self.shared.sqlite.inbox(run).await
    }

    /// Where the last Batch of an unsettled run stopped; `None` before its first.
    pub async fn resume_point(&self, run: RunId) -> Result<Option<ResumePoint>, Error> {
        self.shared.sqlite.resume_point(run).await
    }

    /// A cursor over a run's events that waits at the end until the run is settled.
    pub fn follow(&self, run: RunId, after_seq: u64) -> Follower<Self> {
        Backend::follow(self, run, after_seq)
    }

    /// Wakes the driver of a run when its inbox may have changed.
    pub fn inbox_changed(&self, run: RunId) -> Waiter {
        self.shared.feed.watch(Topic::Inbox(run))
    }

    /// Tells whoever listens to look somewhere again, for what changed beside the store.
    pub fn hint(&self, hint: Hint) {
        self.shared.feed.hint(hint);
    }

    /// Hints about all runs, tasks and agents: bounded, and lossy by design.
    pub fn feed(&self) -> Hints {
        self.shared.feed.hints()
    }

    /// The whole of a field that was cut.
    pub fn blob(&self, hash: &str) -> Result<Option<Vec<u8>>, Error> {
        self.shared.blobs.read(hash)
    }

    /// An event with every cut field made whole again from its blob, as JSON for `--full`.
    pub fn whole(&self, event: &[u8]) -> Result<serde_json::Value, Error> {
        self.shared.blobs.whole(event)
    }

    /// Where a blob is, if the name can be that of one.
    pub fn blob_path(&self, hash: &str) -> Option<PathBuf> {
        self.shared.blobs.path(hash)
    }

    /// The trace of a new run, of at most so many bytes; nothing is made before its first line.
    pub fn new_trace(&self, run: RunId, bytes_max: u64) -> Trace {
        Trace::new(trace::path(&self.shared.traces, run), bytes_max)
    }

    /// The trace of a run that is taken over, as its last Batch left it.
    pub fn resume_trace(&self, run: RunId, mark: TraceMark) -> Result<Trace, Error> {
        Trace::resume(trace::path(&self.shared.traces, run), mark)
    }

    /// What is kept of a run's raw output; `None` when nothing is.
    pub fn read_trace(&self, run: RunId) -> Result<Option<TraceReader>, Error> {
        TraceReader::open(&trace::path(&self.shared.traces, run))
    }

    /// Keeps a token of the API, by its hash. A name is given once.
    pub async fn add_token(&self, token: NewToken) -> Result<(), Error> {
        self.shared.sqlite.add_token(token).await
    }

    /// Takes a token away; false when there was none.
    pub async fn revoke_token(&self, token: TokenId) -> Result<bool, Error> {
        self.shared.sqlite.revoke_token(token).await
    }

    /// The tokens that are good now, oldest first: so many that come after this one.
    pub async fn tokens(
        &self,
        now: Timestamp,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<Vec<TokenRow>, Error> {
        self.shared.sqlite.tokens(now, after, limit).await
    }

    /// The token with this hash, if it is good now.
    pub async fn token(&self, now: Timestamp, hash: [u8; 32]) -> Result<Option<TokenRow>, Error> {
        self.shared.sqlite.token(now, hash).await
    }

    /// What was answered to a request under its caller's key; the first one sets the key aside.
    pub async fn answer_for(&self, key: AnswerKey) -> Result<Kept, Error> {
        self.shared.sqlite.answer_for(key).await
    }

    /// Keeps the answer to a request that was set aside.
    pub async fn keep_answer(
        &self,
        key: AnswerKey,
        status: u16,
        body: Sealed,
    ) -> Result<(), Error> {
        self.shared.sqlite.keep_answer(key, status, body).await
    }

    /// Waits until everything queued is durable and ends the writer; verbs answer `Closed` after.
    pub async fn close(&self) {
        self.shared.sqlite.close().await;
    }
}

impl Backend for Store {
    type Watch = Waiter;

    async fn enqueue(&self, task: NewTask) -> Result<TaskId, Error> {
        Store::enqueue(self, task).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, Error> {
        Store::claim(self, claim).await
    }

    async fn renew(&self, run: RunId, fence: u64, expires_at: Timestamp) -> Result<(), Error> {
        Store::renew(self, run, fence, expires_at).await
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, Error> {
        Store::commit(self, batch).await
    }

    async fn command(&self, command: NewCommand) -> Result<(), Error> {
        Store::command(self, command).await
    }

    async fn reap_but(&self, now: Timestamp, held: Vec<RunId>) -> Result<Vec<Reaped>, Error> {
        Store::reap_but(self, now, held).await
    }

    async fn reap_seen(&self, now: Timestamp, seen: Vec<Seen>) -> Result<Vec<Reaped>, Error> {
        Store::reap_seen(self, now, seen).await
    }

    async fn reserve(&self, reserve: Reserve) -> Result<(), Error> {
        Store::reserve(self, reserve).await
    }

    async fn move_task(&self, step: TaskMove) -> Result<(), Error> {
        Store::move_task(self, step).await
    }

    async fn recall(&self, task: TaskId, fence: u64) -> Result<(), Error> {
        Store::recall(self, task, fence).await
    }

    async fn change_budget(&self, step: BudgetStep) -> Result<(), Error> {
        Store::change_budget(self, step).await
    }

    async fn again(&self, which: Again) -> Result<u64, Error> {
        Store::again(self, which).await
    }

    async fn comment(&self, comment: NewComment) -> Result<(), Error> {
        Store::comment(self, comment).await
    }

    async fn comments_of(&self, task: TaskId) -> Result<Vec<CommentRow>, Error> {
        Store::comments_of(self, task).await
    }

    async fn heads(&self) -> Result<Vec<Head>, Error> {
        Store::heads(self).await
    }

    async fn crowds(&self, page: CrowdsPage) -> Result<Vec<Head>, Error> {
        Store::crowds(self, page).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        Store::next_due(self).await
    }

    async fn standing(&self, task: TaskId) -> Result<Option<Standing>, Error> {
        Store::standing(self, task).await
    }

    async fn run(&self, id: RunId) -> Result<Option<RunRow>, Error> {
        Store::run(self, id).await
    }

    async fn runs(&self, page: RunsPage) -> Result<Vec<RunRow>, Error> {
        Store::runs(self, page).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<TaskRow>, Error> {
        Store::task(self, id).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<Command>, Error> {
        Store::inbox(self, run).await
    }

    async fn resume_point(&self, run: RunId) -> Result<Option<ResumePoint>, Error> {
        Store::resume_point(self, run).await
    }

    async fn page(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Page, Error> {
        self.shared.sqlite.page(run, after_seq, limit).await
    }

    fn watch(&self, run: RunId) -> Waiter {
        self.shared.feed.watch(Topic::Events(run))
    }
}
