//! Durable events a second: the store's own commit of Batches of 256, beside SQLite itself writing
//! the same bytes with the same settings into the same table, 256 to a transaction.

use super::adapter::{now, run_id};
use super::agent::LINE_BYTES;
use super::figures::{Bound, Pairs};
use super::{said, usage};
use contract::event::{Body, Envelope, Origin, Text};
use contract::state::Review;
use contract::{RunId, RunState, TaskId};
use rusqlite::Connection;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use store::seal::{Seal, Sealed};
use store::{Batch, Claim, NewTask, RunHead, SealedEvent, Store};

const ROUNDS: usize = 9;
const BATCHES: usize = 400;
const BATCH_EVENTS: usize = 256;

pub fn run() -> Result<(), String> {
    println!(
        "durable: {ROUNDS} rounds of floor, ours; {BATCHES} commits of {BATCH_EVENTS} events each"
    );
    let (run, mut pairs) = (run_id(), Pairs::default());
    for _ in 0..ROUNDS {
        let batches = batches(run);
        let floor = floor(&batches)?;
        pairs.push(floor, ours(run, batches)?);
    }
    pairs.print("durable events a second", "k/s", Bound::AtLeast { gate: 0.4, goal: 0.8 });
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
fn open(path: &Path) -> rusqlite::Result<Connection> {
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
    let store = Store::open(dir.path()).map_err(said("opening the store"))?;
    wait_for(store.enqueue(task())).map_err(said("queueing a task"))?;
    wait_for(store.claim(claim(run))).map_err(said("claiming it"))?;
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
    let seal = Seal::new(super::adapter::secrets());
    let text = "word ".repeat(LINE_BYTES * 3 / 4 / 5);
    let body = Body::AssistantText(Text { text, ..Text::default() });
    let stamp =
        Envelope { run_id: run, seq: 0, ts: now(), attempt: 1, fence: 1, origin: Origin::Agent };
    let event = |seq: u64| -> SealedEvent { seal.event(&Envelope { seq, ..stamp }, &body, None) };
    (0..BATCHES as u64)
        .map(|n| {
            let first_seq = n * BATCH_EVENTS as u64 + 1;
            let events = (first_seq..first_seq + BATCH_EVENTS as u64).map(event).collect();
            Batch { events, spool_offset: first_seq * LINE_BYTES as u64, ..empty(run, first_seq) }
        })
        .collect()
}

/// A Batch without events; states are about as long as those of a real run.
fn empty(run: RunId, first_seq: u64) -> Batch {
    let state = Seal::default().json(&"s".repeat(400));
    Batch {
        run,
        fence: 1,
        first_seq,
        events: Vec::new(),
        machine: state.clone(),
        dialect: state.clone(),
        host: state,
        spool_offset: 0,
        taken: Vec::new(),
        effects_todo: Vec::new(),
        effects_done: Vec::new(),
        run_state: RunState::Live,
        pid: None,
        totals: None,
        ledger: Vec::new(),
        model: None,
        session: None,
        settle: None,
    }
}

fn task_id() -> TaskId {
    TaskId::new(run_id().uuid())
}

fn task() -> NewTask {
    let sealed = Seal::default().given("bench");
    NewTask {
        id: task_id(),
        key: None,
        agent: "bench".to_owned(),
        title: sealed.clone(),
        body: sealed.clone(),
        prompt: sealed,
        system_prompt: None,
        review: Review::None,
        created_at: now(),
    }
}

fn claim(run: RunId) -> Claim {
    Claim {
        task: task_id(),
        run,
        holder: "bench".to_owned(),
        now: now(),
        lease_ms: 600_000,
        plan: Sealed::default(),
        head: RunHead {
            agent: "bench".to_owned(),
            adapter: "bench".to_owned(),
            runtime: "bench".to_owned(),
            cwd: "/".to_owned(),
            model: None,
            resumes: None,
            prompt_preview: Sealed::default(),
        },
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The store's writer is a thread of its own, so one caller needs no more than to be woken.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}
