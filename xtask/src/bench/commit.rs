//! Durable events a second: the store's own commit of Batches of 256, beside SQLite itself writing
//! the same bytes with the same settings into the same table, 256 to a transaction.

use super::figures::{Bound, Pairs};
use super::report::Report;
use super::stored::{self, Maker, empty, run_number, wait_for};
use super::{said, usage};
use contract::RunId;
use rusqlite::Connection;
use std::path::Path;
use store::Batch;

const ROUNDS: usize = 9;
const BATCHES: usize = 400;
const BATCH_EVENTS: usize = 256;

pub fn run(report: &mut Report) -> Result<(), String> {
    let how =
        format!("{ROUNDS} rounds of floor, ours; {BATCHES} commits of {BATCH_EVENTS} events each");
    report.begin("commit", &how);
    let (run, mut pairs) = (run_number(0), Pairs::default());
    for _ in 0..ROUNDS {
        let batches = batches(run);
        let floor = floor(&batches)?;
        pairs.push(floor, ours(run, batches)?);
    }
    let bound = Bound::AtLeast { gate: 0.4, goal: 0.8 };
    report.ratio("durable events a second, batch 256", "k/s", &pairs, bound);
    Ok(())
}

/// Thousands of events a second since `from_ns`.
fn rate(from_ns: u64) -> f64 {
    (BATCHES * BATCH_EVENTS) as f64 / (usage::now_ns() - from_ns) as f64 * 1e6
}

fn floor(batches: &[Batch]) -> Result<f64, String> {
    let dir = tempfile::tempdir().map_err(said("making a directory"))?;
    let connection = open(&dir.path().join("floor.db")).map_err(said("opening the floor"))?;
    let from_ns = usage::now_ns();
    batches.iter().try_for_each(|batch| insert(&connection, batch)).map_err(said("inserting"))?;
    Ok(rate(from_ns))
}

/// The settings of the store's writer.
pub fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
    connection.pragma_update(None, "cache_size", -2000)?;
    connection.execute_batch(
        "CREATE TABLE events (
             id INTEGER PRIMARY KEY, run INTEGER NOT NULL, seq INTEGER NOT NULL, bytes BLOB NOT NULL
         ) STRICT",
    )?;
    Ok(connection)
}

fn insert(connection: &Connection, batch: &Batch) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO events (run, seq, bytes) VALUES (1, ?1, ?2)")?;
    for event in &batch.events {
        insert.execute(rusqlite::params![event.seq as i64, event.bytes.bytes()])?;
    }
    connection.prepare_cached("COMMIT")?.execute([]).map(drop)
}

fn ours(run: RunId, batches: Vec<Batch>) -> Result<f64, String> {
    let dir = tempfile::tempdir().map_err(said("making a directory"))?;
    let store = stored::open(dir.path())?;
    stored::admit(&store, run)?;
    let from_ns = usage::now_ns();
    for batch in batches {
        wait_for(store.commit(batch)).map_err(said("committing"))?;
    }
    let rate = rate(from_ns);
    wait_for(store.commit(empty(run, (BATCHES * BATCH_EVENTS) as u64 + 1)))
        .map_err(said("finding every event stored"))?;
    Ok(rate)
}

fn batches(run: RunId) -> Vec<Batch> {
    let maker = Maker::new(run);
    let first = |n: usize| (n * BATCH_EVENTS) as u64 + 1;
    (0..BATCHES).map(|n| maker.batch(first(n), BATCH_EVENTS as u64)).collect()
}
