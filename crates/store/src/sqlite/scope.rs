//! Quotas and shared sums: the verbs that change them and the reads beside. A breaker is changed by
//! compare-and-set on its version; what a run starts within is checked and written in the transaction
//! that begins it.

use super::writer::{Did, Wake};
use super::{agents, blob_id, count, exact, int, reads, verbs};
use crate::error::Error;
use crate::feed::Hint;
use crate::row::RunsPage;
use crate::scope::{Opened, QuotaRow, QuotaStep, ScopeSum, StartLook, Surroundings, Within};
use crate::seal::Sealed;
use contract::limits::PAGE_ROWS_MAX;
use contract::{NanoUsd, RunId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

const QUOTA: &str =
    "SELECT scope, version, breaker, why, opened_at, opened_by, windows, told_at FROM quotas";

/// Holds a run that was just claimed to what it starts within.
pub(super) fn admit(connection: &Connection, run: RunId, within: &Within) -> Result<(), Error> {
    if let Some(scope) = &within.quota_scope {
        connection
            .prepare_cached("UPDATE runs SET quota_scope = ?2 WHERE id = ?1")?
            .execute(params![blob_id(run.uuid()), scope])?;
    }
    if let Some(step) = &within.quota {
        change(connection, step)?;
    }
    for reserve in &within.reserves {
        verbs::reserve(connection, reserve)?;
    }
    Ok(())
}

/// Changes a breaker that still is as the caller saw it. Whoever waits for it looks again.
pub(super) fn step(connection: &Connection, step: &QuotaStep) -> Result<Did<()>, Error> {
    change(connection, step)?;
    Ok(Did { value: (), wakes: vec![Wake::Events(Hint::Missed)] })
}

fn change(connection: &Connection, step: &QuotaStep) -> Result<(), Error> {
    let QuotaStep { scope, seen, breaker, opened } = step;
    connection
        .prepare_cached("INSERT INTO quotas (scope) VALUES (?1) ON CONFLICT DO NOTHING")?
        .execute([scope])?;
    let (at, by, why) = match opened {
        Some(Opened { at, by, why }) => {
            (Some(at.ms()), by.map(|by| blob_id(by.uuid())), Some(why.text()))
        }
        None => (None, None, None),
    };
    let changed = connection
        .prepare_cached(
            "UPDATE quotas SET version = version + 1, breaker = ?3, opened_at = coalesce(?4, opened_at),
                               opened_by = CASE WHEN ?4 IS NULL THEN opened_by ELSE ?5 END,
                               why = coalesce(?6, why)
             WHERE scope = ?1 AND version = ?2",
        )?
        .execute(params![scope, int(*seen), breaker, at, by, why])?;
    match changed {
        1 => Ok(()),
        _ => Err(Error::conflict(format!("the quota of {scope} has changed meanwhile"))),
    }
}

/// Keeps how the windows of a quota stand, unless something newer was told.
pub(super) fn told(
    connection: &Connection,
    scope: &str,
    windows: &Sealed,
    at: Timestamp,
) -> Result<Did<()>, Error> {
    connection
        .prepare_cached(
            "INSERT INTO quotas (scope, windows, told_at) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET windows = excluded.windows, told_at = excluded.told_at
             WHERE told_at IS NULL OR told_at <= excluded.told_at",
        )?
        .execute(params![scope, windows.text(), at.ms()])?;
    Ok(Did::quietly(()))
}

pub(super) fn quota(connection: &Connection, scope: &str) -> Result<Option<QuotaRow>, Error> {
    let sql = format!("{QUOTA} WHERE scope = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([scope], quota_row).optional()?)
}

/// Everything of one moment, as one transaction sees it.
pub(super) fn surroundings(connection: &Connection, of: &StartLook) -> Result<Surroundings, Error> {
    let moment = connection.unchecked_transaction()?;
    let page = RunsPage { before: None, limit: PAGE_ROWS_MAX, unsettled_only: true };
    let surroundings = Surroundings {
        agent: agents::agent(connection, &of.agent)?,
        quota: quota(connection, &of.quota_scope)?,
        lineage: of.task.map_or(Ok(Vec::new()), |task| reads::lineage(connection, task))?,
        live: reads::runs(connection, page)?,
    };
    moment.finish()?;
    Ok(surroundings)
}

pub(super) fn quotas(
    connection: &Connection,
    after: &str,
    limit: usize,
) -> Result<Vec<QuotaRow>, Error> {
    let sql = format!("{QUOTA} WHERE scope > ?1 ORDER BY scope LIMIT ?2");
    let limit = limit.clamp(1, PAGE_ROWS_MAX + 1) as i64;
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![after, limit], quota_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn quota_row(row: &Row<'_>) -> rusqlite::Result<QuotaRow> {
    let by: Option<[u8; 16]> = row.get(5)?;
    Ok(QuotaRow {
        scope: row.get(0)?,
        version: count(row.get(1)?),
        breaker: row.get(2)?,
        why: row.get(3)?,
        opened_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        opened_by: by.map(|by| RunId::new(Uuid::from_bytes(by))),
        windows: row.get(6)?,
        told_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
    })
}

/// The runs of a quota that are not settled, oldest first.
pub(super) fn live(
    connection: &Connection,
    scope: &str,
    limit: usize,
) -> Result<Vec<RunId>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM runs WHERE quota_scope = ?1 AND state <> 'settled' ORDER BY id LIMIT ?2",
    )?;
    let limit = limit.clamp(1, PAGE_ROWS_MAX) as i64;
    let rows = statement.query_map(params![scope, limit], |row| {
        row.get::<_, [u8; 16]>(0).map(|id| RunId::new(Uuid::from_bytes(id)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The quota that a run spends.
pub(super) fn of_run(connection: &Connection, run: RunId) -> Result<Option<String>, Error> {
    let scope = connection
        .prepare_cached("SELECT quota_scope FROM runs WHERE id = ?1")?
        .query_row([blob_id(run.uuid())], |row| row.get(0))
        .optional()?;
    Ok(scope.flatten())
}

/// What a run spent, when its reservations are closed.
pub(super) struct Spent {
    /// `None` leaves the dollars that were set aside: unknown is not free.
    pub nanousd: Option<NanoUsd>,
    pub tokens: u64,
    pub turns: u64,
    pub ended_at: Timestamp,
}

/// Replaces what was set aside for a run by what it spent, and adds that to the totals of its scopes.
pub(super) fn close_reservations(
    connection: &Connection,
    num: i64,
    spent: &Spent,
) -> Result<(), Error> {
    let mut close = connection.prepare_cached(
        "UPDATE reservations SET nanousd = coalesce(?2, nanousd), tokens = ?3, settled_at = ?4,
             turns = ?5, ms = max(0, ?4 - (SELECT started_at FROM runs WHERE num = ?1))
         WHERE run = ?1 AND settled_at IS NULL RETURNING scope, nanousd, tokens, turns, ms",
    )?;
    let values = params![
        num,
        spent.nanousd.map(|nano| nano.0),
        int(spent.tokens),
        spent.ended_at.ms(),
        int(spent.turns),
    ];
    let closed = close
        .query_map(values, |row| {
            let sums: [i64; 4] = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
            Ok((row.get::<_, String>(0)?, sums))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    for (scope, [nanousd, tokens, turns, ms]) in closed {
        connection
            .prepare_cached(&add_sql())?
            .execute(params![scope, nanousd, tokens, turns, ms])?;
    }
    Ok(())
}

/// Adds to the totals of a scope; a total ends at the largest number.
fn add_sql() -> String {
    let add = |column: &str| {
        format!(
            "{column} = iif(excluded.{column} > 0,
                 min({column}, 9223372036854775807 - excluded.{column}), {column})
                 + excluded.{column}"
        )
    };
    format!(
        "INSERT INTO scope_totals (scope, nanousd, tokens, turns, ms) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (scope) DO UPDATE SET {}",
        ["nanousd", "tokens", "turns", "ms"].map(add).join(", ")
    )
}

/// What a scope has spent and holds since a moment. A moment of 0 or earlier stands for "ever": that
/// is read from the totals of the scope, so that it does not cost more the longer the history is.
/// Sums end at the largest number.
pub(super) fn sum(
    connection: &Connection,
    scope: &str,
    since: Timestamp,
) -> Result<ScopeSum, Error> {
    let settled = match since <= Timestamp(0) {
        true => total(connection, scope)?,
        false => {
            let among = "settled_at >= ?2";
            reserved(connection, among, params![scope, since.ms()])?
        }
    };
    let open = reserved(connection, "settled_at IS NULL", params![scope])?;
    Ok(ScopeSum {
        nanousd: NanoUsd(settled.nanousd.0.saturating_add(open.nanousd.0)),
        tokens: settled.tokens.saturating_add(open.tokens),
        turns: settled.turns.saturating_add(open.turns),
        ms: settled.ms.saturating_add(open.ms),
        live: open.live,
    })
}

/// Everything that settled runs of a scope have spent.
fn total(connection: &Connection, scope: &str) -> Result<ScopeSum, Error> {
    let found = connection
        .prepare_cached("SELECT nanousd, tokens, turns, ms FROM scope_totals WHERE scope = ?1")?
        .query_row([scope], |row| {
            Ok(ScopeSum {
                nanousd: NanoUsd(row.get(0)?),
                tokens: count(row.get(1)?),
                turns: count(row.get(2)?),
                ms: count(row.get(3)?),
                live: 0,
            })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

fn reserved(
    connection: &Connection,
    among: &str,
    given: &[&dyn rusqlite::ToSql],
) -> Result<ScopeSum, Error> {
    let sums = ["nanousd", "tokens", "turns", "ms"].map(exact::sum).join(", ");
    let sql = format!("SELECT {sums}, count(*) FROM reservations WHERE scope = ?1 AND {among}");
    Ok(connection.prepare_cached(&sql)?.query_row(given, |row| {
        Ok(ScopeSum {
            nanousd: NanoUsd(exact::read(row, 0)?),
            tokens: count(exact::read(row, 2)?),
            turns: count(exact::read(row, 4)?),
            ms: count(exact::read(row, 6)?),
            live: count(row.get(8)?),
        })
    })?)
}
