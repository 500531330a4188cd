//! Reads, beside the writer and never in its way: pages by key, no counts, no offsets. A page of
//! events is found by the run's spans and read by ranges of ids.

use super::{blob_id, count, exact, int, ledger};
use crate::error::Error;
use crate::row::*;
use crate::seal::TaskEvent;
use contract::event::Outcome;
use contract::limits::{PAGE_BYTES_MAX, PAGE_EVENTS_MAX, PAGE_ROWS_MAX, SUBTASK_DEPTH_MAX};
use contract::state::{Review, WaitingFor};
use contract::{
    Code, Command, CommandId, NanoUsd, RunId, RunState, TaskId, TaskState, Timestamp, Tokens, Wish,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

/// The digits at the end of an id that are printed as its short form.
const SHORT_DIGITS: usize = 8;

const RUN: &str =
    "SELECT id, task, fence, state, holder, lease_expires_at, head_seq, agent, adapter,
    runtime, cwd, model, prompt_preview, pid, started_at, totals, ended_at, outcome, code, message,
    native_session, fallback, report FROM runs";

pub(super) const TASK: &str =
    "SELECT id, key, agent, title, body, prompt, system_prompt, state, waiting_for,
    review, fence, generation, created_at, priority, pool, run, by_queue, cwd, labels, parent, depth,
    budget, not_before, until, tries, code, note, next_prompt, resumes, wake, recalled, context FROM tasks";
/// How many that are.
pub(super) const TASK_COLUMNS: usize = 32;

pub(super) fn run(connection: &Connection, id: RunId) -> Result<Option<RunRow>, Error> {
    let sql = format!("{RUN} WHERE id = ?1 AND deleted_at IS NULL");
    Ok(connection.prepare_cached(&sql)?.query_row([blob_id(id.uuid())], run_row).optional()?)
}

pub(super) fn runs(connection: &Connection, page: RunsPage) -> Result<Vec<RunRow>, Error> {
    let unsettled = if page.unsettled_only { "AND state <> 'settled'" } else { "" };
    let sql =
        format!("{RUN} WHERE id < ?1 AND deleted_at IS NULL {unsettled} ORDER BY id DESC LIMIT ?2");
    // No id is larger than all ones; the newest page starts below it.
    let before = page.before.map_or([0xff; 16], |before| blob_id(before.uuid()));
    let limit = page.limit.clamp(1, PAGE_ROWS_MAX + 1) as i64;
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![before, limit], run_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The runs of a task, oldest first: a page of them is more than any task has.
pub(super) fn task_runs(connection: &Connection, task: TaskId) -> Result<Vec<RunRow>, Error> {
    let sql = format!("{RUN} WHERE task = ?1 ORDER BY id LIMIT ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![blob_id(task.uuid()), PAGE_ROWS_MAX as i64], run_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The conversation of this agent's newest run in this directory that has one.
pub(super) fn conversation(
    connection: &Connection,
    agent: &str,
    cwd: &str,
) -> Result<Option<Conversation>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM runs WHERE agent = ?1 AND cwd = ?2 AND native_session IS NOT NULL
         ORDER BY id DESC LIMIT 1",
    )?;
    let found = statement.query_row(params![agent, cwd], |row| id_at(row, 0)).optional()?;
    match found {
        Some(run) => conversation_of(connection, RunId::new(run)),
        None => Ok(None),
    }
}

/// The conversation of one run, if it has one. One that the agent does not know any more is given
/// without its name, so that what the run did can still be told to a new one.
pub(super) fn conversation_of(
    connection: &Connection,
    run: RunId,
) -> Result<Option<Conversation>, Error> {
    let Some(row) = self::run(connection, run)? else { return Ok(None) };
    let Some(native_session) = row.native_session.clone() else {
        let stale = connection
            .prepare_cached("SELECT session_stale FROM runs WHERE id = ?1")?
            .query_row([blob_id(run.uuid())], |row| row.get::<_, bool>(0))?;
        return Ok(stale.then(|| stale_conversation(row)));
    };
    // Two agents may give their conversations the same name.
    let mut statement = connection.prepare_cached(
        "SELECT outcome FROM runs WHERE resumes = ?1 AND agent = ?2 AND state = 'settled'
         ORDER BY id DESC LIMIT ?3",
    )?;
    let rows = statement
        .query_map(params![native_session, row.agent, PAGE_ROWS_MAX as i64], |row| {
            row.get::<_, String>(0)
        })?;
    let mut failures = 0;
    for outcome in rows {
        match outcome? == Outcome::Failed.word() {
            true => failures += 1,
            false => break,
        }
    }
    let members = params![native_session, row.agent, row.cwd, blob_id(run.uuid())];
    let (runs, begun_at) = connection
        .prepare_cached(&format!("{MEMBERS} SELECT count(*), min(started_at) FROM members"))?
        .query_row(members, |row| Ok((count(row.get(0)?), row.get::<_, Option<i64>>(1)?)))?;
    let mut statement = connection.prepare_cached(&format!(
        "{MEMBERS} SELECT l.provider, l.model, {}, max(l.unpriced)
         FROM members JOIN ledger l ON l.run = members.num GROUP BY 1, 2",
        ledger::SUMS.map(|column| exact::sum(&format!("l.{column}"))).join(", ")
    ))?;
    let spent = statement.query_map(members, spent_row)?.collect::<Result<_, _>>()?;
    Ok(Some(Conversation {
        run,
        native_session: Some(native_session),
        adapter: row.adapter,
        runtime: row.runtime,
        model: row.model,
        ended_at: row.ended_at,
        failures,
        runs,
        begun_at: begun_at.map_or(row.started_at, Timestamp),
        spent,
    }))
}

fn stale_conversation(row: RunRow) -> Conversation {
    Conversation {
        run: row.id,
        native_session: None,
        adapter: row.adapter,
        runtime: row.runtime,
        model: row.model,
        ended_at: row.ended_at,
        failures: 0,
        runs: 0,
        begun_at: row.started_at,
        spent: Vec::new(),
    }
}

/// The runs of a conversation: those that took it up and did not begin another one instead, and the
/// one in which it began, looked for backwards from the run that is asked about.
const MEMBERS: &str = "WITH members (num, started_at) AS (
    SELECT num, started_at FROM runs
    WHERE resumes = ?1 AND resumes IS NOT NULL AND agent = ?2
        AND (native_session IS NULL OR native_session = ?1)
    UNION
    SELECT num, started_at FROM (
        SELECT num, started_at FROM runs
        WHERE agent = ?2 AND cwd = ?3 AND id <= ?4 AND native_session = ?1
            AND native_session IS NOT NULL AND resumes IS NOT ?1
        ORDER BY id DESC LIMIT 1))";

fn spent_row(row: &Row<'_>) -> rusqlite::Result<ConversationSpent> {
    let sum = |n: usize| exact::read(row, 2 + 2 * n);
    let reasoning = count(sum(4)?);
    let (paid, unpriced) = (NanoUsd(sum(5)?), row.get::<_, bool>(2 + 2 * ledger::SUMS.len())?);
    Ok(ConversationSpent {
        provider: row.get(0)?,
        model: row.get(1)?,
        tokens: Tokens {
            input_uncached: count(sum(0)?),
            cache_read: count(sum(1)?),
            cache_write: count(sum(2)?),
            output: count(sum(3)?),
            reasoning: (reasoning > 0).then_some(reasoning),
        },
        nanousd: (!unpriced).then_some(paid),
    })
}

/// Runs whose printed id begins with the given text, or (its end tells ids of one moment apart)
/// ends with it; newest first.
pub(super) fn find_runs(
    connection: &Connection,
    given: &str,
    limit: usize,
) -> Result<Vec<RunId>, Error> {
    let given = given.strip_prefix(RunId::PREFIX).unwrap_or(given).to_ascii_lowercase();
    if given.len() > 32 || !given.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Vec::new());
    }
    let runs = found(connection, "runs", "id", "deleted_at IS NULL", &given, limit)?;
    let asked = "state = 'waiting' AND run IS NOT NULL";
    let waiting = found(connection, "tasks", "run", asked, &given, limit)?;
    let mut all: Vec<Uuid> = runs.into_iter().chain(waiting).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup();
    all.truncate(limit.clamp(1, PAGE_ROWS_MAX));
    Ok(all.into_iter().map(RunId::new).collect())
}

/// Ids that begin with the given hexadecimal digits, end with them, or whose last eight digits begin
/// with them; newest first. Each of the three is a range of an index.
fn found(
    connection: &Connection,
    table: &str,
    id: &str,
    among: &str,
    given: &str,
    limit: usize,
) -> Result<Vec<Uuid>, Error> {
    let edge = |digit: &str| {
        let digits = format!("{given}{}", digit.repeat(32 - given.len()));
        Uuid::try_parse(&digits).unwrap_or_default()
    };
    let tail = &given[given.len().saturating_sub(SHORT_DIGITS)..];
    let tail_reversed: String = tail.chars().rev().collect();
    let limit = limit.clamp(1, PAGE_ROWS_MAX) as i64;
    let mut statement = connection.prepare_cached(&found_sql(table, id, among))?;
    let rows = statement.query_map(
        params![blob_id(edge("0")), blob_id(edge("f")), given, tail_reversed, limit],
        |row| id_at(row, 0),
    )?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A hexadecimal digit is less than `g`, so what begins with some digits is a range of texts.
pub(super) fn found_sql(table: &str, id: &str, among: &str) -> String {
    let (first, last) = match id {
        "run" => ("run_short_id", "run_short_id_reversed"),
        _ => ("short_id", "short_id_reversed"),
    };
    format!(
        "SELECT * FROM (SELECT {id} AS found FROM {table}
             WHERE {id} BETWEEN ?1 AND ?2 AND {among} ORDER BY {id} DESC LIMIT ?5)
         UNION SELECT {id} FROM {table} WHERE {first} >= ?3 AND {first} < ?3 || 'g' AND {among}
         UNION SELECT {id} FROM {table} WHERE {last} >= ?4 AND {last} < ?4 || 'g'
             AND substr(lower(hex({id})), -length(?3)) = ?3 AND {among}
         ORDER BY found DESC LIMIT ?5"
    )
}

/// Tasks by the beginning or the end of their printed id, newest first.
pub(super) fn find_tasks(
    connection: &Connection,
    given: &str,
    limit: usize,
) -> Result<Vec<TaskId>, Error> {
    // The name that its giver chose comes before what only looks like it.
    let key = connection
        .prepare_cached("SELECT id FROM tasks WHERE key = ?1")?
        .query_row([given], |row| Ok(TaskId::new(id_at(row, 0)?)))
        .optional()?;
    if let Some(task) = key {
        return Ok(vec![task]);
    }
    let given = given.strip_prefix(TaskId::PREFIX).unwrap_or(given).to_ascii_lowercase();
    if given.is_empty() || given.len() > 32 || !given.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Vec::new());
    }
    let tasks = found(connection, "tasks", "id", "TRUE", &given, limit)?;
    Ok(tasks.into_iter().map(TaskId::new).collect())
}

pub(super) fn plan(connection: &Connection, id: RunId) -> Result<Option<Vec<u8>>, Error> {
    Ok(connection
        .prepare_cached(
            "SELECT plan FROM plans
             WHERE run = (SELECT num FROM runs WHERE id = ?1 AND deleted_at IS NULL)",
        )?
        .query_row([blob_id(id.uuid())], |row| row.get(0))
        .optional()?)
}

pub(super) fn task(connection: &Connection, id: TaskId) -> Result<Option<TaskRow>, Error> {
    let sql = format!("{TASK} WHERE id = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([blob_id(id.uuid())], task_row).optional()?)
}

/// A task and those above it. Nobody is deeper than that, so a circle ends too.
pub(super) fn lineage(connection: &Connection, task: TaskId) -> Result<Vec<TaskRow>, Error> {
    let (mut lineage, mut next) = (Vec::new(), Some(task));
    while let Some(id) = next.filter(|_| lineage.len() <= SUBTASK_DEPTH_MAX as usize) {
        let Some(row) = self::task(connection, id)? else { break };
        next = row.parent;
        lineage.push(row);
    }
    Ok(lineage)
}

/// The task of a run, also of one that was asked for and has not begun.
pub(super) fn task_of(connection: &Connection, run: RunId) -> Result<Option<TaskRow>, Error> {
    let sql = format!(
        "{TASK} WHERE id = coalesce(
             (SELECT task FROM runs WHERE id = ?1), (SELECT id FROM tasks WHERE run = ?1))"
    );
    Ok(connection.prepare_cached(&sql)?.query_row([blob_id(run.uuid())], task_row).optional()?)
}

/// Where a task stands that waits for a slot; `None` when it does not, or no longer.
pub(super) fn standing(connection: &Connection, task: TaskId) -> Result<Option<Standing>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT (SELECT count(*) FROM tasks w
                 WHERE w.pool = t.pool AND w.state = 'waiting' AND w.waiting_for = 'pool'
                     AND (w.priority > t.priority OR (w.priority = t.priority AND w.num < t.num))),
                (SELECT count(*) FROM runs WHERE adapter = t.pool AND state <> 'settled')
         FROM tasks t WHERE t.id = ?1 AND t.state = 'waiting' AND t.waiting_for = 'pool'",
    )?;
    let read =
        |row: &Row<'_>| Ok(Standing { ahead: count(row.get(0)?), taken: count(row.get(1)?) });
    Ok(statement.query_row([blob_id(task.uuid())], read).optional()?)
}

/// Everyone who waits for a slot, line by line in the order of their turns, each with how many are
/// in front.
pub(super) fn lines(connection: &Connection, limit: usize) -> Result<Vec<(TaskRow, u64)>, Error> {
    let limit = limit.clamp(1, PAGE_ROWS_MAX) as i64;
    let mut statement = connection.prepare_cached(&lines_sql())?;
    let rows =
        statement.query_map([limit], |row| Ok((task_row(row)?, count(row.get(TASK_COLUMNS)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A page is a range of an index: of all tasks, of those in a state, or of those with a label.
pub(super) fn tasks_sql(page: &TasksPage) -> String {
    // The state is one of our own words.
    let state = page.state.map(|state| format!("AND state = '{}'", state.word()));
    let queue = if page.handed_over { "AND by_queue = 1" } else { "" };
    let state = format!("{} {queue}", state.unwrap_or_default());
    let (than, order) = match page.order {
        Order::Oldest => ('>', "ASC"),
        Order::Newest => ('<', "DESC"),
    };
    match page.label {
        None => {
            format!("{TASK} WHERE id {than} ?1 {state} AND ?3 IS NULL ORDER BY id {order} LIMIT ?2")
        }
        // In this order of the tables, whatever the planner thinks: it knows nothing of the rows.
        Some(_) => {
            let columns = TASK.strip_suffix(" FROM tasks").unwrap_or_default();
            format!(
                "{columns} FROM labels l CROSS JOIN tasks ON tasks.id = l.task
                 WHERE l.label = ?3 AND l.task {than} ?1 {state} ORDER BY l.task {order} LIMIT ?2"
            )
        }
    }
}

/// The index is named: the planner takes that of the states, and sorts everyone who waits for anything.
pub(super) fn lines_sql() -> String {
    let columns = TASK.strip_suffix(" FROM tasks").unwrap_or_default();
    format!(
        "{columns}, row_number() OVER (PARTITION BY pool ORDER BY priority DESC, num) - 1
         FROM tasks INDEXED BY tasks_in_line WHERE state = 'waiting' AND waiting_for = 'pool'
         ORDER BY pool, priority DESC, num LIMIT ?1"
    )
}

pub(super) fn tasks(connection: &Connection, page: TasksPage) -> Result<Vec<TaskRow>, Error> {
    let sql = tasks_sql(&page);
    let edge = match page.order {
        Order::Oldest => [0; 16],
        Order::Newest => [0xff; 16],
    };
    let after = page.after.map_or(edge, |after| blob_id(after.uuid()));
    let limit = page.limit.clamp(1, PAGE_ROWS_MAX + 1) as i64;
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![after, limit, page.label], task_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Events after a number, and whether the run is settled with the last of them.
pub(super) fn page(
    connection: &Connection,
    id: RunId,
    after_seq: u64,
    limit: usize,
) -> Result<Page, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let (num, head_seq, settled): (i64, i64, bool) = snapshot
        .prepare_cached("SELECT num, head_seq, state = 'settled' FROM runs WHERE id = ?1 AND deleted_at IS NULL")?
        .query_row([blob_id(id.uuid())], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?
        .ok_or_else(|| Error::not_found(id))?;
    let limit = limit.clamp(1, PAGE_EVENTS_MAX) as u64;
    let from = after_seq.saturating_add(1);
    let to = count(head_seq).min(after_seq.saturating_add(limit));
    let mut events: Vec<StoredEvent> = Vec::new();
    let mut bytes = 0;
    if from <= to {
        'page: for (first_id, last_id) in ranges(&snapshot, num, from, to)? {
            let mut statement = snapshot.prepare_cached(
                "SELECT seq, bytes FROM events WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
            )?;
            let rows = statement.query_map(params![first_id, last_id], event_row)?;
            for row in rows {
                let event = row?;
                bytes += event.bytes.len();
                events.push(event);
                if bytes >= PAGE_BYTES_MAX {
                    break 'page;
                }
            }
        }
    }
    let read_to = events.last().map_or(after_seq, |event| event.seq);
    Ok(Page { settled: settled && read_to >= count(head_seq), events })
}

/// The ranges of ids that hold these events; neighbours are joined.
fn ranges(connection: &Connection, num: i64, from: u64, to: u64) -> Result<Vec<(i64, i64)>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT first_seq, first_id, count FROM spans
         WHERE run = ?1 AND first_seq <= ?3 AND first_seq >= coalesce(
             (SELECT max(first_seq) FROM spans WHERE run = ?1 AND first_seq <= ?2), 0)
         ORDER BY first_seq",
    )?;
    let mut rows = statement.query(params![num, int(from), int(to)])?;
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (first_seq, first_id, rows): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let first = first_id + (int(from) - first_seq).max(0);
        let last = first_id + (int(to) - first_seq).min(rows - 1);
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == first => *end = last,
            _ => ranges.push((first, last)),
        }
    }
    Ok(ranges)
}

/// The last events of one kind over all runs of a task, in order, by the index of such events.
pub(super) fn of_task(
    connection: &Connection,
    task: TaskId,
    kind: TaskEvent,
    limit: usize,
) -> Result<Vec<StoredEvent>, Error> {
    let mut statement = connection.prepare_cached(OF_TASK)?;
    let limit = limit.clamp(1, PAGE_EVENTS_MAX) as i64;
    let params = params![blob_id(task.uuid()), kind.word(), limit];
    let rows = statement.query_map(params, event_row)?;
    let mut events = rows.collect::<Result<Vec<_>, _>>()?;
    events.reverse();
    Ok(events)
}

/// In this order of the tables, whatever the planner thinks: it knows nothing of the rows.
pub(super) const OF_TASK: &str = "SELECT e.seq, e.bytes FROM runs r
    CROSS JOIN task_events t ON t.run = r.num AND t.kind = ?2
    CROSS JOIN events e ON e.id = t.event
    WHERE r.task = ?1 ORDER BY r.id DESC, t.event DESC LIMIT ?3";

fn event_row(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    Ok(StoredEvent { seq: count(row.get(0)?), bytes: row.get_ref(1)?.as_blob()?.into() })
}

pub(super) fn inbox(connection: &Connection, id: RunId) -> Result<Vec<Command>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, asked_at, wish FROM commands
         WHERE run = (SELECT num FROM runs WHERE id = ?1) AND taken = 0 ORDER BY num",
    )?;
    let rows = statement.query_map([blob_id(id.uuid())], |row| {
        // One that cannot be read is of a newer version, like one with a word that is not known.
        let wish = serde_json::from_slice(row.get_ref(2)?.as_blob()?).unwrap_or(Wish::Unknown);
        let asked_at = Timestamp(row.get(1)?);
        Ok(Command { id: CommandId::new(id_at(row, 0)?), run_id: id, asked_at, wish })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn resume_point(
    connection: &Connection,
    id: RunId,
) -> Result<Option<ResumePoint>, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let found = snapshot
        .prepare_cached(
            "SELECT r.num, r.head_seq, r.fence, s.machine, s.dialect, s.host, s.spool_offset
             FROM runs r JOIN states s ON s.run = r.num WHERE r.id = ?1 AND r.state <> 'settled'",
        )?
        .query_row([blob_id(id.uuid())], |row| {
            let point = ResumePoint {
                head_seq: count(row.get(1)?),
                fence: count(row.get(2)?),
                machine: row.get(3)?,
                dialect: row.get(4)?,
                host: row.get(5)?,
                spool_offset: count(row.get(6)?),
                effects: Vec::new(),
            };
            Ok((row.get::<_, i64>(0)?, point))
        })
        .optional()?;
    let Some((num, mut point)) = found else { return Ok(None) };
    point.effects = snapshot
        .prepare_cached("SELECT n, bytes FROM effects WHERE run = ?1 ORDER BY n")?
        .query_map([num], |row| Ok(StoredEffect { n: count(row.get(0)?), bytes: row.get(1)? }))?
        .collect::<Result<_, _>>()?;
    Ok(Some(point))
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        id: RunId::new(id_at(row, 0)?),
        task: TaskId::new(id_at(row, 1)?),
        fence: count(row.get(2)?),
        state: word_at(row, 3, RunState::read)?,
        holder: row.get(4)?,
        lease_expires_at: Timestamp(row.get(5)?),
        head_seq: count(row.get(6)?),
        agent: row.get(7)?,
        adapter: row.get(8)?,
        runtime: row.get(9)?,
        cwd: row.get(10)?,
        model: row.get(11)?,
        prompt_preview: row.get(12)?,
        pid: row.get(13)?,
        started_at: Timestamp(row.get(14)?),
        totals: row
            .get::<_, Option<String>>(15)?
            .and_then(|totals| serde_json::from_str(&totals).ok()),
        ended_at: row.get::<_, Option<i64>>(16)?.map(Timestamp),
        outcome: optional_word_at(row, 17, Outcome::read)?,
        code: optional_word_at(row, 18, Code::read)?,
        message: row.get(19)?,
        native_session: row.get(20)?,
        fallback: row.get(21)?,
        report: row
            .get::<_, Option<String>>(22)?
            .and_then(|report| serde_json::from_str(&report).ok()),
    })
}

pub(super) fn task_row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    Ok(TaskRow {
        id: TaskId::new(id_at(row, 0)?),
        key: row.get(1)?,
        agent: row.get(2)?,
        title: row.get(3)?,
        body: row.get(4)?,
        prompt: row.get(5)?,
        system_prompt: row.get(6)?,
        state: word_at(row, 7, TaskState::read)?,
        waiting_for: optional_word_at(row, 8, WaitingFor::read)?,
        review: word_at(row, 9, Review::read)?,
        fence: count(row.get(10)?),
        generation: row.get(11)?,
        created_at: Timestamp(row.get(12)?),
        priority: row.get(13)?,
        pool: row.get(14)?,
        run: row.get::<_, Option<[u8; 16]>>(15)?.map(|run| RunId::new(Uuid::from_bytes(run))),
        by_queue: row.get(16)?,
        cwd: row.get(17)?,
        labels: serde_json::from_str(&row.get::<_, String>(18)?).unwrap_or_default(),
        parent: row.get::<_, Option<[u8; 16]>>(19)?.map(|id| TaskId::new(Uuid::from_bytes(id))),
        depth: row.get(20)?,
        budget: row.get(21)?,
        not_before: row.get::<_, Option<i64>>(22)?.map(Timestamp),
        until: row.get::<_, Option<i64>>(23)?.map(Timestamp),
        tries: row.get(24)?,
        code: optional_word_at(row, 25, Code::read)?,
        note: row.get(26)?,
        next_prompt: row.get(27)?,
        resumes: row.get::<_, Option<[u8; 16]>>(28)?.map(|run| RunId::new(Uuid::from_bytes(run))),
        wake: row.get(29)?,
        recalled: row.get(30)?,
        context: row.get(31)?,
    })
}

fn id_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

/// Reads a stored word. One of a newer version is that type's `Unknown`, so that it does not hide
/// the row, or the page that the row is on.
pub(super) fn word_at<T>(
    row: &Row<'_>,
    column: usize,
    read: impl Fn(&str) -> T,
) -> rusqlite::Result<T> {
    Ok(read(row.get_ref(column)?.as_str()?))
}

fn optional_word_at<T>(
    row: &Row<'_>,
    column: usize,
    read: impl Fn(&str) -> T,
) -> rusqlite::Result<Option<T>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map(read))
}
