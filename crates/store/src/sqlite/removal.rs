//! The statements of deletion. Every one of them names a run that was deleted, or asks that it is
//! settled: nothing that lives is touched. Slices take whole spans, so that at every moment the
//! spans that are left name exactly the events that are.

use super::writer::{Did, Wake};
use super::{Sqlite, blob_id, count};
use crate::error::Error;
use crate::feed::Hint;
use crate::removal::Stale;
use contract::limits::PAGE_ROWS_MAX;
use contract::{RunId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::collections::BTreeSet;
#[cfg(test)]
use std::sync::mpsc::{Receiver, SyncSender};
use uuid::Uuid;

impl Sqlite {
    pub async fn delete_run(&self, run: RunId, at: Timestamp) -> Result<(), Error> {
        self.writer.submit(0, move |connection| delete(connection, run, at)).await
    }

    pub async fn remove_events(&self, run: RunId, events: usize) -> Result<bool, Error> {
        self.writer.submit(0, move |connection| remove_events(connection, run, events)).await
    }

    /// Asked behind everything that is queued: whoever was to name one may have left without
    /// waiting, and its Batch is committed all the same.
    pub async fn blobs_of(&self, run: RunId, limit: usize) -> Result<Vec<(String, bool)>, Error> {
        let look =
            move |connection: &Connection| blobs_of(connection, run, limit).map(Did::quietly);
        self.writer.submit(0, look).await
    }

    /// Those of these blobs that no run names; asked behind everything that is queued too.
    pub async fn unnamed(&self, hashes: Vec<String>) -> Result<Vec<String>, Error> {
        let look = move |connection: &Connection| unnamed(connection, hashes).map(Did::quietly);
        self.writer.submit(0, look).await
    }

    /// The blobs of a shelf that some run names.
    pub async fn named_on(&self, shelf: &str) -> Result<BTreeSet<String>, Error> {
        let shelf = shelf.to_owned();
        self.readers.read(move |connection| named_on(connection, &shelf)).await
    }

    pub async fn forget_blobs(&self, run: RunId, hashes: Vec<String>) -> Result<(), Error> {
        self.writer.submit(0, move |connection| forget_blobs(connection, run, &hashes)).await
    }

    pub async fn finish_removal(&self, run: RunId) -> Result<(), Error> {
        self.writer.submit(0, move |connection| finish(connection, run)).await
    }

    pub async fn half_deleted(&self, limit: usize) -> Result<Vec<RunId>, Error> {
        self.readers.read(move |connection| half_deleted(connection, limit)).await
    }

    pub async fn was_deleted(&self, run: RunId) -> Result<bool, Error> {
        self.readers.read(move |connection| was_deleted(connection, run)).await
    }

    pub async fn stale(&self, of: Stale) -> Result<Vec<RunId>, Error> {
        self.readers.read(move |connection| stale(connection, of)).await
    }

    pub async fn bytes_used(&self) -> Result<u64, Error> {
        self.readers.read(bytes_used).await
    }

    /// Keeps the writer from its next job: says when it has begun to, and waits to be told the end.
    #[cfg(test)]
    pub async fn hold(&self, begun: SyncSender<()>, until: Receiver<()>) -> Result<(), Error> {
        let wait = move |_: &Connection| {
            let _ = begun.send(());
            let _ = until.recv();
            Ok(Did::quietly(()))
        };
        self.writer.submit(0, wait).await
    }

    /// How many jobs wait for the writer.
    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.writer.queued()
    }

    /// Blocking, like the writing of the blob before it.
    pub fn name_blob(&self, run: RunId, hash: String) -> Result<(), Error> {
        self.writer.submit_blocking(move |connection| name_blob(connection, run, &hash))
    }
}

/// Hides a settled run, once.
fn delete(connection: &Connection, run: RunId, at: Timestamp) -> Result<Did<()>, Error> {
    let state: Option<(String, bool)> = connection
        .prepare_cached("SELECT state, deleted_at IS NOT NULL FROM runs WHERE id = ?1")?
        .query_row([blob_id(run.uuid())], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match state {
        None => return Err(Error::not_found(run)),
        Some((_, true)) => return Ok(Did::quietly(())),
        Some((state, false)) if state != "settled" => {
            return Err(Error::conflict(format!("{run} has not ended")));
        }
        Some((_, false)) => {}
    }
    connection
        .prepare_cached(
            "UPDATE runs SET deleted_at = ?2, native_session = NULL, prompt_preview = '', message = NULL,
                 fallback = NULL
             WHERE id = ?1 AND state = 'settled' AND deleted_at IS NULL",
        )?
        .execute(params![blob_id(run.uuid()), at.ms()])?;
    let hint = Hint::Run { run, head_seq: 0, settled: true };
    Ok(Did { value: (), wakes: vec![Wake::Events(hint)] })
}

/// Removes some of the events; true when there may be more.
pub(super) fn remove_events(
    connection: &Connection,
    run: RunId,
    events: usize,
) -> Result<Did<bool>, Error> {
    let num = deleted(connection, run)?;
    let mut spans = connection.prepare_cached(
        "SELECT first_seq, first_id, count FROM spans WHERE run = ?1 ORDER BY first_seq",
    )?;
    let mut rows = spans.query([num])?;
    let mut slice: Vec<(i64, i64, i64)> = Vec::new();
    let mut taken = 0;
    while taken < events
        && let Some(row) = rows.next()?
    {
        let span: (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        taken += usize::try_from(span.2).unwrap_or(usize::MAX);
        slice.push(span);
    }
    drop(rows);
    for (first_seq, first_id, count) in &slice {
        connection
            .prepare_cached("DELETE FROM events WHERE id BETWEEN ?1 AND ?2 AND run = ?3")?
            .execute(params![first_id, first_id + count - 1, num])?;
        connection
            .prepare_cached("DELETE FROM task_events WHERE run = ?1 AND event BETWEEN ?2 AND ?3")?
            .execute(params![num, first_id, first_id + count - 1])?;
        connection
            .prepare_cached("DELETE FROM spans WHERE run = ?1 AND first_seq = ?2")?
            .execute(params![num, first_seq])?;
    }
    Ok(Did::quietly(!slice.is_empty()))
}

/// Blobs that a run names, each with whether another names it too.
pub(super) fn blobs_of(
    connection: &Connection,
    run: RunId,
    limit: usize,
) -> Result<Vec<(String, bool)>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT n.hash, EXISTS (SELECT 1 FROM blob_names o WHERE o.hash = n.hash AND o.run <> n.run)
         FROM blob_names n JOIN runs r ON r.num = n.run
         WHERE r.id = ?1 AND r.deleted_at IS NOT NULL LIMIT ?2",
    )?;
    let rows = statement.query_map(params![blob_id(run.uuid()), limit as i64], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn unnamed(connection: &Connection, hashes: Vec<String>) -> Result<Vec<String>, Error> {
    let mut named = connection.prepare_cached("SELECT 1 FROM blob_names WHERE hash = ?1")?;
    let mut unnamed = Vec::new();
    for hash in hashes {
        if !named.exists([&hash])? {
            unnamed.push(hash);
        }
    }
    Ok(unnamed)
}

pub(super) fn named_on(connection: &Connection, shelf: &str) -> Result<BTreeSet<String>, Error> {
    // A name has hexadecimal digits alone, and all of them sort before this one.
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT hash FROM blob_names WHERE hash >= ?1 AND hash < ?1 || 'g'",
    )?;
    let rows = statement.query_map([shelf], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn forget_blobs(
    connection: &Connection,
    run: RunId,
    hashes: &[String],
) -> Result<Did<()>, Error> {
    let num = deleted(connection, run)?;
    for hash in hashes {
        connection
            .prepare_cached("DELETE FROM blob_names WHERE hash = ?1 AND run = ?2")?
            .execute(params![hash, num])?;
    }
    Ok(Did::quietly(()))
}

/// The last slice: what there is one of, and the words of a task that has no other run left.
pub(super) fn finish(connection: &Connection, run: RunId) -> Result<Did<()>, Error> {
    let num = deleted(connection, run)?;
    for table in ["plans", "commands"] {
        connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?
            .execute([num])?;
    }
    connection
        .prepare_cached(
            "UPDATE tasks SET title = '', body = '', prompt = '', system_prompt = NULL,
                 context = NULL
             WHERE id = (SELECT task FROM runs WHERE num = ?1)
                 AND state IN ('done', 'failed', 'cancelled')
                 AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.task = tasks.id AND r.deleted_at IS NULL)",
        )?
        .execute([num])?;
    connection
        .prepare_cached("UPDATE runs SET purged = 1 WHERE num = ?1 AND deleted_at IS NOT NULL")?
        .execute([num])?;
    Ok(Did::quietly(()))
}

/// The number of a run that was deleted.
fn deleted(connection: &Connection, run: RunId) -> Result<i64, Error> {
    connection
        .prepare_cached("SELECT num FROM runs WHERE id = ?1 AND deleted_at IS NOT NULL")?
        .query_row([blob_id(run.uuid())], |row| row.get(0))
        .optional()?
        .ok_or_else(|| Error::conflict(format!("{run} is not deleted")))
}

fn half_deleted(connection: &Connection, limit: usize) -> Result<Vec<RunId>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM runs WHERE deleted_at IS NOT NULL AND purged = 0 ORDER BY num LIMIT ?1",
    )?;
    ids(statement.query_map([limit.clamp(1, PAGE_ROWS_MAX) as i64], |row| row.get(0))?)
}

fn was_deleted(connection: &Connection, run: RunId) -> Result<bool, Error> {
    Ok(connection
        .prepare_cached("SELECT 1 FROM runs WHERE id = ?1 AND deleted_at IS NOT NULL")?
        .exists([blob_id(run.uuid())])?)
}

/// An open task needs its runs, for its next one is told of them; a live run needs the one whose
/// conversation it took up.
fn stale(connection: &Connection, of: Stale) -> Result<Vec<RunId>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT r.id FROM runs r JOIN tasks t ON t.id = r.task
         WHERE r.ended_at IS NOT NULL AND r.deleted_at IS NULL AND r.state = 'settled'
             AND r.ended_at < ?1 AND t.state IN ('done', 'failed', 'cancelled')
             AND NOT EXISTS (SELECT 1 FROM runs l
                 WHERE l.resumes = r.native_session AND l.state <> 'settled')
         ORDER BY r.ended_at, r.num LIMIT ?2",
    )?;
    let limit = of.limit.clamp(1, PAGE_ROWS_MAX) as i64;
    ids(statement.query_map(params![of.ended_before.ms(), limit], |row| row.get(0))?)
}

fn ids(rows: impl Iterator<Item = rusqlite::Result<[u8; 16]>>) -> Result<Vec<RunId>, Error> {
    Ok(rows.map(|id| id.map(|id| RunId::new(Uuid::from_bytes(id)))).collect::<Result<_, _>>()?)
}

fn bytes_used(connection: &Connection) -> Result<u64, Error> {
    let number = |name: &str| -> Result<i64, rusqlite::Error> {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
    };
    let pages = number("page_count")? - number("freelist_count")?;
    Ok(count(pages.saturating_mul(number("page_size")?)))
}

fn name_blob(connection: &Connection, run: RunId, hash: &str) -> Result<Did<()>, Error> {
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO blob_names (hash, run) SELECT ?2, num FROM runs WHERE id = ?1",
        )?
        .execute(params![blob_id(run.uuid()), hash])?;
    Ok(Did::quietly(()))
}

/// The blobs that an event of this run names.
pub(super) fn name_blobs(
    connection: &Connection,
    num: i64,
    blobs: &[crate::seal::SealedBlob],
) -> Result<(), Error> {
    for blob in blobs {
        connection
            .prepare_cached("INSERT OR IGNORE INTO blob_names (hash, run) VALUES (?1, ?2)")?
            .execute(params![blob.hash, num])?;
    }
    Ok(())
}
