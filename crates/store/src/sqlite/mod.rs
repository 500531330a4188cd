//! The SQLite backend: one writer thread, four readers beside it, one file. The only place that
//! opens connections. Verbs are in `verbs.rs` and `commit.rs`, reads in `reads.rs`, the thread in
//! `writer.rs`, the schema in `schema.rs`.

mod access;
mod agents;
#[cfg(test)]
mod alone;
mod commit;
mod counts;
mod exact;
mod ledger;
mod queue;
mod reads;
mod removal;
mod schema;
mod scope;
mod verbs;
mod writer;

use crate::access::{AnswerKey, Kept, NewToken, TokenRow};
use crate::batch::*;
use crate::error::Error;
use crate::failure::Failure;
use crate::feed::Feed;
use crate::queue::*;
use crate::row::*;
use crate::scope::{QuotaRow, QuotaStep, ScopeSum, StartLook, Surroundings, Within};
use crate::seal::{Sealed, TaskEvent};
use contract::{Command, RunId, TaskId, Timestamp, TokenId};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;
use writer::Writer;

const READERS: usize = 4;
const BUSY: Duration = Duration::from_secs(5);
/// More statements than any connection uses.
const STATEMENTS: usize = 64;

pub(crate) struct Sqlite {
    writer: Writer,
    readers: Arc<Readers>,
}

impl Sqlite {
    pub fn open(path: &Path, feed: Feed, failure: Failure) -> Result<Self, Error> {
        let mut connection = open_writer(path)
            .map_err(|cause| Error::sqlite(format!("opening {}", path.display()), cause))?;
        #[cfg(test)]
        crate::tests::powercut::weaken(&connection)?;
        schema::migrate(&mut connection)?;
        let writer = Writer::start(connection, feed, failure.clone())?;
        let readers = Arc::new(Readers::new(path.to_owned(), failure));
        Ok(Self { writer, readers })
    }

    pub async fn enqueue(&self, task: NewTask) -> Result<TaskId, Error> {
        let bytes = task.body.bytes().len() + task.prompt.bytes().len();
        self.writer.submit(bytes, move |connection| verbs::enqueue(connection, &task)).await
    }

    pub async fn claim(&self, claim: Claim) -> Result<Claimed, Error> {
        let bytes = claim.plan.bytes().len();
        self.writer.submit(bytes, move |connection| verbs::claim(connection, &claim)).await
    }

    pub async fn begin(
        &self,
        task: NewTask,
        claim: Claim,
        batch: Batch,
        within: Within,
    ) -> Result<Committed, Error> {
        let bytes = task.prompt.bytes().len() + claim.plan.bytes().len() + size(&batch);
        let begin = move |connection: &Connection| {
            // That it was queued is over before anyone could hear of it.
            verbs::enqueue(connection, &task)?;
            let claimed = verbs::claim(connection, &claim)?;
            scope::admit(connection, claim.run, &within)?;
            failpoint::hit(failpoint::Point::RunPut);
            let mut done = commit::commit(connection, &batch)?;
            done.wakes.splice(0..0, claimed.wakes);
            Ok(done)
        };
        self.writer.submit(bytes, begin).await
    }

    pub async fn renew(&self, run: RunId, fence: u64, expires_at: Timestamp) -> Result<(), Error> {
        self.writer
            .submit(0, move |connection| verbs::renew(connection, run, fence, expires_at))
            .await
    }

    pub async fn commit(&self, batch: Batch) -> Result<Committed, Error> {
        let bytes = size(&batch);
        self.writer.submit(bytes, move |connection| commit::commit(connection, &batch)).await
    }

    pub async fn command(&self, command: NewCommand) -> Result<(), Error> {
        let bytes = command.wish.bytes().len();
        self.writer.submit(bytes, move |connection| verbs::command(connection, &command)).await
    }

    pub async fn reap(&self, now: Timestamp, held: Vec<RunId>) -> Result<Vec<Reaped>, Error> {
        self.writer.submit(0, move |connection| verbs::reap(connection, now, &held)).await
    }

    pub async fn reap_seen(&self, now: Timestamp, seen: Vec<Seen>) -> Result<Vec<Reaped>, Error> {
        self.writer.submit(0, move |connection| verbs::reap_seen(connection, now, &seen)).await
    }

    pub async fn reserve(&self, reserve: Reserve) -> Result<(), Error> {
        self.writer.submit(0, move |connection| verbs::reserve(connection, &reserve)).await
    }

    pub async fn reserve_all(&self, reserves: Vec<Reserve>) -> Result<(), Error> {
        let all = move |connection: &Connection| {
            for reserve in &reserves {
                verbs::reserve(connection, reserve)?;
            }
            Ok(writer::Did::quietly(()))
        };
        self.writer.submit(0, all).await
    }

    pub async fn move_task(&self, step: TaskMove) -> Result<(), Error> {
        self.writer.submit(0, move |connection| verbs::move_task(connection, &step)).await
    }

    pub async fn recall(&self, task: TaskId, fence: u64) -> Result<(), Error> {
        self.writer.submit(0, move |connection| queue::recall(connection, task, fence)).await
    }

    pub async fn change_budget(&self, step: BudgetStep) -> Result<(), Error> {
        self.writer.submit(0, move |connection| queue::change_budget(connection, &step)).await
    }

    pub async fn again(&self, which: Again) -> Result<u64, Error> {
        self.writer.submit(0, move |connection| queue::again(connection, which)).await
    }

    pub async fn comment(&self, comment: NewComment) -> Result<(), Error> {
        let bytes = comment.text.bytes().len();
        self.writer.submit(bytes, move |connection| queue::comment(connection, &comment)).await
    }

    pub async fn comments_of(&self, task: TaskId, limit: usize) -> Result<Vec<CommentRow>, Error> {
        self.readers.read(move |connection| queue::comments(connection, task, limit)).await
    }

    pub async fn heads(&self) -> Result<Vec<Head>, Error> {
        self.readers.read(queue::heads).await
    }

    pub async fn crowds(&self, page: CrowdsPage) -> Result<Vec<Head>, Error> {
        self.readers.read(move |connection| queue::crowds(connection, &page)).await
    }

    pub async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.readers.read(queue::next_due).await
    }

    pub async fn dependencies(&self, task: TaskId) -> Result<Vec<TaskId>, Error> {
        self.readers.read(move |connection| queue::dependencies(connection, task)).await
    }

    pub async fn children(&self, task: TaskId) -> Result<Children, Error> {
        self.readers.read(move |connection| queue::children(connection, task)).await
    }

    pub async fn runs_of(&self, task: TaskId, limit: usize) -> Result<Vec<RunId>, Error> {
        self.readers.read(move |connection| queue::runs_of(connection, task, limit)).await
    }

    pub async fn find_tasks(&self, given: &str, limit: usize) -> Result<Vec<TaskId>, Error> {
        let given = given.to_owned();
        self.readers.read(move |connection| reads::find_tasks(connection, &given, limit)).await
    }

    pub async fn step_quota(&self, step: QuotaStep) -> Result<(), Error> {
        self.writer.submit(0, move |connection| scope::step(connection, &step)).await
    }

    pub async fn tell_quota(
        &self,
        of: String,
        windows: Sealed,
        at: Timestamp,
    ) -> Result<(), Error> {
        let bytes = windows.bytes().len();
        let told = move |connection: &Connection| scope::told(connection, &of, &windows, at);
        self.writer.submit(bytes, told).await
    }

    pub async fn quota(&self, of: &str) -> Result<Option<QuotaRow>, Error> {
        let of = of.to_owned();
        self.readers.read(move |connection| scope::quota(connection, &of)).await
    }

    pub async fn quotas(&self, after: &str, limit: usize) -> Result<Vec<QuotaRow>, Error> {
        let after = after.to_owned();
        self.readers.read(move |connection| scope::quotas(connection, &after, limit)).await
    }

    pub async fn quota_runs(&self, of: &str, limit: usize) -> Result<Vec<RunId>, Error> {
        let of = of.to_owned();
        self.readers.read(move |connection| scope::live(connection, &of, limit)).await
    }

    pub async fn quota_of(&self, run: RunId) -> Result<Option<String>, Error> {
        self.readers.read(move |connection| scope::of_run(connection, run)).await
    }

    pub async fn surroundings(&self, of: StartLook) -> Result<Surroundings, Error> {
        self.readers.read_here(|connection| scope::surroundings(connection, &of)).await
    }

    pub async fn lineage(&self, task: TaskId) -> Result<Vec<TaskRow>, Error> {
        self.readers.read(move |connection| reads::lineage(connection, task)).await
    }

    pub async fn scope_sum(&self, of: &str, since: Timestamp) -> Result<ScopeSum, Error> {
        let of = of.to_owned();
        self.readers.read(move |connection| scope::sum(connection, &of, since)).await
    }

    /// Writes what is there already, durably.
    pub async fn probe(&self) -> Result<(), Error> {
        self.writer.submit(0, verbs::probe).await
    }

    pub async fn run(&self, id: RunId) -> Result<Option<RunRow>, Error> {
        self.readers.read(move |connection| reads::run(connection, id)).await
    }

    pub async fn runs(&self, page: RunsPage) -> Result<Vec<RunRow>, Error> {
        self.readers.read(move |connection| reads::runs(connection, page)).await
    }

    pub async fn find_runs(&self, given: &str, limit: usize) -> Result<Vec<RunId>, Error> {
        let given = given.to_owned();
        self.readers.read(move |connection| reads::find_runs(connection, &given, limit)).await
    }

    pub async fn conversation(
        &self,
        agent: &str,
        cwd: &str,
    ) -> Result<Option<Conversation>, Error> {
        let (agent, cwd) = (agent.to_owned(), cwd.to_owned());
        self.readers.read(move |connection| reads::conversation(connection, &agent, &cwd)).await
    }

    pub async fn conversation_of(&self, run: RunId) -> Result<Option<Conversation>, Error> {
        self.readers.read(move |connection| reads::conversation_of(connection, run)).await
    }

    pub async fn plan(&self, run: RunId) -> Result<Option<Vec<u8>>, Error> {
        self.readers.read(move |connection| reads::plan(connection, run)).await
    }

    pub async fn costs(&self, query: CostsQuery) -> Result<Vec<CostRow>, Error> {
        self.readers.read(move |connection| ledger::costs(connection, query)).await
    }

    pub async fn task_runs(&self, task: TaskId) -> Result<Vec<RunRow>, Error> {
        self.readers.read(move |connection| reads::task_runs(connection, task)).await
    }

    pub async fn task(&self, id: TaskId) -> Result<Option<TaskRow>, Error> {
        self.readers.read(move |connection| reads::task(connection, id)).await
    }

    pub async fn tasks(&self, page: TasksPage) -> Result<Vec<TaskRow>, Error> {
        self.readers.read(move |connection| reads::tasks(connection, page)).await
    }

    pub async fn task_of(&self, run: RunId) -> Result<Option<TaskRow>, Error> {
        self.readers.read(move |connection| reads::task_of(connection, run)).await
    }

    pub async fn standing(&self, task: TaskId) -> Result<Option<Standing>, Error> {
        self.readers.read(move |connection| reads::standing(connection, task)).await
    }

    pub async fn lines(&self, limit: usize) -> Result<Vec<(TaskRow, u64)>, Error> {
        self.readers.read(move |connection| reads::lines(connection, limit)).await
    }

    pub async fn page(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Page, Error> {
        self.readers.read(move |connection| reads::page(connection, run, after_seq, limit)).await
    }

    pub async fn of_task(
        &self,
        task: TaskId,
        kind: TaskEvent,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, Error> {
        self.readers.read(move |connection| reads::of_task(connection, task, kind, limit)).await
    }

    pub async fn inbox(&self, run: RunId) -> Result<Vec<Command>, Error> {
        self.readers.read(move |connection| reads::inbox(connection, run)).await
    }

    pub async fn resume_point(&self, run: RunId) -> Result<Option<ResumePoint>, Error> {
        self.readers.read(move |connection| reads::resume_point(connection, run)).await
    }

    pub async fn add_token(&self, token: NewToken) -> Result<(), Error> {
        self.writer.submit(0, move |connection| access::add_token(connection, &token)).await
    }

    pub async fn revoke_token(&self, token: TokenId) -> Result<bool, Error> {
        self.writer.submit(0, move |connection| access::revoke_token(connection, token)).await
    }

    pub async fn tokens(
        &self,
        now: Timestamp,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<Vec<TokenRow>, Error> {
        self.readers.read(move |connection| access::tokens(connection, now, after, limit)).await
    }

    pub async fn token(&self, now: Timestamp, hash: [u8; 32]) -> Result<Option<TokenRow>, Error> {
        self.readers.read(move |connection| access::token(connection, now, hash)).await
    }

    pub async fn answer_for(&self, key: AnswerKey) -> Result<Kept, Error> {
        self.writer.submit(0, move |connection| access::answer_for(connection, &key)).await
    }

    pub async fn keep_answer(
        &self,
        key: AnswerKey,
        status: u16,
        body: Sealed,
    ) -> Result<(), Error> {
        let keep =
            move |connection: &Connection| access::keep_answer(connection, &key, status, &body);
        self.writer.submit(0, keep).await
    }

    pub async fn close(&self) {
        self.readers.close();
        self.writer.close().await;
    }
}

/// What a Batch weighs in the writer's queue.
fn size(batch: &Batch) -> usize {
    let events: usize = batch.events.iter().map(|event| event.bytes.bytes().len()).sum();
    let states = [&batch.machine, &batch.dialect, &batch.host].map(|state| state.bytes().len());
    events + states.iter().sum::<usize>()
}

/// Read-only connections, opened when they are first needed.
struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    failure: Failure,
}

impl Readers {
    fn new(path: PathBuf, failure: Failure) -> Self {
        Self { path, idle: Mutex::default(), permits: Arc::new(Semaphore::new(READERS)), failure }
    }

    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.failure.check()?;
        let closed = |_| self.failure.or_closed();
        let permit = self.permits.clone().acquire_owned().await.map_err(closed)?;
        let (readers, (reply, answer)) = (self.clone(), oneshot::channel());
        // Boxed: for the runtime all reads are one kind of work, which is made once and not for each.
        let span = tracing::info_span!("task", task_name = "read store");
        let read: Box<dyn FnOnce() + Send> = Box::new(move || {
            // A panic is logged with the run that the caller works for.
            let (_permit, _entered) = (permit, span.entered());
            // Nobody may be left who waits.
            let _ = reply.send(readers.with_connection(work));
        });
        #[expect(
            clippy::disallowed_methods,
            reason = "the caller waits for the reply, and gets an error when the read panics"
        )]
        tokio::task::spawn_blocking(read);
        answer.await.map_err(|cause| Error::unreadable("reading", cause))?
    }

    /// The same on the caller's own thread: for a few rows by their keys, which are found sooner than
    /// another thread wakes.
    async fn read_here<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.failure.check()?;
        let closed = |_| self.failure.or_closed();
        let _permit = self.permits.acquire().await.map_err(closed)?;
        self.with_connection(work)
    }

    fn with_connection<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open_reader(&self.path)?,
        };
        let answer = work(&connection);
        self.idle().push(connection);
        answer
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.permits.close();
        self.idle().clear();
    }
}

/// The file exists with its mode before SQLite opens it; the log beside it takes the same mode.
fn open_writer(path: &Path) -> Result<Connection, rusqlite::Error> {
    let owner_only = || {
        OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))
    };
    owner_only().map_err(|cause| rusqlite::Error::ToSqlConversionFailure(Box::new(cause)))?;
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // An answer means durable, also when the power fails.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The writer makes checkpoints itself: one made on the side would hide that it failed.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -2000)?;
    keep_statements(&connection)?;
    Ok(connection)
}

pub(crate) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let doing = || format!("opening {} for reading", path.display());
    let open = || {
        let connection = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "cache_size", -512)?;
        keep_statements(&connection)?;
        Ok(connection)
    };
    open().map_err(|cause| Error::sqlite(doing(), cause))
}

/// A statement is made once and kept. Without the guarantee SQLite makes one anew for every value that
/// is bound to it, if a partial index might be chosen by that: most of ours.
fn keep_statements(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Ids are kept as their sixteen bytes, which sort by time.
fn blob_id(uuid: Uuid) -> [u8; 16] {
    uuid.into_bytes()
}

/// SQLite counts in signed numbers; nothing of ours comes near their end.
fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
