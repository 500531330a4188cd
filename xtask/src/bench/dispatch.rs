//! The queue: tasks claimed a second beside the bare statements in SQLite with the same settings and
//! rows, the CPU of a server with a thousand tasks that wait, and what a page of a list and the search
//! for the next task cost from a thousand to a million tasks (the slope of the logarithms; 0 is flat).

use super::commit;
use super::figures::{Bound, Pairs, median, slope};
use super::report::Report;
use super::serve::Serve;
use super::stored::{self, run_number, wait_for};
use super::{Programs, said, usage};
use contract::TaskId;
use rusqlite::{Connection, params};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use store::{Order, Store, TasksPage};
use uuid::Uuid;

/// How much of everything.
pub struct Extent {
    rounds: usize,
    waiting: usize,
    /// How long an idle server is watched.
    idle: Duration,
    /// How many tasks there are where a list is read.
    points: &'static [u64],
}

pub const WHOLE: Extent = Extent {
    rounds: 7,
    waiting: 1_000,
    idle: Duration::from_secs(60),
    points: &[1_000, 10_000, 100_000, 1_000_000],
};
/// Enough to see that it works.
pub const QUICK: Extent =
    Extent { rounds: 1, waiting: 50, idle: Duration::from_secs(2), points: &[1_000, 4_000] };
const CLAIMS: u64 = 400;
/// Of so many agents; each has its part of the tasks.
const AGENTS: u64 = 10;
const PAGES: u64 = 200;
const PAGE_ROWS: usize = 50;

pub fn run(programs: &Programs, report: &mut Report, extent: &Extent) -> Result<(), String> {
    let Extent { rounds, waiting, idle, points } = extent;
    let how = format!(
        "{rounds} rounds of floor, ours with {CLAIMS} claims; {} s with {waiting} tasks that wait; lists of {points:?}",
        idle.as_secs()
    );
    report.begin("dispatch", &how);
    let mut pairs = Pairs::default();
    for _ in 0..*rounds {
        pairs.push(floor()?, claims()?);
    }
    let bound = Bound::AtLeast { gate: 0.5, goal: 0.8 };
    report.ratio("tasks claimed a second", "1/s", &pairs, bound);

    let (mut pages, mut heads) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (page, head) = lists(points)?;
        pages.push(slope(&page));
        heads.push(slope(&head));
        for ((n, page_ns), (_, head_ns)) in page.iter().zip(&head) {
            println!(
                "  {n} tasks: a page {:.0} µs, the next task {:.0} µs",
                page_ns / 1e3,
                head_ns / 1e3
            );
        }
    }
    let flat = Bound::AtMost { gate: 0.15, goal: 0.05 };
    report.figure("slope of a page of tasks", "", median(&pages), flat);
    report.figure("slope of finding the next task", "", median(&heads), flat);

    let gate = Bound::AtMost { gate: 0.5, goal: 0.1 };
    let used = idle_cpu(programs, extent)?;
    report.figure("idle CPU with 1,000 tasks that wait", "% of a core", used, gate);
    Ok(())
}

/// A second's worth of claims since `from_ns`.
fn rate(from_ns: u64) -> f64 {
    CLAIMS as f64 / (usage::now_ns() - from_ns) as f64 * 1e9
}

/// The least that a claim is: the first that is queued, taken under its fence, and its run with a plan.
fn floor() -> Result<f64, String> {
    let dir = tempfile::tempdir().map_err(said("making a directory"))?;
    let connection =
        commit::open(&dir.path().join("floor.db")).map_err(said("opening the floor"))?;
    let work = || -> rusqlite::Result<f64> {
        connection.execute_batch(
            "CREATE TABLE tasks (num INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, agent TEXT NOT NULL,
                 priority INTEGER NOT NULL, state TEXT NOT NULL, fence INTEGER NOT NULL) STRICT;
             CREATE INDEX ready ON tasks (priority DESC, num) WHERE state = 'queued';
             CREATE TABLE runs (num INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, task BLOB NOT NULL,
                 fence INTEGER NOT NULL, state TEXT NOT NULL, started_at INTEGER NOT NULL) STRICT;
             CREATE TABLE plans (run INTEGER PRIMARY KEY, plan BLOB NOT NULL) STRICT;
             BEGIN",
        )?;
        for n in 0..CLAIMS {
            connection.execute(
                "INSERT INTO tasks (id, agent, priority, state, fence) VALUES (?1, ?2, 0, 'queued', 0)",
                params![id(n), agent(n)],
            )?;
        }
        connection.execute_batch("COMMIT")?;
        let from_ns = usage::now_ns();
        for n in 0..CLAIMS {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let task: [u8; 16] = connection
                .prepare_cached(
                    "UPDATE tasks SET state = 'running', fence = fence + 1 WHERE num = (SELECT num FROM
                         tasks WHERE state = 'queued' ORDER BY priority DESC, num LIMIT 1) RETURNING id",
                )?
                .query_row([], |row| row.get(0))?;
            connection
                .prepare_cached(
                    "INSERT INTO runs (id, task, fence, state, started_at) VALUES (?1, ?2, 1, 'planned', 0)",
                )?
                .execute(params![id(n), task])?;
            let run = connection.last_insert_rowid();
            connection
                .prepare_cached("INSERT INTO plans (run, plan) VALUES (?1, x'')")?
                .execute([run])?;
            connection.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(rate(from_ns))
    };
    work().map_err(said("claiming by bare statements"))
}

fn id(n: u64) -> [u8; 16] {
    run_number(n).uuid().into_bytes()
}

fn agent(n: u64) -> String {
    format!("agent-{}", n % AGENTS)
}

/// The dispatcher's way: find who is next, and claim it.
fn claims() -> Result<f64, String> {
    let dir = tempfile::tempdir().map_err(said("making a directory"))?;
    let store = stored::open(dir.path())?;
    for n in 0..CLAIMS {
        let task = store::NewTask {
            agent: agent(n),
            errand: Some(store::Errand::default()),
            ..stored::task(run_number(n))
        };
        wait_for(store.enqueue(task)).map_err(said("queueing a task"))?;
    }
    let from_ns = usage::now_ns();
    for n in 0..CLAIMS {
        let heads = wait_for(store.heads()).map_err(said("finding the next task"))?;
        let first = heads.iter().min_by_key(|head| head.num).ok_or("no task is left")?;
        let mut claim = stored::claim(run_number(n));
        claim.task = first.task.id;
        wait_for(store.claim(claim)).map_err(said("claiming it"))?;
    }
    let rate = rate(from_ns);
    let left = wait_for(store.heads()).map_err(said("looking for what is left"))?;
    match left.is_empty() {
        true => Ok(rate),
        false => Err(format!("{} tasks were not claimed", left.len())),
    }
}

/// Nanoseconds of CPU for a page and for the next task, at each point.
type Costs = (Vec<(f64, f64)>, Vec<(f64, f64)>);

fn lists(points: &[u64]) -> Result<Costs, String> {
    let dir = tempfile::tempdir().map_err(said("making a directory"))?;
    let (mut pages, mut heads) = (Vec::new(), Vec::new());
    let mut there = 0;
    for &point in points {
        fill(dir.path(), there, point).map_err(said("filling a list"))?;
        there = point;
        let store = stored::open(dir.path())?;
        pages.push((point as f64, read_pages(&store, point)?));
        let from_ns = usage::own_cpu_ns();
        for _ in 0..PAGES {
            let found = wait_for(store.heads()).map_err(said("finding the next task"))?;
            if found.len() as u64 != AGENTS {
                return Err(format!("{} agents have something to do", found.len()));
            }
        }
        heads.push((point as f64, (usage::own_cpu_ns() - from_ns) as f64 / PAGES as f64));
        wait_for(store.close());
    }
    Ok((pages, heads))
}

/// Rows as the store makes them, by one statement each: a million syncs would take a day.
fn fill(dir: &Path, from: u64, to: u64) -> rusqlite::Result<()> {
    // The store itself makes the schema.
    drop(Store::open(dir));
    let connection = Connection::open(dir.join("ostler.db"))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.execute_batch("BEGIN")?;
    for n in from..to {
        let state = ["queued", "done", "waiting", "review"][(n % 4) as usize];
        connection
            .prepare_cached(
                "INSERT INTO tasks (id, agent, title, body, prompt, state, review, created_at, by_queue,
                     waiting_for, pool)
                 VALUES (?1, ?2, 'a title as any', 'a body', 'a body', ?3, 'none', ?4, 1,
                     iif(?3 = 'waiting', 'pool', NULL), iif(?3 = 'waiting', 'a pool', NULL))",
            )?
            .execute(params![id(n), agent(n / 4), state, n as i64])?;
        connection
            .prepare_cached("INSERT INTO labels (label, task) VALUES ('a label', ?1)")?
            .execute([id(n)])?;
    }
    connection.execute_batch("COMMIT")
}

fn read_pages(store: &Store, point: u64) -> Result<f64, String> {
    let from_ns = usage::own_cpu_ns();
    for n in 0..PAGES {
        let at = Uuid::from_bytes(id(point / 2 + n * (point / 2) / PAGES));
        let state = (n % 2 == 0).then_some(contract::TaskState::Done);
        let label = (n % 4 == 0).then(|| "a label".to_owned());
        let page = TasksPage {
            after: Some(TaskId::new(at)),
            limit: PAGE_ROWS,
            state,
            label,
            handed_over: false,
            order: Order::Newest,
        };
        let read = wait_for(store.tasks(page)).map_err(said("reading a page"))?.len();
        if read != PAGE_ROWS {
            return Err(format!("a page of {PAGE_ROWS} held {read}"));
        }
        // A page that shows someone in line says where they stand.
        if state.is_none() {
            wait_for(store.lines(PAGE_ROWS)).map_err(said("reading the lines"))?;
        }
    }
    Ok((usage::own_cpu_ns() - from_ns) as f64 / PAGES as f64)
}

/// What a server takes of a core while tasks wait for their time.
fn idle_cpu(programs: &Programs, extent: &Extent) -> Result<f64, String> {
    let mut serve = Serve::start(programs)?;
    let cwd = serve.instance.work();
    for n in 0..extent.waiting {
        let hour = 10 + n % 10;
        let body = json!({
            "title": format!("later {n}"), "cwd": cwd,
            "not_before": format!("2099-01-01T{hour}:00:00.000Z"),
        });
        serve.ask("POST", "/api/v1/tasks", &body.to_string())?;
    }
    let (before_ns, from_ns) = (usage::family_cpu_ns(serve.pid())?, usage::now_ns());
    std::thread::sleep(extent.idle);
    let cpu_ns = usage::family_cpu_ns(serve.pid())?.saturating_sub(before_ns);
    serve.connect_again()?;
    let waits = serve.ask("GET", "/api/v1/tasks?state=waiting&limit=500", "")?;
    match waits["items"].as_array().map(Vec::len) {
        Some(rows) if rows == extent.waiting.min(500) => {
            Ok(cpu_ns as f64 / (usage::now_ns() - from_ns) as f64 * 100.0)
        }
        other => Err(format!("{other:?} tasks wait on the first page")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_of_the_bench_is_claimed_by_both_ways() {
        assert!(floor().unwrap() > 0.0);
        assert!(claims().unwrap() > 0.0);
    }
}
