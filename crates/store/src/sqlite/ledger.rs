//! The books: what was spent, added up by run, day and model in the Batch that books it, and read
//! by day, agent, adapter or model. Few rows stand for many usages, so a long history is read fast.

use super::verbs::Held;
use super::{blob_id, count, exact, int};
use crate::batch::{Batch, Covers, LedgerRow};
use crate::error::Error;
use crate::row::{By, CostKey, CostRow, CostsQuery};
use contract::{NanoUsd, Timestamp, Tokens};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

const DAY_MS: i64 = 86_400_000;
/// Two of these can be added without leaving the numbers of SQLite; nobody spends that much.
const ADDEND_MAX: i64 = 4_000_000_000_000_000_000;

pub(super) fn book(connection: &Connection, batch: &Batch, held: &Held) -> Result<(), Error> {
    for row in &batch.ledger {
        replace(connection, row, held)?;
        cover(connection, row, held)?;
        add(connection, row, held)?;
    }
    Ok(())
}

/// Removes the approximate rows in whose place this total comes.
fn replace(connection: &Connection, row: &LedgerRow, held: &Held) -> Result<(), Error> {
    match row.replaces {
        Covers::Nothing => {}
        Covers::Model => {
            connection
                .prepare_cached(
                    "DELETE FROM ledger
                     WHERE run = ?1 AND provider = ?2 AND model = ?3 AND approximate",
                )?
                .execute(params![held.num, row.provider.text(), row.model.text()])?;
        }
        Covers::Run => {
            connection
                .prepare_cached("DELETE FROM ledger WHERE run = ?1 AND approximate")?
                .execute([held.num])?;
        }
    }
    Ok(())
}

/// What had no price before and is part of this priced total.
fn cover(connection: &Connection, row: &LedgerRow, held: &Held) -> Result<(), Error> {
    match row.covers {
        Covers::Nothing => {}
        Covers::Model => {
            connection
                .prepare_cached(
                    "UPDATE ledger SET unpriced = 0 WHERE run = ?1 AND provider = ?2 AND model = ?3",
                )?
                .execute(params![held.num, row.provider.text(), row.model.text()])?;
        }
        Covers::Run => {
            connection
                .prepare_cached("UPDATE ledger SET unpriced = 0 WHERE run = ?1")?
                .execute([held.num])?;
        }
    }
    Ok(())
}

fn add(connection: &Connection, row: &LedgerRow, held: &Held) -> Result<(), Error> {
    let Tokens { input_uncached, cache_read, cache_write, output, reasoning } = row.tokens;
    connection
        .prepare_cached(
            "INSERT INTO ledger (run, day, provider, model, approximate, input_uncached, cache_read,
                                 cache_write, output, reasoning, nanousd, priced, unpriced)
             VALUES (?1, ?2, ?3, ?4, ?14, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (run, day, provider, model, approximate) DO UPDATE SET
                 input_uncached = min(input_uncached, ?13) + min(excluded.input_uncached, ?13),
                 cache_read = min(cache_read, ?13) + min(excluded.cache_read, ?13),
                 cache_write = min(cache_write, ?13) + min(excluded.cache_write, ?13),
                 output = min(output, ?13) + min(excluded.output, ?13),
                 reasoning = min(reasoning, ?13) + min(excluded.reasoning, ?13),
                 nanousd = min(nanousd, ?13) + min(excluded.nanousd, ?13),
                 priced = max(priced, excluded.priced),
                 unpriced = max(unpriced, excluded.unpriced)",
        )?
        .execute(params![
            held.num,
            row.at.ms().div_euclid(DAY_MS),
            row.provider.text(),
            row.model.text(),
            int(input_uncached),
            int(cache_read),
            int(cache_write),
            int(output),
            int(reasoning.unwrap_or(0)),
            row.nanousd.unwrap_or_default().0,
            row.nanousd.is_some(),
            row.unpriced,
            ADDEND_MAX,
            row.approximate,
        ])?;
    Ok(())
}

/// The columns by which costs can be told apart, as they are named in the query.
fn column(by: By) -> &'static str {
    match by {
        By::Day => "l.day",
        By::Agent => "r.agent",
        By::Adapter => "r.adapter",
        By::Model => {
            "CASE WHEN l.provider = '' OR l.model = '' THEN l.model
                           ELSE l.provider || '/' || l.model END"
        }
    }
}

pub(super) const SUMS: [&str; 6] =
    ["input_uncached", "cache_read", "cache_write", "output", "reasoning", "nanousd"];

/// The columns before the sums, each of which has two.
const KEYS: usize = 5;
/// The columns behind them.
const PRICED: usize = KEYS + 2 * SUMS.len();

/// Whether a row of the ledger is of an account for whose use nothing is billed.
const INCLUDED: &str = "(r.billing IS NOT NULL AND r.billing IN ('subscription', 'free'))";

/// What was spent, told apart by some of day, agent, adapter and model, in that order.
pub(super) fn costs(connection: &Connection, query: CostsQuery) -> Result<Vec<CostRow>, Error> {
    let asked = |by: By| query.by.contains(&by);
    let keys = [By::Day, By::Agent, By::Adapter, By::Model];
    let selected: Vec<_> =
        keys.iter().map(|by| if asked(*by) { column(*by) } else { "NULL" }).collect();
    let day = |at: Timestamp| at.ms().div_euclid(DAY_MS);
    let last = query.after.as_ref().and_then(|after| after.day);
    let mut given = vec![
        Value::Integer(query.since.map_or(i64::MIN, day)),
        Value::Integer(last.map_or(i64::MAX, day)),
        Value::Integer(query.limit as i64),
    ];
    let behind = match &query.after {
        None => "TRUE".to_owned(),
        Some(after) => behind(after, &mut given),
    };
    let of_run = match query.run {
        None => "TRUE".to_owned(),
        Some(run) => {
            given.push(Value::Blob(blob_id(run.uuid()).to_vec()));
            format!("r.id = ?{}", given.len())
        }
    };
    // Only our own words go into the text; what is asked for comes by parameters.
    let sql = format!(
        "SELECT {}, count(DISTINCT l.run), {}, max(l.priced), max(l.unpriced),
             {}, max(l.unpriced AND NOT {INCLUDED})
         FROM ledger l JOIN runs r ON r.num = l.run
         WHERE l.day BETWEEN ?1 AND ?2 AND {behind} AND {of_run}
         GROUP BY 1, 2, 3, 4 ORDER BY 1 DESC, 2, 3, 4 LIMIT ?3",
        selected.join(", "),
        SUMS.map(|column| exact::sum(&format!("l.{column}"))).join(", "),
        exact::sum(&format!("iif({INCLUDED}, l.nanousd, 0)"))
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(given), cost_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What comes behind a row in the order of the books: later days come first.
fn behind(after: &CostKey, given: &mut Vec<Value>) -> String {
    let CostKey { day, agent, adapter, model } = after;
    let day = day.map(|day| Value::Integer(-day.ms().div_euclid(DAY_MS)));
    let name = |name: &Option<String>| name.clone().map(Value::Text);
    let keys = [
        (format!("-{}", column(By::Day)), day),
        (column(By::Agent).to_owned(), name(agent)),
        (column(By::Adapter).to_owned(), name(adapter)),
        (column(By::Model).to_owned(), name(model)),
    ];
    let (mut columns, mut places) = (Vec::new(), Vec::new());
    for (column, value) in keys.into_iter().filter_map(|(column, key)| Some((column, key?))) {
        given.push(value);
        columns.push(column);
        places.push(format!("?{}", given.len()));
    }
    match columns.is_empty() {
        // One row has everything, and nothing is behind it.
        true => "FALSE".to_owned(),
        false => format!("({}) > ({})", columns.join(", "), places.join(", ")),
    }
}

fn cost_row(row: &Row<'_>) -> rusqlite::Result<CostRow> {
    let day: Option<i64> = row.get(0)?;
    let sum = |n: usize| exact::read(row, KEYS + 2 * n);
    let reasoning = count(sum(4)?);
    let paid = NanoUsd(sum(5)?);
    let (priced, unpriced): (bool, bool) = (row.get(PRICED)?, row.get(PRICED + 1)?);
    let included = NanoUsd(exact::read(row, PRICED + 2)?);
    let is_billed_unpriced: bool = row.get(PRICED + 4)?;
    // A row without either has its price in a total of another row.
    let billed = (priced || unpriced).then(|| paid.saturating_sub(included));
    Ok(CostRow {
        day: day.map(|day| Timestamp(day * DAY_MS).to_string().chars().take(10).collect()),
        agent: row.get(1)?,
        adapter: row.get(2)?,
        model: row.get(3)?,
        runs: count(row.get(4)?),
        tokens: Tokens {
            input_uncached: count(sum(0)?),
            cache_read: count(sum(1)?),
            cache_write: count(sum(2)?),
            output: count(sum(3)?),
            reasoning: (reasoning > 0).then_some(reasoning),
        },
        effective_nanousd: (priced && !unpriced).then_some(paid),
        priced_nanousd: priced.then_some(paid),
        unpriced,
        included_nanousd: included,
        billed_nanousd: billed.filter(|_| !is_billed_unpriced),
    })
}
