//! The one writer. A thread of its own takes jobs from a bounded queue and commits in groups
//! without a timer: whatever arrived while the last commit ran goes into the next one, so a lone
//! job waits for nothing and a burst shares one sync. A job that fails is rolled back to its
//! savepoint and fails alone. Answers and wake-ups leave after the commit, never before. A sync that
//! failed is the end of it (`failure.rs`).

use crate::blocking::blocking;
use crate::error::Error;
use crate::failure::Failure;
use crate::feed::{Feed, Hint, Topic};
use contract::limits::{BATCH_BYTES_MAX, WRITER_QUEUE_MAX};
use failpoint::Point;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Jobs in one commit, so that the first of them does not wait for a whole queue.
const GROUP_JOBS_MAX: usize = 256;
/// Bytes in one commit, so that a group stays a small part of the memory.
const GROUP_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX;
/// A checkpoint is made when this much was written and nobody waits.
const CHECKPOINT_BYTES: usize = failpoint::shrunk(4 * 1024 * 1024, 16) as usize;
/// And when this much was written, whoever waits: the log may not grow without end.
const CHECKPOINT_BYTES_MAX: usize = 4 * CHECKPOINT_BYTES;
/// What a job costs in the log besides its own bytes, roughly: a few pages.
const JOB_BYTES: usize = 16 * 1024;

/// What to tell watchers once the job is durable.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wake {
    Events(Hint),
    Inbox(contract::RunId),
}

/// What a job did, and whom it concerns.
pub(super) struct Did<T> {
    pub value: T,
    pub wakes: Vec<Wake>,
}

impl<T> Did<T> {
    pub fn quietly(value: T) -> Self {
        Self { value, wakes: Vec::new() }
    }
}

enum Message {
    Job(Box<dyn Job>),
    Close,
}

trait Job: Send {
    /// Runs inside a savepoint; false when it is to be rolled back.
    fn perform(&mut self, connection: &Connection) -> bool;
    /// Answers after the commit, or after its failure.
    fn finish(self: Box<Self>, committed: Result<(), Error>, feed: &Feed);
    fn bytes(&self) -> usize;
    /// Why it is to be rolled back.
    fn error(&self) -> Option<Error>;
}

struct Pending<T, F> {
    work: Option<F>,
    did: Option<Result<Did<T>, Error>>,
    reply: oneshot::Sender<Result<T, Error>>,
    bytes: usize,
}

impl<T, F> Job for Pending<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<Did<T>, Error> + Send,
{
    fn perform(&mut self, connection: &Connection) -> bool {
        let did = self.work.take().map(|work| work(connection));
        let keep = matches!(did, Some(Ok(_)));
        self.did = did;
        keep
    }

    fn finish(self: Box<Self>, committed: Result<(), Error>, feed: &Feed) {
        let (answer, wakes) = match (self.did, committed) {
            (Some(Ok(did)), Ok(())) => (Ok(did.value), did.wakes),
            (Some(Err(error)), _) | (_, Err(error)) => (Err(error), Vec::new()),
            (None, Ok(())) => (Err(Error::Closed), Vec::new()),
        };
        // First whoever asked, who waits for this alone. It may have gone; what was committed stands.
        let _ = self.reply.send(answer);
        wakes.into_iter().for_each(|wake| tell(wake, feed));
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn error(&self) -> Option<Error> {
        self.did.as_ref().and_then(|did| did.as_ref().err().cloned())
    }
}

fn tell(wake: Wake, feed: &Feed) {
    match wake {
        Wake::Events(hint) => {
            if let Hint::Run { run, .. } = hint {
                feed.wake(Topic::Events(run));
            }
            feed.hint(hint);
        }
        Wake::Inbox(run) => feed.wake(Topic::Inbox(run)),
    }
}

/// The way to the writer. Ends it when dropped.
pub(super) struct Writer {
    queue: mpsc::Sender<Message>,
    thread: Mutex<Option<JoinHandle<()>>>,
    failure: Failure,
}

impl Writer {
    pub fn start(connection: Connection, feed: Feed, failure: Failure) -> Result<Self, Error> {
        let (queue, jobs) = mpsc::channel(WRITER_QUEUE_MAX);
        let writes = Loop { connection, feed, failure: failure.clone(), written: 0 };
        let span = tracing::info_span!("task", task_name = "store writer");
        #[expect(
            clippy::disallowed_methods,
            reason = "the writer is joined at the close, and its panic fails every caller"
        )]
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || span.in_scope(|| writes.run(jobs)))
            .map_err(|cause| Error::io("starting the store's writer", cause))?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)), failure })
    }

    /// Queues a job of about this many bytes and waits until it is durable or refused. The job is
    /// done even if the caller stops waiting.
    pub async fn submit<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Connection) -> Result<Did<T>, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job = Pending { work: Some(work), did: None, reply, bytes: bytes + JOB_BYTES };
        self.failure.check()?;
        let closed = |_| self.failure.or_closed();
        self.queue.send(Message::Job(Box::new(job))).await.map_err(closed)?;
        // The writer answers every job it takes, unless it broke down in the middle.
        answer.await.unwrap_or(Err(Error::Unacknowledged))
    }

    /// The same for whoever may not wait any other way.
    pub fn submit_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<Did<T>, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job = Pending { work: Some(work), did: None, reply, bytes: JOB_BYTES };
        self.failure.check()?;
        let closed = |_| self.failure.or_closed();
        self.queue.blocking_send(Message::Job(Box::new(job))).map_err(closed)?;
        answer.blocking_recv().unwrap_or(Err(Error::Unacknowledged))
    }

    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Waits until everything queued so far is durable, and ends the thread.
    pub async fn close(&self) {
        // Without a receiver the thread has ended already.
        let _ = self.queue.send(Message::Close).await;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            match blocking("closing the store", move || thread.join()).await {
                Ok(Ok(())) => {}
                Ok(Err(_panic)) => tracing::error!("the thread that writes the store panicked"),
                Err(error) => tracing::error!(%error, "the store was not closed in order"),
            }
        }
    }
}

struct Loop {
    connection: Connection,
    feed: Feed,
    failure: Failure,
    /// Bytes since the last checkpoint.
    written: usize,
}

impl Loop {
    fn run(mut self, mut jobs: mpsc::Receiver<Message>) {
        let mut open = true;
        while open {
            let Some(first) = jobs.blocking_recv() else { break };
            let mut group = Vec::new();
            let mut bytes = 0;
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Job(job) => {
                        bytes += job.bytes();
                        group.push(job);
                    }
                    Message::Close => {
                        open = false;
                        break;
                    }
                }
                let full = group.len() >= GROUP_JOBS_MAX || bytes >= GROUP_BYTES_MAX;
                next = if full { None } else { jobs.try_recv().ok() };
            }
            self.commit(group);
            self.written += bytes;
            let wanted = self.written >= CHECKPOINT_BYTES && jobs.is_empty();
            if wanted || self.written >= CHECKPOINT_BYTES_MAX {
                self.checkpoint("PASSIVE");
            }
            open = open && self.failure.get().is_none();
        }
        jobs.close();
        // Also for whoever has a place in the queue and is about to use it: nobody else would answer.
        while let Some(message) = jobs.blocking_recv() {
            if let Message::Job(job) = message {
                job.finish(Err(self.failure.or_closed()), &self.feed);
            }
        }
        match self.failure.get() {
            None => self.checkpoint("TRUNCATE"),
            // Nothing may be moved any more, not even by closing.
            Some(_) => {
                let no_checkpoint = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
                if let Err(error) = self.connection.set_db_config(no_checkpoint, true) {
                    tracing::error!(%error, "the store may make a checkpoint after a failed sync");
                }
            }
        }
    }

    fn commit(&self, mut group: Vec<Box<dyn Job>>) {
        if group.is_empty() {
            return;
        }
        let committed = match self.failure.check() {
            Ok(()) => self.transact(&mut group),
            failed => failed,
        };
        if let Err(error) = &committed {
            self.failure.note(error);
        }
        failpoint::hit(Point::CommitAfter);
        for job in group {
            job.finish(committed.clone(), &self.feed);
        }
        failpoint::hit(Point::Answered);
    }

    fn transact(&self, group: &mut [Box<dyn Job>]) -> Result<(), Error> {
        let failed = |cause| {
            let error = Error::sqlite("committing", cause);
            if !self.connection.is_autocommit() {
                // What could not be committed must not be taken along by the next group. If this fails,
                // the next group fails at its BEGIN.
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            error
        };
        self.run_sql("BEGIN IMMEDIATE").map_err(failed)?;
        for job in group {
            self.run_sql("SAVEPOINT job").map_err(failed)?;
            if !job.perform(&self.connection) {
                if let Some(error @ Error::Unsynced { .. }) = job.error() {
                    // After an error that is final nothing is committed any more.
                    let _ = self.connection.execute_batch("ROLLBACK");
                    return Err(error);
                }
                if self.connection.is_autocommit() {
                    // A full disk or a failed read ends the whole transaction, not one statement.
                    return Err(job.error().unwrap_or(Error::Unacknowledged));
                }
                self.run_sql("ROLLBACK TO job").map_err(failed)?;
            }
            self.run_sql("RELEASE job").map_err(failed)?;
        }
        failpoint::hit(Point::CommitBefore);
        self.run_sql("COMMIT").map_err(failed)
    }

    fn run_sql(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    /// Only the writer makes checkpoints. One that readers hold up is made later.
    fn checkpoint(&mut self, mode: &str) {
        failpoint::hit(Point::CheckpointBefore);
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        if let Err(cause) = self.connection.query_row(&sql, [], |_| Ok(())) {
            let error = Error::sqlite("making a checkpoint", cause);
            tracing::warn!(mode, %error, "a checkpoint failed; it is tried again with later writes");
            self.failure.note(&error);
        }
        self.written = 0;
        failpoint::hit(Point::CheckpointAfter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(connection: &Connection, bytes: usize) -> Result<Did<()>, Error> {
        connection.execute("INSERT INTO t VALUES (zeroblob(?1))", [bytes as i64])?;
        Ok(Did::quietly(()))
    }

    #[tokio::test]
    async fn a_full_disk_is_said_and_the_next_group_is_tried_afresh() {
        let dir = tempfile::TempDir::new().unwrap();
        let connection = Connection::open(dir.path().join("t.db")).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        connection.pragma_update(None, "max_page_count", 20).unwrap();
        let writer = Writer::start(connection, Feed::new(), Failure::default()).unwrap();
        let (small, large, after) = tokio::join!(
            writer.submit(0, |connection| insert(connection, 10)),
            writer.submit(0, |connection| insert(connection, 1_000_000)),
            writer.submit(0, |connection| insert(connection, 10)),
        );
        assert!(matches!(large, Err(Error::DiskFull { .. })), "{large:?}");
        let landed = [small.is_ok(), after.is_ok()].iter().filter(|ok| **ok).count() as i64;
        writer.submit(0, |connection| insert(connection, 10)).await.unwrap();
        let rows = writer
            .submit(0, |connection| {
                let sql = "SELECT count(*) FROM t";
                Ok(Did::quietly(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?))
            })
            .await;
        assert_eq!(rows.unwrap(), landed + 1, "what was answered is what is there");
    }

    #[tokio::test]
    async fn a_job_whose_caller_went_away_is_done_all_the_same() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        let writer = Writer::start(connection, Feed::new(), Failure::default()).unwrap();
        let gone = writer.submit(0, |connection| insert(connection, 10));
        let waited = tokio::time::timeout(std::time::Duration::ZERO, gone).await;
        let rows = writer
            .submit(0, |connection| {
                let sql = "SELECT count(*) FROM t";
                Ok(Did::quietly(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?))
            })
            .await;
        assert_eq!(rows.unwrap(), 1, "{waited:?}");
        writer.close().await;
        let refused = writer.submit(0, |connection| insert(connection, 10)).await;
        assert!(matches!(refused, Err(Error::Closed)));
    }

    #[tokio::test]
    async fn a_job_that_is_being_handed_over_while_the_writer_ends_is_answered() {
        let connection = Connection::open_in_memory().unwrap();
        let writer = Writer::start(connection, Feed::new(), Failure::default()).unwrap();
        let handing_over = writer.queue.reserve().await.unwrap();
        writer.queue.send(Message::Close).await.unwrap();
        while !writer.queue.is_closed() {
            tokio::task::yield_now().await;
        }
        // Time enough for a writer that does not wait for it to be gone.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let (reply, answer) = oneshot::channel();
        let work = |connection: &Connection| insert(connection, 10);
        let job = Pending { work: Some(work), did: None, reply, bytes: 0 };
        handing_over.send(Message::Job(Box::new(job)));
        let answered = tokio::time::timeout(std::time::Duration::from_secs(10), answer).await;
        assert!(matches!(answered, Ok(Ok(Err(Error::Closed)))), "{answered:?}");
    }

    #[tokio::test]
    async fn after_a_sync_that_failed_nothing_is_written_or_said_to_be() {
        use rusqlite::ffi;
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("t.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        let failure = Failure::default();
        let writer = Writer::start(connection, Feed::new(), failure.clone()).unwrap();
        writer.submit(0, |connection| insert(connection, 10)).await.unwrap();
        let failing = |connection: &Connection| -> Result<Did<()>, Error> {
            insert(connection, 10)?;
            Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_FSYNC), None))?
        };
        let (before, fails, after) = tokio::join!(
            writer.submit(0, |connection| insert(connection, 10)),
            writer.submit(0, failing),
            writer.submit(0, |connection| insert(connection, 10)),
        );
        assert!(matches!(fails, Err(Error::Unsynced { .. })), "{fails:?}");
        assert!(matches!(after, Err(Error::Unsynced { .. })), "{after:?}");
        let later = writer.submit(0, |connection| insert(connection, 10)).await;
        assert!(matches!(later, Err(Error::Unsynced { .. })), "{later:?}");
        writer.close().await;
        let afresh = Connection::open(&path).unwrap();
        let rows: i64 = afresh.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 1 + i64::from(before.is_ok()), "what was answered is what is there");
    }
}
