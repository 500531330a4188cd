//! Whether looking something up costs more the longer the history is: a run by its short id, what
//! agents said of a task, and what a lifetime budget leaves, at a thousand to a million settled runs.
//! The figure is the slope of the logarithms of CPU time, and 0 is flat. The history is written to the
//! file directly, because a million real starts would take an hour and be no other rows.

use super::figures::{Bound, median, slope};
use super::report::Report;
use super::stored::{self, run_number, wait_for};
use super::{said, usage};
use contract::{NanoUsd, RunId, TaskId, Timestamp};
use rusqlite::{Connection, params};
use std::path::Path;
use store::Reserve;
use uuid::Uuid;

const ROUNDS: usize = 3;
const POINTS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Lookups at each point.
const LOOKUPS: u64 = 200;
/// The file of a store.
const DATABASE: &str = "ostler.db";
/// The budget that every run spent from.
const SCOPE: &str = "global";
/// What a lookup is called, in the order of the figures.
const NAMES: [&str; 3] =
    ["a run by its short id", "the comments of a task", "a reservation in a lifetime budget"];

pub fn run(report: &mut Report) -> Result<(), String> {
    report.begin("lookups", &format!("{ROUNDS} rounds, 10³ to 10⁶ runs"));
    let mut slopes = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let costs = grow()?;
        for ((slopes, costs), name) in slopes.iter_mut().zip(&costs).zip(NAMES) {
            slopes.push(slope(costs));
            for (runs, ns) in costs.iter().filter(|_| round + 1 == ROUNDS) {
                println!("  {name}: {ns:.0} ns at {runs} runs");
            }
        }
    }
    let bound = Bound::AtMost { gate: 0.05, goal: 0.05 };
    for (slopes, name) in slopes.iter().zip(NAMES) {
        report.figure(&format!("slope of {name}"), "", median(slopes), bound);
    }
    Ok(())
}

/// Nanoseconds of each kind of lookup at each point.
fn grow() -> Result<[Vec<(f64, f64)>; 3], String> {
    let dir = tempfile::tempdir().map_err(said("making a directory"))?;
    let live = run_number(u64::MAX >> 1);
    let store = stored::open(dir.path())?;
    stored::admit(&store, live)?;
    wait_for(store.close());
    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    let mut written = 0;
    for point in POINTS {
        write_history(dir.path(), written, point).map_err(said("writing a history"))?;
        written = point;
        let store = stored::open(dir.path())?;
        let measured = [
            per_lookup(written, |n| {
                let given = id(n).simple().to_string();
                let found = wait_for(store.find_runs(&given[24..], 9));
                is_one(found.map_err(said("finding a run"))?.contains(&RunId::new(id(n))))
            })?,
            per_lookup(written, |n| {
                let said_of = wait_for(store.comments(TaskId::new(id(n))));
                is_one(said_of.map_err(said("reading comments"))?.len() == 1)
            })?,
            per_lookup(written, |_| {
                wait_for(store.reserve(reserve(live))).map_err(said("reserving"))
            })?,
        ];
        for (costs, ns) in costs.iter_mut().zip(measured) {
            costs.push((point as f64, ns));
        }
        wait_for(store.close());
    }
    Ok(costs)
}

fn is_one(found: bool) -> Result<(), String> {
    if found { Ok(()) } else { Err("a lookup did not find what is there".to_owned()) }
}

/// The mean over lookups that are spread over the whole history, after some that warm the caches.
fn per_lookup(runs: u64, look: impl Fn(u64) -> Result<(), String>) -> Result<f64, String> {
    let places = |from: u64| (0..LOOKUPS).map(move |n| (from + n * 7_919 * runs / LOOKUPS) % runs);
    for n in places(0) {
        look(n)?;
    }
    let before_ns = usage::own_cpu_ns();
    for n in places(3) {
        look(n)?;
    }
    Ok((usage::own_cpu_ns() - before_ns) as f64 / LOOKUPS as f64)
}

/// The id of the n-th run and of its task; the last digits are as good as random.
fn id(n: u64) -> Uuid {
    let low = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
    Uuid::from_u128((0x0190_0000_0000_7000 + u128::from(n) * 0x1_0000) << 64 | u128::from(low))
}

/// Runs `from..to`, each with its task, one comment, and its reservation closed.
fn write_history(dir: &Path, from: u64, to: u64) -> rusqlite::Result<()> {
    let mut connection = Connection::open(dir.join(DATABASE))?;
    connection.pragma_update(None, "synchronous", "off")?;
    let transaction = connection.transaction()?;
    {
        let mut task = transaction.prepare(
            "INSERT INTO tasks (id, agent, title, body, prompt, state, review, fence, created_at)
             VALUES (?1, 'a', '', '', '', 'done', 'none', 1, 0)",
        )?;
        let mut run = transaction.prepare(
            "INSERT INTO runs (id, task, fence, state, holder, lease_expires_at, head_seq, agent,
                 adapter, runtime, cwd, prompt_preview, started_at, outcome, ended_at)
             VALUES (?1, ?1, 1, 'settled', '', 0, 1, 'a', 'a', 'a', '/', '', 0, 'succeeded', 1)",
        )?;
        let mut event =
            transaction.prepare("INSERT INTO events (run, seq, bytes) VALUES (?1, 1, ?2)")?;
        let mut span = transaction.prepare("INSERT INTO spans VALUES (?1, 1, ?2, 1)")?;
        let mut noted =
            transaction.prepare("INSERT INTO task_events VALUES (?1, 'comment', ?2)")?;
        let mut reservation = transaction.prepare(
            "INSERT INTO reservations (scope, run, nanousd, tokens, settled_at)
             VALUES (?1, ?2, 1000, 10, 1)",
        )?;
        for n in from..to {
            let id = id(n).into_bytes();
            task.execute([id])?;
            run.execute([id])?;
            let num = transaction.last_insert_rowid();
            event.execute(params![num, br#"{"kind":"comment","text":"done"}"#])?;
            let at = transaction.last_insert_rowid();
            span.execute([num, at])?;
            noted.execute([num, at])?;
            reservation.execute(params![SCOPE, num])?;
        }
        let runs = (to - from) as i64;
        transaction.execute(
            "INSERT INTO scope_totals VALUES (?1, 1000 * ?2, 10 * ?2, 0, 0)
             ON CONFLICT DO UPDATE SET nanousd = nanousd + excluded.nanousd,
                 tokens = tokens + excluded.tokens",
            params![SCOPE, runs],
        )?;
    }
    transaction.commit()
}

fn reserve(run: RunId) -> Reserve {
    Reserve {
        scope: SCOPE.to_owned(),
        run,
        fence: 1,
        nanousd: NanoUsd(1),
        tokens: 1,
        turns: 1,
        ms: 1,
        since: Timestamp(i64::MIN),
        nanousd_max: Some(NanoUsd(i64::MAX)),
        tokens_max: None,
        turns_max: None,
        ms_max: None,
    }
}
