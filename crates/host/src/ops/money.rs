//! Money: what was spent, and what things cost. The books are kept by the store, prices by
//! `prices.rs`; here is what can be asked of both.

use super::run::stored;
use super::who::Who;
use crate::blocking::{self, Bulkhead};
use crate::prices::{self, Listed};
use crate::{Host, clock};
use contract::{Code, Fault, RunId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{By, CostKey, CostRow, CostsQuery};

const DAY_MS: i64 = 86_400_000;

/// What came of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportReport {
    pub version: String,
    pub prices: usize,
}

/// Which costs are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// A list of `day`, `agent`, `adapter` and `model` with commas between; by day when absent.
    pub by: Option<&'a str>,
    /// A day such as `2026-11-01`, or the last days as `7d`. Days are those of UTC.
    pub since: Option<&'a str>,
    /// Only those of this run.
    pub run: Option<RunId>,
    /// Behind this row, as `place` names it.
    pub after: Option<&'a str>,
}

/// What was spent: so many rows, the newest days first.
pub async fn costs(host: &Host, asked: Asked<'_>, limit: usize) -> Result<Vec<CostRow>, Fault> {
    let by = asked.by.map_or(Ok(vec![By::Day]), keys)?;
    let after = asked.after.map(|after| behind(after, &by)).transpose()?;
    let since = asked.since.map(|since| moment(since, clock::now().wall)).transpose()?;
    let query = CostsQuery { by, since, run: asked.run, after, limit };
    host.store().costs(query).await.map_err(stored)
}

/// The place of a row among its like: what it is told apart by, in the order of the columns.
pub fn place(row: &CostRow) -> String {
    let names = [&row.day, &row.agent, &row.adapter, &row.model];
    let names: Vec<_> = names.into_iter().flatten().map(String::as_str).collect();
    Value::from(names).to_string()
}

/// The row that a place names. A place is good for the columns it was given with.
fn behind(given: &str, by: &[By]) -> Result<CostKey, Fault> {
    let odd = || {
        Fault::new(Code::Usage, "invalid `after` cursor")
            .with_hint("give the `next` of the previous page unchanged, with the same `by`")
    };
    let names: Vec<String> = serde_json::from_str(given).map_err(|_| odd())?;
    let mut names = names.into_iter();
    let mut name = |of: By| match by.contains(&of) {
        true => names.next().map(Some).ok_or_else(odd),
        false => Ok(None),
    };
    let day = name(By::Day)?.map(|day| midnight(&day).ok_or_else(odd)).transpose()?;
    let (agent, adapter, model) = (name(By::Agent)?, name(By::Adapter)?, name(By::Model)?);
    match names.next() {
        None => Ok(CostKey { day, agent, adapter, model }),
        Some(_) => Err(odd()),
    }
}

fn keys(given: &str) -> Result<Vec<By>, Fault> {
    given
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(|word| {
            serde_json::from_value(Value::from(word)).map_err(|_| {
                Fault::new(Code::Usage, format!("cannot group costs by '{word}'")).with_hint(
                    "expected one or more of day, agent, adapter and model, separated \
                     by commas",
                )
            })
        })
        .collect()
}

fn moment(given: &str, now: Timestamp) -> Result<Timestamp, Fault> {
    let last = given.strip_suffix('d').and_then(|days| days.parse::<u16>().ok());
    if let Some(days) = last.filter(|days| *days > 0) {
        // Today is one of them.
        return Ok(now.plus_ms(-DAY_MS * (i64::from(days) - 1)));
    }
    midnight(given).ok_or_else(|| {
        Fault::new(Code::Usage, format!("cannot parse '{given}' as a date"))
            .with_hint("expected a date such as 2026-11-01, or a number of days such as 7d")
    })
}

/// When a day began, in UTC.
pub(super) fn midnight(day: &str) -> Option<Timestamp> {
    let date = day.parse::<jiff::civil::Date>().ok()?;
    let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(Timestamp(midnight.timestamp().as_millisecond()))
}

/// The prices that count, by name: so many that come after this one. `model` is a part of the name.
pub async fn prices(
    host: &Host,
    model: Option<&str>,
    after: &str,
    limit: usize,
) -> Result<Vec<Listed>, Fault> {
    let (part, at) = (model.unwrap_or_default(), clock::now().wall);
    host.inner.prices.list(part, after, limit, at).await
}

/// Takes a file of prices whole, in the place of the one before, or refuses it whole.
pub async fn import(host: &Host, file: Value, by: &Who) -> Result<ImportReport, Fault> {
    let imported = blocking::spawn(Bulkhead::Data, "read prices", move || prices::read(&file))
        .await
        .map_err(|error| Fault::new(Code::InternalError, format!("reading prices: {error}")))??;
    let report =
        ImportReport { version: imported.version.clone(), prices: imported.prices.0.len() };
    host.inner.prices.import(imported).await?;
    let about = serde_json::json!({ "version": report.version, "prices": report.prices });
    host.inner.audit.did(clock::now().wall, by, "prices_imported", about);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_as_people_write_them() {
        let now = Timestamp(10 * DAY_MS + 5);
        let day = |given: &str| moment(given, now).map(|at| at.ms().div_euclid(DAY_MS)).ok();
        let rows = [("1970-01-03", Some(2)), ("1d", Some(10)), ("7d", Some(4)), ("0d", None)];
        for (given, expected) in rows {
            assert_eq!(day(given), expected, "{given}");
        }
        for nonsense in ["", "yesterday", "2026-13-01", "-3d", "d"] {
            assert_eq!(day(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_place_names_its_row_and_is_good_for_the_same_columns_only() {
        let row = CostRow {
            day: Some("1970-01-03".to_owned()),
            agent: None,
            adapter: Some("a \"quoted\" one".to_owned()),
            model: Some(String::new()),
            runs: 1,
            tokens: Default::default(),
            effective_nanousd: None,
            priced_nanousd: None,
            unpriced: true,
            included_nanousd: Default::default(),
            billed_nanousd: None,
        };
        let by = [By::Model, By::Day, By::Adapter];
        let named = behind(&place(&row), &by).unwrap();
        let CostRow { agent, adapter, model, .. } = row;
        assert_eq!(named, CostKey { day: Some(Timestamp(2 * DAY_MS)), agent, adapter, model });
        for given in ["", "1", "[]", r#"["1970-01-03","a"]"#, r#"["1970-01-03","a","b","c"]"#] {
            assert_eq!(behind(given, &by).unwrap_err().code, Code::Usage, "{given}");
        }
    }

    #[test]
    fn the_names_to_tell_apart_by_are_a_closed_list() {
        assert_eq!(keys("day, model").unwrap(), [By::Day, By::Model]);
        assert_eq!(keys("").unwrap(), []);
        assert_eq!(keys("colour").unwrap_err().code, Code::Usage);
    }
}
