//! What must hold of a store at any moment, as queries over its file: numbering without gaps or
//! doubles, one result at the end of each settled run and nowhere else, fences that agree, blobs
//! that are what their names say; of one that was swept, also that every blob has a name. Reads only;
//! used by tests after every crash. No command of the product calls it: it reads every event and
//! every blob, which takes as long as the history is.

mod log;

use crate::error::Error;
use crate::{BLOBS, DATABASE, blobs::Blobs, sqlite};
use contract::event::{Envelope, Origin};
use contract::{RunId, Timestamp};
use rusqlite::Connection;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use uuid::Uuid;

/// A sum of whole numbers that ends at the largest one; see `sqlite/exact.rs`.
macro_rules! exact {
    ($column:literal) => {
        concat!(
            "iif(sum(",
            $column,
            " >> 32) + (sum(",
            $column,
            " & 4294967295) >> 32) > 2147483647,
             9223372036854775807, (sum(",
            $column,
            " >> 32) << 32) + sum(",
            $column,
            " & 4294967295))"
        )
    };
}

/// Each rule: what is wrong with the rows it finds, and a query that gives one text per violation.
const RULES: &[(&str, &str)] = &[
    (
        "events are numbered from 1 without gaps up to the run's head",
        "SELECT lower(hex(r.id)) || ' head ' || r.head_seq || ', events ' || count(e.seq)
             || ', first ' || coalesce(min(e.seq), 0) || ', last ' || coalesce(max(e.seq), 0)
         FROM runs r LEFT JOIN events e ON e.run = r.num WHERE r.deleted_at IS NULL GROUP BY r.num
         HAVING count(e.seq) <> r.head_seq OR coalesce(max(e.seq), 0) <> r.head_seq
             OR (r.head_seq > 0 AND min(e.seq) <> 1)",
    ),
    (
        "no two events of a run have one number",
        "SELECT run || ' seq ' || seq FROM events GROUP BY run, seq HAVING count(*) > 1",
    ),
    (
        "every event belongs to a run",
        "SELECT e.id || '' FROM events e LEFT JOIN runs r ON r.num = e.run WHERE r.num IS NULL",
    ),
    (
        "spans name exactly the events of their run",
        "SELECT s.run || ' span ' || s.first_seq || ' of ' || s.count || ' finds ' || count(e.id)
         FROM spans s LEFT JOIN events e ON e.id >= s.first_id AND e.id < s.first_id + s.count
             AND e.run = s.run AND e.seq = s.first_seq + (e.id - s.first_id)
         GROUP BY s.run, s.first_seq HAVING count(e.id) <> s.count",
    ),
    (
        "spans follow each other up to the head",
        "SELECT r.num || ' spans ' || coalesce(sum(s.count), 0) || ' head ' || r.head_seq
         FROM runs r LEFT JOIN spans s ON s.run = r.num WHERE r.deleted_at IS NULL GROUP BY r.num
         HAVING coalesce(sum(s.count), 0) <> r.head_seq",
    ),
    (
        "a deleted run is settled, and leaves nothing when it is purged",
        "SELECT num || '' FROM runs WHERE deleted_at IS NOT NULL AND (state <> 'settled' OR purged AND (
             num IN (SELECT run FROM spans) OR num IN (SELECT run FROM plans)
             OR num IN (SELECT run FROM commands) OR num IN (SELECT run FROM blob_names)))",
    ),
    (
        "every blob that an event names is counted for its run",
        "SELECT e.run || ' ' || (value ->> '$.hash') FROM events e, json_each(CAST(bytes AS TEXT))
         WHERE instr(bytes, CAST('_blob\":{' AS BLOB)) > 0 AND key LIKE '%\\_blob' ESCAPE '\\'
             AND NOT EXISTS (SELECT 1 FROM blob_names n WHERE n.run = e.run AND n.hash = value ->> '$.hash')
             AND EXISTS (SELECT 1 FROM runs r WHERE r.num = e.run AND r.deleted_at IS NULL)",
    ),
    (
        "a result is the last event of a settled run, and nowhere else",
        "SELECT r.num || ' seq ' || e.seq FROM runs r JOIN events e ON e.run = r.num
         WHERE (CAST(e.bytes AS TEXT) ->> '$.kind' = 'result')
             <> (r.state = 'settled' AND e.seq = r.head_seq)",
    ),
    (
        "a run ended as its result says",
        "SELECT r.num || ' ' || r.outcome FROM runs r JOIN events e ON e.run = r.num
         WHERE r.state = 'settled' AND e.seq = r.head_seq
             AND (CAST(e.bytes AS TEXT) ->> '$.outcome') IS NOT r.outcome",
    ),
    (
        "a settled run has events",
        "SELECT num || '' FROM runs WHERE state = 'settled' AND head_seq = 0",
    ),
    (
        "an event carries its own number and no fence beyond its run's",
        "SELECT e.run || ' seq ' || e.seq FROM events e JOIN runs r ON r.num = e.run
         WHERE (CAST(e.bytes AS TEXT) ->> '$.seq') <> e.seq
             OR (CAST(e.bytes AS TEXT) ->> '$.fence') > r.fence",
    ),
    (
        "fences never fall along a run's events",
        "SELECT run || ' seq ' || seq FROM (
             SELECT run, seq, CAST(bytes AS TEXT) ->> '$.fence' AS fence,
                 lag(CAST(bytes AS TEXT) ->> '$.fence') OVER (PARTITION BY run ORDER BY seq) AS before
             FROM events) WHERE fence < before",
    ),
    (
        "a task's fence is the highest of its runs",
        "SELECT lower(hex(t.id)) || ' fence ' || t.fence FROM tasks t JOIN runs r ON r.task = t.id
         GROUP BY t.num HAVING max(r.fence) <> t.fence",
    ),
    (
        "no two runs of a task have one fence",
        "SELECT lower(hex(task)) || ' fence ' || fence FROM runs
         GROUP BY task, fence HAVING count(*) > 1",
    ),
    (
        "nothing of a task is written behind what was written under a later fence",
        "SELECT lower(hex(task)) || ' event ' || id || ' has fence ' || fence || ' behind ' || before
         FROM (SELECT task, id, fence, max(fence) OVER (PARTITION BY task ORDER BY id
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
             FROM (SELECT r.task, e.id, CAST(e.bytes AS TEXT) ->> '$.fence' AS fence
                 FROM events e JOIN runs r ON r.num = e.run))
         WHERE fence < before",
    ),
    (
        "a task is running exactly when one run of it is not settled",
        "SELECT lower(hex(t.id)) || ' ' || t.state FROM tasks t LEFT JOIN runs r ON r.task = t.id
         GROUP BY t.num
         HAVING coalesce(sum(r.state <> 'settled'), 0) <> (t.state = 'running')",
    ),
    (
        "whoever waits for a slot says for which",
        "SELECT lower(hex(id)) FROM tasks
         WHERE state = 'waiting' AND waiting_for = 'pool' AND pool IS NULL",
    ),
    (
        "only what waits says for what, and it says it",
        "SELECT lower(hex(id)) || ' ' || state FROM tasks
         WHERE (state = 'waiting') <> (waiting_for IS NOT NULL) OR (until IS NOT NULL AND state <> 'waiting')",
    ),
    (
        "whoever waits for other tasks has one that is not done",
        "SELECT lower(hex(t.id)) FROM tasks t WHERE t.state = 'waiting' AND t.waiting_for = 'dependency'
             AND NOT EXISTS (SELECT 1 FROM dependencies d JOIN tasks o ON o.id = d.after
                 WHERE d.task = t.id AND o.state <> 'done')",
    ),
    (
        "the books of a run add up to its totals",
        "SELECT r.num || ' tokens ' || total(l.input_uncached + l.cache_read + l.cache_write + l.output)
             || ', nano-dollars ' || sum(l.nanousd) || ', totals ' || r.totals
         FROM ledger l JOIN runs r ON r.num = l.run GROUP BY r.num
         HAVING sum(l.input_uncached) <> r.totals ->> '$.tokens.input_uncached'
             OR sum(l.cache_read) <> r.totals ->> '$.tokens.cache_read'
             OR sum(l.cache_write) <> r.totals ->> '$.tokens.cache_write'
             OR sum(l.output) <> r.totals ->> '$.tokens.output'
             OR CASE WHEN max(l.priced) AND NOT max(l.unpriced) THEN sum(l.nanousd) END
                 IS NOT r.totals ->> '$.effective_nanousd'",
    ),
    (
        "the totals of a scope are what its settled runs have spent",
        concat!(
            "SELECT coalesce(t.scope, r.scope) || ' totals ' || coalesce(t.sums, 'none') || ', runs '
             || coalesce(r.sums, 'none')
         FROM (SELECT scope, nanousd || ' ' || tokens || ' ' || turns || ' ' || ms AS sums
             FROM scope_totals) t
         FULL JOIN (SELECT scope, ",
            exact!("nanousd"),
            " || ' ' || ",
            exact!("tokens"),
            " || ' ' || ",
            exact!("turns"),
            " || ' ' || ",
            exact!("ms"),
            " AS sums FROM reservations WHERE settled_at IS NOT NULL GROUP BY scope) r
             ON t.scope = r.scope
         WHERE t.sums IS NOT r.sums"
        ),
    ),
    (
        "the events that are read by their task are exactly those of these kinds",
        "SELECT e.run || ' event ' || e.id FROM events e
             LEFT JOIN task_events t ON t.run = e.run AND t.event = e.id
         WHERE iif(CAST(e.bytes AS TEXT) ->> '$.kind' IN ('comment', 'progress'),
             CAST(e.bytes AS TEXT) ->> '$.kind', NULL) IS NOT t.kind
         UNION ALL
         SELECT run || ' event ' || event FROM task_events
         WHERE event NOT IN (SELECT id FROM events)",
    ),
    (
        "the report of a run agrees with its totals and its billing",
        "SELECT num || ' report ' || report || ', billing ' || coalesce(billing, 'none') || ', totals '
             || coalesce(totals, 'none')
         FROM runs WHERE report IS NOT NULL AND (billing IS NOT report ->> '$.billing'
             OR coalesce(report ->> '$.usage.tokens.input_uncached', 0)
                 <> coalesce(totals ->> '$.tokens.input_uncached', 0)
             OR coalesce(report ->> '$.usage.tokens.cache_read', 0)
                 <> coalesce(totals ->> '$.tokens.cache_read', 0)
             OR coalesce(report ->> '$.usage.tokens.cache_write', 0)
                 <> coalesce(totals ->> '$.tokens.cache_write', 0)
             OR coalesce(report ->> '$.usage.tokens.output', 0)
                 <> coalesce(totals ->> '$.tokens.output', 0))",
    ),
    (
        "a settled run leaves no state, effect or open reservation",
        "SELECT num || '' FROM runs WHERE state = 'settled' AND (
             num IN (SELECT run FROM states) OR num IN (SELECT run FROM effects)
             OR num IN (SELECT run FROM reservations WHERE settled_at IS NULL))",
    ),
];

/// Every violation found in the store of this directory, in words; empty when all is well.
pub fn check(dir: &Path) -> Result<Vec<String>, Error> {
    let connection = sqlite::open_reader(&dir.join(DATABASE))?;
    connection.pragma_update(None, "cell_size_check", true)?;
    let snapshot = connection.unchecked_transaction()?;
    let mut violations = Vec::new();
    for (rule, sql) in RULES {
        let mut statement = snapshot.prepare(sql)?;
        let found = statement.query_map([], |row| row.get::<_, String>(0))?;
        for found in found {
            violations.push(format!("{rule}: {}", found?));
        }
    }
    violations.extend(check_file(&snapshot)?);
    violations.extend(check_log(dir)?);
    violations.extend(check_envelopes(&snapshot)?);
    violations.extend(check_blobs(&snapshot, dir)?);
    Ok(violations)
}

/// The same of a store that was swept since someone last died, and to which nobody writes now. Before
/// that a blob may be there that nobody names: it is durable before the commit that names it.
pub fn check_swept(dir: &Path) -> Result<Vec<String>, Error> {
    let mut violations = check(dir)?;
    let connection = sqlite::open_reader(&dir.join(DATABASE))?;
    let mut named = connection.prepare("SELECT 1 FROM blob_names WHERE hash = ?1")?;
    let blobs = Blobs::at(dir.join(BLOBS));
    let failed = |cause| Error::io("listing blobs", cause);
    for shelf in blobs.all_shelves().map_err(failed)? {
        for hash in blobs.on_shelf(&shelf).map_err(failed)? {
            if !named.exists([&hash])? {
                violations.push(format!("some run names every blob: {hash}"));
            }
        }
    }
    Ok(violations)
}

fn check_file(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare("PRAGMA integrity_check(20)")?;
    let said = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut said = said.collect::<Result<Vec<_>, _>>()?;
    said.retain(|line| line != "ok");
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let orphans = statement.query_map([], |row| row.get::<_, String>(0))?;
    for orphan in orphans {
        said.push(format!("a row of {} names one that is not there", orphan?));
    }
    Ok(said.into_iter().map(|line| format!("the file: {line}")).collect())
}

/// Nothing that was committed is lost with a broken frame of the log.
fn check_log(dir: &Path) -> Result<Option<String>, Error> {
    let log = match std::fs::read(dir.join(format!("{DATABASE}-wal"))) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|cause| Error::io("reading the database's log", cause))?,
    };
    Ok(log::broken(&log)
        .map(|n| format!("the log: frame {n} is broken, and commits behind it lost")))
}

/// What every event begins with.
#[derive(Deserialize)]
struct Head {
    run_id: RunId,
    seq: u64,
    ts: Timestamp,
    attempt: u32,
    fence: u64,
    origin: Origin,
}

/// Every event begins with its envelope, as we write it, and with that of its own run.
fn check_envelopes(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut statement = connection.prepare(
        "SELECT r.id, e.seq, e.bytes FROM events e JOIN runs r ON r.num = e.run ORDER BY e.id",
    )?;
    let mut rows = statement.query([])?;
    let mut violations = Vec::new();
    while let Some(row) = rows.next()? {
        let run = RunId::new(Uuid::from_bytes(row.get(0)?));
        let (seq, bytes): (i64, Vec<u8>) = (row.get(1)?, row.get(2)?);
        let written = serde_json::from_slice(&bytes).is_ok_and(|head: Head| {
            let Head { run_id, seq, ts, attempt, fence, origin } = head;
            let mut envelope = Vec::new();
            Envelope { run_id, seq, ts, attempt, fence, origin }.write(&mut envelope);
            run_id == run && bytes.starts_with(&envelope)
        });
        if !written {
            violations.push(format!("every event begins with its envelope: {run} seq {seq}"));
        }
    }
    Ok(violations)
}

/// Blobs that events name are there and hash to their names.
fn check_blobs(connection: &Connection, dir: &Path) -> Result<Vec<String>, Error> {
    let blobs = Blobs::at(dir.join(BLOBS));
    let mut statement = connection.prepare(
        "SELECT value ->> '$.hash' FROM events, json_each(CAST(bytes AS TEXT))
         WHERE instr(bytes, CAST('_blob\":{' AS BLOB)) > 0 AND key LIKE '%\\_blob' ESCAPE '\\'",
    )?;
    let named = statement.query_map([], |row| row.get::<_, String>(0))?;
    let named = named.collect::<Result<BTreeSet<_>, _>>()?;
    let mut violations = Vec::new();
    for hash in named {
        match blobs.read(&hash) {
            Ok(Some(_)) => {}
            Ok(None) => violations.push(format!("every blob is there: {hash}")),
            Err(Error::Damaged { blob }) => {
                violations.push(format!("every blob hashes to its name: {blob}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(violations)
}
