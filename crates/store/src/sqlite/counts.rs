//! How many runs and tasks are in each state that is not an end. Both are read from an index alone: of
//! the runs that have not ended, and of the states of tasks.

use super::{Sqlite, count};
use crate::counts::{Counts, TaskCount};
use crate::error::Error;
use contract::Timestamp;
use rusqlite::Connection;
use uuid::Uuid;

impl Sqlite {
    pub async fn counts(&self) -> Result<Counts, Error> {
        self.readers.read(counts).await
    }
}

fn counts(connection: &Connection) -> Result<Counts, Error> {
    let mut runs = connection.prepare_cached(
        "SELECT state, count(*) FROM runs WHERE state <> 'settled' GROUP BY state",
    )?;
    let runs = runs.query_map([], |row| Ok((row.get(0)?, whole(row.get(1)?))))?;
    let runs = runs.collect::<Result<_, _>>()?;
    // An id begins with the time at which it was made, so the least is the oldest.
    let mut tasks = connection.prepare_cached(
        "SELECT state, count(*), min(id) FROM tasks
         WHERE state IN ('queued', 'waiting', 'running', 'review') GROUP BY state",
    )?;
    let tasks = tasks.query_map([], |row| {
        let oldest = Uuid::from_bytes(row.get(2)?);
        Ok(TaskCount { state: row.get(0)?, count: whole(row.get(1)?), oldest: made_at(oldest) })
    })?;
    Ok(Counts { runs, tasks: tasks.collect::<Result<_, _>>()? })
}

fn whole(n: i64) -> usize {
    usize::try_from(count(n)).unwrap_or(usize::MAX)
}

fn made_at(id: Uuid) -> Timestamp {
    let (seconds, nanos) = id.get_timestamp().map(|at| at.to_unix()).unwrap_or_default();
    let ms = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000);
    Timestamp(ms.saturating_add(i64::from(nanos / 1_000_000)))
}
